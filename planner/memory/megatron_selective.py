"""What Megatron's selective recomputation leaves of a layer: `--recompute-modules`.

Megatron-LM `TransformerConfig.recompute_modules`: `core_attn`, `mlp`, `moe` and `shared_experts` are checkpoints, which
keep what goes in; `moe_act`, `layernorm` and `mla_up_proj` throw away what came out as soon as it was used, and make it
again when the backward pass asks for it (`CheckpointWithoutOutput`).
"""

from typing import Final

from planner.memory.terms import Terms, add
from planner.model.spec import AttentionKind, Layer, MlpKind, Part
from planner.training.setup import Setup

CORE: Final = "core_attn"
MODULES: Final = frozenset({CORE, "moe_act", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts"})
UP_PROJECTIONS: Final = frozenset({"q_b_proj", "kv_b_proj"})


def modules_again(setup: Setup) -> frozenset[str]:
    """Modules that Megatron computes again; its default, `core_attn`, where selective recomputation names none."""
    training = setup.training
    if not setup.megatron or training.checkpointing not in {"selective_op", "selective_attention"}:
        return frozenset()
    return MODULES & frozenset(training.checkpoint_modules or {CORE})


def left_out(layer: Layer, modules: frozenset[str], *, norm: int, stored: float = 2) -> Terms:
    """What is not kept until the backward pass, in bytes per token by width; the attention core's scores apart.

    Args:
        layer: The layer.
        modules: As `modules_again` gives them.
        norm: Bytes of a token's statistics in one norm.
        stored: Bytes per element of a product's input.
    """
    if layer.mlp.kind is MlpKind.MOE:
        return add(_of_attention(layer, modules, stored), _of_experts(layer, modules, stored))
    inside: Terms = {"r": stored, "": norm, "i": wide(layer, stored)} if "mlp" in modules else {}
    return add(_of_attention(layer, modules, stored), inside)


def _of_attention(layer: Layer, modules: frozenset[str], stored: float) -> Terms:
    """A norm by itself, not fused into the projection, stands before latent attention alone.

    Its output is thrown away; copies of it that products have quantized for themselves are not.
    """
    latent = layer.attention.kind is AttentionKind.MLA
    gone: Terms = {"n": 4} if CORE in modules else {}
    if latent and "layernorm" in modules and stored == 2:
        gone = add(gone, {"r": 2})
    if latent and "mla_up_proj" in modules:
        gone = add(gone, {"q": 2, "k": 2, "v": 2, "ql": stored, "kl": stored})
    return gone


def _of_experts(layer: Layer, modules: frozenset[str], stored: float) -> Terms:
    gone: Terms = {"r": 2} if "layernorm" in modules else {}
    shared: Terms = {}
    if layer.mlp.shared_intermediate_size:
        shared = {"si": wide(layer, stored), "r": 0 if stored == 2 else stored}
    if "moe" in modules:
        return add(gone, {"E": 8, "K": 8, "xh": 2 + stored, "xi": wide(layer, stored)}, shared)
    if "moe_act" in modules:
        gone = add(gone, {"xi": stored})
    return add(gone, shared) if "shared_experts" in modules else gone


def wide(layer: Layer, stored: float = 2) -> float:
    """Bytes that an MLP keeps inside per element of its width: the first product's output, the second's input."""
    return 2 * (2 if layer.mlp.gated else 1) + stored


def weights_again(layer: Layer, modules: frozenset[str]) -> tuple[float, float]:
    """Elements of dense matrices, and of the experts a token visits, that it is multiplied with once more."""
    mlp = layer.mlp
    parts: set[Part] = set()
    if mlp.kind is not MlpKind.MOE:
        parts |= {Part.MLP} if "mlp" in modules else set()
    elif "moe" in modules:
        parts |= {Part.ROUTER, Part.EXPERTS, Part.SHARED_EXPERTS}
    elif "shared_experts" in modules:
        parts.add(Part.SHARED_EXPERTS)
    names = UP_PROJECTIONS if "mla_up_proj" in modules else frozenset()
    again = [x for x in layer.linears if x.part in parts or x.name in names]
    experts = sum(x.weight_params for x in again if x.part is Part.EXPERTS)
    dense = sum(x.weight_params for x in again if x.part is not Part.EXPERTS)
    return float(dense), experts * (mlp.experts_per_token / mlp.num_experts if mlp.num_experts else 0.0)
