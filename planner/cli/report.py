"""A plan as text for a terminal: plain columns, GiB with one decimal."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from planner.cli import words
from planner.diffusion.gaps import leaves_out_peak
from planner.issues import Severity
from planner.ledger import Category
from planner.model.native_size import side_of
from planner.plan_types import DevicePlan, Plan, ServingAnswer, Verdict
from planner.units import gib

SIZES = ("training.sequence_length", "serving.max_model_len")

NO_BAND: Final = "No band: what is not counted may be the peak."


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> list[str]:
    """Columns as wide as their widest cell; the first `left` of them flush left, the others flush right."""
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(len(row[i]) for row in lines) for i in range(len(header))]
    return [
        "  ".join(_cell(row[i], widths[i], i < left) for i in range(len(header))).rstrip() for row in lines
    ]


def _cell(text: str, width: int, left: bool) -> str:
    return text.ljust(width) if left else text.rjust(width)


def gib_text(amount_bytes: float | None, decimals: int = 1) -> str:
    """An amount in GiB, "-" where it is not known."""
    return "-" if amount_bytes is None else f"{gib(amount_bytes):,.{decimals}f}"


def plan_lines(plan: Plan) -> Iterator[str]:
    """The whole answer: verdict, table by group, what a server holds, remarks."""
    yield _title(plan)
    yield _verdict(plan)
    yield ""
    yield from _groups(plan)
    if plan.serving is not None:
        yield ""
        yield from _serving(plan.serving, _made(plan))
    yield ""
    yield NO_BAND if leaves_out_peak(plan.resolved, plan.model) else _band(plan.worst)
    if plan.host.memory_bytes or plan.host.nvme_bytes:
        where = "the same memory on the host's side" if plan.host.unified else "host memory"
        disk = f", {gib_text(plan.host.nvme_bytes)} GiB of NVMe" if plan.host.nvme_bytes else ""
        yield f"Each machine needs {gib_text(plan.host.memory_bytes)} GiB of {where}{disk} besides."
    yield from _remarks(plan)


def _title(plan: Plan) -> str:
    cards = ", ".join(f"{row.count} x {row.gpu}" for row in plan.scenario.hardware.devices)
    name = plan.scenario.name or f"{plan.model.id or plan.model.model_type}, {plan.scenario.task}"
    return f"{name}: {plan.model.params_total / 10**9:.2f} billion parameters on {cards}"


def _verdict(plan: Plan) -> str:
    worst = plan.worst
    where = f"device {_span(worst.indices)} ({worst.gpu_name})"
    need = f"{where} needs {gib_text(worst.peak_bytes)}"
    phase = words.PHASES.get(worst.peak_phase, worst.peak_phase)
    if worst.usable_bytes is None:
        return f"{words.VERDICTS[plan.verdict]}: {need} GiB {phase}; how much it has is not known."
    room = worst.usable_bytes - worst.peak_bytes
    rest = f"{gib_text(room)} GiB to spare" if room >= 0 else f"{gib_text(-room)} GiB short"
    if plan.verdict is Verdict.UNKNOWN and leaves_out_peak(plan.resolved, plan.model):
        rest += f", {'en' if plan.resolved.is_training else 'de'}coding clips not counted"
    return f"{words.VERDICTS[plan.verdict]}: {need} of {gib_text(worst.usable_bytes)} GiB {phase}, {rest}."


def _span(indices: tuple[int, ...]) -> str:
    if len(indices) == 1:
        return str(indices[0])
    whole = indices == tuple(range(indices[0], indices[-1] + 1))
    return (
        f"{indices[0]}-{indices[-1]}"
        if whole
        else ",".join(map(str, indices[:6])) + ",..." * (len(indices) > 6)
    )


def _groups(plan: Plan) -> Iterator[str]:
    parts_of = {id(device.ledger): _parts(device) for device in plan.devices}
    categories = [c for c in Category if any(parts.get(c) for parts in parts_of.values())]
    header = [
        "devices",
        "card",
        "layers",
        *(words.CATEGORIES[c] for c in categories),
        "peak",
        "usable",
        "verdict",
    ]
    yield "GiB on one device of each group, in its fullest phase:"
    rows = []
    for device in plan.devices:
        parts = parts_of[id(device.ledger)]
        rows.append(
            [
                _span(device.indices),
                device.gpu_id,
                f"{device.layers[0]}-{device.layers[1] - 1}",
                *(gib_text(parts.get(category, 0)) for category in categories),
                gib_text(device.peak_bytes),
                gib_text(device.usable_bytes),
                words.VERDICTS[device.verdict].lower(),
            ]
        )
    yield from table(header, rows, left=3)


def _parts(device: DevicePlan) -> dict[Category, int]:
    return device.ledger.by_category(device.peak_phase)


def _made(plan: Plan) -> str:
    """What a pipeline makes, in words; empty for servers of text."""
    latents = plan.model.latents
    if latents is None:
        return ""
    undecoded = ", as far as decoding them leaves it" if leaves_out_peak(plan.resolved, plan.model) else ""
    return f"{'clips' if latents.frames_per_token > 1 else 'pictures'} at once{undecoded}"


def _serving(answer: ServingAnswer, made: str) -> Iterator[str]:
    if made:
        yield f"Room for {answer.concurrency:.1f} {made}."
        return
    yield (
        f"Server: {answer.kv_tokens:,} tokens in {gib_text(answer.kv_pool_bytes)} GiB of KV cache a device "
        f"(at most {answer.kv_bytes_per_token:,} bytes a token), longest context {answer.longest_context_tokens:,}, "
        f"{answer.concurrency:.1f} sequences of {answer.context_tokens:,} tokens at once."
    )
    if answer.budget_bytes is not None:
        taken, budget = gib_text(answer.reserves_bytes), gib_text(answer.budget_bytes)
        outside = f": its budget of {budget}, and what it holds beside that" if taken != budget else ""
        yield f"Whatever the load, the engine takes {taken} GiB a device{outside}."


def _band(device: DevicePlan) -> str:
    band = device.band
    if band is None:
        return "No published measurement to say how far off this may be."
    rows = f"{band.num_rows} {words.BASES.get(band.basis, band.basis)}"
    low, high = gib_text(band.low_bytes), gib_text(band.high_bytes)
    return f"Peak between {low} and {high} GiB in {band.coverage_frac:.0%} of cases (from {rows})."


def _remarks(plan: Plan) -> Iterator[str]:
    for severity in (Severity.WARNING, Severity.NOTE):
        chosen = [issue for issue in plan.issues if issue.severity is severity]
        yield from (words.line(issue) for issue in chosen)
    if plan.defaults:
        filled = (f"{path} = {value}{_size(plan, path, value)}" for path, value in plan.defaults)
        yield "Filled in by the runtime: " + ", ".join(filled)


def _size(plan: Plan, path: str, value: str) -> str:
    """What a denoiser's sequence stands for, in pixels; empty for all other fields."""
    latents = plan.model.latents
    if latents is None or path not in SIZES:
        return ""
    side, frames = side_of(latents, int(value)), latents.frames_per_token
    what = "a picture" if frames == 1 else f"a clip of {frames} frames"
    return f" ({what} of {side} x {side})"
