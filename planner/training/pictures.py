"""Pictures of a step: the tower as a step of its own inside the step, and what surrounds its layers.

A tower's layers are an encoder's, counted by the forms that every other layer has. Around them lie the pixels, the
norms outside the layers, the projector, and the copy of the text's embeddings that the pictures' are put into.
Verified against traces of transformers 5.24 (`benchmarks.picture_cases`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from planner.ledger import Category, Entry, Phase
from planner.memory.inventory import Division, cut_layer
from planner.memory.layer_forms import layer_form
from planner.memory.layer_norms import norm_terms
from planner.memory.layer_view import RUNS_TRANSFORMERS, LayerForm
from planner.memory.terms import Terms, add, exact, item, scaled, summed, whole
from planner.model.distinct import distinct
from planner.model.spec import Layer, ModelSpec
from planner.model.tower import Tower
from planner.scenario import Adapter, Training
from planner.training.saved import casts_again, casts_weights, held_layers
from planner.training.setup import Setup
from planner.training.step import FORWARD, LOSS, Kind, Step

Learns = Literal["trained", "passed", "frozen"]
"""What of a tower needs a gradient: its weights, only what passes through it, or nothing."""

PIXEL_BYTES: Final = 4
"""Pictures come in fp32 from their processors."""
FOUR_BYTES: Final = 4
ASKS_ALL_SINCE: Final = (5,)
"""From here on `enable_input_require_grads` asks a gradient of every embedding in the model, the tower's too."""
NO_TARGETS: Final = ("",)
PICTURE_BLOCKS: Final = frozenset({"vision_tower", "projector"})
LAYER_NAMES: Final = frozenset({"saved_activations", "checkpointed_inputs", "recomputed_layer"})


def learns(training: Training, adapter: Adapter | None) -> bool:
    """Whether tower and projector get gradients.

    All of a model does in full training, since a Trainer (TRL's too) freezes nothing by itself. Adapters lie on the
    language model alone. LLaMA-Factory (`FinetuningArguments`: `freeze_vision_tower`, `freeze_multi_modal_projector`)
    and ms-swift (`TunerArguments`: `freeze_vit`, `freeze_aligner`) freeze both in full training as well, unless told.
    """
    return adapter is None and training.tower != "frozen"


def mode(setup: Setup) -> Learns:
    """What of the tower needs a gradient."""
    if learns(setup.training, setup.adapter):
        return "trained"
    asks, old = setup.checkpointed, bool(setup.version) and setup.version < ASKS_ALL_SINCE
    return "passed" if asks and not old and setup.runtime in RUNS_TRANSFORMERS else "frozen"


@dataclass(frozen=True, slots=True)
class Pictures:
    """The pictures of one device's micro-batch.

    Attributes:
        tower: What they pass through.
        count: How many.
        patches: Patches of each.
        sequence: Tokens of each inside the tower.
        tokens: Tokens of each in the language model.
        mode: What of the tower needs a gradient.
        step: The tower's layers as a step of their own, all pictures in one row.
    """

    tower: Tower
    count: int
    patches: int
    sequence: int
    tokens: int
    mode: Learns
    step: Step

    @property
    def all_patches(self) -> int:
        """Tokens of all pictures inside the tower."""
        return self.count * self.sequence

    @property
    def all_tokens(self) -> int:
        """Tokens of all pictures in the language model."""
        return self.count * self.tokens


def pictures_of(step: Step) -> Pictures | None:
    """The pictures of a step on this device; None where there are none, or where another stage has them."""
    name = f"{__name__}.pictures_of"
    if name not in step.known:
        step.known[name] = _pictures_of(step)
    found: Pictures | None = step.known[name]
    return found


def has_pictures(step: Step) -> bool:
    """Whether pictures are put into the text's embeddings, which makes another tensor of them."""
    return pictures_of(step) is not None


def _pictures_of(step: Step) -> Pictures | None:
    tower, training = step.model.tower, step.setup.training
    if tower is None or not training.images or not step.share.holds_embedding or not step.share.layers:
        return None
    pixels, count = training.image_pixels, step.setup.batch * training.images
    sequence, kind = tower.sequence(pixels), mode(step.setup)
    return Pictures(
        tower, count, tower.patches(pixels), sequence, tower.tokens(pixels), kind,
        _inside(step, tower, count, sequence, kind),
    )  # fmt: skip


def used_layers(tower: Tower) -> tuple[Layer, ...]:
    """Layers whose output is read."""
    layers = tower.encoder.layers
    return layers[: len(layers) - tower.unused_layers]


def _inside(step: Step, tower: Tower, count: int, sequence: int, kind: Learns) -> Step:
    """The tower's layers as a step: whole on every rank, all pictures in one row."""
    setup, layers = step.setup, used_layers(tower)
    rows = 1 if tower.one_row else count
    share = replace(
        step.share,
        layers=layers,
        encoder_layers=(),
        layer_range=(0, len(layers)),
        holds_embedding=False,
        holds_head=False,
    )
    adapter = None
    if kind != "trained" and setup.adapter is not None:
        adapter = setup.adapter.model_copy(update={"targets": NO_TARGETS, "modules_to_save": ()})
    training = setup.training.model_copy(update={"kernels": (), "sequence_chunks": None})
    parallel = setup.parallel.model_copy(update={"sequence": False, "tensor": 1})
    inner = replace(
        setup,
        runtime=setup.runtime if setup.runtime in RUNS_TRANSFORMERS else "generic",
        training=training,
        parallel=parallel,
        adapter=adapter,
        batch=rows,
        sequence=count * sequence // rows,
        tokens=count * sequence,
        target_tokens=count * sequence,
        division=Division(),
        megatron=False,
        keeps_outputs=False,
        keeps_cache=False,
    )
    known: dict[int, LayerForm] = {}
    kinds = []
    full = tower.full_layers if tower.window_patches else len(layers)
    for number, window in ((full, 0), (len(layers) - full, tower.window_patches)):
        if number > 0:
            form = known.setdefault(window, _form(tower, layers[0], inner, sequence, window))
            kinds.append(Kind(layers[0], number, form, inner.sequence))
    tensors = [
        tensor
        for layer, number in distinct(layers)
        for tensor in cut_layer(layer, Division(), tower.encoder.hidden_size, number)
    ]
    return Step(
        share, inner, tower.encoder, tensors, tensors if kind == "trained" else (), inside=tuple(kinds)
    )


def _form(tower: Tower, layer: Layer, setup: Setup, sequence: int, window: int) -> LayerForm:
    """What a layer keeps: scores of each picture, or of each window, apart, and their outputs put together again."""
    form = layer_form(layer, tower.encoder, setup)
    if not tower.one_row:
        return form
    terms = form.terms
    fused = setup.training.attention != "flash"
    if not tower.masked and fused and not form.score_bytes:
        terms = add(terms, {"o": setup.compute_bytes})
    if tower.masked:
        return form
    seen = min(window or sequence, sequence) / setup.sequence
    return replace(
        form,
        terms=terms,
        score_bytes=exact(form.score_bytes * seen),
        score_gradients=exact(form.score_gradients * seen),
    )


def learning(model: ModelSpec, training: Training) -> ModelSpec:
    """The model with no more of its tower than gets gradients in full training."""
    tower = model.tower
    if training.tower == "frozen":
        return replace(model, blocks=tuple(x for x in model.blocks if x.name not in PICTURE_BLOCKS))
    if not training.images or tower is None or not tower.unused_layers:
        return model
    idle = tower.unused_layers * tower.encoder.layers[0].params
    return replace(
        model,
        blocks=tuple(replace(x, params=x.params - idle) if x.tower is tower else x for x in model.blocks),
    )


@dataclass(frozen=True, slots=True)
class Ends:
    """Tensors outside the tower's layers: what each of `rows` keeps."""

    name: str
    rows: int
    terms: Terms
    widths: Mapping[str, float]


def _ends(pictures: Pictures) -> list[Ends]:
    """What is kept outside the tower's layers where it needs a gradient."""
    tower, setup = pictures.tower, pictures.step.setup
    hidden, patches = tower.encoder.hidden_size, pictures.count * pictures.patches
    e, trained = setup.compute_bytes, pictures.mode == "trained"
    width = tower.channels * tower.frames * tower.patch_size**2
    pixels = Ends("pixel_values", patches, {"x": e if e != PIXEL_BYTES else 0}, {"x": width})
    front = Ends("tower_ends", patches, {"h": e}, {"h": hidden})
    norms = scaled(norm_terms(tower.encoder, setup), tower.norms_before + tower.norms_behind)
    found = [pixels if trained else front, Ends("tower_ends", pictures.all_patches, norms, {"h": hidden})]
    if tower.encoder.position_embedding == "rope":
        head = tower.encoder.layers[0].attention.head_dim
        each = setup.residual_bytes if tower.whole_pictures else FOUR_BYTES
        found.append(Ends("tower_ends", pictures.all_patches, {"d": 2 * each}, {"d": head}))
    if tower.masked and setup.training.attention != "flash":
        mask: Terms = {"s": setup.residual_bytes}
        found.append(Ends("attention_mask", pictures.all_patches, mask, {"s": pictures.all_patches}))
    found.append(_projector(pictures, trained=trained))
    return [one for one in found if any(one.terms.values())]


def _projector(pictures: Pictures, *, trained: bool) -> Ends:
    """What the projector keeps per token of a picture: inputs of its norm and matrices, and of its activation."""
    one, setup = pictures.tower.projector, pictures.step.setup
    e, r = setup.compute_bytes, setup.residual_bytes
    widths = {"x": one.reads, "m": one.middle, "c": one.merged, "n": one.normed, "a": one.pooled}
    kept: Terms = {"a": r, "m": e}
    if trained:
        kept = add(kept, {"x": e, "c": e, "m": e})
    if one.norm == "layer_norm":
        kept = add(kept, {"n": 4 if setup.autocast else r, "": 8 * one.rows})
    elif one.norm:
        wide = 4 if pictures.tower.masks_text else r
        kept = add(kept, {"n": 4 + (wide if trained else 0), "": 4 * one.rows})
    if one.taps:
        tap: Terms = {"n": r, "": 8, "m": e * (1 + trained), "x": e * trained}
        kept = add(kept, scaled(tap, one.taps))
    return Ends("projector", pictures.all_tokens, kept, widths)


def picture_entries(step: Step, phases: frozenset[Phase]) -> list[Entry]:
    """What tower and projector keep for their backward pass, and the pictures as they came."""
    pictures = pictures_of(step)
    if pictures is None:
        return []
    given = _given(pictures, phases & until_returned(step))
    if pictures.mode == "frozen":
        return given
    return [
        *given, *held(pictures, phases), *_casts(step, pictures, phases), *ends_entries(step, pictures, phases)
    ]  # fmt: skip


def _casts(step: Step, pictures: Pictures, phases: frozenset[Phase]) -> list[Entry]:
    """Autocast's copies of the tower's and the projector's weights, which their backward pass reads."""
    if pictures.mode != "trained" or not casts_weights(step.setup) or casts_again(step.setup):
        return []
    params, e = learned_later(step), step.setup.compute_bytes
    symbols = {"P": params, "e": e}
    return [
        item(
            Category.WEIGHTS, "autocast_weights", params * e, "P*e", symbols, "autocast_cache", phases=phases
        )
    ]


def until_returned(step: Step) -> frozenset[Phase]:
    """How long batch and outputs are there: under autocast accelerate widens the outputs before they go."""
    widens = step.setup.autocast and step.setup.runtime == "hf_trainer"
    return FORWARD | LOSS if widens else FORWARD


def held(pictures: Pictures, phases: frozenset[Phase], *, but: int = 0) -> list[Entry]:
    """What the tower's layers keep, all but `but` of the stored inputs."""
    return [named(entry) for entry in held_layers(pictures.step, phases, but=but)]


def named(entry: Entry) -> Entry:
    """A layer's entry under the tower's name."""
    return entry._replace(name="tower_activations") if entry.name in LAYER_NAMES else entry


def ends_entries(step: Step, pictures: Pictures, phases: frozenset[Phase]) -> list[Entry]:
    """What is kept around the tower's layers, for all micro-batches in flight."""
    found, times = [], step.share.in_flight
    for one in _ends(pictures):
        part = summed(one.terms, one.widths)
        symbols = {"L": exact(times), "t": one.rows, **part.symbols}
        amount, formula = whole(times * one.rows * part.bytes), f"ceil(L*t*({part.text}))"
        found.append(
            item(Category.ACTIVATIONS, one.name, amount, formula, symbols, "vision_tower", phases=phases)
        )
    return found


def _given(pictures: Pictures, phases: frozenset[Phase]) -> list[Entry]:
    """The pictures as the batch holds them, until the class has returned."""
    if not phases:
        return []
    tower = pictures.tower
    symbols = {
        "n": pictures.count,
        "p": pictures.patches,
        "c": tower.channels * tower.frames,
        "s": tower.patch_size,
        "e": PIXEL_BYTES,
    }
    amount = symbols["n"] * symbols["p"] * symbols["c"] * symbols["s"] ** 2 * PIXEL_BYTES
    return [
        item(
            Category.ACTIVATIONS,
            "pixel_values",
            amount,
            "n*p*c*s*s*e",
            symbols,
            "vision_tower",
            phases=phases,
        )
    ]


def learned_later(step: Step) -> int:
    """Elements of tower and projector, whose gradients come behind the text's."""
    pictures = pictures_of(step)
    if pictures is None or pictures.mode != "trained":
        return 0
    blocks = learning(step.model, step.setup.training).blocks
    return sum(block.params for block in blocks if block.name in PICTURE_BLOCKS)
