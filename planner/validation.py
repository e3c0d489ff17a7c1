"""From a plain document to a checked question, with every problem tied to its field."""

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from pydantic import ValidationError

from planner.checks import draft, effects, formats, hardware, job, parallel, stored
from planner.checks.codes import make
from planner.checks.hardware import gpu_issues
from planner.checks.plain import plain
from planner.checks.question import Check, Question
from planner.checks.schema_errors import allowed_at, schema_issues
from planner.checks.words import closest, shown
from planner.hardware import Tables
from planner.issues import Issue, ScenarioError, Severity
from planner.model import MODEL_TYPES, ModelSpec, UnknownArchitecture, model_from_row
from planner.model.completed import left_out, model_of
from planner.model.names import catalog_name, named_in_part, nearest_name
from planner.model.task_heads import says_head, with_task_head
from planner.scenario import SCHEMA_VERSION, Scenario

CHECKS: Final[tuple[Check, ...]] = (
    *parallel.CHECKS,
    *hardware.CHECKS,
    *job.CHECKS,
    *formats.CHECKS,
    *stored.CHECKS,
    *draft.CHECKS,
    *effects.CHECKS,
)

LONGEST_TEXT: Final = 5_000_000
"""Characters; the largest config.json known is a hundredth of that."""

_ORDER: Final = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}


def parse_scenario(document: object) -> tuple[Scenario | None, tuple[Issue, ...]]:
    """Read a document as strictly as the published JSON schema says; never raises.

    Args:
        document: What a JSON reader returned, or the same built in Python (tuples and mappings count as lists
            and objects).

    Returns:
        The scenario and no issues, or None and one issue per field at fault.
    """
    values, found = plain(document)
    if found:
        return None, tuple(_with_allowed(issue) for issue in found)
    if not isinstance(values, dict):
        return None, (make("wrong_type", "", given=shown(values), allowed="object"),)
    version = values.get("version")
    if isinstance(version, bool):
        return None, (
            make("wrong_type", "version", given=shown(version), allowed=f"integer {SCHEMA_VERSION}"),
        )
    if isinstance(version, int) and version > SCHEMA_VERSION:
        return None, (make("newer_version", "version", given=version, allowed=SCHEMA_VERSION),)
    try:
        return Scenario.model_validate_json(json.dumps(values), strict=True), ()
    except ValidationError as error:
        return None, schema_issues(error, values)


def document_from_text(text: str, field: str = "") -> tuple[object, tuple[Issue, ...]]:
    """Read JSON text, of a scenario or of a config.json; never raises.

    Args:
        text: What was pasted or uploaded.
        field: Where the issue belongs: `model.config` for a config, "" for a whole scenario.

    Returns:
        The document and no issues, or None and one: `text_too_long` or `not_json` with line and column.
    """
    if len(text) > LONGEST_TEXT:
        return None, (make("text_too_long", field, given=len(text), allowed=LONGEST_TEXT),)
    try:
        return json.loads(text), ()
    except json.JSONDecodeError as error:
        return None, (make("not_json", field, line=error.lineno, column=error.colno),)
    except (ValueError, RecursionError):
        return None, (make("not_json", field, line=None, column=None),)


def _with_allowed(issue: Issue) -> Issue:
    """An issue of the plain walk, told what the schema allows in that place."""
    params = dict(issue.params)
    if params.get("allowed") != "":
        return issue
    path = tuple(int(part) if part.isdecimal() else part for part in issue.field.split("."))
    return make(issue.code, issue.field, **(params | {"allowed": allowed_at(path)}))


def model_for(scenario: Scenario, tables: Tables) -> ModelSpec:
    """The model a scenario names: built from its config if it has one, else from the catalog row of its id.

    An encoder that is trained has the head of its task (`planner.model.task_heads`).
    What a config lacks is taken from the row of the id beside it. A copy of a catalogued model, by its name, has the
    shapes of that model; `check` says so.

    Raises:
        ScenarioError: No model, an id that the catalog lacks, or an architecture without closed forms.
            The issue's field is `model.id` or `model.config.<key>`. Unknown cards are named with it.
    """
    choice, task = scenario.model, scenario.task
    try:
        if choice.config is not None:
            return with_task_head(model_of(choice.config, choice.id, tables.models), task)
        if choice.id is not None and (choice.id in tables.models or choice.id in tables.pipelines):
            return with_task_head(_from_catalog(choice.id, tables), task)
        if choice.id is not None and (made_from := catalog_name(choice.id, tuple(tables.models))):
            return with_task_head(_from_catalog(made_from, tables), task)
        problem = _not_found(choice.id, tables)
    except UnknownArchitecture as refusal:
        problem = _refused(refusal, from_config=choice.config is not None)
    raise ScenarioError((problem, *gpu_issues(scenario, tables)))


def _not_found(model_id: str | None, tables: Tables) -> Issue:
    if model_id is None:
        return make("model_not_given", "model.id", allowed="id, config")
    near = (
        nearest_name(model_id, tuple(tables.models))
        or named_in_part(model_id, tuple(tables.pipelines))
        or closest(model_id, tables.pipelines)
    )
    return make("model_id_unknown", "model.id", given=model_id[:80], closest=near)


@lru_cache(maxsize=256)
def _from_catalog(model_id: str, tables: Tables) -> ModelSpec:
    row = tables.models.get(model_id)
    return model_from_row(tables.pipelines[model_id] if row is None else row)


def _refused(refusal: UnknownArchitecture, *, from_config: bool) -> Issue:
    key = refusal.key[:60]
    field = (f"model.config.{key}" if key else "model.config") if from_config else "model.id"
    bound = refusal.lower_bound_params
    kind = refusal.model_type[:60]
    if refusal.reason == "unknown_model_type":
        given, near = refusal.value or shown(kind), closest(kind, MODEL_TYPES)
        return make("model_type_unknown", field, given=given, closest=near, lower_bound_params=bound)
    if refusal.reason == "diffusion_pipeline":
        return make("denoiser_not_modelled", field, given=refusal.value, lower_bound_params=bound)
    if refusal.reason == "missing_key":
        return make("config_key_missing", field, key=key, model_type=kind or "Hugging Face")
    if refusal.reason == "bad_value":
        given, allowed = refusal.value, refusal.allowed
        return make("config_value_bad", field, key=key, model_type=kind, given=given, allowed=allowed)
    return make(
        "config_feature_unsupported",
        field,
        key=key,
        model_type=kind,
        given=refusal.value,
        lower_bound_params=bound,
    )


def check(scenario: Scenario, resolved: Scenario, model: ModelSpec, tables: Tables) -> tuple[Issue, ...]:
    """Everything that only several fields together can show.

    Args:
        scenario: As the user gave it; tells which fields were set.
        resolved: With the runtime's defaults.
        model: What `model_for` returned.
        tables: Cards and the rest.

    Returns:
        Errors first, then warnings, then notes; one issue for one code and field.
    """
    question = Question(asked=scenario, resolved=resolved, model=model, tables=tables)
    found = [*gpu_issues(scenario, tables), *_model_issues(scenario, model, tables)]
    for run in CHECKS:
        found.extend(run(question))
    found.extend(make("not_modelled", field, reason=reason) for field, reason in _gaps(resolved, model))
    unique = {(issue.code, issue.field): issue for issue in reversed(found)}
    in_order = list(reversed(unique.values()))
    return tuple(sorted(in_order, key=lambda issue: _ORDER[issue.severity]))


def _gaps(resolved: Scenario, model: ModelSpec) -> Sequence[tuple[str, str]]:
    if resolved.is_training:
        from planner.training.gaps import not_modelled as training_gaps  # noqa: PLC0415 - only training needs it

        return training_gaps(resolved, model)
    from planner.serving.gaps import not_modelled as serving_gaps  # noqa: PLC0415 - only servers need it

    return serving_gaps(resolved, model)


def _model_issues(scenario: Scenario, model: ModelSpec, tables: Tables) -> Iterator[Issue]:
    field, given = "model.id" if scenario.model.config is None else "model.config", scenario.model.id
    if scenario.model.config is None and given not in tables.models and given not in tables.pipelines:
        taken = catalog_name(given or "", tuple(tables.models))
        yield make("model_made_from", field, given=(given or "")[:80], taken=taken)
    if says_head(model) == "masked_lm":
        yield make("head_masked_lm", field, vocabulary=model.vocab_size)
    elif says_head(model) == "classifier":
        yield make("head_classifier", field)
    for reason in model.approximate:
        yield make("model_approximate", field, reason=reason)
    if scenario.model.config is not None and (key := left_out(scenario.model.config, scenario.model.id)):
        yield make("config_completed", field, key=key)
