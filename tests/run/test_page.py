"""run.py: the page's port and server, and that Ctrl-C ends what it started."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import run

if TYPE_CHECKING:
    from collections.abc import Iterator


HEALTHY_SERVER = """
import http.server, sys
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/_stcore/health" else 404)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Health).serve_forever()
"""
POSIX_SIGNALS = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals to send")


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port on which something listens until the test ends."""
    with socket.create_server((run.HOST, 0)) as listener:
        yield listener.getsockname()[1]


def test_the_preferred_port_is_taken_when_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "PREFERRED_PORT", run.any_free_port())
    assert run.pick_port(None) == run.PREFERRED_PORT


def test_another_port_is_found_when_the_preferred_one_is_in_use(
    monkeypatch: pytest.MonkeyPatch, taken_port: int
) -> None:
    monkeypatch.setattr(run, "PREFERRED_PORT", taken_port)
    port = run.pick_port(None)
    assert port != run.PREFERRED_PORT
    assert run.port_is_free(port)


def test_a_port_asked_for_is_not_replaced(taken_port: int) -> None:
    with pytest.raises(run.RunError, match=f"--port {taken_port} "):
        run.pick_port(taken_port)
    free = run.any_free_port()
    assert run.pick_port(free) == free


def test_a_port_that_is_bound_and_not_listening_is_taken() -> None:
    with socket.socket() as holder:
        holder.bind((run.HOST, 0))
        assert not run.port_is_free(holder.getsockname()[1])


def start(port: int, program: str = HEALTHY_SERVER) -> subprocess.Popen[bytes]:
    silent = subprocess.DEVNULL
    return subprocess.Popen([sys.executable, "-c", program, str(port)], stdout=silent, stderr=silent)


def test_a_healthy_server_is_waited_for_and_stopped() -> None:
    port = run.any_free_port()
    server = start(port)
    run.wait_until_healthy(server, run.page_url(port))
    assert server.poll() is None
    run.stop(server, patience_s=0)
    assert server.poll() is not None
    assert run.port_is_free(port)


def test_a_server_that_ends_is_reported_with_its_status() -> None:
    server = start(0, "raise SystemExit(3)")
    with pytest.raises(run.RunError, match="status 3"):
        run.wait_until_healthy(server, run.page_url(run.any_free_port()))


def test_a_server_that_never_answers_is_given_up() -> None:
    server = start(0, "import time; time.sleep(60)")
    try:
        with pytest.raises(run.RunError, match="did not answer"):
            run.wait_until_healthy(server, run.page_url(run.any_free_port()), limit_s=0.2)
    finally:
        run.stop(server, patience_s=0)


@POSIX_SIGNALS
def test_a_server_that_ignores_being_asked_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "STOP_LIMIT_S", 0.2)
    stubborn = (
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); signal.pause()"
    )
    with subprocess.Popen([sys.executable, "-c", stubborn], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        server.stdout.readline()
        run.stop(server, patience_s=0)
        assert server.returncode == -signal.SIGKILL


def run_py_with(replacements: str, *arguments: str) -> subprocess.Popen[str]:
    """Start run.py's own main in a child, with some of its functions replaced."""
    program = f"import subprocess, sys, run\n{replacements}\nsys.exit(run.main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.Popen(command, cwd=run.ROOT, stdout=subprocess.PIPE, encoding="utf-8")


@POSIX_SIGNALS
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_stops_the_page_and_is_no_failure(number: signal.Signals) -> None:
    port = run.any_free_port()
    replacements = (
        "run.ensure_installed = lambda *_: False\n"
        f"program = {HEALTHY_SERVER!r}\n"
        "run.start_server = lambda python, port: subprocess.Popen([sys.executable, '-c', program, str(port)])"
    )
    with run_py_with(replacements, "--no-browser", "--port", str(port)) as started:
        assert started.stdout is not None
        assert run.page_url(port) in started.stdout.readline()
        started.send_signal(number)
        assert started.wait(timeout=30) == 0
    assert run.port_is_free(port)


@POSIX_SIGNALS
def test_an_interrupted_test_run_lets_its_step_put_things_away(tmp_path: Path) -> None:
    trace = tmp_path / "put_away"
    step = (
        "import pathlib, time\n"
        "try:\n"
        "    print('started', flush=True)\n"
        "    time.sleep(60)\n"
        "finally:\n"
        f"    pathlib.Path({str(trace)!r}).touch()\n"
    )
    replacements = (
        "run.ensure_installed = lambda *_: False\n"
        f"run.short_steps = lambda *_: [run.Step('x', [sys.executable, '-c', {step!r}])]"
    )
    with run_py_with(replacements, "test") as started:
        assert started.stdout is not None
        while "started" not in started.stdout.readline():
            pass
        started.send_signal(signal.SIGTERM)
        assert started.wait(timeout=30) == run.INTERRUPTED
    assert trace.exists()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux may have no screen")
def test_no_browser_is_opened_without_a_screen() -> None:
    assert not run.has_screen({})
    assert run.has_screen({"WAYLAND_DISPLAY": "wayland-0"})


def test_an_expected_error_is_told_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], taken_port: int
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert run.main(["--port", str(taken_port)]) == 1
    told = capsys.readouterr().err
    assert "--port" in told
    assert "Traceback" not in told
