"""One step on one device: its part of the job, its tensors, and its layers by kind."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from planner.lazy import lazy
from planner.ledger import Phase
from planner.memory.adapters import EMBEDDING_NAMES, PROMPT_METHODS
from planner.memory.inventory import Place, Tensor, vocab_rows
from planner.memory.layer_forms import layer_form
from planner.memory.layer_view import LayerForm
from planner.memory.litgpt import litgpt_form, untouched_form, untouched_layers
from planner.memory.megatron import megatron_form
from planner.memory.terms import per_token
from planner.model.distinct import distinct
from planner.model.spec import Layer, ModelSpec
from planner.placement import Share
from planner.training.setup import Setup
from planner.units import ceil_div

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

    def times(self, count: int) -> "Kind":
        """The same layer, `count` of them."""
        return Kind(self.layer, count, self.form, self.sequence)

    def without_one(self) -> "Kind":
        """The same, one layer fewer."""
        return self.times(self.count - 1)


@dataclass(frozen=True)
class Step:
    """Everything the entries of one step are made of.

    Attributes:
        share: The device's part of the job.
        setup: The step in numbers.
        model: The model.
        held: The model's tensors on this device.
        trained: Those that get gradients.
        forms: What layers keep, by layer; filled here, shared between the devices of one plan with the same setup and
            the same kinds of layers.
        inside: Layers with their forms where they are not the stage's: a vision tower's.
        known: What functions of this step have returned (`planner.lazy.once`).
    """

    share: Share
    setup: Setup
    model: ModelSpec
    held: Sequence[Tensor]
    trained: Sequence[Tensor]
    forms: dict[tuple[int, bool], LayerForm] = field(default_factory=dict)
    inside: tuple[Kind, ...] = ()
    known: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @lazy
    def kinds(self) -> tuple[Kind, ...]:
        """Distinct layers of this stage."""
        if self.inside:
            return self.inside
        setup = self.setup
        target = setup.target_tokens // setup.batch if self.model.encoder_layers else setup.sequence
        found = [
            Kind(layer, count, self._form(layer), sequence)
            for layers, sequence in (
                (self.share.distinct_encoder_layers, setup.sequence),
                (self.share.distinct_layers, target),
            )
            for layer, count in layers
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
        key = id(layer), stream
        if key not in self.forms:
            self.forms[key] = self._new_form(layer, stream=stream)
        return self.forms[key]

    def _new_form(self, layer: Layer, *, stream: bool) -> LayerForm:
        if layer.program:
            from planner.diffusion.forms import denoiser_form  # noqa: PLC0415 - only pipelines need it

            return denoiser_form(layer, self.model, self.setup)
        if self.setup.megatron:
            return megatron_form(layer, self.model, self.setup)
        if self.setup.runtime == "litgpt":
            return litgpt_form(layer, self.model, self.setup, stream=stream)
        return layer_form(layer, self.model, self.setup, stream=stream)

    @lazy
    def trained_params(self) -> int:
        """Elements that get gradients."""
        return sum(self.trained_at.values())

    @lazy
    def trained_at(self) -> Mapping[Place, int]:
        """Those of them by place in the model, 0 where there are none."""
        found: defaultdict[Place, int] = defaultdict(int)
        for tensor in self.trained:
            found[tensor.place] += tensor.params
        return found

    @lazy
    def num_layers(self) -> int:
        """Encoder and decoder layers of this stage."""
        return len(self.share.encoder_layers) + len(self.share.layers)

    @lazy
    def largest(self) -> Kind:
        """The layer that keeps most; of a denoiser's, the one that is fullest in its backward pass."""
        return max(self.kinds, key=self._fullness) if len(self.kinds) > 1 else self.kinds[0]

    def _fullness(self, kind: Kind) -> float:
        working = per_token(kind.form.working, kind.form.widths) if kind.form.working else 0.0
        return self.kind_bytes(kind) + self.setup.batch * kind.sequence * working

    def starting(self, number: int) -> tuple[Kind, ...]:
        """The kinds of the first `number` layers, with how many of each."""
        if number == 1:
            return (self.first.times(1),)
        kinds, left = [], number
        for layer, count in distinct((*self.share.encoder_layers, *self.share.layers)[:number]):
            kind = next((kind for kind in self.kinds if kind.layer is layer), self.first)
            kinds.append(kind.times(min(count, left)))
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

    @lazy
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

    @lazy
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


Found = TypeVar("Found")
More = ParamSpec("More")


def once_a_layer(
    work: Callable[Concatenate[Step, Kind, More], Found],
) -> Callable[Concatenate[Step, Kind, More], Found]:
    """A function of what is inside a layer that is worked out once for all steps that share its form.

    It must not depend on how many such layers there are, nor on anything else of the stage.
    """
    name = work.__qualname__

    @wraps(work)
    def kept(step: Step, kind: Kind, /, *more: More.args, **named: More.kwargs) -> Found:
        known, key = kind.form.known, (name, kind.sequence, more, *named.items())
        if key not in known:
            known[key] = work(step, kind, *more, **named)
        found: Found = known[key]
        return found

    return kept


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
