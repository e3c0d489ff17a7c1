"""Measurement records: a scenario that really ran, and what was read. One strict loader for every file.

Nothing here reads a disk; the caller hands the text in. A record whose own keys are wrong is refused;
one whose scenario the schema can't say is kept with its issues and counts as unsupported.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from planner.checks.words import shown
from planner.issues import Issue
from planner.scenario import Scenario
from planner.validation import parse_scenario

Bytes = Annotated[int, Field(ge=0, le=2**60, strict=True)]
Tally = Annotated[int, Field(ge=0, le=2**60, strict=True)]
Positive = Annotated[float, Field(gt=0, le=1e18, allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1)]
Observation = int | float | bool

KINDS: Final = ("mfu_kind", "tflops_kind")
"""Fields that say what kind another observed field is; not measured themselves."""


class Observed(BaseModel):
    """What was read, each figure with its own type; at least one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    peak_allocated_bytes: Bytes | None = None
    peak_reserved_bytes: Bytes | None = None
    peak_active_bytes: Bytes | None = None
    peak_unknown_bytes: Bytes | None = None
    device_used_bytes: Bytes | None = None
    resting_allocated_bytes: Bytes | None = None
    weights_bytes: Bytes | None = None
    parameters: Tally | None = None
    trainable_parameters: Tally | None = None
    kv_bytes: Bytes | None = None
    kv_tokens: Tally | None = None
    kv_blocks: Tally | None = None
    state_slots: Tally | None = None
    state_bytes: Bytes | None = None
    kv_and_state_bytes: Bytes | None = None
    non_kv_bytes: Bytes | None = None
    activation_peak_bytes: Bytes | None = None
    non_torch_bytes: Bytes | None = None
    cuda_context_bytes: Bytes | None = None
    cuda_graph_bytes: Bytes | None = None
    compute_buffer_bytes: Bytes | None = None
    output_buffer_bytes: Bytes | None = None
    loading_peak_bytes: Bytes | None = None
    host_weights_bytes: Bytes | None = None
    host_kv_bytes: Bytes | None = None
    host_compute_buffer_bytes: Bytes | None = None
    max_concurrency: Positive | None = None
    fits: bool | None = None
    tokens_per_s_per_gpu: Positive | None = None
    step_time_s: Positive | None = None
    mfu: Annotated[float, Field(gt=0, le=1.5, allow_inf_nan=False)] | None = None
    mfu_kind: Literal["model", "hardware"] | None = None
    tflops_per_gpu: Positive | None = None
    tflops_kind: Literal["model", "hardware"] | None = None
    output_tokens_per_s: Positive | None = None
    request_latency_s: Positive | None = None
    ttft_s: Positive | None = None
    tpot_s: Positive | None = None


METRICS: Final = tuple(name for name in Observed.model_fields if name not in KINDS)
"""Every field that a prediction can be compared with."""

BYTE_METRICS: Final = frozenset(name for name in METRICS if name.endswith("_bytes"))


class _Line(BaseModel):
    """One line of a file, the scenario left as it is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Annotated[str, Field(pattern=r"^\S{1,200}$")]
    family: Text
    grade: Literal["A", "B"]
    scenario: JsonValue
    rank: Annotated[str, Field(pattern=r"^(any|max|sum|first_stage|middle_stage|last_stage|device\d{1,6})$")]
    group: Text | None = None
    observed: Observed
    undetermined: tuple[str, ...] = ()
    rounding_bytes: Bytes | dict[str, Bytes] = 0
    assumed: tuple[Text, ...] = ()
    notes: str | None = None
    source: Text
    date: str | None = None
    raw: dict[str, JsonValue] | None = None


SHARE_NAMES: Final = ("gpu_memory_utilization", "gmu", "mem_fraction")
PART_DESCRIBED: Final = "only the text decoder of the model is described"
NO_POOL: Final = frozenset({"llama_cpp", "ik_llama_cpp", "ollama", "transformers"})
LENGTH_KEYS: Final = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx")
POOL_FIELDS: Final = frozenset({
    "kv_bytes", "kv_tokens", "kv_blocks", "max_concurrency", "state_bytes", "state_slots",
    "kv_and_state_bytes", "device_used_bytes",
})  # fmt: skip
WEIGHT_FIELDS: Final = frozenset({"weights_bytes", "non_kv_bytes", "loading_peak_bytes"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A measurement.

    Attributes:
        id: Slug, unique over all files.
        family: The source it comes from.
        grade: A: everything stated; B: something assumed.
        scenario: What ran; None where the schema can't say it.
        issues: Why not.
        rank: The device the figures belong to.
        group: The run, where it gives several records.
        observed: Figure by field.
        undetermined: Fields that the stated scenario can't fix; not scored.
        rounding_bytes: Half the last printed digit, by field.
        assumed: What was not stated.
        notes: Remarks.
        source: Where it was published.
    """

    id: str
    family: str
    grade: str
    scenario: Scenario | None
    issues: tuple[Issue, ...] = ()
    rank: str = "any"
    group: str | None = None
    observed: Mapping[str, Observation]
    undetermined: frozenset[str] = frozenset()
    rounding_bytes: Mapping[str, int] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()
    notes: str = ""
    source: str = ""

    @property
    def scored(self) -> dict[str, Observation]:
        """The observed fields that a prediction is held against."""
        left_out = self.undetermined | self._unstated
        return {name: value for name, value in self.observed.items() if name not in left_out}

    @property
    def _unstated(self) -> frozenset[str]:
        """Fields that an input settles which the record itself says was not told.

        Without the engine's share of the card, every figure of its pool. Where only the text decoder of a
        larger model is described, its weights, and the pool of an engine that takes what they leave. Where
        neither the job nor the model's config names a length, whether the job fits.
        """
        if self.scenario is None or self.scenario.is_training:
            return frozenset()
        part = PART_DESCRIBED in self.assumed
        untold = self.scenario.serving.memory_utilization is None and any(
            map(_says_share_untold, self.assumed)
        )
        no_length = {"fits"} if _length_untold(self.scenario) else set()
        pooled = untold or (part and self.scenario.runtime.name not in NO_POOL)
        pool, weights = POOL_FIELDS if pooled else frozenset(), WEIGHT_FIELDS if part else frozenset()
        return pool | weights | no_length


def _length_untold(scenario: Scenario) -> bool:
    """Whether nothing tells how long a sequence may be."""
    config = scenario.model.config
    if config is None or scenario.serving.max_model_len or scenario.workload is not None:
        return False
    parts = [config, *(part for part in config.values() if isinstance(part, dict))]
    return not any(key in part for part in parts for key in LENGTH_KEYS)


def _says_share_untold(text: str) -> bool:
    """Whether a remark says that the engine's share of the card was not told."""
    return text.startswith(SHARE_NAMES) and " not " in text


class RecordError(ValueError):
    """A line that is not a record.

    Attributes:
        file: Name of the file.
        line: Line number, from 1.
        field: Dotted path, "" for the whole line.
        problem: Code: `no_records`, `not_json`, `id_twice`, `unknown_observed_field`, or pydantic's name of the fault.
        given: What was there.
        allowed: What may be there.
    """

    def __init__(
        self, file: str, line: int, field: str, problem: str, *, given: str = "", allowed: str = ""
    ) -> None:
        super().__init__(f"{file}:{line}: {field or 'line'}: {given or 'nothing'} given; allowed: {allowed}")
        self.file = file
        self.line = line
        self.field = field
        self.problem = problem
        self.given = given
        self.allowed = allowed


def read_records(files: Iterable[tuple[str, str]]) -> tuple[Record, ...]:
    """Every record of some JSON-lines files; empty lines are skipped.

    Args:
        files: Name and text of each.

    Raises:
        RecordError: A line is no JSON, has a key or value that is not allowed, or repeats an id; or a file has none.
    """
    found: dict[str, Record] = {}
    for name, text in files:
        if not text.strip():
            raise RecordError(name, 1, "", "no_records", allowed=_RECORD)
        for number, line in enumerate(text.splitlines(), start=1):
            if not line.strip():
                continue
            record = _record(name, number, line)
            if record.id in found:
                raise RecordError(
                    name, number, "id", "id_twice", given=shown(record.id), allowed="every id once"
                )
            found[record.id] = record
    return tuple(found.values())


def _record(name: str, number: int, text: str) -> Record:
    try:
        document = json.loads(text, parse_constant=_no_constant)
        line = _Line.model_validate_json(json.dumps(document), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        given = "" if first["type"] == "missing" else shown(first["input"])
        raise RecordError(name, number, where, first["type"], given=given, allowed=_allowed(first)) from error
    except (ValueError, RecursionError) as error:
        raise RecordError(name, number, "", "not_json", given=shown(text), allowed=_RECORD) from error
    values: dict[str, Any] = line.observed.model_dump(exclude_none=True, exclude=set(KINDS))
    if not values:
        raise RecordError(name, number, "observed", "missing", given="{}", allowed=", ".join(METRICS))
    for label, names in (("undetermined", line.undetermined), ("rounding_bytes", _rounding_names(line))):
        unknown = next((n for n in names if n not in line.observed.model_fields_set), None)
        if unknown is not None:
            allowed = ", ".join(values)
            raise RecordError(
                name, number, label, "unknown_observed_field", given=shown(unknown), allowed=allowed
            )
    scenario, issues = parse_scenario(line.scenario)
    return Record(
        id=line.id,
        family=line.family,
        grade=line.grade,
        scenario=scenario,
        issues=issues,
        rank=line.rank,
        group=line.group,
        observed=values,
        undetermined=frozenset(line.undetermined),
        rounding_bytes=_rounding(line, values),
        assumed=line.assumed,
        notes=line.notes or "",
        source=line.source,
    )


_RECORD: Final = (
    f"one JSON object a line with {', '.join(n for n, f in _Line.model_fields.items() if f.is_required())}"
)


def _allowed(fault: Mapping[str, Any]) -> str:
    """What may stand at the place of a fault that pydantic found."""
    kind, where = fault["type"], fault["loc"]
    if kind == "extra_forbidden":
        return ", ".join(Observed.model_fields if where[0] == "observed" else _Line.model_fields)
    if kind == "missing":
        return "a value, the field is required"
    if not where:
        return _RECORD
    if kind == "model_type":
        return "an object"
    if "pattern" in fault.get("ctx", {}):
        return f"text like {fault['ctx']['pattern']}"
    said: str = fault["msg"]
    return said.partition(" should be ")[2] or said


def _no_constant(name: str) -> float:
    raise ValueError(name)


def _rounding_names(line: _Line) -> tuple[str, ...]:
    return tuple(line.rounding_bytes) if isinstance(line.rounding_bytes, dict) else ()


def _rounding(line: _Line, values: Mapping[str, Observation]) -> dict[str, int]:
    if isinstance(line.rounding_bytes, dict):
        return dict(line.rounding_bytes)
    return {name: line.rounding_bytes for name in values if name in BYTE_METRICS}
