"""A layer with everything that decides what it keeps, and the form in which that is counted."""

from dataclasses import dataclass, field
from typing import Any, Final

from planner.lazy import lazy
from planner.memory import activations as act
from planner.memory.adapters import adapter_rank, role_of
from planner.memory.kv_cache import STATEFUL
from planner.memory.terms import PerToken, Terms, summed
from planner.model.spec import AttentionKind, Layer, Linear, ModelSpec, Part, Split
from planner.training.setup import Setup
from planner.training.titan import spreads_tokens
from planner.units import ceil_div

RUNS_TRANSFORMERS: Final = frozenset({"generic", "hf_trainer", "transformers", "deepspeed", "unsloth"})
"""Runtimes that run transformers' classes, with their operators one by one where others have kernels."""
FUSES_QKV: Final = frozenset({"litgpt"})
"""Runtimes whose own model has one matrix for query, key and value, and one adapter on it."""
GROUPS_SINCE: Final = (4, 54)
"""From here on sdpa is asked to group queries itself (`use_gqa_in_sdpa`), keys and values are not repeated for it."""


@dataclass(frozen=True)
class LayerForm:
    """What one layer keeps.

    Attributes:
        terms: Bytes per token by width.
        widths: Every width, per token on one device.
        score_bytes: Bytes per score that eager attention keeps, over `heads` heads; 0 where no scores are kept.
        heads: Query heads on one device.
        source: Keys and values of cross-attention, per encoder token.
        source_score_bytes: Bytes per score of cross-attention, target by source tokens; 0 where none are kept.
        masks: Dropout masks, a byte an element, score masks apart.
        adapter_masks: Masks of the adapters' own dropout.
        masks_scores: Whether every score has a mask too.
        score_gradients: Bytes per score that the backward pass adds at the softmax.
        between: What it keeps until its backward pass where selective checkpointing computes the rest again, by width;
            None where everything is kept.
        again: What that backward pass then makes again.
        behind: What is kept by all that follows the softmax: gone when the backward pass comes to it.
        ends: What the norm after the feed-forward part keeps: gone first of all.
        piece: What the feed-forward part keeps of each token of the piece in work, where the sequence is cut for it.
        working: A denoiser's block: what its backward pass adds to what it keeps; None for other layers.
        passing: A denoiser's block: what its forward pass adds to what it leaves.
        known: What functions of the layer have returned (`planner.training.step.once_a_layer`).
    """

    terms: Terms
    widths: dict[str, float]
    score_bytes: float
    heads: int
    source: Terms = field(default_factory=dict)
    source_score_bytes: int = 0
    masks: Terms = field(default_factory=dict)
    adapter_masks: Terms = field(default_factory=dict)
    masks_scores: bool = False
    score_gradients: float = 0
    between: Terms | None = None
    again: Terms = field(default_factory=dict)
    behind: Terms = field(default_factory=dict)
    ends: Terms = field(default_factory=dict)
    piece: Terms = field(default_factory=dict)
    working: Terms | None = None
    passing: Terms = field(default_factory=dict)
    known: dict[tuple[object, ...], Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @lazy
    def kept_between(self) -> tuple[tuple[str, PerToken], ...]:
        """Everything kept per token until the backward pass; dropout masks outside the attention are kept too."""
        if self.between is None:
            return self.kept
        others = tuple(part for part in self.kept if part[0])
        return (("", summed(self.between, self.widths)), *others)

    @lazy
    def kept(self) -> tuple[tuple[str, PerToken], ...]:
        """Everything kept per token, by the name of its entry (`""` for the layer's own)."""
        parts = (
            ("", self.terms),
            ("dropout_masks", self.masks),
            ("adapter_dropout_masks", self.adapter_masks),
        )
        return tuple((name, summed(part, self.widths)) for name, part in parts if part)


@dataclass(frozen=True, slots=True)
class View:
    """A layer with everything that decides what it keeps; `stream` says whether its input needs a gradient."""

    layer: Layer
    model: ModelSpec
    setup: Setup
    sites: tuple[Linear, ...]
    kernels: frozenset[str]
    stream: bool = True

    @property
    def heads(self) -> frozenset[str]:
        """Those of query, key and value that need a gradient."""
        if self.stream:
            return act.ALL_HEADS
        roles = {role_of(x) for x in self.sites if x.part is Part.ATTENTION}
        return act.ALL_HEADS if "qkv" in roles else act.ALL_HEADS & roles

    @property
    def residual(self) -> str:
        """The width outside the projections: divided under sequence parallelism."""
        return "r" if self.setup.parallel.sequence and self.setup.division.tensor > 1 else "h"

    @property
    def norm_output_bytes(self) -> int:
        """Bytes of an element that a norm puts out."""
        setup = self.setup
        return 4 if self.model.norm == "layer_norm" and setup.autocast else setup.residual_bytes

    @property
    def cached(self) -> bool:
        """Whether a key-value cache is made on the way and kept with the outputs."""
        return self.setup.keeps_cache

    def linears(self, part: Part) -> tuple[list[Linear], list[Linear]]:
        """Matrices of a part that read its input, and those that end it."""
        found = [x for x in self.layer.linears if x.part is part]
        return [x for x in found if x.split is not Split.ROW], [x for x in found if x.split is Split.ROW]

    def adapted(self, part: Part) -> tuple[list[Linear], list[Linear]]:
        """The same for the matrices with an adapter."""
        found = [x for x in self.sites if x.part is part]
        reads = [x for x in found if x.split is not Split.ROW]
        if part is Part.ATTENTION and self.fuses_qkv:
            reads = reads[:1]
        return reads, [x for x in found if x.split is Split.ROW]

    @property
    def makes_scores(self) -> bool:
        """Whether attention is composed of products and a softmax, not one kernel.

        In fp32 no fused CUDA kernel groups queries (memory-efficient: `check_batch_size_and_num_heads_dense<false>` in
        PyTorch's `sdp_utils.cpp`; flash and cuDNN are 16-bit), so that sdpa falls back to its composed form.
        """
        setup, shape = self.setup, self.layer.attention
        if shape.kind in STATEFUL:
            return False
        if setup.training.attention == "eager":
            return True
        grouped = shape.num_kv_heads != shape.num_heads and shape.kind is not AttentionKind.MLA
        asks = setup.runtime in {"generic", "hf_trainer"} and (
            not setup.version or setup.version >= GROUPS_SINCE
        )
        return setup.training.attention == "sdpa" and setup.compute_bytes == 4 and grouped and asks

    @property
    def fuses_qkv(self) -> bool:
        """Whether one matrix makes query, key and value, and one adapter acts on it."""
        return self.setup.runtime in FUSES_QKV and self.layer.attention.kind not in STATEFUL


def widths_of(layer: Layer, model: ModelSpec, setup: Setup) -> dict[str, float]:
    """Every width the terms may name, as one device holds it."""
    shape, mlp, ranks = layer.attention, layer.mlp, setup.division.tensor
    hidden, routed = model.hidden_size, mlp.experts_per_token
    gathered = setup.parallel.sequence and ranks > 1
    cut = setup.division
    spread = ranks if spreads_tokens(
        setup.runtime, expert=cut.expert, expert_tensor=cut.expert_tensor, tensor=cut.tensor
    ) else 1  # fmt: skip
    return {
        "h": hidden,
        "r": ceil_div(hidden, ranks) if gathered else hidden,
        "q": ceil_div(shape.q_width, ranks),
        "k": ceil_div(shape.k_width, ranks),
        "v": ceil_div(shape.v_width, ranks),
        "o": ceil_div(shape.num_heads * shape.v_head_dim, ranks),
        "n": ceil_div(shape.num_heads, ranks),
        "nk": ceil_div(shape.num_kv_heads, ranks),
        "ql": shape.q_lora_rank,
        "kl": shape.kv_lora_rank,
        "w": ceil_div(sum(x.out_features for x in layer.linears if x.part is Part.ATTENTION), ranks),
        "i": ceil_div(mlp.intermediate_size, ranks),
        "si": ceil_div(mlp.shared_intermediate_size, ranks),
        "u": setup.sequence / setup.batch,
        "E": mlp.num_experts,
        "K": routed,
        "xh": ceil_div(routed * hidden, spread),
        "xo": routed * hidden,
        "xi": ceil_div(routed * ceil_div(mlp.intermediate_size, cut.expert_tensor), spread),
        "rank": adapter_rank(setup.adapter) if setup.adapter else 0,
    }


def groups_experts(setup: Setup) -> bool:
    """Whether all routed experts run in one grouped product, as transformers does from version 5 on."""
    return setup.runtime in {"generic", "hf_trainer"} and (not setup.version or setup.version >= (5,))


def expert_bytes(setup: Setup) -> int:
    """Bytes of an element inside routed experts; autocast knows no grouped product, which runs as the weights are."""
    return setup.residual_bytes if groups_experts(setup) else setup.compute_bytes
