"""What a layer's feed-forward part keeps, dense or routed to experts."""

from typing import Final

from planner.memory import activations as act
from planner.memory.layer_adapters import adapter_inputs, kept_inputs
from planner.memory.layer_view import RUNS_TRANSFORMERS, View, expert_bytes, groups_experts
from planner.memory.terms import Terms, add
from planner.model.spec import MlpKind, Part
from planner.training.titan import combines_by_product

COMBINES_IN_FP32: Final = frozenset({"torchtitan"})
"""Runtimes that weight the routed tokens in fp32, which keeps that copy (torchtitan `MoE.forward`)."""
FP32_ROUTERS: Final = frozenset({"deepseek_v2", "deepseek_v3", "glm4_moe"})
"""Classes whose router multiplies in fp32, with a copy of its input (`hidden_states.type(torch.float32)`)."""


def feed_kept(view: View) -> list[Terms]:
    """What the feed-forward part keeps: its input alone where each piece of the sequence is computed again."""
    return feed(view) if view.setup.chunks == 1 else [{"h": view.norm_output_bytes}]


def feed_inside(view: View) -> Terms:
    """What it keeps of the piece in work."""
    if view.setup.chunks == 1 or view.layer.mlp.kind is MlpKind.NONE:
        return {}
    return {x: c for x, c in add(*feed(view)).items() if x != "h"}


def feeds_untrained(view: View) -> bool:
    """Whether nothing before or in the feed-forward part of a parallel block is trained, so that it keeps nothing."""
    sites = (x for x in view.sites if x.part is not Part.ATTENTION)
    return not view.stream and view.model.parallel_residual and not any(sites)


def feed(view: View) -> list[Terms]:
    """What a dense or a routed feed-forward part keeps."""
    if view.layer.mlp.kind is not MlpKind.MOE:
        return _dense(view, Part.MLP, "i")
    parts = _routed(view)
    if view.layer.mlp.shared_intermediate_size:
        parts += _dense(view, Part.SHARED_EXPERTS, "si")
    return parts


def activation(view: View, width: str, e: int) -> Terms:
    """What the activation between the matrices keeps, over one width."""
    setup, model = view.setup, view.model
    if view.layer.mlp.gated:
        one = model.hidden_act in act.ONE_TENSOR
        kept = act.gated_mlp(e=e, fused="swiglu" in view.kernels, one_tensor=one)
    else:
        widened = setup.autocast
        name = model.hidden_act if setup.runtime in RUNS_TRANSFORMERS else act.fused_name(model.hidden_act)
        kept = act.plain_mlp(name, e=e, autocast=widened, read=_reads_product(view))
    return {width: kept["i"]}


def _reads_product(view: View) -> bool:
    """Whether the matrix after the activation, or its adapter, keeps the very tensor that the activation put out."""
    setup = view.setup
    if setup.adapter is None:
        return True
    _, down = view.adapted(Part.MLP)
    given = setup.product_bytes
    return (
        bool(down)
        and not setup.adapter.dropout
        and act.adapter_shares(
            given=given,
            dtype=setup.train_bytes,
            e=setup.compute_bytes,
            autocast=setup.autocast,
            packed=setup.quantized_base,
        )
    )


def _dense(view: View, part: Part, width: str) -> list[Terms]:
    ups, downs = view.linears(part)
    up_sites, down_sites = view.adapted(part)
    return [
        kept_inputs(view, "h", ups, up_sites, view.norm_output_bytes),
        activation(view, width, view.setup.product_bytes),
        kept_inputs(view, width, downs, down_sites, view.setup.compute_bytes),
    ]


def _routed(view: View) -> list[Terms]:
    """Routed experts at balanced load: inputs gathered per expert, and outputs kept for the routing weights.

    The router keeps its input, the fp32 softmax over all experts, and the chosen weights and indices. Grouped products
    sort the tokens by expert, and keep that order, its inverse and the weights in it
    (transformers `grouped_mm_experts_forward`).
    """
    router = view.setup.compute_bytes
    grouped, e = groups_experts(view.setup), expert_bytes(view.setup)
    chosen: Terms = {"E": 4, "K": 40, "": 4} if grouped else {"E": 4 + router, "K": 16}
    parts: list[Terms] = [chosen, {"xh": e}, activation(view, "xi", e)]
    if view.setup.adapter is None:
        combined = 4 if view.setup.runtime in COMBINES_IN_FP32 else e
        wide = view.model.model_type in FP32_ROUTERS and view.setup.runtime in RUNS_TRANSFORMERS
        width = "xo" if combines_by_product(view.setup.runtime, view.setup.version) else "xh"
        return [*parts, {"h": 4 if wide else router, width: combined, "xi": e}]
    ups, downs = view.adapted(Part.EXPERTS)
    for width, sites in (("xh", ups), ("xi", downs)):
        if sites:
            parts.append(adapter_inputs(view, width, sites, e))
    return parts
