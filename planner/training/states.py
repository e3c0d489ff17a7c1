"""Ledger entries of what is there between steps: weights, gradients, master copy, optimizer states."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from planner.ledger import ALWAYS, Category, Entry, Phase
from planner.memory import formats, optimizer
from planner.memory.inventory import Place, Tensor
from planner.memory.terms import item
from planner.training.setup import STATE_OPTIMIZERS_8BIT, Setup
from planner.units import ceil_div

PLACES: Final[tuple[tuple[Place, str], ...]] = (
    ("embedding", "embedding_weights"),
    ("layers", "layer_weights"),
    ("experts", "expert_weights"),
    ("head", "head_weights"),
    ("other", "other_weights"),
    ("adapter", "adapter_weights"),
)
STEPPED: Final = ("embedding", "layers", "experts", "head")
"""Places in the order of a model's parameters."""

ZERO3_SUB_GROUP: Final = 1_000_000_000
"""DeepSpeed `sub_group_size`, in elements."""
ZERO3_BUFFERS_SINCE: Final = (0, 5, 10)
ZERO3_BUFFERS_DATE: Final = (2022, 1)
FIRST_YEAR: Final = 2019
CUTS_CONSTANTS: Final = frozenset({"torchtune"})
"""Runtimes whose 4-bit weights are torchao's."""
FLATTENING_YEAR: Final = 2021
OPTIMIZER_PHASES: Final = frozenset({Phase.OPTIMIZER_STEP})
TRAINER_LOOPS: Final = frozenset({"hf_trainer", "unsloth"})
"""Runtimes around transformers' Trainer, which has an Adafactor of its own (`transformers.optimization.Adafactor`)."""
NO_TEMPORARY: Final = STATE_OPTIMIZERS_8BIT | {"sgd", "sgd_momentum"}
"""Optimizers that step in place: fused 8-bit kernels, and SGD without weight decay (`_foreach_add_`)."""


@dataclass(frozen=True, slots=True)
class Group:
    """Tensors sharded over the same ranks.

    Attributes:
        prefix: `""`, or `expert_` for routed experts (their own data-parallel group).
        tensors: The tensors.
        params: Their elements.
    """

    prefix: str
    tensors: tuple[Tensor, ...]
    params: int


def grouped(tensors: Iterable[Tensor]) -> tuple[Group, ...]:
    """Dense tensors and routed experts apart; empty groups left out."""
    dense = tuple(t for t in tensors if t.place != "experts")
    experts = tuple(t for t in tensors if t.place == "experts")
    groups = (Group("", dense, total(dense)), Group("expert_", experts, total(experts)))
    return tuple(group for group in groups if group.params)


def total(tensors: Iterable[Tensor]) -> int:
    """Elements of all tensors."""
    return sum(tensor.params for tensor in tensors)


def divided(params: int, ranks: int, symbol: str = "P") -> tuple[int, str, dict[str, int | float]]:
    """Elements on one rank, the formula, and its symbols."""
    if ranks == 1:
        return params, symbol, {symbol: params}
    return ceil_div(params, ranks), f"ceil({symbol}/N)", {symbol: params, "N": ranks}


def is_packed(setup: Setup, tensor: Tensor) -> bool:
    """Whether a tensor is in the base's packed format; Lightning's plugin packs every linear, the head as well."""
    head = setup.runtime == "litgpt" and tensor.place == "head" and tensor.is_matrix
    return setup.quantized_base and (tensor.quantizable or head)


def weight_entries(setup: Setup, tensors: Sequence[Tensor]) -> list[Entry]:
    """Weights by place in the model; packed ones with their block constants apart."""
    packed = [t for t in tensors if is_packed(setup, t)]
    plain: dict[Place, int] = {}
    for t in tensors:
        if not is_packed(setup, t):
            plain[t.place] = plain.get(t.place, 0) + t.params
    entries = [_plain_weights(setup, place, name, plain[place]) for place, name in PLACES if plain.get(place)]
    if packed:
        entries += _packed_weights(setup, packed)
    return entries


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


def shard_of(setup: Setup, group: Group, ranks: int) -> int:
    """Ranks a group's share is divided over, where `ranks` is what dense tensors are divided over."""
    return setup.shard_experts if group.prefix and ranks > 1 else ranks


def master_entries(setup: Setup, groups: Sequence[Group]) -> list[Entry]:
    """The optimizer's own copy of the parameters."""
    entries = []
    for group in groups if setup.master_bytes and setup.parallel.offload.optimizer == "none" else ():
        held, formula, symbols = divided(group.params, shard_of(setup, group, setup.shard_states))
        e = setup.master_bytes
        entries.append(
            item(
                Category.OPTIMIZER,
                f"{group.prefix}master_weights",
                held * e,
                f"{formula}*e",
                {**symbols, "e": e},
                "mixed_precision",
            )
        )
    return entries


def state_entries(setup: Setup, groups: Sequence[Group]) -> list[Entry]:
    """The optimizer's states on the device."""
    if setup.parallel.offload.optimizer != "none" or setup.optimizer.paged:
        return []
    return [entry for group in groups for entry in _states(setup, group)]


def _states(setup: Setup, group: Group) -> list[Entry]:
    name, ranks = setup.optimizer.name, shard_of(setup, group, setup.shard_states)
    label, e = f"{group.prefix}optimizer_states", setup.state_bytes
    if name in STATE_OPTIMIZERS_8BIT or (name in optimizer.MOMENTS and e < 2):
        return _states_8bit(setup, group, ranks, label)
    match name:
        case "adafactor":
            return [_adafactor(setup, group, ranks, label)]
        case "muon":
            return [_muon(setup, group, ranks, label)]
        case "galore":
            return _galore(setup, group, ranks, label)
    moments = optimizer.MOMENTS[name]
    held, formula, symbols = divided(group.params, ranks)
    text = f"{moments}*{formula}*e" if moments != 1 else f"{formula}*e"
    return [
        item(Category.OPTIMIZER, label, moments * held * e, text, {**symbols, "e": e}, f"optimizer_{name}")
    ]


def _states_8bit(setup: Setup, group: Group, ranks: int, label: str) -> list[Entry]:
    name = setup.optimizer.name
    moments = optimizer.MOMENTS.get(name, 2)
    small = total(t for t in group.tensors if optimizer.is_small(t))
    large, formula, symbols = divided(group.params - small, ranks)
    rest, rest_formula, rest_symbols = divided(small, ranks, "S")
    return [
        item(
            Category.OPTIMIZER,
            label,
            optimizer.state_8bit_bytes(large, moments) + 4 * moments * rest,
            f"{moments}*({formula} + 4*ceil({formula}/256)) + {4 * moments}*{rest_formula}",
            {**symbols, **rest_symbols},
            "optimizer_8bit",
        )
    ]


def own_adafactor(setup: Setup) -> bool:
    """Whether the step is transformers' own Adafactor, which works in fp32; PyTorch's states are like the gradient."""
    return setup.optimizer.name == "adafactor" and setup.runtime in TRAINER_LOOPS


def _adafactor(setup: Setup, group: Group, ranks: int, label: str) -> Entry:
    own = own_adafactor(setup) and setup.training.precision.optimizer is None
    e = 4 if own else setup.state_bytes
    factored, vectors = optimizer.adafactor_factored(group.tensors), optimizer.vector_params(group.tensors)
    held, formula, symbols = divided(factored + vectors, ranks, "(R + V)")
    shown: dict[str, int | float] = {"R": factored, "V": vectors, "e": e}
    if ranks > 1:
        shown["N"] = symbols["N"]
    return item(Category.OPTIMIZER, label, held * e, f"{formula}*e", shown, "optimizer_adafactor")


def _muon(setup: Setup, group: Group, ranks: int, label: str) -> Entry:
    matrices = total(t for t in group.tensors if optimizer.takes_muon(t))
    rest, e = group.params - matrices, setup.state_bytes
    held, formula, _ = divided(matrices + 2 * rest, ranks, "(M + 2*A)")
    symbols: dict[str, int | float] = {"M": matrices, "A": rest, "e": e}
    if ranks > 1:
        symbols["N"] = ranks
    return item(Category.OPTIMIZER, label, held * e, f"{formula}*e", symbols, "optimizer_muon")


def _galore(setup: Setup, group: Group, ranks: int, label: str) -> list[Entry]:
    rank, e = setup.optimizer.rank or 128, setup.state_bytes
    projected = [t for t in group.tensors if optimizer.takes_muon(t)]
    states = sum(optimizer.galore_states(t.rows, t.columns, rank) * t.count for t in projected)
    bases = sum(optimizer.galore_projector(t.rows, t.columns, rank) * t.count for t in projected)
    rest = group.params - total(projected)
    held, formula, _ = divided(states + 2 * rest, ranks, "(G + 2*A)")
    symbols: dict[str, int | float] = {"G": states, "A": rest, "e": e}
    base_held, base_formula, base_symbols = divided(bases, ranks, "J")
    if ranks > 1:
        symbols["N"] = ranks
    width = setup.train_bytes
    return [
        item(Category.OPTIMIZER, label, held * e, f"{formula}*e", symbols, "optimizer_galore"),
        item(
            Category.OPTIMIZER,
            f"{group.prefix}projections",
            base_held * width,
            f"{base_formula}*e",
            {**base_symbols, "e": width},
            "optimizer_galore",
        ),
    ]


def foreach_entries(setup: Setup, groups: Sequence[Group]) -> list[Entry]:
    """The step's own temporary: `foreach` makes one tensor as large as everything it steps, `single` a few tensors."""
    if setup.optimizer.in_backward or setup.parallel.offload.optimizer != "none":
        return []
    kind, e = setup.optimizer.implementation or "foreach", max(setup.train_bytes, setup.master_bytes)
    e = 4 if own_adafactor(setup) else e
    fused = kind == "fused" and setup.optimizer.name != "adafactor"
    if fused or setup.optimizer.name in NO_TEMPORARY or setup.optimizer.paged:
        return []
    entries, alone = [], kind == "single" or setup.optimizer.name in {"adafactor", "muon", "galore"}
    for group in groups:
        params = _single_temporary(setup, group.tensors) if alone else group.params
        held, formula, symbols = divided(params, shard_of(setup, group, setup.shard_states))
        entries.append(
            item(
                Category.OPTIMIZER,
                f"{group.prefix}step_temporary",
                held * e,
                f"{formula}*e",
                {**symbols, "e": e},
                "foreach_temporary",
                phases=OPTIMIZER_PHASES,
            )
        )
    return [max(entries, key=lambda entry: entry.bytes)] if alone and entries else entries


def step_tensors(setup: Setup) -> int:
    """Tensors as large as the parameter that the step of a single one makes: a fused kernel and SGD none."""
    kind, name = setup.optimizer.implementation or "foreach", setup.optimizer.name
    if (kind == "fused" and name != "adafactor") or name in NO_TEMPORARY or setup.optimizer.paged:
        return 0
    return 2 if kind == "single" and name != "adafactor" else 1


def _single_temporary(setup: Setup, tensors: Sequence[Tensor]) -> int:
    """Elements that a loop over parameters has at once: what it makes of one, while the one before is not yet dropped.

    PyTorch's Adam makes two (`_single_tensor_adam`: the root and what is divided of it, then named `denom`), Adafactor
    one (`_single_tensor_adafactor`: `var_estimate`, named `update`). transformers' Adafactor squares the gradient and
    adds to it, which makes two in fp32, beside fp32 copies of a 16-bit parameter and its gradient.
    """
    if setup.optimizer.name in {"muon", "galore"}:
        return max(t.parameter for t in tensors)
    made = 1 if setup.optimizer.name == "adafactor" else 2
    if own_adafactor(setup):
        made = 2 if setup.train_bytes == 4 else 4
    before, most = 0, 0
    for tensor in sorted(
        tensors, key=lambda t: STEPPED.index(t.place) if t.place in STEPPED else len(STEPPED)
    ):
        if not tensor.is_matrix:
            continue
        alike = tensor.count > tensor.stack and tensor.place == "experts" and tensor.stack == 1
        last = tensor.parameter if alike else 0 if tensor.place == "head" else before
        most, before = max(most, made * tensor.parameter + last), tensor.parameter
    return most or max(t.parameter for t in tensors)


def deepspeed_entries(setup: Setup, groups: Sequence[Group]) -> list[Entry]:
    """ZeRO's step casts the gradients of this rank's partition to fp32; stage 3 one sub-group at a time."""
    if setup.megatron or setup.parallel.sharding not in {"zero1", "zero2", "zero3"} or not setup.master_bytes:
        return []
    cap = ZERO3_SUB_GROUP if setup.parallel.sharding == "zero3" else None
    entries = []
    for group in groups:
        held, formula, symbols = divided(group.params, shard_of(setup, group, setup.shard_states))
        if cap is not None:
            held, formula = min(held, cap), f"min({formula}, {cap})"
        entries.append(
            item(
                Category.GRADIENTS,
                f"{group.prefix}gradients_fp32",
                held * 4,
                f"{formula}*4",
                symbols,
                "zero_step",
                phases=OPTIMIZER_PHASES,
            )
        )
    return entries


def flattened_entries(setup: Setup, groups: Sequence[Group]) -> list[Entry]:
    """Megatron-LM of 2021 flattens all gradients into one tensor to reduce them (`LocalDDP.allreduce_params`)."""
    if not setup.megatron or not setup.version or setup.version[0] != FLATTENING_YEAR:
        return []
    params, e = sum(group.params for group in groups), setup.gradient_bytes
    return [
        item(
            Category.COMMUNICATION,
            "flattened_gradients",
            params * e,
            "P*e",
            {"P": params, "e": e},
            "megatron_local_ddp",
            phases=OPTIMIZER_PHASES,
        )
    ]


def persistent_gradients(setup: Setup) -> bool:
    """Gradients that stay between steps: Megatron's main gradients, DeepSpeed's flat partition buffer of stage 3."""
    return setup.megatron or (setup.parallel.sharding == "zero3" and zero3_keeps_buffers(setup))


def zero3_keeps_buffers(setup: Setup) -> bool:
    """Whether stage 3 holds its gradient partitions and its reduce bucket from the start, as it does from 0.5.10 on.

    Before, both were made in the backward pass. A version may be a date, as for the others.
    """
    if setup.runtime != "deepspeed" or not setup.version:
        return True
    since = ZERO3_BUFFERS_SINCE if setup.version[0] < FIRST_YEAR else ZERO3_BUFFERS_DATE
    return setup.version >= since


def keeps_whole_gradients(setup: Setup) -> bool:
    """Whether gradients are left whole on every rank until the last micro-batch (LitGPT: FSDP's `no_sync`)."""
    sharded = setup.parallel.sharding == "fsdp" and setup.shard_gradients > 1
    return sharded and setup.runtime == "litgpt" and setup.training.gradient_accumulation > 1


def gradient_phases(setup: Setup) -> frozenset[Phase]:
    """When all of a device's gradients are there; without `BACKWARD`, they build up during it (`training_step`)."""
    if persistent_gradients(setup):
        return ALWAYS
    phases = {Phase.OPTIMIZER_STEP}
    if setup.training.gradient_accumulation > 1 and not keeps_whole_gradients(setup):
        phases |= {Phase.FORWARD, Phase.LOSS, Phase.BACKWARD}
    if setup.parallel.sharding == "fsdp" and setup.runtime == "hf_trainer" and setup.shard_gradients > 1:
        phases.add(Phase.REST)
    return frozenset(phases)


def gradient_entries(setup: Setup, groups: Sequence[Group]) -> list[Entry]:
    """Gradients outside the backward pass, and their second copy."""
    if setup.optimizer.in_backward:
        return []
    entries, phases = [], gradient_phases(setup)
    for group in groups:
        ranks = shard_of(setup, group, setup.shard_gradients)
        held, formula, symbols = divided(group.params, ranks)
        e = setup.gradient_bytes
        if setup.parallel.offload.gradients == "none":
            entries.append(
                item(
                    Category.GRADIENTS,
                    f"{group.prefix}gradients",
                    held * e,
                    f"{formula}*e",
                    {**symbols, "e": e},
                    "gradients",
                    phases=phases,
                )
            )
        if setup.gradient_copy_bytes:
            entries.append(_gradient_copy(setup, group))
    return entries


def _gradient_copy(setup: Setup, group: Group) -> Entry:
    held, formula, symbols = divided(group.params, shard_of(setup, group, setup.shard_states))
    e = setup.gradient_copy_bytes
    return item(
        Category.GRADIENTS,
        f"{group.prefix}gradient_copy",
        held * e,
        f"{formula}*e",
        {**symbols, "e": e},
        "gradient_copy",
        phases={Phase.OPTIMIZER_STEP, Phase.REST} if setup.megatron else OPTIMIZER_PHASES,
    )
