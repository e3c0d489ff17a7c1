"""The open job on a build: divided as it is, or over all cards in one of a few plain ways, the first that fits."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from json import loads
from typing import Any, Final

from planner.estimate import plan
from planner.issues import Issue, ScenarioError
from planner.ledger import Category
from planner.plan_types import DevicePlan, Plan, Verdict
from planner.scenario import Scenario
from planner.validation import parse_scenario
from ui.answers import Answer, answer, tables
from ui.cost.replans import CARD_LACKS, Rate, rate_of
from ui.document import Document, canonical, get, put_all
from ui.limits import LONGEST_SEQUENCE, largest_sequence

REMEMBERED: Final = 64
CONTEXT_STEP: Final = 512
STATES: Final = (Category.WEIGHTS, Category.GRADIENTS, Category.OPTIMIZER)
STATES_FRAC: Final = 0.6
"""Models whose states, taken at this share of the plan's own bytes a parameter, are above the whole memory are not
planned: how much of a model is kept in other formats differs by less than that."""
DIVISION: Final = (
    "tensor",
    "pipeline",
    "context",
    "expert",
    "expert_tensor",
    "data",
    "sharding_degree",
    "stages",
)
LAYOUT_ONLY: Final = ("pipeline_layers", "pipeline_schedule", "virtual_stages", "sequence")


@dataclass(frozen=True, slots=True, kw_only=True)
class OnBuild:
    """The job on one build.

    Attributes:
        document: The question with the build's cards and the division chosen.
        plan: Its answer; None where no division of it can be planned.
        issue: Why not, or what the cards lack.
        rate: Tokens a second; None where the plan does not fit or the tables lack a figure.
        divided: How the cards are divided: `as_asked`, `copies`, `sharded`, `tensor`, `pipeline`.
    """

    document: Document
    plan: Plan | None = None
    issue: Issue | None = None
    rate: Rate | None = None
    divided: str = "as_asked"

    @property
    def fits(self) -> bool:
        """Whether it fits and the cards can run it."""
        return self.plan is not None and self.plan.verdict is Verdict.FITS and self.issue is None


def on_build(document: Document, rows: list[Document]) -> OnBuild:
    """The job on the cards of these rows.

    The first division that fits is taken, else the one with the most room; the one of the question comes first.
    """
    return _on_build(canonical(document), canonical({"rows": rows}))


@lru_cache(maxsize=REMEMBERED)
def _on_build(text: str, rows_text: str) -> OnBuild:
    document, rows = loads(text), loads(rows_text)["rows"]
    if rows == get(document, "hardware.devices"):
        return _judged(document, "as_asked", answer(document))
    best: OnBuild | None = None
    first: OnBuild | None = None
    for divided, asked in _divisions(document, rows):
        found = _judged(asked, divided, answer(asked))
        first = first or found
        if found.fits:
            return found
        if found.plan is not None and (best is None or _room(found) > _room(best)):
            best = found
    return best or first or OnBuild(document=document)


def _room(found: OnBuild) -> float:
    headroom = None if found.plan is None else found.plan.worst.headroom_bytes
    return float("-inf") if headroom is None or found.issue is not None else headroom


def _judged(document: Document, divided: str, given: Answer) -> OnBuild:
    plan = given.plan
    if plan is None:
        return OnBuild(document=document, issue=next(iter(given.errors), None), divided=divided)
    lacks = next((issue for issue in plan.issues if issue.code in CARD_LACKS), None)
    runs = plan.verdict in (Verdict.FITS, Verdict.TIGHT) and lacks is None
    return OnBuild(
        document=document, plan=plan, issue=lacks, rate=rate_of(plan) if runs else None, divided=divided
    )


def _divisions(document: Document, rows: list[Document]) -> Iterator[tuple[str, Document]]:
    """The question on other cards, divided in turn: as asked, in copies, sharded, by tensor, by pipeline."""
    margin = get(document, "hardware.margin_frac")
    hardware = {"devices": rows} | ({} if margin is None else {"margin_frac": margin})
    base = put_all(document, {"hardware": hardware})
    cards = sum(int(row.get("count", 1)) for row in rows)
    if not get(document, "parallel.stages"):
        yield "as_asked", put_all(base, {"parallel.data": None})
    plain: dict[str, Any] = {f"parallel.{name}": None for name in (*DIVISION, *LAYOUT_ONLY)}
    whole = put_all(base, plain)
    if get(document, "task") == "serve":
        yield from _served(whole, cards)
        return
    yield "copies", put_all(whole, {"parallel.sharding": None})
    if cards > 1:
        for sharding in ("fsdp", "zero3"):
            yield "sharded", put_all(whole, {"parallel.sharding": sharding})
        yield "pipeline", put_all(whole, {"parallel.sharding": None, "parallel.pipeline": cards})


def _served(whole: Document, cards: int) -> Iterator[tuple[str, Document]]:
    if cards > 1:
        yield "tensor", put_all(whole, {"parallel.tensor": cards})
        yield "pipeline", put_all(whole, {"parallel.pipeline": cards})
    yield "copies", whole


def longest_context(found: OnBuild) -> int | None:
    """The longest sequence that still fits on the build, at the same batch; None where no plan is known.

    Returns:
        Tokens, never beyond the model's own limit; 0 where even the shortest does not fit.
    """
    plan = found.plan
    if plan is None or found.issue is not None or plan.worst.usable_bytes is None:
        return None
    if plan.resolved.is_training:
        return largest_sequence(found.document, plan)
    return _longest_served(canonical(found.document), plan.model.max_position_embeddings or LONGEST_SEQUENCE)


@lru_cache(maxsize=REMEMBERED)
def _longest_served(text: str, limit: int) -> int:
    """By halving: a longer context takes no less memory."""
    document: Document = loads(text)

    def fits(steps: int) -> bool:
        tokens = steps * CONTEXT_STEP
        asked = put_all(
            document,
            {"serving.max_model_len": tokens, "workload.prompt_tokens": None, "workload.output_tokens": None},
        )
        plan = answer(asked).plan
        return plan is not None and plan.verdict is Verdict.FITS

    low, high = 0, max(1, min(limit, LONGEST_SEQUENCE) // CONTEXT_STEP)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low * CONTEXT_STEP


def largest_model(found: OnBuild) -> str | None:
    """The model of the catalogue with the most parameters that the same job fits with on the build; None for none."""
    if found.plan is None or found.plan.worst.usable_bytes is None:
        return None
    return _largest_model(canonical(found.document), _most_params(found.plan))


def _most_params(plan: Plan) -> float:
    """More parameters than this can't fit: memory over the bytes that the plan keeps of each."""
    usable = sum((device.usable_bytes or 0) * len(device.indices) for device in plan.devices)
    held = sum(_states(device) * len(device.indices) for device in plan.devices)
    return usable * plan.model.params_total / (held * STATES_FRAC) if held else float("inf")


def _states(device: DevicePlan) -> int:
    sizes = device.ledger.by_category(device.peak_phase)
    return sum(sizes.get(category, 0) for category in STATES)


@lru_cache(maxsize=REMEMBERED)
def _largest_model(text: str, most_params: float) -> str | None:
    document: Document = loads(text)
    for params, model_id in _by_size():
        if params > most_params:
            continue
        scenario, _ = parse_scenario(put_all(document, {"model": {"id": model_id}}))
        if scenario is not None and _fits(scenario):
            return model_id
    return None


def _fits(scenario: Scenario) -> bool:
    try:
        return plan(scenario, tables()).verdict is Verdict.FITS
    except ScenarioError:
        return False


@lru_cache(maxsize=1)
def _by_size() -> tuple[tuple[int, str], ...]:
    """Models with a known count, the largest first."""
    counts = ((tables().models[model_id].get("params_total"), model_id) for model_id in tables().models)
    known = [(count, model_id) for count, model_id in counts if isinstance(count, int)]
    return tuple(sorted(known, reverse=True))
