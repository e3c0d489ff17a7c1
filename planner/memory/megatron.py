"""Megatron-LM's own layers with Transformer Engine kernels: what one layer keeps, after Korthikanti et al. 2022.

The paper's 34*s*b*h is layer norm inputs 4, projection inputs and outputs, GELU, and dropout masks for multi-head
attention and a plain MLP of width 4h. Here each tensor keeps its own width, so that grouped queries, gated MLPs and
experts come out right; with those widths equal to the paper's the sum is the paper's.
"""

from planner.memory.layer_norms import has_head_norms
from planner.memory.layer_view import LayerForm, widths_of
from planner.memory.megatron_selective import CORE, left_out, modules_again
from planner.memory.terms import Terms, add, scaled
from planner.model.spec import AttentionKind, Layer, MlpKind, ModelSpec
from planner.training.setup import Setup


def attention_block(*, norm: int, masks: bool) -> Terms:
    """Norm input and output, query, key, value, output of the core, a mask after the projection.

    Korthikanti et al. (arXiv 2205.05198), section 4.1, attention block, without the scores. With sequence parallelism
    what lies outside the projections is divided (`r`), section 4.2.2.
    """
    return add({"r": 4, "": norm}, {"q": 2, "k": 2, "v": 2, "o": 2}, {"r": 1} if masks else {})


def core_scores(*, dropout: bool) -> int:
    """Per head and score: softmax output 2, dropout mask 1 and output 2. Same, equation 1 (5*a*s*s*b)."""
    return 2 + (3 if dropout else 0)


def mlp_block(*, gated: bool, norm: int, masks: bool) -> Terms:
    """Norm input and output, the first projection's output (twice as wide if gated), the second's input, a mask."""
    return add({"r": 4, "": norm}, {"i": 2 * (3 if gated else 2)}, {"r": 1} if masks else {})


def expert_block(*, gated: bool, norm: int, shared: bool) -> Terms:
    """Norm, router probabilities in fp32, dispatched tokens, the experts' projections, and their output to combine."""
    wide = 2 * (3 if gated else 2)
    extra: Terms = {"si": wide} if shared else {}
    return add({"r": 4, "": norm, "E": 8, "K": 8}, {"xh": 4, "xi": wide}, extra)


def latent_block(*, norm: int, masks: bool) -> Terms:
    """Multi-head latent attention: compressed latents with their norms beside the decompressed heads."""
    return add(attention_block(norm=norm, masks=masks), {"ql": 4, "kl": 4})


def megatron_form(layer: Layer, model: ModelSpec, setup: Setup) -> LayerForm:
    """What one layer keeps without recomputation, and what selective recomputation leaves of it."""
    training = setup.training
    masks = bool(training.dropout)
    norm = 8 if model.norm == "layer_norm" else 4
    latent = layer.attention.kind is AttentionKind.MLA
    attention = latent_block(norm=norm, masks=masks) if latent else attention_block(norm=norm, masks=masks)
    parts = [attention]
    if has_head_norms(layer, model):
        parts.append({"q": 2, "k": 2, "n": 4, "nk": 4})
    if layer.mlp.kind is MlpKind.MOE:
        shared = bool(layer.mlp.shared_intermediate_size)
        parts.append(expert_block(gated=layer.mlp.gated, norm=norm, shared=shared))
    else:
        parts.append(mlp_block(gated=layer.mlp.gated, norm=norm, masks=masks))
    source: Terms = {}
    if layer.cross_attention is not None:
        parts.append({**attention_block(norm=norm, masks=masks), "k": 0, "v": 0})
        source = {"k": 2, "v": 2}
    widths = widths_of(layer, model, setup)
    unfused = training.attention in {"eager", "transformer_engine_unfused"}
    modules = modules_again(setup)
    scores = core_scores(dropout=masks) if unfused and CORE not in modules else 0
    if not unfused:
        parts.append({"n": 4})
    across = scores if layer.cross_attention is not None else 0
    total = add(*parts)
    gone = left_out(layer, modules, norm=norm)
    again = {width: min(bytes_, total.get(width, 0)) for width, bytes_ in gone.items()}
    between = add(total, scaled(again, -1)) if training.checkpointing == "selective_op" else None
    return LayerForm(
        total, widths, scores, int(widths["n"]) if scores else 0, source, across,
        between=between, again=again if between is not None else {},
    )  # fmt: skip
