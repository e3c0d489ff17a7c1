"""Pictures of a step: the tower as a step of its own inside the step, and what surrounds its layers.

A tower's layers are an encoder's, counted by the forms that every other layer has. Around them lie the pixels, the
norms outside the layers, the projector, and the copy of the text's embeddings that the pictures' are put into.
Verified against traces of transformers 5.24 (`benchmarks.picture_cases`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from planner.ledger import ALWAYS, Category, Entry, Phase
from planner.memory.inventory import Division, cut_layer
from planner.memory.layer_forms import layer_form
from planner.memory.layer_norms import norm_terms
from planner.memory.layer_view import RUNS_TRANSFORMERS, LayerForm
from planner.memory.terms import Terms, add, exact, item, scaled, summed, whole
from planner.model.distinct import distinct
from planner.model.spec import Layer, ModelSpec
from planner.model.tower import Tower
from planner.scenario import Adapter, Training
from planner.training.arrived import arrived, trained_in
from planner.training.backward_gradients import gradients_so_far, stream_gradient
from planner.training.inside_layer import layer_gradients
from planner.training.saved import casts_again, casts_weights, held_layers, layer_entries, reads_stored
from planner.training.setup import Setup
from planner.training.step import BACKWARD, FORWARD, Kind, Step

Learns = Literal["trained", "passed", "frozen"]
"""What of a tower needs a gradient: its weights, only what passes through it, or nothing."""

PIXEL_BYTES: Final = 4
"""Pictures come in fp32 from their processors."""
FOUR_BYTES: Final = 4
SUM_BYTES: Final = 8
PLACE_BYTES: Final = 24
"""Three 64-bit numbers: row, token and element."""
ASKS_ALL_SINCE: Final = (5,)
"""From here on `enable_input_require_grads` asks a gradient of every embedding in the model, the tower's too."""
NO_TARGETS: Final = ("",)
PICTURE_BLOCKS: Final = frozenset({"vision_tower", "projector"})
LAYER_NAMES: Final = frozenset({"saved_activations", "checkpointed_inputs", "recomputed_layer"})


def learns(training: Training, adapter: Adapter | None) -> bool:
    """Whether tower and projector get gradients.

    All of a model does in full training. Adapters lie on the language model alone, as LLaMA-Factory
    (`freeze_vision_tower`) and ms-swift (`freeze_vit`) have it by default.
    """
    return adapter is None and training.tower != "frozen"


def mode(setup: Setup) -> Learns:
    """What of the tower needs a gradient."""
    if learns(setup.training, setup.adapter):
        return "trained"
    asks = setup.adapter is not None and setup.checkpointed
    old = bool(setup.version) and setup.version < ASKS_ALL_SINCE
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
    given = _given(pictures, phases & FORWARD)
    if pictures.mode == "frozen":
        return given
    return [
        *given, *_held(pictures, phases), *_casts(step, pictures, phases), *_ends_entries(step, pictures, phases)
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


def _held(pictures: Pictures, phases: frozenset[Phase], *, but: int = 0) -> list[Entry]:
    return [_named(entry) for entry in held_layers(pictures.step, phases, but=but)]


def _named(entry: Entry) -> Entry:
    return entry._replace(name="tower_activations") if entry.name in LAYER_NAMES else entry


def _ends_entries(step: Step, pictures: Pictures, phases: frozenset[Phase]) -> list[Entry]:
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


def forward_extra(step: Step, entries: Sequence[Entry]) -> list[Entry]:
    """What the forward pass has beyond the text's while pictures pass through, and what the class's outputs hold.

    Args:
        step: The step.
        entries: What is there at the end of the forward pass.
    """
    pictures = pictures_of(step)
    if pictures is None:
        return []
    held = _outputs(step, pictures)
    there = sum(entry.bytes for entry in entries if Phase.FORWARD in entry.phases) + sum(
        x.bytes for x in held
    )
    needed = max(_passing(step, pictures), _merging(step, pictures))
    if needed <= there:
        return held
    symbols = {"a": needed, "b": there}
    more = item(
        Category.ACTIVATIONS,
        "tower_forward",
        needed - there,
        "a - b",
        symbols,
        "vision_tower",
        phases=FORWARD,
    )
    return [*held, more]


def _outputs(step: Step, pictures: Pictures) -> list[Entry]:
    """The class puts out what its tower and projector did, with the layers behind the one that is read.

    They go with the other outputs, before the backward pass.
    """
    tower, setup, inner = pictures.tower, step.setup, pictures.step
    e, out, hidden = setup.compute_bytes, tower.projector.out, tower.encoder.hidden_size
    symbols = {"t": pictures.all_tokens, "o": out, "p": pictures.all_patches, "h": hidden, "e": e}
    symbols["k"] = 1 + tower.projector.taps
    amount = (symbols["t"] * out * symbols["k"] + symbols["p"] * hidden) * e
    phases = ALWAYS if setup.keeps_outputs else FORWARD
    found = [
        item(
            Category.ACTIVATIONS, "picture_outputs", amount, "(t*o*k + p*h)*e", symbols, "vision_tower",
            phases=phases,
        )
    ]  # fmt: skip
    if tower.unused_layers and pictures.mode != "frozen":
        found += [entry._replace(phases=phases) for entry in _named_all(_layers(inner, tower.unused_layers))]
    return [*found, *(entry._replace(phases=FORWARD) for entry in found)] if setup.keeps_outputs else found


def _layers(inner: Step, number: int) -> list[Entry]:
    if inner.setup.checkpointed:
        h, e, t = inner.residual_width, inner.setup.residual_bytes, inner.setup.tokens
        symbols = {"L": number, "t": t, "h": h, "e": e}
        return [
            item(
                Category.ACTIVATIONS,
                "tower_activations",
                number * t * h * e,
                "L*t*h*e",
                symbols,
                "vision_tower",
                phases=FORWARD,
            )
        ]
    return layer_entries(inner, inner.kinds[-1], number, FORWARD, "saved_activations")


def _named_all(entries: Iterable[Entry]) -> list[Entry]:
    return [_named(entry) for entry in entries]


def _embeddings(step: Step) -> int:
    """Bytes of the text's embeddings."""
    return step.setup.tokens * step.model.hidden_size * step.setup.residual_bytes


def _passing(step: Step, pictures: Pictures) -> int:
    """Bytes of activations while the tower's last layer runs: what is kept, and one layer's own tensors."""
    inner = pictures.step
    kept = sum(entry.bytes for entry in picture_entries(step, FORWARD))
    keeps_all = pictures.mode != "frozen" and not inner.setup.checkpointed
    layer = 0 if keeps_all else _one_layer(inner)
    return kept + layer + _embeddings(step)


def _one_layer(inner: Step) -> int:
    """Bytes of a layer that keeps nothing, at its fuller half."""
    kind, setup = inner.largest, inner.setup
    e, r, t, widths = setup.compute_bytes, setup.residual_bytes, setup.tokens, kind.form.widths
    attention = t * (2 * r * widths["h"] + e * (widths["q"] + widths["k"] + widths["v"] + widths["o"]))
    if kind.form.score_bytes:
        seen = kind.form.score_bytes + e
        attention += seen * setup.batch * kind.form.heads * kind.sequence**2
    feed = t * (2 * r * widths["h"] + (3 if kind.layer.mlp.gated else 2) * e * widths["i"])
    return whole(max(attention, feed))


def _merging(step: Step, pictures: Pictures) -> int:
    """Bytes while the pictures' embeddings are put in place: a prefix sum of the mask, and both copies of the text's.

    PyTorch `masked_scatter_cuda`: a 64-bit sum and a byte of mask for each element.
    """
    kept = sum(entry.bytes for entry in picture_entries(step, FORWARD))
    elements = step.setup.tokens * step.model.hidden_size
    out = pictures.all_tokens * pictures.tower.projector.out * step.setup.compute_bytes
    return kept + 2 * _embeddings(step) + elements * (SUM_BYTES + 1) + out


def learned_later(step: Step) -> int:
    """Elements of tower and projector, whose gradients come behind the text's."""
    pictures = pictures_of(step)
    if pictures is None or pictures.mode != "trained":
        return 0
    blocks = learning(step.model, step.setup.training).blocks
    return sum(block.params for block in blocks if block.name in PICTURE_BLOCKS)


def picture_moments(step: Step, others: Sequence[Entry]) -> list[list[Entry]]:
    """Moments of the backward pass behind the text's: the merge, the tower's last layer, its first.

    The embedding's gradient waits until the tower is done, since its node is older.
    """
    pictures = pictures_of(step)
    if pictures is None or pictures.mode == "frozen":
        return []
    inner, setup = pictures.step, step.setup
    own = sum(tensor.params for tensor in inner.trained)
    outside = max(0, learned_later(step) - own)
    text = step.trained_params - step.trained_at["embedding"] - learned_later(step)
    waiting = stream_gradient(step, 1, "stream_gradient")
    ends = _ends_entries(step, pictures, BACKWARD)
    stored = int(reads_stored(inner))
    base = [*others, *waiting, *ends]
    around, all_held = _held(pictures, BACKWARD, but=stored), _held(pictures, BACKWARD)
    last, first = inner.largest, inner.first
    merge = [*base, *all_held, *_merge_gradients(step, pictures), *gradients_so_far(step, text)]
    each = trained_in(inner, first) if pictures.mode == "trained" else 0
    come = arrived(inner, last) if pictures.mode == "trained" else 0
    again = layer_entries(inner, last, 1, BACKWARD, "recomputed_layer") if setup.checkpointed else []
    at_last = [
        *base, *around, *_named_all(again), *layer_gradients(inner, last, counted=1 if setup.checkpointed else 0),
        *gradients_so_far(step, text + outside + come),
    ]  # fmt: skip
    at_first = [
        *base, *_named_all(layer_entries(inner, first, 1, BACKWARD, "recomputed_layer")),
        *layer_gradients(inner, first), *gradients_so_far(step, max(0, text + outside + own - each + come)),
    ]  # fmt: skip
    return [merge, at_last, at_first]


def _merge_gradients(step: Step, pictures: Pictures) -> list[Entry]:
    """The stream's gradient beside its masked copy, the mask as bytes, the pictures' places and their gradient.

    PyTorch `masked_scatter_backward`: `masked_select`, which on CUDA finds every element's place (`nonzero`).
    """
    setup, h = step.setup, step.model.hidden_size
    symbols = {
        "t": setup.tokens,
        "h": h,
        "r": setup.residual_bytes,
        "n": pictures.all_tokens,
        "p": PLACE_BYTES,
    }
    amount = setup.tokens * h * (setup.residual_bytes + 1)
    amount += pictures.all_tokens * h * (PLACE_BYTES + setup.residual_bytes)
    return [
        item(
            Category.ACTIVATIONS, "merge_gradients", amount, "t*h*(r + 1) + n*h*(p + r)", symbols, "vision_tower",
            phases=BACKWARD,
        )
    ]  # fmt: skip
