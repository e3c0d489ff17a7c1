"""A plan read the way a measurement reads a machine: one figure for a metric and a rank.

Takes a scenario and a rank, so it can't see what was observed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from planner.accuracy.bands import ALLOCATED_LAYER, DEVICE_LAYER, RESERVED_LAYER, UNNAMED_LAYER, band_for
from planner.estimate import plan
from planner.hardware import Tables
from planner.issues import ScenarioError
from planner.ledger import Category, Layer, Phase
from planner.placement import place
from planner.plan_types import DevicePlan, Plan, Verdict
from planner.resolve import apply
from planner.scenario import Scenario
from planner.serving.readings import serving_readings
from planner.throughput.readings import speed_readings
from planner.training.ledgers import held_tensors
from planner.training.setup import setup_for

Figure = int | float | bool | None

BAND_LAYERS: Final = {
    "peak_allocated_bytes": ALLOCATED_LAYER,
    "peak_active_bytes": ALLOCATED_LAYER,
    "peak_reserved_bytes": RESERVED_LAYER,
    "peak_unknown_bytes": UNNAMED_LAYER,
}
"""Layer whose residuals make a peak's band; the device's where none is named."""
STORED: Final = "checkpointed_inputs"
"""With what lies between steps, the least that a checkpointed step holds at once as its scenario states it."""
PEAKS: Final = {
    "peak_allocated_bytes": Layer.ALLOCATED,
    "peak_active_bytes": Layer.ALLOCATED,
    "peak_reserved_bytes": Layer.RESERVED,
    "peak_unknown_bytes": Layer.DEVICE,
    "device_used_bytes": Layer.DEVICE,
}
"""Layer that answers each kind of peak. Where the tool is not named, everything is counted in: such figures
mostly come from `nvidia-smi`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What the planner says for one question and one rank.

    Attributes:
        figures: Value by metric; one that is missing is not predicted. `fits` is None without a verdict.
        bands: (low, high) by metric, for the ones that have a band.
        over_bytes: Central peak less usable bytes on the device that decides; None where not known.
        reason: Why there is no answer at all; "" where there is one.
    """

    figures: Mapping[str, Figure] = field(default_factory=dict)
    bands: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    over_bytes: int | None = None
    reason: str = ""


Predictor = Callable[[Scenario, str], Prediction]


def predictor(tables: Tables) -> Predictor:
    """A function of scenario and rank that plans with these tables."""

    def predict(scenario: Scenario, rank: str) -> Prediction:
        return prediction_for(scenario, rank, tables)

    return predict


def prediction_for(scenario: Scenario, rank: str, tables: Tables) -> Prediction:
    """The figures of a plan for one rank. The margin is left out, as the scoring rule says.

    Args:
        scenario: What ran.
        rank: Which device: `any`, `max`, `sum`, `first_stage`, `middle_stage`, `last_stage`, `device0`, ...
        tables: Cards, models and the rest.
    """
    try:
        answer = plan(apply(scenario, {"hardware.margin_frac": 0.0}), tables)
    except ScenarioError as refusal:
        first = refusal.issues[0]
        return Prediction(reason=f"{first.code} at {first.field}")
    chosen = devices_of(answer, rank)
    if not chosen:
        return Prediction(reason=f"no {rank} in this job")
    figures = _figures(answer, chosen[0], tables)
    if rank == "sum":
        figures = _summed(
            [_figures(answer, index, tables) for index in chosen],
            [answer.devices[i] for i in chosen],
            figures,
        )
    speed = speed_readings(answer, tables)
    figures |= speed.figures
    figures["fits"] = fits(answer)
    worst = answer.worst
    over = None if worst.usable_bytes is None else worst.peak_bytes - worst.usable_bytes
    bands = _bands(answer, figures, tables) | dict(speed.bands)
    return Prediction(figures=figures, bands=bands, over_bytes=over)


def devices_of(answer: Plan, rank: str) -> tuple[int, ...]:
    """Positions in `answer.devices` that a rank means; empty where the job has no such device.

    `any` and `max` mean the device with the least room; a stage means the fullest device of that stage, the
    middle one the first after half of the stages.
    """
    groups = range(len(answer.devices))
    if rank in ("any", "max"):
        return (answer.fullest,)
    if rank == "sum":
        return tuple(groups)
    if rank.startswith("device"):
        wanted = int(rank.removeprefix("device"))
        return tuple(i for i in groups if wanted in answer.devices[i].indices)
    last = max(device.stage for device in answer.devices)
    if rank == "middle_stage" and last < 2:
        return ()
    stage = {"first_stage": 0, "middle_stage": (last + 1) // 2, "last_stage": last}[rank]
    held = [i for i in groups if answer.devices[i].stage == stage]
    return (max(held, key=lambda i: answer.devices[i].peak_bytes),) if held else ()


def fits(answer: Plan) -> bool | None:
    """Yes, no or None: a tight job counts as the side its central values fall on."""
    if answer.verdict is Verdict.UNKNOWN:
        return None
    if answer.verdict is Verdict.TIGHT:
        return all(
            device.usable_bytes is None or device.peak_bytes <= device.usable_bytes
            for device in answer.devices
        )
    return answer.verdict is Verdict.FITS


def _figures(answer: Plan, index: int, tables: Tables) -> dict[str, Figure]:
    device = answer.devices[index]
    peaks: dict[str, Figure] = {name: device.ledger.peak(layer)[1] for name, layer in PEAKS.items()}
    if not answer.scenario.is_training:
        return peaks | dict(serving_readings(answer, index))
    weights = device.ledger.by_category(Phase.REST, Layer.ALLOCATED).get(Category.WEIGHTS, 0)
    resting = device.ledger.phase_bytes(Phase.REST, Layer.ALLOCATED)
    inputs = (e.bytes for e in device.ledger.entries if e.name == STORED and Phase.FORWARD in e.phases)
    return peaks | {
        "resting_allocated_bytes": resting,
        "least_bytes": resting + sum(inputs),
        "weights_bytes": weights,
        "parameters": _held_parameters(answer, index, tables),
        "trainable_parameters": answer.trainable_params,
    }


def _held_parameters(answer: Plan, index: int, tables: Tables) -> int:
    """Parameters of the base model on one device, before any sharding over data ranks, as Megatron prints."""
    share = place(answer.resolved, answer.model, tables)[index]
    setup = setup_for(share, answer.resolved, answer.model)
    return sum(tensor.params for tensor in held_tensors(share, answer.model, setup)[0])


def _summed(
    all_figures: list[dict[str, Figure]], devices: list[DevicePlan], first: dict[str, Figure]
) -> dict[str, Figure]:
    """Bytes added up over every device; what is no amount of bytes is taken from the fullest."""
    total: dict[str, Figure] = dict(first)
    for name in first:
        if not name.endswith("_bytes"):
            continue
        values = [
            (figures.get(name), len(device.indices))
            for figures, device in zip(all_figures, devices, strict=True)
        ]
        known = [(value, count) for value, count in values if value is not None]
        total[name] = sum(value * count for value, count in known) if len(known) == len(values) else None
    return total


def _bands(answer: Plan, figures: Mapping[str, Figure], tables: Tables) -> dict[str, tuple[float, float]]:
    found: dict[str, tuple[float, float]] = {}
    for name in PEAKS:
        value = figures.get(name)
        if value is None:
            continue
        band = band_for(round(value), answer.resolved, tables, BAND_LAYERS.get(name, DEVICE_LAYER))
        if band is not None:
            found[name] = (band.low_bytes, band.high_bytes)
    return found
