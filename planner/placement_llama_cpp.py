"""Which layers llama.cpp and its kin put on which device.

The last ``gpu_layers`` of the model's layers, the output layer counted as one more, go to the devices;
earlier ones and the token embedding stay on the host. Devices take contiguous runs in proportion to
``tensor_split``, or to their free memory. One share a device, in list order, even where a device gets no
layer.
"""

from bisect import bisect_right
from collections.abc import Hashable, Iterator
from itertools import accumulate

from planner.cards import gpu_of
from planner.hardware import Gpu, Tables
from planner.memory.serving_demand import version_of
from planner.model.spec import ModelSpec
from planner.placement import Share, expand_devices
from planner.scenario import Device, Scenario

LLAMA_FAMILY = frozenset({"llama_cpp", "ik_llama_cpp", "ollama"})


OUTPUT_COUNTS_FROM = 7200
"""Build from about which the output layer is the first that `gpu_layers` sends to a device; before, the
last."""


def output_first(scenario: Scenario) -> bool:
    """Whether the output layer goes to a device before any other layer.

    Ollama leaves it on the host as soon as not everything fits (`assignLayers`), as older builds did.
    """
    return scenario.runtime.name == "llama_cpp" and version_of(scenario)[0] >= OUTPUT_COUNTS_FROM


def offloaded_from(num_layers: int, scenario: Scenario) -> int:
    """The first layer on a device; `num_layers` where none of them is."""
    given = scenario.serving.gpu_layers
    if given is None:
        return 0
    return min(num_layers, max(0, num_layers - given + (1 if output_first(scenario) else 0)))


def output_offloaded(num_layers: int, scenario: Scenario) -> bool:
    """Whether the output layer is on a device."""
    given = scenario.serving.gpu_layers
    return given is None or given > num_layers or (output_first(scenario) and given > 0)


def split_points(weights: tuple[float, ...]) -> tuple[float, ...]:
    """Where one device's part ends and the next begins, as shares of all layers."""
    total = sum(weights) or 1.0
    return tuple(part / total for part in accumulate(weights))


def device_of(position: int, count: int, points: tuple[float, ...]) -> int:
    """The device of the `position`-th of `count` offloaded layers."""
    return min(bisect_right(points, position / count), len(points) - 1)


def split_weights(scenario: Scenario, gpus: tuple[Gpu, ...], rows: tuple[Device, ...]) -> tuple[float, ...]:
    """What the layers are divided by: the given split, the first device alone, or free memory."""
    if scenario.serving.split_mode == "none":
        return (1.0, *(0.0 for _ in gpus[1:]))
    given = scenario.serving.tensor_split
    if given and len(given) == len(gpus) and sum(given) > 0:
        return tuple(map(float, given))
    sizes = [row.free_bytes or gpu.usable_bytes for row, gpu in zip(rows, gpus, strict=True)]
    if any(size is None for size in sizes):
        return tuple(1.0 for _ in gpus)
    return tuple(float(size or 0) for size in sizes)


def place_layers(scenario: Scenario, model: ModelSpec, tables: Tables) -> tuple[Share, ...]:
    """One share per device with layers, and one for each run of equal devices that get none."""
    rows = expand_devices(scenario)
    known = {id(row): gpu_of(row, tables) for row in scenario.hardware.devices}
    gpus = tuple(known.get(id(row)) or gpu_of(row, tables) for row in rows)
    first = offloaded_from(model.num_layers, scenario)
    held = model.num_layers - first + (1 if output_offloaded(model.num_layers, scenario) else 0)
    points = split_points(split_weights(scenario, gpus, rows))
    owned: dict[int, list[int]] = {}
    for position in range(held):
        owned.setdefault(device_of(position, held, points), []).append(first + position)
    shares = []
    cursor = first
    for indices in _groups(rows, owned, apart=bool(scenario.serving.expert_layers)):
        index = indices[0]
        mine = owned.get(index, [])
        start = cursor
        cursor += sum(layer < model.num_layers for layer in mine)
        shares.append(
            Share(
                indices=indices,
                gpu=gpus[index],
                device=rows[index],
                stage=index,
                num_stages=len(rows),
                layer_range=(start, cursor),
                layers=model.layers[start:cursor],
                encoder_layers=model.encoder_layers[start:cursor],
                holds_embedding=False,
                holds_head=model.num_layers in mine,
            )
        )
    return tuple(shares)


def _groups(
    rows: tuple[Device, ...], owned: dict[int, list[int]], *, apart: bool
) -> Iterator[tuple[int, ...]]:
    """Devices that hold the same: each by itself, but for neighbours of one row without a layer.

    Args:
        rows: Every device's row.
        owned: Layers by device.
        apart: Whether experts are sent to devices by hand, which may then hold some without any layer.
    """
    start = 0
    while start < len(rows):
        end = start + 1
        if start and not apart and start not in owned:
            while end < len(rows) and rows[end] is rows[start] and end not in owned:
                end += 1
        yield tuple(range(start, end))
        start = end


def alike(share: Share, scenario: Scenario) -> Hashable:
    """Devices of one job with equal keys hold the same: row of cards, layers, and whether they come first.

    Where experts are sent to devices by hand, each device is one by itself.
    """
    index = share.indices[0]
    place = index if scenario.serving.expert_layers else min(index, 1)
    return id(share.device), share.layer_range, share.holds_head, place
