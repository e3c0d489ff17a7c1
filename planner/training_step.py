"""Ledger entries of one step: saved activations, the loss, and the fullest moment of the backward pass.

A phase shows its fullest moment. The loss is fullest at its end or in its own backward pass; the backward pass at its
start (all activations, few gradients), at the first layer, or at the embedding (all gradients).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from planner.ledger import Category, Entry, Phase
from planner.memory import logits as loss
from planner.memory.inventory import Tensor, distinct, vocab_rows
from planner.memory.layer_forms import LayerForm, layer_form
from planner.memory.megatron import megatron_form
from planner.memory.terms import Terms, item, per_token, text, used
from planner.model.spec import Layer, ModelSpec
from planner.placement import Share
from planner.training_setup import Setup
from planner.training_states import gradient_phases, total
from planner.units import ceil_div

FORWARD_AND_LOSS = frozenset({Phase.FORWARD, Phase.LOSS})
BACKWARD = frozenset({Phase.BACKWARD})
LOSS = frozenset({Phase.LOSS})


@dataclass(frozen=True)
class Step:
    """Everything the entries of one step are made of."""

    share: Share
    setup: Setup
    model: ModelSpec
    trained: Sequence[Tensor]

    @cached_property
    def forms(self) -> list[tuple[Layer, int, LayerForm]]:
        """Distinct layers of this stage, how many of each, and what each keeps."""
        make = megatron_form if self.setup.megatron else layer_form
        return [(layer, count, make(layer, self.model, self.setup)) for layer, count in distinct(self.layers)]

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Encoder and decoder layers of this stage."""
        return (*self.share.encoder_layers, *self.share.layers)

    @cached_property
    def largest(self) -> LayerForm:
        """The layer that keeps most."""
        return max((form for _, _, form in self.forms), key=self.form_bytes)

    def form_bytes(self, form: LayerForm) -> float:
        """Bytes of one layer's saved tensors."""
        setup = self.setup
        scores = form.score_bytes * form.heads * setup.batch * setup.sequence**2
        return setup.tokens * per_token(form.terms, form.widths) + scores

    @property
    def residual_width(self) -> int:
        """Elements of the residual stream per token on this device."""
        setup = self.setup
        divided = setup.division.tensor > 1 and (
            setup.parallel.sequence or setup.training.checkpoint_partitioned
        )
        return ceil_div(self.model.hidden_size, setup.division.tensor) if divided else self.model.hidden_size

    @property
    def vocab(self) -> int:
        """Vocabulary entries on this device."""
        head = self.model.head
        return vocab_rows(head.out_features, self.setup.division) if head is not None else 0


def saved_entries(step: Step) -> list[Entry]:
    """What the forward pass keeps for the backward pass, alive through forward and loss."""
    if step.setup.checkpointed:
        return [_stored_inputs(step, FORWARD_AND_LOSS), *_cast_entries(step, FORWARD_AND_LOSS)]
    return [
        *_whole_layers(step, FORWARD_AND_LOSS),
        *_cast_entries(step, FORWARD_AND_LOSS),
    ]


def _whole_layers(step: Step, phases: frozenset[Phase]) -> list[Entry]:
    return [
        entry
        for _, count, form in step.forms
        for entry in _layer_entries(step, form, count * step.share.in_flight, phases, "saved_activations")
    ]


def _layer_entries(
    step: Step, form: LayerForm, layers: float, phases: frozenset[Phase], name: str
) -> list[Entry]:
    setup = step.setup
    count = layers if layers != int(layers) else int(layers)
    body = item(
        Category.ACTIVATIONS,
        name,
        -(-setup.tokens * per_token(form.terms, form.widths) * layers // 1),
        f"ceil(L*t*({text(form.terms)}))",
        {"L": count, "t": setup.tokens, **used(form.terms, form.widths)},
        "activations_megatron" if setup.megatron else "activations_eager",
        phases=phases,
    )
    if not form.score_bytes:
        return [body]
    scores = item(
        Category.ACTIVATIONS,
        "attention_scores" if name == "saved_activations" else "recomputed_scores",
        -(-layers * form.score_bytes * setup.batch * form.heads * setup.sequence**2 // 1),
        "ceil(L*c*b*n*s*s)",
        {"L": count, "c": form.score_bytes, "b": setup.batch, "n": form.heads, "s": setup.sequence},
        "activations_eager",
        phases=phases,
    )
    return [body, scores]


def _stored_inputs(step: Step, phases: frozenset[Phase], layers: float | None = None) -> Entry:
    """Full checkpointing: the input of every layer, or of every k-th."""
    setup = step.setup
    every = setup.training.checkpoint_every or 1 if setup.training.checkpointing == "every_k" else 1
    count = layers if layers is not None else ceil_div(len(step.layers), every) * step.share.in_flight
    count = count if count != int(count) else int(count)
    e = setup.residual_bytes
    return item(
        Category.ACTIVATIONS,
        "checkpointed_inputs",
        -(-count * setup.tokens * step.residual_width * e // 1),
        "ceil(L*t*h*e)",
        {"L": count, "t": setup.tokens, "h": step.residual_width, "e": e},
        "checkpointing_full",
        phases=phases,
    )


def _cast_entries(step: Step, phases: frozenset[Phase]) -> list[Entry]:
    """Autocast keeps a 16-bit copy of every trained weight it used until its block ends."""
    setup = step.setup
    if not (setup.autocast and setup.param_bytes > setup.compute_bytes and setup.adapter is None):
        return []
    params = total(t for t in step.trained if t.is_matrix and t.place in {"layers", "experts"})
    e = setup.compute_bytes
    return [
        item(
            Category.WEIGHTS, "autocast_weights", params * e, "P*e", {"P": params, "e": e}, "autocast_cache",
            phases=phases,
        )
    ]  # fmt: skip


def final_norm_terms(step: Step) -> Terms:
    """The last norm and the head's input."""
    from planner.memory.layer_forms import norm_terms  # noqa: PLC0415

    setup = step.setup
    head = setup.compute_bytes if setup.residual_bytes != setup.compute_bytes or setup.adapter is None else 0
    return {
        **norm_terms(step.model, setup),
        "h": norm_terms(step.model, setup).get("h", 0) + (head or setup.compute_bytes),
    }


def loss_entries(step: Step) -> list[Entry]:
    """The fuller of the loss's two moments, with the final norm."""
    if not step.share.holds_head or step.model.head is None:
        return []
    setup, tokens = step.setup, step.setup.target_tokens
    terms = final_norm_terms(step)
    widths = {"h": step.model.hidden_size, "r": step.residual_width}
    norm = item(
        Category.ACTIVATIONS, "final_norm", tokens * per_token(terms, widths), f"t*({text(terms)})",
        {"t": tokens, **used(terms, widths)}, "activations_eager", phases=LOSS,
    )  # fmt: skip
    head = [_head_cast(step)] if setup.autocast and setup.param_bytes > setup.compute_bytes else []
    return [norm, *head, *_chain(step)]


def _head_cast(step: Step) -> Entry:
    params, e = step.vocab * step.model.hidden_size, step.setup.compute_bytes
    return item(
        Category.WEIGHTS, "autocast_head", params * e, "V*h*e",
        {"V": step.vocab, "h": step.model.hidden_size, "e": e}, "autocast_cache", phases=LOSS,
    )  # fmt: skip


def _chain(step: Step) -> list[Entry]:
    setup, t, v, e = step.setup, step.setup.target_tokens, step.vocab, step.setup.compute_bytes
    kind = setup.training.loss or "standard"
    if kind == "fused_linear":
        return _fused_linear(step)
    if setup.megatron:
        return [
            _per_entry(step, "logits", e, LOSS, "loss_megatron"),
            _per_entry(step, "loss_fp32", 4, LOSS, "loss_megatron"),
        ]
    if kind == "fused":
        return [_per_entry(step, "logits", loss.fused_loss_bytes(e), LOSS, "loss_fused")]
    if kind == "chunked":
        c = loss.chunked_loss_bytes(e, compiled=setup.compiled)
        return [_per_entry(step, "loss_chunks", c, LOSS, "loss_chunked")]
    forward = loss.forward_chain_bytes(e, shifts=_shifts(setup), holds_logits=_holds_logits(setup))
    backward = loss.backward_chain_bytes(e, keeps_outputs=setup.keeps_outputs)
    old = e if setup.keeps_outputs else 0
    casts = setup.checkpointed and bool(_cast_entries(step, LOSS))
    cached = sum(entry.bytes for entry in _cast_entries(step, LOSS)) if casts else 0
    if (forward + old) * t * v + cached >= backward * t * v:
        return [
            _per_entry(step, "logits", forward + old - 4 - loss.LOG_SOFTMAX_BYTES, LOSS, "loss_standard"),
            _per_entry(step, "logits_fp32", 4, LOSS, "loss_standard"),
            _per_entry(step, "log_softmax", loss.LOG_SOFTMAX_BYTES, LOSS, "loss_standard"),
        ]
    return [
        _per_entry(step, "logits", e if setup.keeps_outputs else 0, LOSS, "loss_standard"),
        _per_entry(step, "log_softmax", loss.LOG_SOFTMAX_BYTES, LOSS, "loss_standard"),
        _per_entry(step, "loss_gradients", loss.GRADIENT_BYTES, LOSS, "loss_standard"),
    ]


def _per_entry(step: Step, name: str, c: float, phases: frozenset[Phase], reference: str) -> Entry:
    t, v = step.setup.target_tokens, step.vocab
    return item(
        Category.LOGITS, name, -(-t * v * c // 1), "ceil(c*t*V)", {"c": c, "t": t, "V": v}, reference, phases=phases,
    )  # fmt: skip


def _fused_linear(step: Step) -> list[Entry]:
    """Liger's fused head and loss: one chunk of logits with its fp32 copies, the gradients of input and head."""
    setup, h, v, e = step.setup, step.model.hidden_size, step.vocab, step.setup.compute_bytes
    chunk = loss.fused_linear_chunk_tokens(setup.target_tokens, h, v)
    entries = [
        item(
            Category.LOGITS, "loss_chunks", chunk * v * (2 * e + 4), "c*V*(2*e + 4)", {"c": chunk, "V": v, "e": e},
            "loss_fused_linear", phases=LOSS,
        ),
        item(
            Category.LOGITS, "loss_input_gradient", setup.target_tokens * h * e, "t*h*e",
            {"t": setup.target_tokens, "h": h, "e": e}, "loss_fused_linear", phases=LOSS,
        ),
    ]  # fmt: skip
    if setup.adapter is None:
        entries.append(
            item(
                Category.GRADIENTS, "loss_head_gradient", v * h * e, "V*h*e", {"V": v, "h": h, "e": e},
                "loss_fused_linear", phases=LOSS,
            )
        )  # fmt: skip
    return entries


def _shifts(setup: Setup) -> bool:
    """Transformers before 4.50 copies the shifted logits."""
    return setup.runtime == "hf_trainer" and bool(setup.version) and setup.version < (4, 50)


def _holds_logits(setup: Setup) -> bool:
    """Before 4.46 the model rebinds the 16-bit logits to their fp32 copy."""
    return not (setup.runtime == "hf_trainer" and bool(setup.version) and setup.version < (4, 46))


def kept_output_entries(step: Step) -> list[Entry]:
    """What a loop that holds the model's outputs keeps through the step: logits, and the cache made on the way."""
    setup = step.setup
    if not setup.keeps_outputs or not step.share.holds_head or setup.training.loss not in {None, "standard"}:
        return []
    phases = frozenset({Phase.REST, Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER_STEP})
    entries = [_per_entry(step, "kept_logits", setup.compute_bytes, phases, "kept_outputs")]
    if not setup.checkpointed:
        entries += _kept_cache(step)
    return entries


def _kept_cache(step: Step) -> list[Entry]:
    setup, e = step.setup, step.setup.compute_bytes
    width = sum(count * int(form.widths["k"] + form.widths["v"]) for _, count, form in step.forms)
    return [
        item(
            Category.ACTIVATIONS, "kept_cache", setup.tokens * width * e, "t*kv*e",
            {"t": setup.tokens, "kv": width, "e": e}, "kept_outputs",
            phases=frozenset({Phase.REST, Phase.OPTIMIZER_STEP}),
        )
    ]  # fmt: skip


def backward_entries(step: Step) -> list[Entry]:
    """The fullest of the backward pass's moments."""
    if not step.forms:
        return []
    return _fullest((_at_last_layer(step), _at_first_layer(step), _at_embedding(step)))


def _fullest(moments: Iterable[list[Entry]]) -> list[Entry]:
    return max(moments, key=lambda entries: sum(entry.bytes for entry in entries))


def _at_last_layer(step: Step) -> list[Entry]:
    """Everything saved is there; the last layer is computed again where it was checkpointed."""
    if step.setup.checkpointed:
        held = [_stored_inputs(step, BACKWARD), *_recomputed(step)]
    else:
        held = [*_whole_layers(step, BACKWARD), *_cast_entries(step, BACKWARD)]
    head = [t for t in step.trained if t.place == "head"]
    if step.model.tie_word_embeddings and step.share.holds_head:
        head += [t for t in step.trained if t.place == "embedding"]
    return [*held, *_partial_gradients(step, head), _layer_gradients(step)]


def _at_first_layer(step: Step) -> list[Entry]:
    """One layer's tensors, and the gradients of all that lies above it."""
    first = step.layers[0]
    others = [t for t in step.trained if t.place != "embedding"]
    form = next(form for layer, _, form in step.forms if layer is first)
    gradients = _partial_gradients(step, others, less=first.params if step.setup.adapter is None else 0)
    return [*_held_by_others(step), *_layer_entries(step, form, 1, BACKWARD, _one_layer(step)), *gradients]


def _at_embedding(step: Step) -> list[Entry]:
    """All gradients, and the gradient of the stream."""
    setup, h, e = step.setup, step.residual_width, step.setup.residual_bytes
    stream = item(
        Category.ACTIVATIONS, "stream_gradient", setup.tokens * h * e, "t*h*e", {"t": setup.tokens, "h": h, "e": e},
        "activations_eager", phases=BACKWARD,
    )  # fmt: skip
    return [*_held_by_others(step), stream, *_partial_gradients(step, step.trained)]


def _one_layer(step: Step) -> str:
    return "recomputed_layer" if step.setup.checkpointed else "saved_activations"


def _held_by_others(step: Step) -> list[Entry]:
    """What micro-batches still in flight keep when one of them has finished."""
    rest = step.share.in_flight - 1
    if rest <= 0:
        return []
    if step.setup.checkpointed:
        return [_stored_inputs(step, BACKWARD, rest * len(step.layers))]
    return [
        entry
        for _, count, form in step.forms
        for entry in _layer_entries(step, form, count * rest, BACKWARD, "saved_activations")
    ]


def _recomputed(step: Step) -> list[Entry]:
    every = step.setup.training.checkpoint_every or 1 if step.setup.training.checkpointing == "every_k" else 1
    return _layer_entries(step, step.largest, every, BACKWARD, "recomputed_layer")


def _layer_gradients(step: Step) -> Entry:
    """Inside a layer: the stream's gradient and those of the feed-forward part's two inner tensors."""
    setup, form = step.setup, step.largest
    wide = max(form.widths["i"], form.widths["xi"] + form.widths["si"])
    h, e, res = step.model.hidden_size, setup.compute_bytes, setup.residual_bytes
    return item(
        Category.ACTIVATIONS, "layer_gradients", setup.tokens * (h * res + 2 * wide * e), "t*(h*r + 2*i*e)",
        {"t": setup.tokens, "h": h, "r": res, "i": wide, "e": e}, "backward_inside_layer", phases=BACKWARD,
        estimate=True,
    )  # fmt: skip


def _partial_gradients(step: Step, tensors: Sequence[Tensor], less: int = 0) -> list[Entry]:
    setup = step.setup
    if Phase.BACKWARD in gradient_phases(setup) or setup.parallel.offload.gradients != "none":
        return []
    if setup.optimizer.in_backward:
        largest = max((t.rows * t.columns for t in step.trained), default=0)
        params = min(largest, total(tensors))
    else:
        params = max(0, total(tensors) - less)
    n, e = setup.shard_gradients, setup.gradient_bytes
    if n == 1:
        return [
            item(
                Category.GRADIENTS,
                "gradients",
                params * e,
                "P*e",
                {"P": params, "e": e},
                "gradients",
                phases=BACKWARD,
            )
        ]
    return [
        item(
            Category.GRADIENTS, "gradients", ceil_div(params, n) * e, "ceil(P/N)*e", {"P": params, "N": n, "e": e},
            "gradients", phases=BACKWARD,
        )
    ]  # fmt: skip
