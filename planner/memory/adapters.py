"""Which matrices an adapter acts on, and the tensors it adds.

Targets are matched as PEFT does (the whole name or its last part), then by role, so that a runtime's own name for a
projection (`c_attn`, `W_pack`, `output_proj`, ...) finds the model's.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from planner.memory.inventory import Division, Tensor
from planner.model.spec import Layer, Linear, ModelSpec, Part, Split
from planner.scenario import Adapter
from planner.units import ceil_div

DEFAULT_RANK: Final = 8
"""PEFT `LoraConfig.r`."""

DEFAULT_TARGETS: Final = ("q_proj", "v_proj")
"""PEFT's default targets for Llama and its relatives (`TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING`)."""

DENOISER_TARGETS: Final = ("to_q", "to_k", "to_v", "to_out.0")
"""What diffusers' LoRA training scripts adapt unless told otherwise (`train_text_to_image_lora_sdxl.py`)."""

ROLES: Final[dict[str, frozenset[str]]] = {
    "q": frozenset({"q_proj", "query", "q", "wq", "linear_q"}),
    "k": frozenset({"k_proj", "key", "k", "wk", "linear_k"}),
    "v": frozenset({"v_proj", "value", "v", "wv", "linear_v"}),
    "qkv": frozenset(
        {"c_attn", "W_pack", "query_key_value", "qkv_proj", "Wqkv", "wqkv", "in_proj", "linear_qkv"}
    ),
    "o": frozenset(
        {"o_proj", "out_proj", "output_proj", "dense", "c_proj", "wo", "linear_proj", "attention.dense"}
    ),
    "gate": frozenset({"gate_proj", "w1"}),
    "up": frozenset({"up_proj", "w3", "fc1", "c_fc", "fc_in", "dense_h_to_4h", "linear_fc1", "wi"}),
    "gate_up": frozenset({"gate_up_proj"}),
    "down": frozenset({"down_proj", "w2", "fc2", "c_proj", "fc_out", "dense_4h_to_h", "linear_fc2", "wo"}),
}
_ATTENTION_ROLES: Final = frozenset({"q", "k", "v", "qkv", "o"})
_QWEN_UP: Final = {"w1": "up", "w2": "gate", "c_proj": "down"}
"""Qwen's first generation: `w1` and `w2` both read the layer's input, `c_proj` is the down projection."""

HEAD_NAMES: Final = frozenset({"lm_head", "output", "embed_out", "output_layer"})
EMBEDDING_NAMES: Final = frozenset({"embed_tokens", "wte", "embed_in", "tok_embeddings", "word_embeddings"})


def adapter_rank(adapter: Adapter) -> int:
    """The rank, PEFT's default if not given."""
    return adapter.rank or DEFAULT_RANK


def targets_of(adapter: Adapter) -> tuple[str, ...]:
    """Target names; empty for `all_linear`."""
    if adapter.targets == "all_linear":
        return ()
    return adapter.targets or DEFAULT_TARGETS


def roles_of(name: str, targets: tuple[str, ...]) -> frozenset[str]:
    """The roles a target name can mean."""
    if name in _QWEN_UP and "c_proj" in targets and "w1" in targets:
        return frozenset({_QWEN_UP[name]} | ({"o"} if name == "c_proj" else set()))
    return frozenset(role for role, names in ROLES.items() if name in names)


def role_of(linear: Linear) -> str:
    """The role of a model's own matrix, `""` if none is known."""
    last = linear.name.rsplit(".", 1)[-1]
    attention = linear.part is Part.ATTENTION
    found = [r for r, names in ROLES.items() if last in names and (r in _ATTENTION_ROLES) == attention]
    return found[0] if found else ""


def matches(linear: Linear, target: str) -> bool:
    """PEFT's rule: the whole name, or its last part after a dot."""
    return linear.name == target or linear.name.endswith("." + target)


def layer_sites(layer: Layer, adapter: Adapter) -> tuple[Linear, ...]:
    """The matrices of one layer that get an adapter, fused ones as the adapter sees them."""
    targets = targets_of(adapter)
    if not targets:
        return tuple(linear for linear in layer.linears if not linear.convolution)
    sites: dict[str, Linear] = {}
    for target in targets:
        exact = [linear for linear in layer.linears if matches(linear, target)]
        for linear in exact or _by_role(layer, roles_of(target, targets)):
            sites[linear.name] = linear
    return tuple(sites.values())


def block_sites(model: ModelSpec, adapter: Adapter) -> tuple[Linear, ...]:
    """The matrices outside the layers that get an adapter, where they are known one by one."""
    targets = targets_of(adapter)
    return tuple(
        linear
        for block in model.blocks
        for linear in block.linears
        if not targets or any(matches(linear, target) for target in targets)
    )


def _by_role(layer: Layer, wanted: frozenset[str]) -> Iterator[Linear]:
    own = {role_of(linear): linear for linear in layer.linears if linear.part is not Part.SHARED_EXPERTS}
    for role in wanted:
        if role in own:
            yield own[role]
        elif role == "qkv" and {"q", "k", "v"} <= own.keys():
            width = sum(own[part].out_features for part in "qkv")
            yield replace(own["q"], name="qkv", out_features=width, bias_features=0)
        elif role in {"q", "k", "v"} and "qkv" in own:
            yield from _part_of_fused(own["qkv"], role, layer)
        elif role in {"gate", "up"} and "gate_up" in own:
            half = own["gate_up"].out_features // 2
            yield replace(
                own["gate_up"], name=f"{own['gate_up'].name}.{role}", out_features=half, bias_features=0
            )


def _part_of_fused(fused: Linear, role: str, layer: Layer) -> Iterator[Linear]:
    """Queries, keys or values of one matrix; a state space's `in_proj` has none."""
    shape = layer.attention
    widths = {"q": shape.q_width, "k": shape.k_width, "v": shape.v_width}
    if sum(widths.values()) == fused.out_features:
        yield replace(fused, name=f"{fused.name}.{role}", out_features=widths[role], bias_features=0)


def head_is_target(model: ModelSpec, adapter: Adapter) -> bool:
    """Whether the output matrix gets an adapter (`all_linear` leaves it out, as PEFT does)."""
    head = model.head
    return head is not None and any(t == head.name or t in HEAD_NAMES for t in targets_of(adapter))


def acts_on_any(model: ModelSpec, adapter: Adapter) -> bool:
    """Whether any matrix of the model gets an adapter: names alone do not tell, an alias may stand for nothing."""
    return (
        any(layer_sites(layer, adapter) for layer, _ in model.distinct_layers())
        or bool(block_sites(model, adapter))
        or head_is_target(model, adapter)
    )


def site_tensors(site: Linear, adapter: Adapter, division: Division, count: int) -> Iterator[Tensor]:
    """The tensors an adapter adds to one matrix in each of `count` layers, as one tensor-parallel rank holds them.

    The side that touches the divided dimension is divided with it, the other is whole on every rank.
    """
    experts = site.part is Part.EXPERTS
    ranks = division.expert_tensor if experts else division.tensor
    rows, columns = site.out_features, site.in_features
    if site.split in {Split.COLUMN, Split.VOCAB}:
        rows = ceil_div(rows, ranks)
    elif site.split is Split.ROW:
        columns = ceil_div(columns, ranks)
    copies = (ceil_div(site.copies, division.expert) if experts else site.copies) * count
    rank = adapter_rank(adapter)
    match adapter.method:
        case "ia3":
            yield Tensor(rows, 1, copies, "adapter")
        case "vera":
            yield Tensor(rows, 1, copies, "adapter")
            yield Tensor(rank, 1, copies, "adapter")
        case "loha":
            yield Tensor(rank, columns, 2 * copies, "adapter")
            yield Tensor(rows, rank, 2 * copies, "adapter")
        case _:
            yield Tensor(rank, columns, copies, "adapter")
            yield Tensor(rows, rank, copies, "adapter")
            if adapter.method == "dora":
                yield Tensor(rows, 1, copies, "adapter")
            elif adapter.method == "adalora":
                yield Tensor(rank, 1, copies, "adapter")


PROMPT_METHODS: Final = frozenset({"prefix", "prompt", "p_tuning", "adaption_prompt", "adaption_prompt_v2"})


def prompt_tensors(layer: Layer, adapter: Adapter, hidden: int, count: int) -> Iterator[Tensor]:
    """What prompt methods add to a layer: learned keys and values, or learned tokens with a gate per head.

    `adaption_prompt` is LLaMA-Adapter (arXiv 2303.16199); its second version adds a scale and a bias to every output
    (arXiv 2304.15010).
    """
    tokens = adapter.virtual_tokens or 10
    if adapter.method == "prefix":
        yield Tensor(tokens, layer.attention.k_width + layer.attention.v_width, count, "adapter")
    elif adapter.method in {"adaption_prompt", "adaption_prompt_v2"}:
        yield Tensor(tokens, hidden, count, "adapter")
        yield Tensor(max(1, layer.attention.num_heads), 1, count, "adapter")
    if adapter.method == "adaption_prompt_v2":
        yield Tensor(sum(linear.out_features for linear in layer.linears), 2, count, "adapter")
