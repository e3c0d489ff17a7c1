"""`plan`: one question in, one answer out."""

from collections.abc import Iterable
from dataclasses import replace

from planner.accuracy.bands import KEPT, KEPT_SAME, band_of, band_row, with_floor
from planner.checks.host import host_issues
from planner.diffusion.gaps import leaves_out_peak
from planner.hardware import Band, Tables
from planner.issues import ScenarioError, Severity
from planner.ledger import Ledger
from planner.memory.serving_draft import with_draft
from planner.model.spec import ModelSpec
from planner.placement import Share, usable_bytes
from planner.placement_fit import fit_to_memory, place_job
from planner.plan_types import DevicePlan, HostNeed, Known, PeakBand, Plan, ServingAnswer, Verdict
from planner.resolve import apply, resolve
from planner.scenario import Scenario
from planner.validation import check, model_for

SEVERITY = (Verdict.FITS, Verdict.TIGHT, Verdict.UNKNOWN, Verdict.DOES_NOT_FIT)


def plan(scenario: Scenario, tables: Tables) -> Plan:
    """The memory of every device, whether it fits, and why.

    Args:
        scenario: The question. It may leave anything to the runtime's defaults.
        tables: Cards, models, constants and bands; nothing is read from disk here.

    Returns:
        A plan with one ledger per group of equal devices.

    Raises:
        ScenarioError: The question has errors; it carries one issue per field.
    """
    model = model_for(scenario, tables)
    resolved, defaults = resolve(scenario, model)
    resolved = with_draft(resolved, tables)
    issues = check(scenario, resolved, model, tables)
    if any(issue.severity is Severity.ERROR for issue in issues):
        raise ScenarioError(issues)
    fitted = fit_to_memory(resolved, model, tables)
    resolved = apply(resolved, fitted) if fitted else resolved
    defaults += tuple((path, str(value)) for path, value in fitted.items())
    shares = place_job(resolved, model, tables)
    trained, serving = 0, None
    if resolved.is_training:
        from planner.training.ledgers import trainable_params, training_ledgers  # noqa: PLC0415 - only training needs it

        ledgers = training_ledgers(shares, resolved, model, tables)
        trained = trainable_params(resolved, model)
    else:
        from planner.serving.answers import answer_serving  # noqa: PLC0415 - only servers need it
        from planner.serving.ledgers import serving_ledgers  # noqa: PLC0415 - only servers need it

        ledgers = serving_ledgers(shares, resolved, model, tables)
        serving = answer_serving(shares, ledgers, resolved, model, tables)
    devices = _device_plans(shares, ledgers, resolved, tables)
    if leaves_out_peak(resolved, model):
        devices = tuple(_at_least(device) for device in devices)
    if any(issue.code == "runtime_not_on_this_card" for issue in issues):
        devices = tuple(_unsure(device) for device in devices)
    fullest, host = _fullest(devices), _host(shares, resolved, model, serving)
    return Plan(
        scenario=scenario,
        resolved=resolved,
        model=model,
        devices=devices,
        fullest=fullest,
        verdict=worst_verdict(d.verdict for d in devices),
        issues=(*issues, *host_issues(host, resolved)),
        defaults=defaults,
        known=_known(devices[fullest].band),
        trainable_params=trained,
        serving=serving,
        host=host,
    )


def _host(
    shares: tuple[Share, ...], resolved: Scenario, model: ModelSpec, serving: ServingAnswer | None
) -> HostNeed:
    """What one machine needs beside its cards; without a number of cards a machine, all are in one."""
    unified = all(share.gpu.unified_memory for share in shares)
    if serving is not None:
        return HostNeed(memory_bytes=serving.host.total_bytes, unified=unified)
    from planner.training.ledgers import host_need, keeps_on_host  # noqa: PLC0415 - only training needs it

    if not keeps_on_host(resolved):
        return HostNeed(unified=unified)
    most = resolved.hardware.devices_per_node or resolved.hardware.num_devices
    needs = sorted(
        ((host_need(share, resolved, model), len(share.indices)) for share in shares),
        key=lambda need: -need[0].memory_bytes - need[0].nvme_bytes,
    )
    memory = nvme = 0
    for need, count in needs:
        taken = min(count, most)
        most -= taken
        memory, nvme = memory + taken * need.memory_bytes, nvme + taken * need.nvme_bytes
    return HostNeed(memory_bytes=memory, nvme_bytes=nvme, unified=unified)


def _within_engine(usable: int | None, source: str, limit: int | None) -> tuple[int | None, str]:
    """The smaller of what the card and what the engine's own rules allow; `engine` names the latter."""
    if usable is None or limit is None or limit >= usable:
        return usable, source
    return limit, "engine"


def worst_verdict(verdicts: Iterable[Verdict]) -> Verdict:
    """Of a whole job: that of its worst device."""
    return max(verdicts, key=SEVERITY.index)


def verdict_for(band: PeakBand | None, usable: int | None, margin_frac: float) -> Verdict:
    """The scenario format's rule: low > usable does not fit; high <= usable x (1 - margin) fits; else tight."""
    if band is None or usable is None:
        return Verdict.UNKNOWN
    if band.low_bytes > usable:
        return Verdict.DOES_NOT_FIT
    if band.high_bytes <= usable * (1 - margin_frac):
        return Verdict.FITS
    return Verdict.TIGHT


def _device_plans(
    shares: tuple[Share, ...], ledgers: tuple[Ledger, ...], scenario: Scenario, tables: Tables
) -> tuple[DevicePlan, ...]:
    """A plan a group of devices; devices of one row that share a ledger are judged once."""
    known: dict[tuple[int, int], DevicePlan] = {}
    found, row = [], band_row(scenario, tables)
    for share, ledger in zip(shares, ledgers, strict=True):
        key = id(ledger), id(share.device)
        if key in known:
            like = known[key]
            found.append(replace(like, indices=share.indices, stage=share.stage, layers=share.layer_range))
        else:
            known[key] = _device_plan(share, ledger, scenario, tables, row)
            found.append(known[key])
    return tuple(found)


def _device_plan(
    share: Share, ledger: Ledger, scenario: Scenario, tables: Tables, row: tuple[str, Band] | None
) -> DevicePlan:
    usable, source = usable_bytes(share)
    if not scenario.is_training:
        from planner.serving.ledgers import engine_limit_bytes  # noqa: PLC0415 - only servers need it

        usable, source = _within_engine(usable, source, engine_limit_bytes(share, ledger, scenario, tables))
    phase, peak = ledger.peak()
    band = with_floor(band_of(peak, row), ledger)
    return DevicePlan(
        indices=share.indices,
        gpu_id=share.gpu.id,
        gpu_name=share.gpu.name,
        stage=share.stage,
        layers=share.layer_range,
        usable_bytes=usable,
        usable_source=source,
        ledger=ledger,
        peak_phase=phase,
        peak_bytes=peak,
        band=band,
        headroom_bytes=None if usable is None else usable - peak,
        verdict=verdict_for(band, usable, scenario.hardware.margin_frac),
    )


def _at_least(device: DevicePlan) -> DevicePlan:
    """A device whose ledger lacks what may be its peak: it can be too small, never large enough."""
    full = device.usable_bytes is not None and device.peak_bytes > device.usable_bytes
    return replace(device, band=None, verdict=Verdict.DOES_NOT_FIT if full else Verdict.UNKNOWN)


def _unsure(device: DevicePlan) -> DevicePlan:
    """A device that the runtime has no release for: what does not fit does not fit, the rest nobody has seen."""
    return device if device.verdict is Verdict.DOES_NOT_FIT else replace(device, verdict=Verdict.UNKNOWN)


def _fullest(devices: tuple[DevicePlan, ...]) -> int:
    """The group with the least headroom; where no capacity is known, the one with the highest peak.

    A card that was given nothing to hold is left out, however small it is.
    """
    known = [i for i, d in enumerate(devices) if d.headroom_bytes is not None and d.peak_bytes]
    if known:
        return min(known, key=lambda i: devices[i].headroom_bytes or 0)
    return max(range(len(devices)), key=lambda i: devices[i].peak_bytes)


def _known(band: PeakBand | None) -> Known:
    if band is not None and band.basis in {KEPT, KEPT_SAME}:
        return Known.MEASURED
    return Known.PUBLISHED if band is not None and band.basis == "runtime_task" else Known.NONE
