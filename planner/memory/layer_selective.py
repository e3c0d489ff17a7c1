"""What selective checkpointing leaves of a layer until its backward pass."""

from planner.memory.kv_cache import STATEFUL
from planner.memory.layer_adapters import copies_output, shares_output
from planner.memory.layer_attention import attention_core
from planner.memory.layer_view import View
from planner.memory.terms import Terms, add, scaled
from planner.model.spec import MlpKind, Part, Split
from planner.training.setup import Setup
from planner.training.titan import (
    EXCHANGE_KEPT_SINCE,
    GATE_AGAIN_SINCE,
    PRODUCTS_KEPT_SINCE,
    combines_by_product,
    since,
)
from planner.units import ceil_div


def kept_between(view: View, total: Terms, widths: dict[str, float]) -> Terms | None:
    """What selective checkpointing leaves of a layer until its backward pass, None where it leaves everything.

    Args:
        view: The layer.
        total: What it keeps without checkpointing.
        widths: Its widths; the one of kept products (`m`) is added.
    """
    share = view.setup.keeps_frac
    if share < 1:
        stored: Terms = {view.residual: view.setup.residual_bytes}
        return add(scaled(total, share), scaled(stored, 1 - share))
    if view.layer.attention.kind in STATEFUL:
        return None
    match view.setup.training.checkpointing:
        case "selective_attention":
            return add(
                total, scaled(attention_core(view, eager=view.makes_scores), -1), _attention_inputs(view)
            )
        case "selective_op":
            widths["m"] = kept_products(view)
            return _kept_by_op(view)
    return None


def made_again(view: View, total: Terms, between: Terms) -> Terms:
    """What the layer's backward pass makes again beside what is kept between.

    What goes into the attention function and is kept wider than its products read it is cast once more.
    """
    less = add(total, scaled(between, -1))
    if view.setup.training.checkpointing != "selective_attention":
        return less
    return {width: bytes_ if bytes_ >= 0 else view.setup.compute_bytes for width, bytes_ in less.items()}


def _attention_inputs(view: View) -> Terms:
    """What a checkpoint around the attention function keeps, and its output where only the kernel had kept that.

    Rotary positions in fp32 make fp32 queries and keys, which are cast inside.
    """
    setup, e = view.setup, view.setup.compute_bytes
    rotates = setup.autocast and view.model.position_embedding == "rope"
    widened = setup.residual_bytes if rotates else setup.product_bytes
    inputs: Terms = {"q": widened, "k": widened, "v": setup.product_bytes} if view.heads else {}
    _, outs = view.linears(Part.ATTENTION)
    _, out_sites = view.adapted(Part.ATTENTION)
    whole = setup.adapter is None
    kernel = not view.makes_scores and not copies_output(view)
    alone = bool(outs) and kernel if whole else bool(out_sites) and shares_output(view)
    return add(inputs, {"o": e}) if alone else inputs


def _kept_by_op(view: View) -> Terms:
    """The layer's input, every second product's output and a fused attention's (torchtitan `_get_custom_policy`).

    Torchtitan also keeps what the two all-to-alls of routed experts put out, at balanced load.
    """
    setup, e = view.setup, view.setup.compute_bytes
    kept = add({view.residual: setup.residual_bytes, "m": e}, exchanged(setup), _combined(view))
    return kept if view.makes_scores or not view.heads else add(kept, {"o": e, "n": 4})


def exchanged(setup: Setup) -> Terms:
    """What selective checkpointing keeps of the exchange with other ranks' experts: tokens received, and sent back."""
    kept = setup.parallel.expert > 1 and setup.training.checkpointing == "selective_op"
    held = kept and since(setup.runtime, setup.version, EXCHANGE_KEPT_SINCE)
    return {"xh": 2 * setup.compute_bytes} if held else {}


def _combined(view: View) -> Terms:
    """The product that combines the experts' outputs, in fp32."""
    setup = view.setup
    kept = since(setup.runtime, setup.version, PRODUCTS_KEPT_SINCE)
    made = view.layer.mlp.kind is MlpKind.MOE and combines_by_product(setup.runtime, setup.version)
    return {"h": 4} if kept and made else {}


def kept_products(view: View) -> int:
    """Elements per token that every second matrix product of a layer puts out, as one device holds them.

    Only plain products count (`aten.mm`): those with a bias are one operator with it, and grouped experts are another.
    A router's is left out by torchtitan (`per_op_sac_force_recompute_mm_shapes_by_fqns`); its graph trainer keeps
    every one (`_make_default_memory_policy`).
    """
    setup, every = view.setup, 1 if view.setup.whole_graph else 2
    routes = every == 1 or not since(setup.runtime, setup.version, GATE_AGAIN_SINCE)
    left_out = {Part.EXPERTS} if routes else {Part.EXPERTS, Part.ROUTER}
    ranks, products = (
        setup.division.tensor,
        (x for x in view.layer.linears if x.part not in left_out and not x.bias_features),
    )
    return sum(
        x.out_features if x.split is Split.ROW else ceil_div(x.out_features, ranks)
        for number, x in enumerate(products)
        if number % every == 0
    )
