"""Layouts over unequal cards, elastic workers and a small trial as text for a terminal."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from planner.cli import words
from planner.cli.report import gib_text, table
from planner.elastic import Elastic, elastic
from planner.hardware import Tables
from planner.issues import ScenarioError, Severity
from planner.mixed.layouts import Layouts, Row, layouts
from planner.mixed.step_time import Stage, stages_of
from planner.plan_types import Plan
from planner.scenario import Scenario
from planner.trial import Trial, trial

LAYOUTS = {
    "asked": "as asked",
    "copies": "a copy on every card",
    "equal_stages": "equal stages, one a card",
    "fastest": "fastest pipeline that fits",
}
REFUSALS = {
    "serves": "only for jobs that train",
    "one_kind": "all cards are alike",
    "experts_divided": "not searched where experts are divided over cards",
    "too_many_cards": "too many cards of one kind to search exactly",
    "nothing_holds_it": "no pipeline over these cards holds the job",
    "model_not_known": "the model or a card is not known",
    "stages_by_hand": "stages are laid out by hand",
    "one_process": "nn.DataParallel is one process; its cards cannot join or leave",
    "unequal_cards": "the cards are not alike",
    "one_card": "the run is on one card",
    "model_not_cut": "the model's config names no number of layers",
    "not_planned": "the division cannot be made smaller",
}


def card_lines(
    topic: str, scenario: Scenario, plan: Plan | None, tables: Tables, *, as_json: bool
) -> Iterable[str]:
    """The answer of `layouts`, `elastic` or `trial`.

    Args:
        topic: Which of them.
        scenario: The question.
        plan: Its plan, where the topic asks for one.
        tables: Cards and constants.
        as_json: The scenario that layouts or a trial come to, where there is one.

    Raises:
        ScenarioError: Layouts were asked for a question that cannot be planned in any way.
    """
    document: dict[str, Any] = {}
    lines: Iterable[str]
    if topic == "elastic":
        return elastic_lines(elastic(scenario, tables))
    if topic == "trial" and plan is not None:
        tried = trial(plan, tables)
        document, lines = tried.document, trial_lines(tried)
    else:
        laid_out = layouts(scenario, tables)
        if laid_out.refusal is not None and all(row.plan is None for row in laid_out.rows):
            raise ScenarioError(laid_out.rows[0].issues)
        document, lines = laid_out.rows[-1].document, layout_lines(laid_out, tables)
    return [json.dumps(document, indent=2, ensure_ascii=False)] if as_json and document else lines


def layout_lines(found: Layouts, tables: Tables) -> Iterator[str]:
    """Each layout with its verdict and speed, then the stages of the last."""
    for row in found.rows:
        yield from _layout(row)
    if found.refusal is not None:
        yield f"fastest: {REFUSALS[found.refusal]}"
        return
    last = found.rows[-1].plan
    if last is None:
        return
    yield ""
    header = ["stage", "devices", "card", "layers", "tensor", "held", "needs", "usable", "s/micro-batch"]
    yield from table(header, (_stage(i, stage) for i, stage in enumerate(stages_of(last, tables))), left=3)
    if found.rows[-1].left_out:
        yield f"left out: device {', '.join(map(str, found.rows[-1].left_out))}"


def _layout(row: Row) -> Iterator[str]:
    name = LAYOUTS[row.name]
    if row.plan is None:
        yield f"{name}: refused"
        yield from (f"  {words.line(issue)}" for issue in row.issues if issue.severity is Severity.ERROR)
        return
    speed = "" if row.tokens_per_s is None else f", {row.tokens_per_s:,.0f} tokens/s"
    yield f"{name}: {words.VERDICTS[row.plan.verdict].lower()}, {_room(row.plan)}{speed}"


def _room(plan: Plan) -> str:
    worst = plan.worst
    where = f"{gib_text(worst.peak_bytes)} of {gib_text(worst.usable_bytes)} GiB"
    return f"{where} on device {worst.indices[0]}"


def _stage(number: int, stage: Stage) -> list[str]:
    device = stage.device
    return [
        str(number + 1),
        ",".join(map(str, stage.indices)),
        device.gpu_id,
        str(device.layers[1] - device.layers[0]),
        str(stage.tensor),
        f"{stage.in_flight:.3g}",
        gib_text(device.peak_bytes),
        gib_text(device.usable_bytes),
        "-" if stage.time_s is None else f"{stage.time_s:.3f}",
    ]


def elastic_lines(found: Elastic) -> Iterator[str]:
    """The job at each number of workers."""
    if found.refusal is not None:
        yield REFUSALS[found.refusal]
        return
    rows = []
    for row in found.rows:
        verdict = "-" if row.plan is None else words.VERDICTS[row.plan.verdict].lower()
        if row.plan is None and row.issue is not None:
            verdict = words.line(row.issue)
        peak = None if row.plan is None else row.plan.worst.peak_bytes
        speed = "-" if row.tokens_per_s is None else f"{row.tokens_per_s:,.0f}"
        mark = f"{row.data}*" if row.data == found.asked else str(row.data)
        rows.append([mark, str(row.cards), gib_text(peak), speed, str(row.accumulation), verdict])
    yield from table(["workers", "cards", "GiB", "tokens/s", "accumulation", "verdict"], rows)
    most = found.rows[-1].data
    yield (
        f"Fits from {found.fewest} to {most} workers."
        if found.fewest
        else f"Does not surely fit even on {most} workers."
    )


def trial_lines(found: Trial) -> Iterator[str]:
    """What the trial is like; its document is printed by `trial --json`."""
    if found.plan is None:
        yield REFUSALS[found.refusal or "not_planned"]
        return
    cards = found.plan.scenario.hardware.num_devices
    yield f"{cards} of the cards, {found.layers} of {found.full_layers} layers: {_room(found.plan)}"
