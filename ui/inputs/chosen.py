"""What choosing another model changes: what one choice set by itself goes back with the next."""

from copy import deepcopy
from typing import Any, Final

from planner.advise.training import FIRST_ADAPTER
from planner.checks.job import TARGETED_METHODS
from planner.checks.pictures import sees
from planner.issues import Issue, ScenarioError
from planner.memory.adapters import acts_on_any
from planner.model import ModelSpec
from planner.scenario import Adapter, Scenario
from planner.validation import model_for, parse_scenario
from ui.answers import answer, tables
from ui.document import Document, get, put, put_all
from ui.inputs.sights import FIELDS, FIRST_PIXELS, IMAGES, PIXELS
from ui.pictures import fitted, latents_of, size_path
from ui.tasks import FIRST_SERVING

ASIDE: Final = "before_pipeline"
SHORTENED: Final = "sequence_shortened"
TARGETS: Final = "adapter.targets"
SET_BY_A_PIPELINE: Final = ("runtime", "parallel", "training.kernels", "training.packing", TARGETS)
SURROUNDINGS: Final = ("task", "hardware")
"""Where one of these has changed meanwhile, what a pipeline replaced belongs to another question."""


def with_model(document: Document, model: Document, aside: dict[str, Any]) -> Document:
    """The question with another model, as that model can be asked it.

    Args:
        document: The question.
        model: Its new `model` block.
        aside: Where what a pipeline replaces is kept until another kind of model is chosen; changed.
    """
    was_pipeline = latents_of(document) is not None
    changed = put(document, "model", model)
    if latents_of(changed) is None:
        changed = _gone_back(changed, aside.pop(ASIDE, None)) if was_pipeline else changed
        return _of_a_length_it_takes(settled(changed), aside)
    former = aside.get(ASIDE, {}).get("former") if was_pipeline else document
    changed = fitted(_without_pictures(changed))
    if former is not None:
        aside[ASIDE] = {"former": deepcopy(former), "made": deepcopy(changed)}
    return changed


def settled(document: Document) -> Document:
    """The question without what its model has no place for: pictures it cannot see, targets it has none of."""
    scenario, _ = parse_scenario(document)
    model = None if scenario is None else _described(scenario)
    if scenario is None or model is None:
        return document
    if not sees(model):
        document = _without_pictures(document)
    elif get(document, IMAGES) and not get(document, PIXELS) and model.tower and not model.tower.fixed:
        document = put(document, PIXELS, FIRST_PIXELS)
    adapter = scenario.adapter
    if adapter is not None and scenario.task != "serve" and not _acts(adapter, model):
        document = put(document, TARGETS, FIRST_ADAPTER["targets"])
    return document


def _acts(adapter: Adapter, model: ModelSpec) -> bool:
    return adapter.method not in TARGETED_METHODS or acts_on_any(model, adapter)


def _described(scenario: Scenario) -> ModelSpec | None:
    try:
        return model_for(scenario, tables())
    except ScenarioError:
        return None


def _without_pictures(document: Document) -> Document:
    return put_all(document, dict.fromkeys(FIELDS))


def _gone_back(document: Document, kept: dict[str, Document] | None) -> Document:
    """What a pipeline replaced, unless it was changed since; a sequence that meant a picture in any case."""
    former: Document = kept["former"] if kept else {}
    made: Document = kept["made"] if kept else {}
    if kept and all(get(document, path) == get(former, path) for path in SURROUNDINGS):
        unchanged = (path for path in SET_BY_A_PIPELINE if get(document, path) == get(made, path))
        document = put_all(document, {path: get(former, path) for path in unchanged})
    path = size_path(document)
    return put(document, path, get(former, path, get(FIRST_SERVING, path)))


def _of_a_length_it_takes(document: Document, aside: dict[str, Any]) -> Document:
    """No more tokens than the model has positions, the number that is its own, and as many as before once it can."""
    path, kept = size_path(document), aside.pop(SHORTENED, {})
    if kept.get("path") == path and get(document, path) == kept["made"]:
        document = put(document, path, kept["former"])
    taken = _length_it_takes(document, path)
    if taken is None:
        return document
    aside[SHORTENED] = {"path": path, "former": get(document, path), "made": taken}
    return put(document, path, taken)


def _length_it_takes(document: Document, path: str) -> int | None:
    """Tokens in place of those asked for; None where the model takes these."""
    found = answer(document)
    for issue in found.errors:
        allowed = dict(issue.params).get("allowed")
        if _too_long(issue, path) and isinstance(allowed, int):
            return allowed
    own = any((one.code, one.field) == ("no_effect", path) for one in found.issues)
    return found.plan.resolved.training.sequence_length if own and found.plan is not None else None


def _too_long(issue: Issue, path: str) -> bool:
    return (issue.code, issue.field) == ("sequence_beyond_positions", path)
