"""Ways to lay a training job out over unequal cards: as asked, in copies, in equal stages, and the fastest found.

Copies are bound by the smallest card, since each holds the same. Tensor parallelism stays inside groups of equal
cards. The fastest pipeline is exact for each number of copies (`planner.mixed.solve`); every layout that is shown is
then planned as a whole, and its speed is that of its plan.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from planner.checks.parallel import dense_widths, head_counts, kv_head_counts
from planner.estimate import plan
from planner.hardware import Tables
from planner.issues import Issue, ScenarioError
from planner.mixed.solve import MOST_UNITS, Kind, Layout, solve
from planner.mixed.stage_costs import Card, StageCosts
from planner.mixed.step_time import cards_of, tokens_per_s
from planner.model.spec import ModelSpec
from planner.plan_types import Plan, Verdict
from planner.resolve import resolve
from planner.scenario import Scenario, to_document
from planner.validation import model_for, parse_scenario

Document = dict[str, Any]
Name = Literal["asked", "copies", "equal_stages", "fastest"]
Refusal = Literal[
    "serves", "one_kind", "experts_divided", "too_many_cards", "nothing_holds_it", "model_not_known"
]

TENSOR_DEGREES: Final = (1, 2, 4, 8)
KEPT: Final = ("sharding", "offload", "bucket_mb", "pipeline_schedule", "context", "sequence")
"""What stays of a division when the job is laid out anew."""
DIVIDES_MATRICES: Final = frozenset({"megatron_lm", "deepspeed", "torchtitan", "generic"})
"""Runtimes with tensor parallelism of their own."""
GATHERED: Final = frozenset({"zero2", "zero3"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One layout.

    Attributes:
        name: What it is.
        document: The question with it.
        plan: Its answer, None where it is refused.
        issues: Why it is refused, or what its plan remarks.
        tokens_per_s: Of all cards together; None where the tables do not tell.
        left_out: Positions of cards that it has no use for.
    """

    name: Name
    document: Document
    plan: Plan | None
    issues: tuple[Issue, ...]
    tokens_per_s: float | None = None
    left_out: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Layouts:
    """Every layout that was looked at.

    Attributes:
        rows: As asked first, the fastest pipeline last.
        refusal: Why no fastest layout was looked for or found.
        speed_known: Whether the tables tell how fast every card is; else layers went by memory alone.
    """

    rows: tuple[Row, ...]
    refusal: Refusal | None = None
    speed_known: bool = True

    @property
    def best(self) -> Row | None:
        """The layout with the most tokens a second of those that fit, else of those that are tight."""
        for wanted in (Verdict.FITS, Verdict.TIGHT):
            found = [row for row in self.rows if row.plan is not None and row.plan.verdict is wanted]
            if found:
                return max(found, key=lambda row: row.tokens_per_s or 0.0)
        return None


def is_mixed(scenario: Scenario) -> bool:
    """Whether a question trains on cards that are not all alike."""
    return (
        scenario.is_training
        and len({(row.gpu, row.memory_bytes, row.free_bytes) for row in scenario.hardware.devices}) > 1
    )


def layouts(scenario: Scenario, tables: Tables) -> Layouts:
    """The layouts of a question, whether it can be planned as asked or not.

    Args:
        scenario: The question.
        tables: Cards and constants.
    """
    asked = _row("asked", to_document(scenario), tables)
    if not scenario.is_training:
        return Layouts(rows=(asked,), refusal="serves")
    if not is_mixed(scenario):
        return Layouts(rows=(asked,), refusal="one_kind")
    rows = [asked]
    others: tuple[tuple[Name, Document], ...] = (
        ("copies", _in_copies(scenario)),
        ("equal_stages", _in_equal_stages(scenario)),
    )
    for name, document in others:
        if document.get("parallel", {}) != asked.document.get("parallel", {}):
            rows.append(_row(name, document, tables))
    if scenario.parallel.expert > 1:
        return Layouts(rows=tuple(rows), refusal="experts_divided")
    try:
        model = model_for(scenario, tables)
        cards = cards_of(scenario, tables)
    except (ScenarioError, LookupError):
        return Layouts(rows=(asked,), refusal="model_not_known")
    found, refusal, speed_known = _fastest(scenario, model, cards, tables)
    if found is not None:
        rows.append(found)
    return Layouts(rows=tuple(rows), refusal=refusal, speed_known=speed_known)


def _row(name: Name, document: Document, tables: Tables, left_out: tuple[int, ...] = ()) -> Row:
    scenario, issues = parse_scenario(document)
    if scenario is None:
        return Row(name=name, document=document, plan=None, issues=issues)
    try:
        answer = plan(scenario, tables)
    except ScenarioError as refusal:
        return Row(name=name, document=document, plan=None, issues=refusal.issues)
    return Row(
        name=name,
        document=document,
        plan=answer,
        issues=answer.issues,
        tokens_per_s=tokens_per_s(answer, tables) if answer.resolved.is_training else None,
        left_out=left_out,
    )


def _divided(scenario: Scenario, changes: dict[str, Any]) -> Document:
    """The question with its division replaced."""
    document = to_document(scenario)
    old = document.get("parallel", {})
    kept = {key: old[key] for key in KEPT if key in old and key not in changes}
    if kept.get("pipeline_schedule") == "interleaved" or not {"stages", "pipeline"} & changes.keys():
        kept.pop("pipeline_schedule", None)
    document["parallel"] = kept | changes
    return document


def _in_copies(scenario: Scenario) -> Document:
    return _divided(scenario, {})


def _in_equal_stages(scenario: Scenario) -> Document:
    return _divided(scenario, {"pipeline": scenario.hardware.num_devices} | _sharding(scenario, 1))


def _sharding(scenario: Scenario, copies: int) -> dict[str, Any]:
    """Nothing to divide states over in one copy; DeepSpeed's pipelines take the first level alone."""
    sharding = scenario.parallel.sharding
    if sharding == "none":
        return {}
    if copies * scenario.parallel.context == 1:
        return {"sharding": "none"}
    if scenario.runtime.name == "deepspeed" and sharding in GATHERED:
        return {"sharding": "zero1"}
    return {}


def _fastest(
    scenario: Scenario, model: ModelSpec, cards: tuple[Card, ...], tables: Tables
) -> tuple[Row | None, Refusal | None, bool]:
    """The layout with the most tokens a second over every number of copies; those that fit before tight ones."""
    degrees = [d for d in _copies(scenario, cards) if _within_limit(d * scenario.parallel.context, cards)]
    if not degrees:
        return None, "too_many_cards", True
    speed_known = True
    for wanted in (Verdict.FITS, Verdict.UNKNOWN):
        found: list[Row] = []
        for data in degrees:
            costs, layout = _search(scenario, model, cards, data, tables, wanted)
            speed_known = costs.speed_known
            if layout is not None:
                document, left_out = _as_document(scenario, layout, costs)
                row = _row("fastest", document, tables, left_out)
                found.extend([row] if row.plan is not None else [])
        if found:
            return max(found, key=lambda row: row.tokens_per_s or 0.0), None, speed_known
    return None, "nothing_holds_it", speed_known


def _copies(scenario: Scenario, cards: tuple[Card, ...]) -> Iterator[int]:
    if scenario.parallel.data is not None and scenario.parallel.stages:
        yield scenario.parallel.data
        return
    most = max(len(card.indices) for card in cards) // scenario.parallel.context
    yield from (d for d in range(1, most + 1) if any(len(card.indices) % d == 0 for card in cards))


def _within_limit(width: int, cards: tuple[Card, ...]) -> bool:
    return all(len(card.indices) // width <= MOST_UNITS for card in cards)


def _search(
    scenario: Scenario,
    model: ModelSpec,
    cards: tuple[Card, ...],
    data: int,
    tables: Tables,
    wanted: Verdict,
) -> tuple[StageCosts, Layout | None]:
    document = _divided(scenario, {"pipeline": 2} | _sharding(scenario, data))
    probe, _ = parse_scenario(document)
    resolved, _ = resolve(probe or scenario, model)
    costs = StageCosts(resolved, model, cards, data, tables, wanted)
    each = data * scenario.parallel.context
    degrees = _tensor_degrees(scenario, model)
    kinds = [
        Kind(
            cards=len(card.indices),
            widths=tuple(t * each for t in degrees if t * each <= len(card.indices))
            or (len(card.indices) + 1,),
        )
        for card in cards
    ]
    pairs = [
        (i, width // each) for i, kind in enumerate(kinds) for width in kind.widths if width <= kind.cards
    ]
    found = solve(
        model.num_layers,
        kinds,
        resolved.training.gradient_accumulation,
        costs.seconds,
        in_turn=resolved.parallel.pipeline_schedule == "naive",
        least_layer_s=costs.least_layer_s(pairs),
    )
    return costs, found


def _tensor_degrees(scenario: Scenario, model: ModelSpec) -> tuple[int, ...]:
    """Degrees that divide heads, key-value heads (one head is copied) and widths of the model.

    One alone where the runtime does not divide matrices and the question does not either.
    """
    parallel = scenario.parallel
    asked = max([parallel.tensor, *(stage.tensor for stage in parallel.stages or ())])
    if asked == 1 and scenario.runtime.name not in DIVIDES_MATRICES:
        return (1,)
    whole = (*head_counts(model), *(n for n in kv_head_counts(model) if n > 1), *dense_widths(model))
    return tuple(t for t in TENSOR_DEGREES if all(count % t == 0 for count in whole))


def _as_document(scenario: Scenario, layout: Layout, costs: StageCosts) -> tuple[Document, tuple[int, ...]]:
    """The question with the stages, on the cards that they take; other cards are taken out of it."""
    free = [list(card.indices) for card in costs.cards]
    taken = []
    for place in layout.stages:
        taken.append(free[place.kind][: place.width])
        del free[place.kind][: place.width]
    left_out = tuple(sorted(index for indices in free for index in indices))
    kept = [index for index in range(scenario.hardware.num_devices) if index not in set(left_out)]
    position = {index: number for number, index in enumerate(kept)}
    stages = [
        {"devices": [position[index] for index in indices], "layers": place.end - place.start}
        | ({"tensor": tensor} if (tensor := costs.tensor_of(place)) > 1 else {})
        for place, indices in zip(layout.stages, taken, strict=True)
    ]
    if len(stages) == 1:
        document = _divided(
            scenario, _one_stage(costs.tensor_of(layout.stages[0])) | _sharding(scenario, costs.data)
        )
    else:
        document = _divided(scenario, {"stages": stages} | _sharding(scenario, costs.data))
    if left_out:
        document["hardware"]["devices"] = _rows_without(document["hardware"]["devices"], set(left_out))
    return document, left_out


def _one_stage(tensor: int) -> dict[str, Any]:
    return {"tensor": tensor} if tensor > 1 else {}


def _rows_without(rows: list[dict[str, Any]], left_out: set[int]) -> list[dict[str, Any]]:
    kept, start = [], 0
    for row in rows:
        count = row.get("count", 1)
        left = sum(1 for index in range(start, start + count) if index not in left_out)
        start += count
        if left:
            kept.append(row | {"count": left})
    return kept
