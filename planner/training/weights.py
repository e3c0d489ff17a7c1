"""Ledger entries of the weights: plain ones by place in the model, packed ones with their constants."""

from collections.abc import Sequence
from typing import Final

from planner.ledger import Category, Entry
from planner.memory import formats
from planner.memory.inventory import Place, Tensor
from planner.memory.low_precision import weight_copies
from planner.memory.terms import item
from planner.training.groups import divided, total
from planner.training.setup import Setup
from planner.units import ceil_div

PLACES: Final[tuple[tuple[Place, str], ...]] = (
    ("embedding", "embedding_weights"),
    ("layers", "layer_weights"),
    ("experts", "expert_weights"),
    ("head", "head_weights"),
    ("other", "other_weights"),
    ("adapter", "adapter_weights"),
)
CUTS_CONSTANTS: Final = frozenset({"torchtune"})
"""Runtimes whose 4-bit weights are torchao's."""


def is_packed(setup: Setup, tensor: Tensor) -> bool:
    """Whether a tensor is in the base's packed format; Lightning's plugin packs every linear, the head as well."""
    head = setup.runtime == "litgpt" and tensor.place == "head" and tensor.is_matrix
    return setup.quantized_base and (tensor.quantizable or head)


def weight_entries(setup: Setup, tensors: Sequence[Tensor]) -> list[Entry]:
    """Weights by place in the model; packed ones with their block constants apart."""
    packed: list[Tensor] = []
    plain: dict[Place, int] = {}
    for t in tensors:
        if setup.quantized_base and is_packed(setup, t):
            packed.append(t)
        else:
            plain[t.place] = plain.get(t.place, 0) + t.params
    entries = [_plain_weights(setup, place, name, plain[place]) for place, name in PLACES if plain.get(place)]
    if packed:
        entries += _packed_weights(setup, packed)
    return [*entries, *weight_copies(setup, tensors)]


def _plain_weights(setup: Setup, place: Place, name: str, params: int) -> Entry:
    ranks = _weight_ranks(setup, place)
    e = setup.train_bytes if place == "adapter" else setup.param_bytes
    if e < 2 and place not in {"layers", "experts"} and setup.compute_bytes == 2 and setup.megatron:
        e = setup.compute_bytes
    held, formula, symbols = divided(params, ranks)
    return item(Category.WEIGHTS, name, held * e, f"{formula}*e", {**symbols, "e": e}, "number_formats")


def _weight_ranks(setup: Setup, place: Place) -> int:
    if place == "adapter":
        return setup.shard_adapters
    return setup.shard_experts if place == "experts" and setup.shard_weights > 1 else setup.shard_weights


def _packed_weights(setup: Setup, packed: Sequence[Tensor]) -> list[Entry]:
    params, ranks = total(packed), setup.shard_weights
    bits = 8 if setup.base in {"int8", "gptq8"} else 4
    held, formula, symbols = divided(params, ranks)
    weights = item(
        Category.WEIGHTS,
        "quantized_weights",
        formats.packed_bytes(held, bits),
        f"ceil({formula}*bits/8)",
        {**symbols, "bits": bits},
        f"format_{setup.base}",
    )
    return [
        weights,
        *_quantization_constants(setup, packed, held if setup.runtime in CUTS_CONSTANTS else params),
    ]


def _quantization_constants(setup: Setup, packed: Sequence[Tensor], params: int) -> list[Entry]:
    """Block constants live beside the weight, not in it: sharding leaves them whole (bitsandbytes, AutoGPTQ).

    torchao's tensors hold theirs and are cut with them (`NF4Tensor`, `_INNER_TENSOR_NAMES_FOR_SHARDING`).
    """
    name, reference = "quantization_constants", f"format_{setup.base}"
    match setup.base:
        case "nf4":
            amount, text = formats.nf4_scale_bytes(params), "ceil(P/64)*4"
        case "nf4_dq":
            amount, text = formats.nf4_double_scale_bytes(params), "ceil(P/64) + ceil(P/16384)*4"
        case "int8":
            rows = sum(t.rows * t.count for t in packed)
            return [
                item(
                    Category.WEIGHTS,
                    name,
                    formats.int8_scale_bytes(rows),
                    "4*rows",
                    {"rows": rows},
                    reference,
                )
            ]
        case _:
            return [_gptq_constants(setup, packed, params)]
    return [item(Category.WEIGHTS, name, amount, text, {"P": params}, reference)]


def _gptq_constants(setup: Setup, packed: Sequence[Tensor], params: int) -> Entry:
    columns = sum(t.columns * t.count for t in packed)
    bits = formats.packed_bits(setup.base)
    if setup.gptq_group <= 0:
        groups, symbol = sum(t.rows * t.count for t in packed), "rows"
        formula = f"{symbol}*2 + ceil({symbol}*bits/8) + 4*columns"
        shown: dict[str, int | float] = {symbol: groups}
    else:
        groups, formula = (
            ceil_div(params, setup.gptq_group),
            "ceil(P/g)*2 + ceil(ceil(P/g)*bits/8) + 4*columns",
        )
        shown = {"P": params, "g": setup.gptq_group}
    return item(
        Category.WEIGHTS,
        "quantization_constants",
        formats.gptq_scale_bytes(groups, bits) + formats.gptq_index_bytes(columns),
        formula,
        {**shown, "bits": bits, "columns": columns},
        f"format_{setup.base}",
    )
