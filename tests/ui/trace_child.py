"""A child without PyTorch in place of the tracing one: `python trace_child.py MODE TRACE`. Standard library only."""

import json
import os
import sys
import threading
import time
from pathlib import Path


def say(event: str, **fields: object) -> None:
    sys.stdout.buffer.write(json.dumps({"protocol": 1, "event": event, **fields}).encode() + b"\n")
    sys.stdout.buffer.flush()


def end_with_stdin() -> None:
    while os.read(0, 1):
        pass
    os._exit(0)


def main(mode: str, trace: str) -> int:
    sys.stdin.buffer.readline()
    threading.Thread(target=end_with_stdin, daemon=True).start()
    say("started", pid=os.getpid(), torch="2.13.0", device="cpu", device_name="stub")
    if mode == "missing":
        say("error", reason="missing_package", detail="No module named 'torch'")
        return 4
    if mode == "refused":
        params = {"given": "llama", "detail": "(no such class)"}
        say("refused", remarks=[{"code": "model_not_built", "field": "model", "params": params}])
        return 0
    if mode == "crash":
        sys.stderr.write("Traceback\nValueError: broken in the middle\n")
        return 7
    say("progress", step=2, steps=2, phase="backward", fraction=0.7, code="tracing")
    if mode == "hang":
        time.sleep(600)
    say("result", report=json.loads(Path(trace).read_text(encoding="utf-8")))
    return 0


if __name__ == "__main__":
    code = main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)
