"""Norms of one layer: which there are, and what they keep."""

from typing import Final

from planner.memory import activations as act
from planner.memory.layer_view import RUNS_TRANSFORMERS, View
from planner.memory.terms import Terms, add, scaled
from planner.model.spec import AttentionKind, Layer, ModelSpec
from planner.training.setup import Setup, fused_kernels

CENTRES: Final = frozenset({"cohere", "cohere2"})
"""Classes whose layer norm is put together from single steps (`CohereLayerNorm`)."""
WIDE_HEAD_NORMS: Final = frozenset({"olmo2", "olmo3", "olmoe"})
"""Classes that norm queries and keys over all heads at once, as they come from their products."""
NORMS_AFTER: Final = frozenset({
    *("gemma2", "gemma3", "gemma3_text", "glm4", "olmo2", "olmo3", "exaone4"),
})  # fmt: skip
"""Classes with a norm after the attention and one after the feed-forward part (`post_feedforward_layernorm`)."""
NORMS_NOT_BEFORE: Final = frozenset({"olmo2", "olmo3", "exaone4"})
"""Those of them without norms before the two."""


def last_norm(view: View) -> Terms:
    """The norm after the feed-forward part, which the backward pass begins with."""
    if view.model.model_type not in NORMS_AFTER or view.setup.megatron:
        return {}
    return norm_terms(view.model, view.setup, view.residual)


def later_norms(view: View) -> int:
    """Norms of the hidden size that follow the attention."""
    layer, model = view.layer, view.model
    before = 0 if model.model_type in NORMS_NOT_BEFORE else 1
    wide = 2 if model.model_type in WIDE_HEAD_NORMS else 0
    return max(0, norm_count(layer, model) - before - wide)


def norm_count(layer: Layer, model: ModelSpec) -> int:
    """Norms of the hidden size in a layer; two (one in parallel blocks) where they have no weights to count by."""
    each = model.hidden_size * (2 if model.norm == "layer_norm" else 1)
    return layer.norm_params // each or (1 if model.parallel_residual else 2)


def has_head_norms(layer: Layer, model: ModelSpec) -> bool:
    """Whether queries and keys are normed: the layer has norm weights beyond whole hidden sizes."""
    return layer.attention.kind is not AttentionKind.MLA and layer.norm_params % model.hidden_size != 0


def norm_terms(model: ModelSpec, setup: Setup, x: str = "h", res: int | None = None) -> Terms:
    """One norm over width `x`, its output left out; `res` bytes an element that it reads, the stream's if not given."""
    res = setup.residual_bytes if res is None else res
    if model.model_type in CENTRES and setup.runtime in RUNS_TRANSFORMERS:
        return act.centred_norm(x, trained=setup.adapter is None)
    if model.norm == "layer_norm":
        return act.layer_norm(x, res=4 if setup.autocast else res)
    return act.rms_norm(
        x,
        res=res,
        fused="rms_norm" in fused_kernels(setup),
        trained=setup.adapter is None,
        upcast_weight=model.model_type.startswith("gemma"),
    )


def all_norms(view: View) -> Terms:
    """All norms of a layer; the first input of a fused kernel is the one that checkpointing has stored already.

    The two layer norms of a parallel block keep one tensor, where autocast does not cast it for each.
    """
    layer, model, setup = view.layer, view.model, view.setup
    count = norm_count(layer, model)
    if not view.stream:
        count -= count if model.parallel_residual else 1
    total = scaled(norm_terms(model, setup, view.residual), count)
    given = not setup.autocast or setup.residual_bytes == 4
    if model.parallel_residual and model.norm == "layer_norm" and count > 1 and given:
        total[view.residual] -= (count - 1) * setup.residual_bytes
    if "rms_norm" in view.kernels and setup.checkpointed and model.norm != "layer_norm":
        total[view.residual] -= setup.residual_bytes
    if model.model_type in WIDE_HEAD_NORMS and setup.runtime in RUNS_TRANSFORMERS:
        total[view.residual] -= 2 * (setup.residual_bytes - setup.product_bytes)
    if has_head_norms(layer, model):
        made = setup.product_bytes
        heads, keys = norm_terms(model, setup, "q", made), norm_terms(model, setup, "k", made)
        total = add(total, {"q": heads["q"], "n": heads[""], "k": keys["k"], "nk": keys[""]})
    if layer.attention.kind is AttentionKind.MLA:
        for latent in ("ql", "kl") if layer.attention.q_lora_rank else ("kl",):
            total = add(total, norm_terms(model, setup, latent), {latent: setup.compute_bytes})
    return total
