"""Megatron-LM's own layers with Transformer Engine kernels: what one layer keeps, after Korthikanti et al. 2022.

The paper's 34*s*b*h is layer norm inputs 4, projection inputs and outputs, GELU, and dropout masks for multi-head
attention and a plain MLP of width 4h. Here each tensor keeps its own width, so that grouped queries, gated MLPs and
experts come out right; with those widths equal to the paper's the sum is the paper's.
"""

from planner.memory.layer_norms import has_head_norms
from planner.memory.layer_view import LayerForm, widths_of
from planner.memory.low_precision import kept_input_bytes
from planner.memory.megatron_selective import CORE, left_out, modules_again
from planner.memory.terms import Terms, add, scaled
from planner.model.spec import AttentionKind, Layer, MlpKind, ModelSpec
from planner.training.setup import Setup


def attention_block(*, norm: int, masks: bool, stored: float = 2) -> Terms:
    """Norm input and output, query, key, value, output of the core, a mask after the projection.

    Korthikanti et al. (arXiv 2205.05198), section 4.1, attention block, without the scores. With sequence parallelism
    what lies outside the projections is divided (`r`), section 4.2.2.

    Args:
        norm: Bytes of a token's statistics in one norm.
        masks: Whether there is dropout.
        stored: Bytes per element of a product's input; where they are not the core's own, its output is kept twice.
    """
    return add(
        {"r": 2 + stored, "": norm},
        {"q": 2, "k": 2, "v": 2, "o": _twice(stored)},
        {"r": 1} if masks else {},
    )


def _twice(stored: float) -> float:
    """A tensor that one operation keeps in 16 bit and a product as its input: one tensor if that is 16 bit too."""
    return 2 if stored == 2 else 2 + stored


def core_scores(*, dropout: bool) -> int:
    """Per head and score: softmax output 2, dropout mask 1 and output 2. Same, equation 1 (5*a*s*s*b)."""
    return 2 + (3 if dropout else 0)


def mlp_block(*, gated: bool, norm: int, masks: bool, stored: float = 2) -> Terms:
    """Norm input and output, the first projection's output (twice as wide if gated), the second's input, a mask."""
    return add(
        {"r": 2 + stored, "": norm}, {"i": 2 * (2 if gated else 1) + stored}, {"r": 1} if masks else {}
    )


def expert_block(*, gated: bool, norm: int, shared: bool, stored: float = 2) -> Terms:
    """Norm, router probabilities in fp32, dispatched tokens, the experts' projections, and their output to combine.

    The router reads the norm's output in 16 bit; shared experts share that, or have a copy of their own.
    """
    inside = 2 * (2 if gated else 1) + stored
    extra: Terms = {"si": inside, "r": _twice(stored) - 2} if shared else {}
    return add({"r": 4, "": norm, "E": 8, "K": 8}, {"xh": 2 + stored, "xi": inside}, extra)


def latent_block(*, norm: int, masks: bool, stored: float = 2) -> Terms:
    """Multi-head latent attention: compressed latents with their norms beside the decompressed heads.

    The norm before it is no part of a projection; both of those that read it keep their own copy unless it is 16 bit.
    """
    own: Terms = {"r": stored} if stored != 2 else {}
    return add(
        attention_block(norm=norm, masks=masks, stored=stored), {"ql": 2 + stored, "kl": 2 + stored}, own
    )


def megatron_form(layer: Layer, model: ModelSpec, setup: Setup) -> LayerForm:
    """What one layer keeps without recomputation, and what selective recomputation leaves of it."""
    training = setup.training
    masks = bool(training.dropout)
    norm = 8 if model.norm == "layer_norm" else 4
    latent = layer.attention.kind is AttentionKind.MLA
    stored = kept_input_bytes(setup)
    block = latent_block if latent else attention_block
    parts = [block(norm=norm, masks=masks, stored=stored)]
    if has_head_norms(layer, model):
        parts.append({"q": 2, "k": 2, "n": 4, "nk": 4})
    if layer.mlp.kind is MlpKind.MOE:
        shared = bool(layer.mlp.shared_intermediate_size)
        parts.append(expert_block(gated=layer.mlp.gated, norm=norm, shared=shared, stored=stored))
    else:
        parts.append(mlp_block(gated=layer.mlp.gated, norm=norm, masks=masks, stored=stored))
    source: Terms = {}
    if layer.cross_attention is not None:
        parts.append({**attention_block(norm=norm, masks=masks, stored=stored), "k": 0, "v": 0})
        source = {"k": 2, "v": 2}
    widths = widths_of(layer, model, setup)
    unfused = training.attention in {"eager", "transformer_engine_unfused"}
    modules = modules_again(setup)
    scores = core_scores(dropout=masks) if unfused and CORE not in modules else 0
    if not unfused:
        parts.append({"n": 4})
    across = scores if layer.cross_attention is not None else 0
    total = add(*parts)
    gone = left_out(layer, modules, norm=norm, stored=stored)
    again = {width: min(bytes_, total.get(width, 0)) for width, bytes_ in gone.items()}
    between = add(total, scaled(again, -1)) if training.checkpointing == "selective_op" else None
    return LayerForm(
        total, widths, scores, int(widths["n"]) if scores else 0, source, across,
        between=between, again=again if between is not None else {},
    )  # fmt: skip
