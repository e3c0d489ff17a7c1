"""Layouts in words and rows of tables."""

from collections.abc import Iterable, Sequence

from planner.hardware import Tables
from planner.issues import Issue, Severity
from planner.mixed.layouts import Row
from planner.mixed.step_time import Stage, stages_of
from planner.plan_types import Verdict
from ui import verdict
from ui.document import Document, get
from ui.issue_words import issue_html
from ui.names import card_name
from ui.numbers import DASH, gib1, ranges, signed_gib, whole
from ui.words import Safe, Words

MILLI = 1000


def row_html(row: Row, tables: Tables, words: Words) -> Safe:
    """A layout: its stages, tokens a second, headroom of the fullest card; the fields at fault if refused."""
    name = words.html(f"mixed.name.{row.name}")
    if row.plan is None:
        return refused_html(name, row.document, row.issues, words)
    worst, found = row.plan.worst, row.plan.verdict
    speed = (
        words.html("mixed.tokens_per_s", n=whole(row.tokens_per_s))
        if row.tokens_per_s is not None and found is not Verdict.DOES_NOT_FIT
        else Safe(DASH)
    )
    left = DASH if worst.headroom_bytes is None else signed_gib(worst.headroom_bytes)
    result = words.html(
        "mixed.result",
        gpu=verdict.gpu_name(worst, words),
        headroom=left,
        kind=verdict.TAG[found][0],
        verdict=words(f"changes.{found.value}"),
    )
    return _fix(name, speed, _stage_line(stages_of(row.plan, tables), words), result)


def refused_html(name: Safe, document: Document, issues: Iterable[Issue], words: Words) -> Safe:
    """A layout that cannot be planned, with each field at fault."""
    errors = [issue_html(issue, words) for issue in issues if issue.severity is Severity.ERROR]
    said = Safe("<br>".join(errors))
    asked = get(document, "parallel.stages") or []
    line = Safe(f"{_asked_line(asked, words)}<br>{said}") if asked else said
    return _fix(name, Safe(f'<span class="bad">{words.html("mixed.refused")}</span>'), line, Safe(""))


def _fix(what: Safe, number: Safe, below: Safe, result: Safe) -> Safe:
    return Safe(
        f'<div class="fix"><span>{what}</span><span class="n">{number}</span>'
        f'<span class="s">{below}</span><span class="s r">{result}</span></div>'
    )


def _stage_line(stages: Sequence[Stage], words: Words) -> Safe:
    """`GPU 0: 13 layers · GPU 2–3: 7 layers, tensor 2`."""
    return Safe(
        " · ".join(
            _stage(stage.indices, stage.device.layers[1] - stage.device.layers[0], stage.tensor, words)
            for stage in stages
        )
    )


def _asked_line(stages: Iterable[Document], words: Words) -> Safe:
    return Safe(
        " · ".join(
            _stage(tuple(stage["devices"]), stage["layers"], stage.get("tensor", 1), words)
            for stage in stages
        )
    )


def _stage(indices: tuple[int, ...], layers: int, tensor: int, words: Words) -> Safe:
    key = "mixed.stage" if tensor == 1 else "mixed.stage_tensor"
    return words.html(key, gpu=ranges(indices), layers=whole(layers), tensor=whole(tensor))


def stage_head(words: Words) -> list[str]:
    """Column heads of `stage_rows`."""
    names = ("stage", "card", "layers", "tensor", "held", "needs", "usable", "headroom", "time")
    return [words(f"mixed.head.{name}") for name in names]


def stage_rows(stages: Sequence[Stage], words: Words) -> list[list[str]]:
    """A row a stage."""
    rows = []
    for number, stage in enumerate(stages):
        device = stage.device
        rows.append(
            [
                whole(number + 1),
                words("mixed.card", gpu=ranges(stage.indices), card=card_name(device.gpu_name)),
                whole(device.layers[1] - device.layers[0]),
                whole(stage.tensor),
                _held(stage.in_flight),
                gib1(device.peak_bytes),
                DASH if device.usable_bytes is None else gib1(device.usable_bytes),
                DASH if device.headroom_bytes is None else signed_gib(device.headroom_bytes),
                DASH if stage.time_s is None else words("mixed.ms", n=whole(MILLI * stage.time_s)),
            ]
        )
    return rows


def remarks(row: Row, stages: Sequence[Stage], words: Words) -> list[Safe]:
    """Which card limits, which stage sets the pace, why the order matters, which cards are left out."""
    said = []
    if row.plan is not None and row.plan.worst.headroom_bytes is not None:
        worst = row.plan.worst
        facts = {"gpu": verdict.gpu_name(worst, words), "headroom": signed_gib(worst.headroom_bytes or 0)}
        said.append(words.html("mixed.limits", card=card_name(worst.gpu_name), **facts))
    times = [stage.time_s for stage in stages if stage.time_s is not None]
    if len(times) > 1 and len(times) == len(stages):
        slow = max(range(len(times)), key=times.__getitem__)
        said.append(
            words.html(
                "mixed.pace", stage=whole(slow + 1), ms=words("mixed.ms", n=whole(MILLI * times[slow]))
            )
        )
    if len(stages) > 1 and stages[0].in_flight > stages[-1].in_flight:
        first, last = _held(stages[0].in_flight), _held(stages[-1].in_flight)
        said.append(words.html("mixed.early", first=first, last=last))
    if row.left_out:
        said.append(words.html("mixed.left_out", gpu=ranges(row.left_out)))
    return said


def _held(in_flight: float) -> str:
    return f"{in_flight:.3g}"
