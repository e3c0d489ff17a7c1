"""What a LitGPT finetuning run is, from the scenario. No PyTorch here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from planner.memory.adapters import roles_of, targets_of
from planner.model import model_from_config
from planner.model.spec import MlpKind
from planner.scenario import Adapter, Scenario

SHARES_NORM: Final = frozenset({"falcon", "phi"})
"""Attention and feed-forward read one norm (`shared_attention_norm`)."""

GEMMA: Final = frozenset({"gemma", "gemma2"})
SCORE_CAP: Final = 50.0
"""`attention_logit_softcapping` of Gemma 2."""

METHODS: Final = ("lora",)
BASES: Final = ("bf16", "nf4", "nf4_dq")

FIRST_BATCH_LONGEST: Final = "2024-03"
"""Scripts before this put the longest sample first; since 0.2 batches come as they are."""

STABLE_EMBEDDING_SINCE: Final = "2024-10"
"""Quantized models get bitsandbytes' `StableEmbedding`, after everything else was frozen (0.5.0; not in 0.4.5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A model as LitGPT builds it.

    Attributes:
        hidden: Residual width.
        layers: Layers.
        heads: Query heads.
        groups: Key and value heads.
        head_size: Width of a head.
        intermediate: Feed-forward width.
        vocab: Rows of embedding and head.
        rotary: Elements of a head that rotary positions turn.
        norm: `rms_norm` or `layer_norm`.
        adds_one: Norm weights count from one (Gemma).
        bias: Matrices have a bias.
        head_bias: The output matrix has one.
        gated: Two matrices up.
        silu: The activation is SiLU, else GELU.
        parallel: Attention and feed-forward side by side.
        shares_norm: They read one norm.
        norms_after: Norms after both too (Gemma 2).
        scales_embedding: Embeddings are multiplied by a number (Gemma).
        score_cap: Cap on attention scores, None for none.
        window: Positions that every second layer sees, None for all.
    """

    hidden: int
    layers: int
    heads: int
    groups: int
    head_size: int
    intermediate: int
    vocab: int
    rotary: int
    norm: str
    adds_one: bool
    bias: bool
    head_bias: bool
    gated: bool
    silu: bool
    parallel: bool
    shares_norm: bool
    norms_after: bool
    scales_embedding: bool
    score_cap: float | None
    window: int | None

    @property
    def fused(self) -> int:
        """Outputs of the fused query-key-value matrix."""
        return (self.heads + 2 * self.groups) * self.head_size


def shape_of(config: Mapping[str, Any]) -> Shape:
    """The model of a config.json.

    Raises:
        UnknownArchitecture: The planner has no description of it.
        ValueError: It routes tokens to experts, or has no rotary positions.
    """
    spec = model_from_config(config)
    layer, kind = spec.layers[0], spec.model_type
    if layer.mlp.kind is MlpKind.MOE or spec.position_embedding != "rope":
        raise ValueError(kind)
    share = config.get("partial_rotary_factor") or config.get("rotary_pct") or 1.0
    attention = layer.attention
    return Shape(
        hidden=spec.hidden_size,
        layers=spec.num_layers,
        heads=attention.num_heads,
        groups=attention.num_kv_heads,
        head_size=attention.head_dim,
        intermediate=layer.mlp.intermediate_size,
        vocab=spec.vocab_size,
        rotary=int(attention.head_dim * float(share)),
        norm=spec.norm,
        adds_one=kind in GEMMA,
        bias=any(linear.bias_features for linear in layer.linears),
        head_bias=kind == "phi",
        gated=layer.mlp.kind is MlpKind.GATED,
        silu=spec.hidden_act in {"silu", "swish"},
        parallel=spec.parallel_residual,
        shares_norm=kind in SHARES_NORM,
        norms_after=kind == "gemma2",
        scales_embedding=kind in GEMMA,
        score_cap=SCORE_CAP if kind == "gemma2" else None,
        window=int(config.get("sliding_window") or 4096) if kind == "gemma2" else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Which matrices have an adapter."""

    heads: tuple[bool, bool, bool]
    out: bool
    mlp: bool
    head: bool


def places_of(adapter: Adapter) -> Places:
    """LitGPT's switches (`lora_query`, ...) that a list of targets stands for."""
    targets = targets_of(adapter)
    roles = frozenset(role for name in targets for role in roles_of(name, targets))
    everywhere, fused = not targets, "qkv" in roles
    return Places(
        heads=(everywhere or fused or "q" in roles, everywhere or fused or "k" in roles,
               everywhere or fused or "v" in roles),
        out=everywhere or "o" in roles,
        mlp=everywhere or bool(roles & {"gate", "up", "gate_up", "down"}),
        head="lm_head" in targets,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """What a version's scripts do.

    Attributes:
        first_batch_longest: The longest sample comes first, so that no earlier step's tensors lie beside it.
        stable_embedding: Quantized models get a trainable embedding with a norm.
        pads_out_of_place: Adapters on some of query, key and value are padded by a copy.
    """

    first_batch_longest: bool
    stable_embedding: bool
    pads_out_of_place: bool


def habits_of(scenario: Scenario) -> Habits:
    """The habits of the scenario's version, the newest if none is named."""
    version = scenario.runtime.version or "9999"
    return Habits(
        first_batch_longest=version < FIRST_BATCH_LONGEST,
        stable_embedding=version >= STABLE_EMBEDDING_SINCE,
        pads_out_of_place=version < FIRST_BATCH_LONGEST,
    )
