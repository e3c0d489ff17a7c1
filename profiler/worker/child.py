"""A child's life, whatever its job: one request in, events out, an exit code at the end."""

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn, Protocol, TypeVar

from pydantic import ValidationError

from planner.scenario import Scenario
from profiler.documents import Remark
from profiler.events import Failed, Refused, Request, RequestError, parse_request
from profiler.worker.channel import Beat, Channel, end_with_parent, read_first_line

OFFLINE: Final = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
LONGEST_DETAIL: Final = 4000
BAD_REQUEST: Final = 2
MISSING_PACKAGE: Final = 4
EXCEPTION: Final = 5


class Limits(Protocol):
    """What the options of every job say."""

    @property
    def timeout_s(self) -> float:
        """The longest that the job may take."""

    @property
    def memory_limit_bytes(self) -> int | None:
        """The most host memory that the process may hold, None without a limit."""


Limited = TypeVar("Limited", bound=Limits)
Job = Callable[[Channel, Beat, Request, Scenario, Limited], int]
"""Does the work and sends what it finds; returns the exit code."""


def serve(
    read_options: Callable[[Mapping[str, Any]], Limited],
    refusals: Callable[[Scenario, Limited], tuple[Remark, ...]],
    load: Callable[[], Job[Limited]],
) -> int:
    """Serve one request.

    Args:
        read_options: The options from the request; raises `ValidationError`.
        refusals: One remark per field that the job cannot follow; empty if it can.
        load: Imports the job. It takes seconds, so a request that is refused never waits for it.

    Returns:
        The exit code: 0 for a result or a refusal.
    """
    os.environ.update(OFFLINE)
    channel = Channel()
    try:
        request = parse_request(read_first_line())
        scenario = Scenario.model_validate_json(json.dumps(request.scenario))
        options = read_options(request.options)
    except (RequestError, ValidationError) as error:
        channel.send(Failed(reason="bad_request", detail=str(error)[:LONGEST_DETAIL]))
        return BAD_REQUEST
    end_with_parent(options.timeout_s)
    remarks = refusals(scenario, options)
    if remarks:
        channel.send(Refused(remarks=remarks))
        return 0
    beat = Beat(channel, options.memory_limit_bytes)
    beat.start()
    try:
        job = load()
    except ImportError as error:
        channel.send(Failed(reason="missing_package", detail=str(error)[:LONGEST_DETAIL]))
        return MISSING_PACKAGE
    try:
        return job(channel, beat, request, scenario, options)
    except Exception as error:  # noqa: BLE001  # whatever it is, the parent is told
        traceback.print_exc()
        detail = f"{type(error).__name__}: {error}"[:LONGEST_DETAIL]
        channel.send(Failed(reason="exception", detail=detail))
        return EXCEPTION


def end(code: int) -> NoReturn:
    """End the process at once: the interpreter's own end would wait for PyTorch's threads."""
    sys.stderr.flush()
    os._exit(code)
