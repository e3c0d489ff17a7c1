"""Which layers llama.cpp and its kin put on which device.

The last ``gpu_layers`` of the model's layers, the output layer counted as one more, go to the devices; earlier ones and
the token embedding stay on the host. Devices take contiguous runs in proportion to ``tensor_split``, or to their free
memory. One share a device, in list order, even where a device gets no layer.
"""

from bisect import bisect_right
from itertools import accumulate

from planner.hardware import Gpu, Tables, gpu_for
from planner.model.spec import ModelSpec
from planner.placement import Share, expand_devices, place
from planner.scenario import Device, Scenario

LLAMA_FAMILY = frozenset({"llama_cpp", "ik_llama_cpp", "ollama"})


def offloaded_from(num_layers: int, gpu_layers: int | None) -> int:
    """The first layer on a device; `num_layers` where only the output layer is, one more where nothing is."""
    if gpu_layers is None:
        return 0
    return max(0, num_layers + 1 - gpu_layers)


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
    """One share per device."""
    rows = expand_devices(scenario)
    gpus = tuple(gpu_for(row.gpu, tables, row.memory_bytes) for row in rows)
    first = offloaded_from(model.num_layers, scenario.serving.gpu_layers)
    count = model.num_layers + 1 - first
    points = split_points(split_weights(scenario, gpus, rows))
    owners = [device_of(position, count, points) for position in range(count)]
    shares = []
    for index, (row, gpu) in enumerate(zip(rows, gpus, strict=True)):
        mine = [first + position for position, owner in enumerate(owners) if owner == index]
        layers = [layer for layer in mine if layer < model.num_layers]
        start = layers[0] if layers else min(first, model.num_layers)
        shares.append(
            Share(
                indices=(index,),
                gpu=gpu,
                device=row,
                stage=index,
                num_stages=len(rows),
                layer_range=(start, start + len(layers)),
                layers=model.layers[start : start + len(layers)],
                holds_embedding=False,
                holds_head=model.num_layers in mine,
            )
        )
    return tuple(shares)


def place_job(scenario: Scenario, model: ModelSpec, tables: Tables) -> tuple[Share, ...]:
    """Every group of devices with its share, by the rules of the scenario's runtime."""
    if scenario.task == "serve" and scenario.runtime.name in LLAMA_FAMILY:
        return place_layers(scenario, model, tables)
    return place(scenario, model, tables)
