"""What the child says to its parent: one JSON object a line, each with the protocol's version and its kind.

A line that is not one of these is no error: libraries print. `parse_line` returns None for it and the
parent keeps it in a bounded log.
"""

import json
from typing import Annotated, Any, Final, Literal

from pydantic import Field, TypeAdapter, ValidationError

from profiler.documents import (
    Bytes,
    DeviceKind,
    Fraction,
    MeasuredPhase,
    Param,
    Remark,
    Seconds,
    ShortText,
    Strict,
    Text,
)

PROTOCOL: Final = 1
MAX_LINE_BYTES: Final = 16_000_000
"""A longer line is dropped: no report is that large."""


class Event(Strict):
    """Base of every event."""

    protocol: Literal[1] = PROTOCOL


class Started(Event):
    """The child has read its request and loaded PyTorch."""

    event: Literal["started"] = "started"
    pid: int
    torch: ShortText
    device: DeviceKind
    device_name: ShortText


class Progress(Event):
    """Where the job is.

    Attributes:
        step: Step under way, from 1; 0 before the first.
        steps: Steps in all, warm-up included.
        phase: Phase of the step, None between phases.
        fraction: Share of the whole job done.
        code: What is going on, worded by the page (`building`, `warming_up`, `measuring`, `writing`).
    """

    event: Literal["progress"] = "progress"
    step: Annotated[int, Field(ge=0)]
    steps: Annotated[int, Field(ge=0)]
    phase: MeasuredPhase | None = None
    fraction: Fraction
    code: ShortText
    params: dict[str, Param] = Field(default_factory=dict)


class Sample(Event):
    """One reading beside the step; None = could not be read.

    Attributes:
        at_s: Seconds since the child started.
        device_used_bytes: What NVML says is in use on the whole device.
        process_bytes: What NVML says this process uses, only where it lists this process.
        resident_bytes: Resident host memory of the child.
        phase: Phase at that moment.
    """

    event: Literal["sample"] = "sample"
    at_s: Seconds
    device_used_bytes: Bytes | None = None
    process_bytes: Bytes | None = None
    resident_bytes: Bytes | None = None
    phase: MeasuredPhase | None = None


class PhasePeak(Event):
    """A phase of a measured step is over."""

    event: Literal["phase_peak"] = "phase_peak"
    step: Annotated[int, Field(ge=1)]
    phase: MeasuredPhase
    peak_allocated_bytes: Bytes
    peak_reserved_bytes: Bytes | None = None
    time_s: Seconds


class Result(Event):
    """The report, complete or of a step that ran out of memory. The last event of a job that went well."""

    event: Literal["result"] = "result"
    report: dict[str, Any]


class Refused(Event):
    """The settings cannot be run here; one remark per field at fault."""

    event: Literal["refused"] = "refused"
    remarks: tuple[Remark, ...]


class Failed(Event):
    """The child gives up.

    Attributes:
        reason: `bad_request`, `missing_package`, `no_device`, `memory_limit` or `exception`.
        detail: Text for the log: the exception's type and message.
    """

    event: Literal["error"] = "error"
    reason: Literal["bad_request", "missing_package", "no_device", "memory_limit", "exception"]
    detail: Text = ""


class Heartbeat(Event):
    """The child is alive."""

    event: Literal["heartbeat"] = "heartbeat"
    at_s: Seconds


AnyEvent = Annotated[
    Started | Progress | Sample | PhasePeak | Result | Refused | Failed | Heartbeat,
    Field(discriminator="event"),
]
_ADAPTER: TypeAdapter[AnyEvent] = TypeAdapter(AnyEvent)


def encode(event: Event) -> str:
    """One line, without its end."""
    return event.model_dump_json()


def parse_line(line: bytes) -> AnyEvent | None:
    """The event on a line, or None for anything else, whatever it holds."""
    text = line.strip()
    if not text.startswith(b"{") or len(text) > MAX_LINE_BYTES:
        return None
    try:
        return _ADAPTER.validate_json(text)
    except ValidationError:
        return None


class RequestError(ValueError):
    """The first line on stdin is not a request; the text says why."""


class Request(Strict):
    """What the parent asks: a scenario with every default filled in, the model's own config, how to measure.

    Attributes:
        scenario: A scenario document (`planner.scenario.to_document`).
        config: Keys of the model's config.json.
        options: How to measure (`profiler.documents.Options` as plain values).
        predicted_bytes: Peak the plan expects, None if there is no plan; goes into the report.
    """

    protocol: Literal[1] = PROTOCOL
    scenario: dict[str, Any]
    config: dict[str, Any]
    options: dict[str, Any]
    predicted_bytes: Bytes | None = None


def encode_request(request: Request) -> bytes:
    """One line, with its end."""
    return request.model_dump_json().encode() + b"\n"


def parse_request(line: bytes) -> Request:
    """Read the request.

    Raises:
        RequestError: Not a request of this version.
    """
    try:
        return Request.model_validate(json.loads(line))
    except (ValueError, RecursionError) as error:
        raise RequestError(str(error)[:2000]) from error
