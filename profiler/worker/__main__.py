"""The child: `python -m profiler.worker`, started by `profiler.runner`. One request in, events out."""

import json
import os
import sys
import traceback

from pydantic import ValidationError

from planner.scenario import Scenario
from profiler.documents import Options
from profiler.events import Failed, Refused, Request, RequestError, parse_request
from profiler.rank_place import rank_place, why_not_runnable_here
from profiler.worker.channel import Beat, Channel, end_with_parent, read_first_line

OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}


def main() -> int:
    """Serve one request. Returns the exit code: 0 for a result or a refusal."""
    os.environ.update(OFFLINE)
    channel = Channel()
    try:
        request = parse_request(read_first_line())
        scenario = Scenario.model_validate_json(json.dumps(request.scenario))
        options = Options.model_validate(request.options)
    except (RequestError, ValidationError) as error:
        channel.send(Failed(reason="bad_request", detail=str(error)[:4000]))
        return 2
    end_with_parent(options.timeout_s)
    remarks = why_not_runnable_here(scenario, options.device, rank_place())
    if remarks:
        channel.send(Refused(remarks=remarks))
        return 0
    beat = Beat(channel, options.memory_limit_bytes)
    beat.start()
    return _measure(channel, beat, request, scenario, options)


def _measure(channel: Channel, beat: Beat, request: Request, scenario: Scenario, options: Options) -> int:
    try:
        from profiler.worker import session  # noqa: PLC0415  # takes seconds to load
    except ImportError as error:
        channel.send(Failed(reason="missing_package", detail=str(error)[:4000]))
        return 4
    try:
        return session.measure(channel, beat, request, scenario, options)
    except Exception as error:  # noqa: BLE001  # whatever it is, the parent is told
        traceback.print_exc()
        channel.send(Failed(reason="exception", detail=f"{type(error).__name__}: {error}"[:4000]))
        return 5


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # the interpreter's own end would wait for PyTorch's threads
