"""What engines work out from free memory where the user doesn't say: layers and experts by device.

Ollama sends as many layers to the devices as fit. llama.cpp's fitting step first keeps routed experts back,
layer by layer, where a model has any, and whole layers otherwise; it leaves a margin free on every device.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Final

from planner.cards import gpu_of
from planner.hardware import Tables
from planner.ledger import make_ledger
from planner.memory.serving_demand import version_of
from planner.model.spec import ModelSpec
from planner.placement import Share, expand_devices, place
from planner.placement_llama_cpp import LLAMA_FAMILY, alike, place_layers
from planner.resolve import apply
from planner.runtimes.profile import Value
from planner.scenario import Scenario
from planner.units import mib_bytes

Changes = dict[str, Value]

OLLAMA_KEPT_MIB: Final = 457
"""What Ollama leaves of every CUDA device, beside the context of the process that asks for the free memory."""
LLAMA_MARGIN_MIB: Final = 4 * 256
"""Free memory that llama.cpp's fitting step aims at on every device."""
FITS_ITSELF_FROM: Final = 7400
"""llama.cpp build from about which it fits a model to memory unless told where layers go."""


def place_job(scenario: Scenario, model: ModelSpec, tables: Tables) -> tuple[Share, ...]:
    """Every group of devices with its share, by the rules of the scenario's runtime."""
    if scenario.task == "serve" and scenario.runtime.name in LLAMA_FAMILY:
        return place_layers(scenario, model, tables)
    return place(scenario, model, tables)


def fit_to_memory(scenario: Scenario, model: ModelSpec, tables: Tables) -> Changes:
    """The settings that such an engine works out from free memory; empty where it does not, or all fits.

    Args:
        scenario: The question with its runtime's defaults filled in.
        model: The model.
        tables: Cards and constants.
    """
    if scenario.task != "serve":
        return {}
    if scenario.runtime.name == "transformers":
        return _device_map(scenario, model, tables)
    if not _fits_itself(scenario) or _fits({}, scenario, model, tables):
        return {}
    experts = sum(1 for layer in model.layers if layer.mlp.num_experts)
    if scenario.runtime.name == "llama_cpp" and experts and scenario.hardware.num_devices == 1:
        kept = _most(experts, lambda n: _fits(_expert_changes(n), scenario, model, tables))
        return _expert_changes(kept)
    layers = _most(model.num_layers + 1, lambda n: _fits({"serving.gpu_layers": n}, scenario, model, tables))
    return {"serving.gpu_layers": layers}


def _device_map(scenario: Scenario, model: ModelSpec, tables: Tables) -> Changes:
    """`device_map="auto"`: layers run card after card, divided by free memory; one sequence of stages."""
    parallel, cards = scenario.parallel, expand_devices(scenario)
    asked = scenario.loading is not None and scenario.loading.method == "device_map"
    divided = parallel.tensor * parallel.pipeline * (parallel.data or 1) > 1
    if not asked or divided or not 1 < len(cards) <= model.num_layers:
        return {}
    sizes = [row.free_bytes or gpu_of(row, tables).usable_bytes or 0 for row in cards]
    counts = _divided(model.num_layers, sizes if all(sizes) else [1] * len(cards))
    return {
        "parallel.pipeline": len(cards),
        "parallel.data": 1,
        "parallel.pipeline_schedule": "naive",
        "parallel.pipeline_layers": counts,
    }


def _divided(total: int, sizes: list[int]) -> tuple[int, ...]:
    """`total` layers by size, at least one each: where the running sum crosses each card's end."""
    whole, running, ends = sum(sizes), 0, [0]
    for index, size in enumerate(sizes):
        running += size
        most = total - (len(sizes) - 1 - index)
        ends.append(max(ends[-1] + 1, min(most, round(total * running / whole))))
    return tuple(end - start for start, end in pairwise(ends))


def _fits_itself(scenario: Scenario) -> bool:
    """Whether the engine decides: nothing about placement was given."""
    serving = scenario.serving
    told = (
        serving.gpu_layers is not None
        or serving.host_experts
        or serving.tensor_split
        or serving.expert_layers
    )
    if told:
        return False
    name = scenario.runtime.name
    return name == "ollama" or (name == "llama_cpp" and version_of(scenario)[0] >= FITS_ITSELF_FROM)


def _expert_changes(count: int) -> Changes:
    return {"serving.host_experts": True, "serving.expert_layers": (count,)}


def _most(limit: int, fits: Callable[[int], bool]) -> int:
    """The largest number below `limit` that fits, by bisection: more never takes less; 0 if none does."""
    low, high = 0, limit
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _fits(changes: Changes, scenario: Scenario, model: ModelSpec, tables: Tables) -> bool:
    """Whether every device holds its part with some settings; a device of unknown size holds anything."""
    tried = apply(scenario, changes) if changes else scenario
    shares = {alike(share, tried): share for share in place_layers(tried, model, tables)}
    return all(_device_fits(share, tried, model, tables) for share in shares.values())


def _device_fits(share: Share, scenario: Scenario, model: ModelSpec, tables: Tables) -> bool:
    from planner.memory.serving_answer import usable_bytes  # noqa: PLC0415 - only servers need it
    from planner.memory.serving_entry import PHASES  # noqa: PLC0415 - only servers need it
    from planner.memory.serving_llama import llama_entries  # noqa: PLC0415 - only servers need it

    usable = usable_bytes(share)
    if usable is None:
        return True
    ledger = make_ledger(llama_entries(share, scenario, model, tables), PHASES)
    kept = OLLAMA_KEPT_MIB if scenario.runtime.name == "ollama" else LLAMA_MARGIN_MIB
    return ledger.peak()[1] + mib_bytes(kept) <= usable
