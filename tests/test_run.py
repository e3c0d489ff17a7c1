"""run.py: what it decides, each decision by itself, and that Ctrl-C ends what it started."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HEALTHY_SERVER = """
import http.server, sys
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/_stcore/health" else 404)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Health).serve_forever()
"""
POSIX_SIGNALS = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals to send")


# --- Python


@pytest.mark.parametrize("version", [(3, 11, 0), (3, 11, 7), (3, 14, 1), (4, 0, 0)])
def test_a_new_enough_python_is_taken(version: tuple[int, int, int]) -> None:
    assert run.python_complaint(version, "/usr/bin/python3") is None


@pytest.mark.parametrize("version", [(3, 10, 13), (3, 7, 16), (2, 7, 18)])
def test_an_old_python_is_named_with_what_is_needed(version: tuple[int, int, int]) -> None:
    complaint = run.python_complaint(version, "/usr/bin/python3") or ""
    assert "3.11 or newer" in complaint
    assert ".".join(map(str, version)) in complaint
    assert "/usr/bin/python3" in complaint


def test_a_newer_python_of_the_machine_is_pointed_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/x" if name == "python3.12" else None)
    assert "python3.12 run.py" in (run.python_complaint((3, 9, 0), "python") or "")


def test_an_old_python_ends_the_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 1, "final", 0))
    assert run.main(["test"]) == 1
    assert "3.11 or newer" in capsys.readouterr().err


# --- The environment and its stamps


class FakeInstall:
    """Stands in for pip: records what was asked, and ends as told."""

    def __init__(self, status: int = 0, complaints: str = "") -> None:
        self.status = status
        self.complaints = complaints
        self.asked: list[list[str]] = []

    def __call__(self, _environment: run.Environment, requirements: Sequence[Path]) -> tuple[int, str]:
        self.asked.append([path.name for path in requirements])
        return self.status, self.complaints


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> run.Environment:
    """Two requirement files and an environment that passes for a real one; making it again empties it."""
    environment = run.Environment(tmp_path / ".venv")

    def create(self: run.Environment) -> None:
        self.python.parent.mkdir(parents=True, exist_ok=True)
        self.python.touch()
        for stamp in self.folder.glob("*.stamp"):
            stamp.unlink()
        (self.folder / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.12.1\n", encoding="utf-8")
        with (self.folder / "made").open("a", encoding="utf-8") as made:
            made.write("x")

    monkeypatch.setattr(run.Environment, "create", create)
    monkeypatch.setattr(run.Environment, "usable", lambda self: self.python.exists())
    (tmp_path / "requirements.txt").write_text("numpy==2.4.6\n", encoding="utf-8")
    (tmp_path / "requirements-dev.txt").write_text("pytest==9.2.0\n", encoding="utf-8")
    return environment


def times_made(environment: run.Environment) -> int:
    return len((environment.folder / "made").read_text(encoding="utf-8"))


def requirements(environment: run.Environment, *names: str) -> list[Path]:
    return [environment.folder.parent / name for name in names or ("requirements.txt",)]


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch) -> FakeInstall:
    fake = FakeInstall()
    monkeypatch.setattr(run, "pip_install", fake)
    return fake


def test_the_second_start_installs_nothing(project: run.Environment, pip: FakeInstall) -> None:
    assert run.ensure_installed(project, requirements(project))
    assert not run.ensure_installed(project, requirements(project))
    assert pip.asked == [["requirements.txt"]]


def test_changed_requirements_are_installed_again(project: run.Environment, pip: FakeInstall) -> None:
    run.ensure_installed(project, requirements(project))
    requirements(project)[0].write_text("numpy==2.4.7\n", encoding="utf-8")
    assert run.ensure_installed(project, requirements(project))
    assert len(pip.asked) == 2
    assert times_made(project) == 1


def test_another_python_means_another_installation(project: run.Environment, pip: FakeInstall) -> None:
    run.ensure_installed(project, requirements(project))
    (project.folder / "pyvenv.cfg").write_text("version = 3.13.0\n", encoding="utf-8")
    assert run.ensure_installed(project, requirements(project))
    assert len(pip.asked) == 2


def test_the_page_needs_no_installation_after_the_tests(project: run.Environment, pip: FakeInstall) -> None:
    both = requirements(project, "requirements.txt", "requirements-dev.txt")
    assert run.ensure_installed(project, both)
    assert not run.ensure_installed(project, both)
    assert not run.ensure_installed(project, requirements(project))
    assert pip.asked == [["requirements.txt", "requirements-dev.txt"]]


def test_the_tests_need_more_than_the_page(project: run.Environment, pip: FakeInstall) -> None:
    run.ensure_installed(project, requirements(project))
    assert run.ensure_installed(project, requirements(project, "requirements.txt", "requirements-dev.txt"))
    assert len(pip.asked) == 2


def test_a_missing_interpreter_means_a_new_environment(project: run.Environment, pip: FakeInstall) -> None:
    run.ensure_installed(project, requirements(project))
    project.python.unlink()
    assert run.ensure_installed(project, requirements(project))
    assert times_made(project) == 2
    assert len(pip.asked) == 2


def test_an_interrupted_installation_leaves_no_stamp_that_holds(
    project: run.Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> tuple[int, str]:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "pip_install", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run.ensure_installed(project, requirements(project))
    fake = FakeInstall()
    monkeypatch.setattr(run, "pip_install", fake)
    assert run.ensure_installed(project, requirements(project))
    assert fake.asked == [["requirements.txt"]]
    assert times_made(project) == 2, "what was cut short is not built upon"


def test_an_interrupted_update_does_not_leave_the_old_stamp(
    project: run.Environment, pip: FakeInstall, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.ensure_installed(project, requirements(project))
    before = requirements(project)[0].read_text(encoding="utf-8")
    requirements(project)[0].write_text("numpy==9\n", encoding="utf-8")
    monkeypatch.setattr(run, "pip_install", FakeInstall(status=-9))
    with pytest.raises(run.RunError):
        run.ensure_installed(project, requirements(project))
    requirements(project)[0].write_text(before, encoding="utf-8")
    monkeypatch.setattr(run, "pip_install", pip)
    assert run.ensure_installed(project, requirements(project))
    assert times_made(project) == 2


def test_a_failed_installation_is_tried_again_in_the_same_environment(
    project: run.Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "pip_install", FakeInstall(1, "Retrying (Retry(total=4"))
    with pytest.raises(run.RunError, match="check the network"):
        run.ensure_installed(project, requirements(project))
    monkeypatch.setattr(run, "pip_install", FakeInstall())
    assert run.ensure_installed(project, requirements(project))
    assert times_made(project) == 1


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("home = /usr/bin\nversion = 3.12.1\n", "3.12.1"),
        ("version_info = 3.13.0.final.0\n", "3.13.0.final.0"),
        ("home = /usr/bin\n", ""),
    ],
)
def test_the_environment_tells_its_python(tmp_path: Path, text: str, version: str) -> None:
    (tmp_path / "pyvenv.cfg").write_text(text, encoding="utf-8")
    assert run.Environment(tmp_path).version() == version


def test_an_empty_folder_is_no_environment(tmp_path: Path) -> None:
    assert run.Environment(tmp_path).version() == ""
    assert not run.Environment(tmp_path).usable()


def test_a_real_environment_is_usable() -> None:
    assert run.Environment(Path(sys.prefix)).usable()


def test_children_do_not_inherit_other_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setenv("PIP_USER", "1")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    variables = run.child_environment(EXTRA="x")
    assert not {"PYTHONPATH", "PIP_USER"} & variables.keys()
    assert variables["PIP_NO_INDEX"] == "1", "pip's own settings stay"
    assert variables["EXTRA"] == "x"


# --- pip's failures


@pytest.mark.parametrize(
    ("complaints", "advice"),
    [
        ("Retrying (Retry(total=4)) after connection broken\nERROR: No matching distribution", "network"),
        ("ERROR: Could not find a version that satisfies the requirement torch==2.13.0", "no build for this"),
        ("Could not install packages due to an OSError: [Errno 28] No space left on device", "disk is full"),
        ("ERROR: Could not install packages due to an OSError: [Errno 13] Permission denied", "who owns"),
        ("ERROR: something nobody has seen", "remove the .venv folder"),
    ],
)  # fmt: skip
def test_the_advice_fits_what_pip_said(complaints: str, advice: str) -> None:
    assert advice in run.pip_advice(complaints)


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        ({"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "."}, "no build for this"),
        ({"PIP_INDEX_URL": "http://127.0.0.1:9", "PIP_RETRIES": "1", "NO_PROXY": "127.0.0.1"}, "network"),
    ],
)
def test_real_pip_failures_are_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], advice: str
) -> None:
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_CONSTRAINT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"PIP_CONFIG_FILE": os.devnull, **settings}.items():
        monkeypatch.setenv(name, value)
    wanted = tmp_path / "requirements.txt"
    wanted.write_text("headroom-has-no-such-package==1\n", encoding="utf-8")
    status, complaints = run.pip_install(run.Environment(Path(sys.prefix)), [wanted])
    assert status > 0
    assert advice in run.pip_advice(complaints)


# --- Ports


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


# --- The server


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


# --- The steps of the tests


def test_the_tests_come_last_and_get_their_arguments() -> None:
    steps = run.short_steps(Path("py"), ["-k", "units"])
    without, within = steps[-2:]
    assert [*without.command[-2:], *within.command[-2:]] == ["-k", "units", "-k", "units"]
    assert without.command[:-2] == [
        "py",
        "-m",
        "pytest",
        "-m",
        "not long and not browser",
        *run.side_by_side(),
    ]
    assert within.command[:-2] == ["py", "-m", "pytest", "-m", "browser and not long"]
    assert without.fine == within.fine == (0, 5)  # one of them may have no test of the name
    assert all(step.fine == (0,) for step in run.short_steps(Path("py"), []))
    assert {"ruff", "mypy", "import-linter"} <= {step.name for step in steps}


def test_the_long_run_takes_every_benchmark(tmp_path: Path) -> None:
    assert all((run.ROOT / "benchmarks" / f"{name}.py").is_file() for name in run.BENCHMARKS)
    for name in run.BENCHMARKS:
        (tmp_path / f"{name}.py").touch()
    steps = run.long_steps(Path("py"), [], tmp_path)
    count = len(run.BENCHMARKS)
    assert [step.command[-1] for step in steps[-count:]] == [f"benchmarks.{name}" for name in run.BENCHMARKS]
    assert steps[-count - 1].command[-2:] == ["-m", "long or hypothesis"]


@pytest.mark.parametrize(
    ("statuses", "result"), [((0, 0), 0), ((1, 0), 1), ((0, 2), 1), ((5, 0), 1)], ids=str
)
def test_one_failing_step_fails_the_run_and_the_rest_still_runs(
    capsys: pytest.CaptureFixture[str], statuses: tuple[int, ...], result: int
) -> None:
    steps = [
        run.Step(f"step {status}", [sys.executable, "-c", f"raise SystemExit({status})"])
        for status in statuses
    ]
    assert run.run_steps(steps) == result
    printed = capsys.readouterr().out
    assert all(f"--- step {status}" in printed for status in statuses)
    assert ("Failed: step" in printed) == bool(result)


def test_no_long_tests_is_no_failure() -> None:
    assert run.run_step(run.Step("x", [sys.executable, "-c", "raise SystemExit(5)"], fine=(0, 5)))


@pytest.mark.parametrize(("second", "passed"), [(0, True), (1, False)])
def test_one_more_try_counts_and_is_shown(
    capsys: pytest.CaptureFixture[str], second: int, *, passed: bool
) -> None:
    first, again = ([sys.executable, "-c", f"raise SystemExit({status})"] for status in (1, second))
    assert run.run_step(run.Step("x", first, again=tuple(again))) is passed
    assert "x: what failed, once more" in capsys.readouterr().out


def test_only_the_tests_in_the_browser_have_one_more_try() -> None:
    steps = run.short_steps(Path(sys.executable), [])
    assert [step.name for step in steps if step.again] == ["pytest, in the browser"]


# --- The command line


@pytest.mark.parametrize(
    ("arguments", "order"),
    [
        ([], run.Order(action="start")),
        (["start"], run.Order(action="start")),
        (["--port", "9000", "--no-browser"], run.Order(action="start", port=9000, browser=False)),
        (["test"], run.Order(action="test")),
        (["test", "-k", "units", "--lf"], run.Order(action="test", pytest_args=("-k", "units", "--lf"))),
        (["test", "--", "tests/ui"], run.Order(action="test", pytest_args=("tests/ui",))),
        (["check", "-x"], run.Order(action="check", pytest_args=("-x",))),
    ],
)
def test_the_command_line_is_read(arguments: list[str], order: run.Order) -> None:
    assert run.parse(arguments) == order


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bake"], ["bake", "start", "test", "check"]),
        (["--port", "0"], ["--port", "'0'", "1 to 65535"]),
        (["--port", "65536"], ["--port", "'65536'", "1 to 65535"]),
        (["--port", "http"], ["--port", "'http'", "1 to 65535"]),
        (["--no-browser", "test"], ["run.py test"]),
    ],
)
def test_a_wrong_command_line_is_explained(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: list[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run.parse(arguments)
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert all(word in told for word in words)


@pytest.mark.parametrize("arguments", [["--help"], ["test", "--help"]])
def test_help_names_the_commands(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run.parse(arguments)
    assert ended.value.code == 0
    assert "python run.py check" in capsys.readouterr().out


def test_an_expected_error_is_told_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], taken_port: int
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert run.main(["--port", str(taken_port)]) == 1
    told = capsys.readouterr().err
    assert "--port" in told
    assert "Traceback" not in told
