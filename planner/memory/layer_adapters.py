"""What matrices keep of their input, with an adapter on them or without."""

from collections.abc import Sequence
from typing import Final

from planner.memory import activations as act
from planner.memory.layer_view import RUNS_TRANSFORMERS, View
from planner.memory.terms import Terms, add
from planner.model.spec import Linear, MlpKind, Part, Split
from planner.units import ceil_div

CATS_HEADS: Final = frozenset({"phi3", "phi", "gpt_neox", "gptj", "stablelm", "glm", "glm4", "persimmon"})
"""Classes whose `apply_rotary_pos_emb` rotates a part of each head."""


def scaled_outputs(view: View) -> int:
    """Outputs per token of the matrices with an adapter, as one device holds them; routed experts for each visit."""
    ranks, visits = view.setup.division.tensor, view.layer.mlp.experts_per_token
    found = ((site, visits if site.part is Part.EXPERTS else 1) for site in view.sites)
    return sum(
        times * (site.out_features if site.split is Split.ROW else ceil_div(site.out_features, ranks))
        for site, times in found
    )


def kept_inputs(view: View, x: str, linears: Sequence[Linear], sites: Sequence[Linear], given: int) -> Terms:
    """What matrices that read one tensor of width `x` keep of it."""
    setup = view.setup
    if setup.adapter is None:
        return act.shared_input(x, len(linears), given=given, e=setup.compute_bytes) if linears else {}
    return adapter_inputs(view, x, sites, given) if sites else {}


def adapter_inputs(view: View, x: str, sites: Sequence[Linear], given: int) -> Terms:
    """What adapters on matrices that read one tensor of width `x` keep of it, and their own middle."""
    setup, e = view.setup, view.setup.compute_bytes
    dropout = bool(setup.adapter and setup.adapter.dropout)
    middle = act.adapter_middle(len(sites), dtype=setup.train_bytes, e=e, autocast=setup.autocast)
    if "lora_attention" in view.kernels and x in {"h", "o"} and sites[0].part is Part.ATTENTION:
        return add(middle, act.fused_adapter_input(x, len(sites), e=e, dropout=dropout))
    inputs = act.adapter_input(
        x,
        len(sites),
        given=given,
        dtype=setup.train_bytes,
        e=e,
        autocast=setup.autocast,
        dropout=dropout,
        packed=setup.quantized_base,
    )
    return middle if x == "o" and shares_output(view) else add(middle, inputs)


def shares_output(view: View) -> bool:
    """Whether an adapter on the output projection reads what a fused attention keeps by itself."""
    setup, e = view.setup, view.setup.compute_bytes
    dropout = bool(setup.adapter and setup.adapter.dropout)
    shares = act.adapter_shares(
        given=e, dtype=setup.train_bytes, e=e, autocast=setup.autocast, packed=setup.quantized_base
    )
    return shares and not dropout and not view.makes_scores and not copies_output(view)


def copies_output(view: View) -> bool:
    """Whether a fused attention's output lies as its heads do, so that the output projection gets a copy.

    The kernel makes it as the query lies (`at::empty_like(q)`); rotary positions on a part of each head put the query
    together anew (`torch.cat`), heads before tokens, where others leave it as the projection made it.
    """
    rotates = view.model.model_type in CATS_HEADS and view.model.position_embedding == "rope"
    flash = not view.makes_scores and view.setup.compute_bytes < 4
    return rotates and flash and view.setup.runtime in RUNS_TRANSFORMERS


def adapter_masks(view: View) -> Terms:
    """One byte an element of every adapter's dropped input; fused adapter kernels keep none."""
    adapter = view.setup.adapter
    if adapter is None or not adapter.dropout:
        return {}
    moe = view.layer.mlp.kind is MlpKind.MOE
    sources = ((Part.ATTENTION, "h", "o"), (Part.EXPERTS, "xh", "xi") if moe else (Part.MLP, "h", "i"))
    masks: Terms = {}
    for part, reads, ends in sources:
        if part is Part.ATTENTION and "lora_attention" in view.kernels:
            continue
        sites, out_sites = view.adapted(part)
        masks = add(masks, {reads: len(sites), ends: len(out_sites)})
    return {x: count for x, count in masks.items() if count}
