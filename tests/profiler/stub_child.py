"""A child without PyTorch that behaves as it is told: `python stub_child.py MODE`. Standard library only."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable


def say(event: str, **fields: object) -> None:
    write(json.dumps({"protocol": 1, "event": event, **fields}).encode() + b"\n")


def write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def end_with_stdin() -> None:
    while os.read(0, 1):  # a thread inside sys.stdin would abort the interpreter as it ends
        pass
    os._exit(0)


def sleep() -> None:
    time.sleep(600)


def leave_a_grandchild() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    write(f"grandchild {child.pid}\n".encode())
    sys.exit(3)


def crash() -> None:
    sys.stderr.write("Traceback\nValueError: broken\n")
    sys.exit(7)


def write_garbage() -> None:
    write(b'Loading weights: 100%\n\xff\xfe\x00{\n{}\n{"event": "started"}\n' + b"x" * 3_000_000)
    write(b'\n{"protocol": 1, "event": "progress", "step": "one"}\n[1, 2]\n' + b'{"a":' * 50_000 + b"\n")


def flood_stderr() -> None:
    for number in range(20_000):
        sys.stderr.write(f"warning {number} " + "y" * 200 + "\n")
    sys.stderr.write("z" * 2_000_000)
    sys.stderr.flush()


def refuse() -> None:
    say("refused", remarks=[{"code": "tensor_parallel", "field": "parallel.tensor", "params": {"given": 2}}])
    sys.exit(0)


def reach_the_limit() -> None:
    say("error", reason="memory_limit", detail="over the limit")
    sys.exit(3)


def send_a_bad_report() -> None:
    say("result", report={"kind": "something else"})
    sys.exit(0)


def take_memory() -> None:
    held = bytearray(300_000_000)
    held[::4096] = b"x" * len(held[::4096])
    sleep()


AFTER_THE_START: dict[str, Callable[[], object]] = {
    "crash": crash,
    "signal": lambda: os.kill(os.getpid(), 9),
    "grandchild": leave_a_grandchild,
    "garbage": write_garbage,
    "noise": flood_stderr,
    "refused": refuse,
    "limit": reach_the_limit,
    "bad_report": send_a_bad_report,
    "silent_exit": lambda: sys.exit(0),
}
IN_THE_STEP: dict[str, Callable[[], object]] = {"hang": sleep, "stubborn": sleep, "greedy": take_memory}


def report(request: dict[str, object]) -> dict[str, object]:
    names = ("device_name", "python", "torch", "transformers", "system")
    group = {"category": "weights", "name": "parameters", "bytes": 4096}
    return {
        "kind": "headroom_measurement",
        "version": 1,
        "created_at": "2026-01-01T00:00:00+00:00",
        **{name: request[name] for name in ("scenario", "config", "options")},
        "environment": {"device": "cpu", **dict.fromkeys(names, "stub")},
        "params_total": 2048,
        "params_trainable": 2048,
        "phases": [{"phase": "forward", "peak_allocated_bytes": 4096, "groups": [group]}],
    }


def main(mode: str) -> None:
    if mode == "deaf":  # neither reads its request nor ends with its input
        sleep()
    request = json.loads(sys.stdin.buffer.readline())
    if mode != "stubborn":
        threading.Thread(target=end_with_stdin, daemon=True).start()
    say("started", pid=os.getpid(), torch="0", device="cpu", device_name="stub")
    AFTER_THE_START.get(mode, lambda: None)()
    say("progress", step=1, steps=2, phase="forward", fraction=0.5, code="measuring")
    say("sample", at_s=0.5, device_used_bytes=None, resident_bytes=1000)
    IN_THE_STEP.get(mode, lambda: None)()
    say("phase_peak", step=1, phase="forward", peak_allocated_bytes=4096, time_s=0.1)
    if mode == "measuring":
        sleep()
    say("result", report=report(request))


if __name__ == "__main__":
    main(sys.argv[1])
