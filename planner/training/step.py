"""One step on one device: what the forward pass keeps, and what a loop holds on to."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from planner.ledger import Category, Entry, Phase
from planner.memory.adapters import EMBEDDING_NAMES, PROMPT_METHODS
from planner.memory.inventory import Place, Tensor, distinct, vocab_rows
from planner.memory.layer_forms import CENTRES, NORMS_NOT_BEFORE, layer_form
from planner.memory.layer_view import LayerForm, expert_bytes
from planner.memory.litgpt import litgpt_form, untouched_form, untouched_layers
from planner.memory.megatron import megatron_form
from planner.memory.terms import PerToken, item, summed, whole
from planner.model.spec import Layer, ModelSpec
from planner.placement import Share
from planner.training.setup import Setup, fused_kernels
from planner.training.states import total
from planner.units import ceil_div

CAST_PLACES: Final = frozenset({"layers", "experts", "adapter"})
SELECTIVE: Final = frozenset({"selective_op", "selective_attention"})
FORWARD: Final = frozenset({Phase.FORWARD})
LOSS: Final = frozenset({Phase.LOSS})
FORWARD_AND_LOSS: Final = FORWARD | LOSS
BACKWARD: Final = frozenset({Phase.BACKWARD})


@dataclass(frozen=True, slots=True)
class Kind:
    """Equal layers of one stage.

    Attributes:
        layer: The layer.
        count: How many of them.
        form: What one keeps without checkpointing.
        sequence: Tokens of a sequence that pass through it on this device.
    """

    layer: Layer
    count: int
    form: LayerForm
    sequence: int

    def without_one(self) -> "Kind":
        """The same, one layer fewer."""
        return replace(self, count=self.count - 1)


@dataclass(frozen=True)
class Step:
    """Everything the entries of one step are made of.

    Attributes:
        share: The device's part of the job.
        setup: The step in numbers.
        model: The model.
        held: The model's tensors on this device.
        trained: Those that get gradients.
        forms: What layers keep, by layer and setup; filled here, shared between the devices of one plan.
    """

    share: Share
    setup: Setup
    model: ModelSpec
    held: Sequence[Tensor]
    trained: Sequence[Tensor]
    forms: dict[tuple[int, int, bool], LayerForm] = field(default_factory=dict)

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """Distinct layers of this stage."""
        setup = self.setup
        target = setup.target_tokens // setup.batch if self.model.encoder_layers else setup.sequence
        found = [
            Kind(layer, count, self._form(layer), sequence)
            for layers, sequence in ((self.share.encoder_layers, setup.sequence), (self.share.layers, target))
            for layer, count in distinct(layers)
        ]
        if found and starts_without_gradient(self.share, setup):
            first = replace(found[0], count=1, form=self._form(found[0].layer, stream=False))
            rest = [found[0].without_one()] if found[0].count > 1 else []
            found[:1] = [first, *rest]
        below = untouched_layers(setup, self.num_layers) if found and self.share.holds_embedding else 0
        if below:
            first = found[0]
            form = untouched_form(first.layer, self.model, setup)
            found[:1] = [
                replace(first, count=min(below, first.count), form=form),
                *([replace(first, count=first.count - below)] if first.count > below else []),
            ]
        return tuple(found)

    def _form(self, layer: Layer, *, stream: bool = True) -> LayerForm:
        key = id(layer), id(self.setup), stream
        if key not in self.forms:
            self.forms[key] = self._new_form(layer, stream=stream)
        return self.forms[key]

    def _new_form(self, layer: Layer, *, stream: bool) -> LayerForm:
        if self.setup.megatron:
            return megatron_form(layer, self.model, self.setup)
        if self.setup.runtime == "litgpt":
            return litgpt_form(layer, self.model, self.setup, stream=stream)
        return layer_form(layer, self.model, self.setup, stream=stream)

    @cached_property
    def trained_params(self) -> int:
        """Elements that get gradients."""
        return sum(self.trained_at.values())

    @cached_property
    def trained_at(self) -> Mapping[Place, int]:
        """Those of them by place in the model, 0 where there are none."""
        found: defaultdict[Place, int] = defaultdict(int)
        for tensor in self.trained:
            found[tensor.place] += tensor.params
        return found

    @property
    def num_layers(self) -> int:
        """Encoder and decoder layers of this stage."""
        return len(self.share.encoder_layers) + len(self.share.layers)

    @cached_property
    def largest(self) -> Kind:
        """The layer that keeps most."""
        return max(self.kinds, key=self.kind_bytes)

    def starting(self, number: int) -> tuple[Kind, ...]:
        """The kinds of the first `number` layers, with how many of each."""
        kinds, left = [], number
        for layer, count in distinct((*self.share.encoder_layers, *self.share.layers)[:number]):
            kind = next((kind for kind in self.kinds if kind.layer is layer), self.first)
            kinds.append(replace(kind, count=min(count, left)))
            left -= count
        return tuple(kinds)

    @property
    def first(self) -> Kind:
        """The layer the backward pass comes to last."""
        return self.kinds[0]

    def kind_bytes(self, kind: Kind) -> float:
        """Bytes of one layer's saved tensors."""
        form, batch, s = kind.form, self.setup.batch, kind.sequence
        scores = (form.score_bytes + form.masks_scores) * form.heads * batch * s**2
        scores += form.source_score_bytes * form.heads * batch * s * self.setup.sequence
        return batch * s * sum(part.bytes for _, part in form.kept) + scores

    @cached_property
    def residual_width(self) -> int:
        """Elements of the residual stream per token on this device."""
        setup, ranks = self.setup, self.setup.division.tensor
        divided = ranks > 1 and (setup.parallel.sequence or setup.training.checkpoint_partitioned)
        return ceil_div(self.model.hidden_size, ranks) if divided else self.model.hidden_size

    @property
    def cuts_sequence(self) -> bool:
        """Whether DTensor ranks cut the stream along the sequence; Megatron's gather it by rules of their own."""
        setup = self.setup
        return setup.parallel.sequence and setup.division.tensor > 1 and not setup.megatron

    @property
    def cached_key_bytes(self) -> int:
        """Bytes of a cached key's element: rotary positions in fp32 give fp32 keys under autocast."""
        rotary = self.model.position_embedding == "rope"
        return self.setup.residual_bytes if rotary else self.setup.product_bytes

    @cached_property
    def vocab(self) -> int:
        """Vocabulary entries on this device."""
        head = self.model.head
        return vocab_rows(head.out_features, self.setup.division) if head is not None else 0

    @property
    def gathers_logits(self) -> bool:
        """Whether ranks put their logits together for the loss, as the plans of transformers' classes say."""
        return self.setup.runtime == "hf_trainer" and self.setup.division.tensor > 1

    @property
    def logit_width(self) -> int:
        """Vocabulary entries that the loss works on here."""
        head = self.model.head
        return head.out_features if self.gathers_logits and head is not None else self.vocab


def starts_without_gradient(share: Share, setup: Setup) -> bool:
    """Whether nothing below the first layer's matrices is trained, so that its input needs no gradient.

    Checkpointing asks for one all the same (PEFT `enable_input_require_grads`), a quantized base only with it
    (`prepare_model_for_kbit_training`).
    """
    adapter = setup.adapter
    return (
        adapter is not None
        and share.holds_embedding
        and not (setup.megatron or setup.checkpointed)
        and not frozenset(adapter.modules_to_save) & EMBEDDING_NAMES
        and adapter.method not in PROMPT_METHODS
    )


def saved_entries(step: Step) -> list[Entry]:
    """What the forward pass keeps for the backward pass, alive through forward and loss."""
    loss = frozenset() if casts_again(step.setup) else LOSS
    return [
        *held_layers(step, FORWARD_AND_LOSS),
        *cast_entries(step, FORWARD | loss),
    ]


def keeps_stream(step: Step) -> bool:
    """Whether a norm in single steps keeps the very tensor it reads.

    A layer norm keeps its input as it is, an RMS norm an fp32 one; under autocast a 16-bit stream is widened before.
    """
    setup = step.setup
    if step.model.model_type in CENTRES:
        return False
    if step.model.norm == "layer_norm":
        return not setup.autocast or setup.residual_bytes == 4
    return setup.residual_bytes == 4 and "rms_norm" not in fused_kernels(setup)


def reads_stored(step: Step) -> bool:
    """Whether what a checkpoint stored is the very tensor that the first norm of what is computed again keeps."""
    setup = step.setup
    if not setup.checkpointed or setup.training.activation_offload or setup.megatron:
        return False
    return setup.runtime != "litgpt" and step.model.model_type not in NORMS_NOT_BEFORE and keeps_stream(step)


def held_layers(
    step: Step, phases: frozenset[Phase], times: float | None = None, *, but: int = 0
) -> list[Entry]:
    """What all layers of this stage keep, for `times` micro-batches (those in flight if not given).

    Args:
        step: The step.
        phases: When it is there.
        times: Micro-batches.
        but: Stored inputs that are left out.
    """
    times = step.share.in_flight if times is None else times
    if times <= 0:
        return []
    if step.setup.checkpointed:
        return [stored_inputs(step, phases, times, but=but)]
    if step.setup.training.activation_offload:
        return (
            layer_entries(step, step.largest, min(1, times), phases, "saved_activations")
            if step.kinds
            else []
        )
    return [
        entry
        for kind in step.kinds
        for entry in layer_entries(step, kind, kind.count * times, phases, "saved_activations")
    ]


def offloaded_bytes(step: Step) -> int:
    """What the layers keep in host memory instead (`activation_offload`)."""
    if not step.setup.training.activation_offload:
        return 0
    if step.setup.checkpointed:
        return stored_inputs(step, FORWARD, step.share.in_flight, offloaded=False).bytes
    times = step.share.in_flight
    kept = (
        layer_entries(step, kind, kind.count * times, FORWARD, "saved_activations") for kind in step.kinds
    )
    return sum(entry.bytes for entries in kept for entry in entries)


def layer_entries(step: Step, kind: Kind, layers: float, phases: frozenset[Phase], name: str) -> list[Entry]:
    """What `layers` layers of a kind keep: tensors as long as the sequence, and attention scores if any."""
    kept = kind.form.kept_between if name == "saved_activations" else kind.form.kept
    return _layer_entries(step, kind, layers, phases, name, kept)


def again_entries(step: Step, kind: Kind, phases: frozenset[Phase]) -> list[Entry]:
    """What the backward pass of one layer makes again beside what selective checkpointing kept of it."""
    again = (("", summed(kind.form.again, kind.form.widths)),)
    return _layer_entries(step, kind, 1, phases, "recomputed_layer", again)


def _layer_entries(
    step: Step,
    kind: Kind,
    layers: float,
    phases: frozenset[Phase],
    name: str,
    kept: tuple[tuple[str, PerToken], ...],
) -> list[Entry]:
    setup, form, tokens = step.setup, kind.form, step.setup.batch * kind.sequence
    scores = layers * setup.keeps_frac if name == "saved_activations" else layers
    reference = "activations_megatron" if setup.megatron else "activations_eager"
    bodies = [
        item(
            Category.ACTIVATIONS,
            part_name or name,
            whole(layers * tokens * part.bytes),
            f"ceil(L*t*({part.text}))",
            {"L": exact(layers), "t": tokens, **part.symbols},
            reference,
            phases=phases,
        )
        for part_name, part in kept
    ]
    return [
        *bodies,
        *_cross_keys(step, form, layers, phases, name),
        *_scores(step, kind, scores, phases, name),
        *_cross_scores(step, kind, scores, phases, name),
    ]


def _cross_keys(
    step: Step, form: LayerForm, layers: float, phases: frozenset[Phase], name: str
) -> list[Entry]:
    """Keys and values of cross-attention are as long as the encoder's sequence."""
    if not form.source:
        return []
    source = summed(form.source, form.widths)
    amount = layers * step.setup.tokens * source.bytes
    symbols = {"L": exact(layers), "t": step.setup.tokens, **source.symbols}
    formula = f"ceil(L*t*({source.text}))"
    return [
        item(
            Category.ACTIVATIONS,
            name,
            whole(amount),
            formula,
            symbols,
            "activations_megatron",
            phases=phases,
        )
    ]


def _scores(step: Step, kind: Kind, layers: float, phases: frozenset[Phase], name: str) -> list[Entry]:
    form, batch, s = kind.form, step.setup.batch, kind.sequence
    recomputed = step.setup.training.checkpointing in SELECTIVE and name == "saved_activations"
    if not form.score_bytes or recomputed:
        return []
    kept = [("attention_scores", form.score_bytes)]
    if form.masks_scores:
        kept.append(("dropout_masks", 1))
    return [
        item(
            Category.ACTIVATIONS,
            kept_name,
            whole(layers * c * batch * form.heads * s * s),
            "ceil(L*c*b*n*s*s)",
            {"L": exact(layers), "c": c, "b": batch, "n": form.heads, "s": s},
            "attention_scores",
            phases=phases,
        )
        for kept_name, c in kept
    ]


def _cross_scores(step: Step, kind: Kind, layers: float, phases: frozenset[Phase], name: str) -> list[Entry]:
    """Scores of cross-attention: every target token against every source token."""
    form, b, s, z = kind.form, step.setup.batch, kind.sequence, step.setup.sequence
    recomputed = step.setup.training.checkpointing in SELECTIVE and name == "saved_activations"
    if not form.source_score_bytes or recomputed:
        return []
    c = form.source_score_bytes
    symbols = {"L": exact(layers), "c": c, "b": b, "n": form.heads, "s": s, "z": z}
    return [
        item(
            Category.ACTIVATIONS,
            "attention_scores",
            whole(layers * c * b * form.heads * s * z),
            "ceil(L*c*b*n*s*z)",
            symbols,
            "attention_scores",
            phases=phases,
        )
    ]


def exact(value: float) -> float:
    """A whole number as one."""
    return int(value) if value == int(value) else value


def stored_inputs(
    step: Step, phases: frozenset[Phase], times: float, *, offloaded: bool | None = None, but: int = 0
) -> Entry:
    """Full checkpointing: the input of every layer, or of every k-th; the one on its way where they go to the host.

    Args:
        step: The step.
        phases: When they are there.
        times: Micro-batches they are kept for.
        offloaded: Whether they go to the host; the scenario's `activation_offload` if not given.
        but: How many of them are left out.
    """
    setup = step.setup
    every = checkpoint_interval(setup)
    offloaded = setup.training.activation_offload if offloaded is None else offloaded
    count = 1 if offloaded else max(0, ceil_div(step.num_layers, every) * times - but)
    e = setup.residual_bytes
    tokens = setup.tokens
    if step.model.encoder_layers and step.kinds:
        tokens = sum(setup.batch * kind.sequence * kind.count for kind in step.kinds) // step.num_layers
    return item(
        Category.ACTIVATIONS,
        "checkpointed_inputs",
        whole(count * tokens * step.residual_width * e),
        "ceil(L*t*h*e)",
        {"L": exact(count), "t": tokens, "h": step.residual_width, "e": e},
        "activation_offload" if offloaded else "checkpointing_full",
        phases=phases,
    )


def checkpoint_interval(setup: Setup) -> int:
    """Layers that are computed again together."""
    return (setup.training.checkpoint_every or 1) if setup.training.checkpointing == "every_k" else 1


def cast_entries(step: Step, phases: frozenset[Phase]) -> list[Entry]:
    """Autocast keeps a 16-bit copy of every trained weight it used until its block ends."""
    setup = step.setup
    if not casts_weights(setup):
        return []
    left = {"experts"} if expert_bytes(setup) > setup.compute_bytes else set()
    params = total(t for t in step.trained if t.is_matrix and t.place in CAST_PLACES - left)
    e = setup.compute_bytes
    return [
        item(
            Category.WEIGHTS,
            "autocast_weights",
            params * e,
            "P*e",
            {"P": params, "e": e},
            "autocast_cache",
            phases=phases,
        )
    ]


def casts_again(setup: Setup) -> bool:
    """Whether layers cast their weights anew in the backward pass, so that the first casts go with autocast."""
    return setup.checkpointed or (setup.training.checkpointing == "selective_op" and not setup.megatron)


def casts_weights(setup: Setup) -> bool:
    """Whether autocast casts trained weights; frozen ones are cast anew at each use and not kept."""
    return setup.autocast and setup.train_bytes > setup.compute_bytes


def kept_output_entries(step: Step) -> list[Entry]:
    """What a loop that holds the model's outputs keeps through the step: logits, and the cache made on the way."""
    setup, e = step.setup, step.setup.compute_bytes
    if not setup.keeps_outputs or not step.share.holds_head:
        return []
    cache = kept_cache(step, frozenset({Phase.REST, Phase.FORWARD, Phase.OPTIMIZER_STEP}))
    if setup.training.loss not in {None, "standard"}:
        return cache
    tokens = setup.target_tokens
    return [
        item(
            Category.LOGITS,
            "kept_logits",
            tokens * step.vocab * e,
            "t*V*e",
            {"t": tokens, "V": step.vocab, "e": e},
            "kept_outputs",
            phases=frozenset({Phase.REST, Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER_STEP}),
        ),
        *cache,
    ]


def kept_cache(step: Step, phases: frozenset[Phase], *, but_first: bool = False) -> list[Entry]:
    """Keys and values of all layers (but the first), as a loop's outputs hold them until the next ones replace them."""
    setup, e = step.setup, step.setup.product_bytes
    if not setup.keeps_cache or not step.kinds:
        return []
    k, v = (sum(kind.count * int(kind.form.widths[x]) for kind in step.kinds) for x in "kv")
    if but_first:
        k, v = k - int(step.first.form.widths["k"]), v - int(step.first.form.widths["v"])
    return [
        item(
            Category.ACTIVATIONS,
            "kept_cache",
            setup.tokens * (k * step.cached_key_bytes + v * e),
            "t*(k*c + v*e)",
            {"t": setup.tokens, "k": k, "c": step.cached_key_bytes, "v": v, "e": e},
            "kept_outputs",
            phases=phases,
        )
    ]
