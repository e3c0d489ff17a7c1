"""A measurement beside its prediction as lines of plain text, for the command line."""

from collections.abc import Iterator

from planner.units import MIB
from profiler.compare import Comparison, PhaseComparison, Row
from profiler.documents import Param, Remark
from profiler.explanation import explain
from profiler.findings import findings
from profiler.report import Report

_HEAD = f"{'':32}{'predicted MiB':>15}{'measured MiB':>15}{'difference':>15}{'of measured':>13}"


def remark_line(remark: Remark) -> str:
    """A remark as `field: what (name value, ...): detail`, the words of its code for what."""
    named = {name: value for name, value in remark.params.items() if name != "detail"}
    params = ", ".join(f"{name} {value}" for name, value in named.items())
    where = f"{remark.field}: " if remark.field else ""
    detail = remark.params.get("detail")
    said = f"{where}{remark.code.replace('_', ' ')}" + (f" ({params})" if params else "")
    return f"{said}: {detail}" if detail else said


def comparison_lines(report: Report, comparison: Comparison) -> Iterator[str]:
    """Environment, phases with their kinds, peaks by layer, remarks."""
    where = report.environment
    yield f"{where.device_name}, torch {where.torch}, transformers {where.transformers}, {report.created_at}"
    yield f"{report.outcome}; parameters {report.params_total}, trained {report.params_trainable}"
    if report.out_of_memory is not None:
        yield f"step {report.out_of_memory.step}, {report.out_of_memory.phase}: {report.out_of_memory.detail}"
    yield _HEAD
    for phase in comparison.phases:
        yield from _phase_lines(phase)
    yield "peak"
    for row in comparison.layers:
        yield _row_line("  " + row.name, row)
    yield from _explanation_lines(comparison)
    yield from finding_lines(report)
    for remark in report.remarks:
        yield remark_line(remark)


def _explanation_lines(comparison: Comparison) -> Iterator[str]:
    found = explain(comparison)
    if found is not None and not found.is_close:
        yield (
            f"{found.entry} explains most: {found.entry_bytes / MIB:+.2f} of {found.gap_bytes / MIB:+.2f} MiB "
            f"({found.layer.value}, {found.phase.value})"
        )


def finding_lines(report: Report) -> Iterator[str]:
    """What asks for something, one line each, with the setting that would help."""
    for found in findings(report):
        if found.state == "attention":
            params = ", ".join(f"{name} {_value(value)}" for name, value in found.params.items())
            yield f"! {found.topic}: {found.code} ({params})" + (
                f" -> {found.setting}" if found.setting else ""
            )


def _value(value: Param) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _phase_lines(phase: PhaseComparison) -> Iterator[str]:
    yield _row_line(phase.phase.value, phase.total) + ("" if phase.is_close else f"   {phase.explains}")
    for row in phase.bundles:
        yield _row_line("  " + row.name, row)
    for name, size, reason in phase.adjusted:
        yield f"  ({name} {size / MIB:+.2f} MiB on CPU: {reason})"
    for name, size, reason in phase.left_out:
        yield f"  ({name} {size / MIB:.2f} MiB left out: {reason})"


def _row_line(label: str, row: Row) -> str:
    frac = row.residual_frac
    share = "-" if frac is None else f"{frac:.2%}"
    columns = (_mib(row.predicted_bytes), _mib(row.measured_bytes), _mib(row.residual_bytes))
    return f"{label:32}" + "".join(f"{text:>15}" for text in columns) + f"{share:>13}"


def _mib(size_bytes: int | None) -> str:
    return "-" if size_bytes is None else f"{size_bytes / MIB:.2f}"


def program_lines(report: Report) -> Iterator[str]:
    """A report without a prediction: program, steps, overhead, ranks, cards, remarks."""
    where, program = report.environment, report.program
    yield f"{program.way} {program.name}: {report.outcome}; {where.device_name}" + (
        f", torch {where.torch}" if where.torch else ""
    )
    for figures in report.phases:
        peak = figures.peak_allocated_bytes
        yield f"  {figures.phase:16}{_mib(peak):>12} MiB allocated{figures.time_s:10.4f} s"
    if report.memory_by_step:
        last = report.memory_by_step[-1]
        yield f"  {last.step} steps, the last {last.time_s:.4f} s; resident {_mib(last.resident_bytes)} MiB"
    if report.overhead is not None and report.overhead.frac is not None:
        yield f"  the hook took {report.overhead.frac:.2%} of the {report.overhead.sampled} sampled steps"
    for rank in report.ranks:
        yield f"  rank {rank.rank}: {rank.outcome}, {_mib(rank.peak_allocated_bytes)} MiB {rank.detail}".rstrip()
    for card in report.cards:
        lost = f", lost after {card.lost_at_s:.0f} s" if card.lost_at_s is not None else ""
        yield f"  card {card.index} {card.name}: at most {_mib(card.peak_bytes)} of {_mib(card.total_bytes)} MiB{lost}"
    yield from finding_lines(report)
    for remark in report.remarks:
        yield remark_line(remark)
