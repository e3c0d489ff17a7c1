"""One step on one device: what the forward pass keeps, and what a loop holds on to."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from planner.ledger import Category, Entry, Phase
from planner.memory.inventory import Tensor, distinct, vocab_rows
from planner.memory.layer_forms import LayerForm, layer_form, selective_op_form
from planner.memory.megatron import megatron_form
from planner.memory.terms import item, per_token, text, used, whole
from planner.model.spec import Layer, ModelSpec
from planner.placement import Share
from planner.training_setup import Setup
from planner.training_states import total
from planner.units import ceil_div

FORWARD_AND_LOSS: Final = frozenset({Phase.FORWARD, Phase.LOSS})
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


@dataclass(frozen=True)
class Step:
    """Everything the entries of one step are made of."""

    share: Share
    setup: Setup
    model: ModelSpec
    held: Sequence[Tensor]
    trained: Sequence[Tensor]

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """Distinct layers of this stage."""
        setup, make = self.setup, megatron_form if self.setup.megatron else layer_form
        target = setup.target_tokens // setup.batch if self.model.encoder_layers else setup.sequence
        return tuple(
            Kind(layer, count, make(layer, self.model, setup), sequence)
            for layers, sequence in ((self.share.encoder_layers, setup.sequence), (self.share.layers, target))
            for layer, count in distinct(layers)
        )

    @property
    def num_layers(self) -> int:
        """Encoder and decoder layers of this stage."""
        return len(self.share.encoder_layers) + len(self.share.layers)

    @cached_property
    def largest(self) -> Kind:
        """The layer that keeps most."""
        return max(self.kinds, key=self.kind_bytes)

    @property
    def first(self) -> Kind:
        """The layer the backward pass comes to last."""
        return self.kinds[0]

    def kind_bytes(self, kind: Kind) -> float:
        """Bytes of one layer's saved tensors."""
        form, batch, s = kind.form, self.setup.batch, kind.sequence
        scores = form.score_bytes * form.heads * batch * s**2
        return batch * s * per_token(form.terms, form.widths) + scores

    @cached_property
    def residual_width(self) -> int:
        """Elements of the residual stream per token on this device."""
        setup, ranks = self.setup, self.setup.division.tensor
        divided = ranks > 1 and (setup.parallel.sequence or setup.training.checkpoint_partitioned)
        return ceil_div(self.model.hidden_size, ranks) if divided else self.model.hidden_size

    @cached_property
    def vocab(self) -> int:
        """Vocabulary entries on this device."""
        head = self.model.head
        return vocab_rows(head.out_features, self.setup.division) if head is not None else 0


def saved_entries(step: Step) -> list[Entry]:
    """What the forward pass keeps for the backward pass, alive through forward and loss."""
    return [*held_layers(step, FORWARD_AND_LOSS), *cast_entries(step, FORWARD_AND_LOSS)]


def held_layers(step: Step, phases: frozenset[Phase], times: float | None = None) -> list[Entry]:
    """What all layers of this stage keep, for `times` micro-batches (those in flight if not given)."""
    times = step.share.in_flight if times is None else times
    if times <= 0:
        return []
    if step.setup.checkpointed:
        return [stored_inputs(step, phases, times)]
    return [
        entry
        for kind in step.kinds
        for entry in layer_entries(step, kind, kind.count * times, phases, "saved_activations")
    ]


def layer_entries(step: Step, kind: Kind, layers: float, phases: frozenset[Phase], name: str) -> list[Entry]:
    """What `layers` layers of a kind keep: tensors as long as the sequence, and attention scores if any."""
    setup, form, tokens = step.setup, kind.form, step.setup.batch * kind.sequence
    terms = form.terms
    if setup.training.checkpointing == "selective_op" and name == "saved_activations":
        terms = selective_op_form(setup.compute_bytes)
    body = item(
        Category.ACTIVATIONS,
        name,
        whole(layers * tokens * per_token(terms, form.widths)),
        f"ceil(L*t*({text(terms)}))",
        {"L": exact(layers), "t": tokens, **used(terms, form.widths)},
        "activations_megatron" if setup.megatron else "activations_eager",
        phases=phases,
    )
    return [body, *_cross_keys(step, form, layers, phases, name), *_scores(step, kind, layers, phases, name)]


def _cross_keys(
    step: Step, form: LayerForm, layers: float, phases: frozenset[Phase], name: str
) -> list[Entry]:
    """Keys and values of cross-attention are as long as the encoder's sequence."""
    if not form.source:
        return []
    amount = layers * step.setup.tokens * per_token(form.source, form.widths)
    symbols = {"L": exact(layers), "t": step.setup.tokens, **used(form.source, form.widths)}
    formula = f"ceil(L*t*({text(form.source)}))"
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
    recomputed = step.setup.training.checkpointing == "selective_attention" and name == "saved_activations"
    if not form.score_bytes or recomputed:
        return []
    amount = layers * form.score_bytes * batch * form.heads * s * s
    return [
        item(
            Category.ACTIVATIONS,
            "attention_scores",
            whole(amount),
            "ceil(L*c*b*n*s*s)",
            {"L": exact(layers), "c": form.score_bytes, "b": batch, "n": form.heads, "s": s},
            "attention_scores",
            phases=phases,
        )
    ]


def exact(value: float) -> float:
    """A whole number as one."""
    return int(value) if value == int(value) else value


def stored_inputs(step: Step, phases: frozenset[Phase], times: float) -> Entry:
    """Full checkpointing: the input of every layer, or of every k-th."""
    setup = step.setup
    every = checkpoint_interval(setup)
    count, e = ceil_div(step.num_layers, every) * times, setup.residual_bytes
    tokens = setup.tokens
    if step.model.encoder_layers and step.kinds:
        tokens = sum(setup.batch * kind.sequence * kind.count for kind in step.kinds) // step.num_layers
    return item(
        Category.ACTIVATIONS,
        "checkpointed_inputs",
        whole(count * tokens * step.residual_width * e),
        "ceil(L*t*h*e)",
        {"L": exact(count), "t": tokens, "h": step.residual_width, "e": e},
        "checkpointing_full",
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
    params = total(t for t in step.trained if t.is_matrix and t.place in {"layers", "experts"})
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


def casts_weights(setup: Setup) -> bool:
    """Whether autocast casts trained weights; frozen ones are cast anew at each use and not kept."""
    return setup.autocast and setup.param_bytes > setup.compute_bytes and setup.adapter is None


def kept_output_entries(step: Step) -> list[Entry]:
    """What a loop that holds the model's outputs keeps through the step: logits, and the cache made on the way."""
    setup, e = step.setup, step.setup.compute_bytes
    if not setup.keeps_outputs or not step.share.holds_head or setup.training.loss not in {None, "standard"}:
        return []
    tokens = setup.target_tokens
    entries = [
        item(
            Category.LOGITS,
            "kept_logits",
            tokens * step.vocab * e,
            "t*V*e",
            {"t": tokens, "V": step.vocab, "e": e},
            "kept_outputs",
            phases=frozenset({Phase.REST, Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER_STEP}),
        )
    ]
    return entries if setup.checkpointed else [*entries, _kept_cache(step)]


def _kept_cache(step: Step) -> Entry:
    setup, e = step.setup, step.setup.compute_bytes
    width = sum(kind.count * int(kind.form.widths["k"] + kind.form.widths["v"]) for kind in step.kinds)
    return item(
        Category.ACTIVATIONS,
        "kept_cache",
        setup.tokens * width * e,
        "t*kv*e",
        {"t": setup.tokens, "kv": width, "e": e},
        "kept_outputs",
        phases=frozenset({Phase.REST, Phase.OPTIMIZER_STEP}),
    )
