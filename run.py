"""Starts Headroom, or tests it, from a fresh checkout. Needs Python 3.11 or newer and nothing else.

python run.py                      make .venv, install, open the page
python run.py test [pytest args]   lint, type check, import walls, tests
python run.py check [pytest args]  the long matrices and soaks, then the benchmarks

What is installed goes to .venv, which is made again when it is broken. Stamps in it say which requirements
it holds, so later starts install nothing. pip's own settings (index, proxy, wheels) are honoured.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType

ROOT = Path(__file__).resolve().parent
WINDOWS = sys.platform == "win32"
OLDEST_PYTHON = (3, 11)
NEWER_PYTHONS = ("python3.14", "python3.13", "python3.12", "python3.11")
HOST = "127.0.0.1"
PREFERRED_PORT = 8501
START_LIMIT_S = 60.0
STOP_LIMIT_S = 5.0
UNFINISHED = "unfinished"
BENCHMARKS = (
    "accuracy",
    "speed",
    "sweep",
    "cross_validation",
    "trace_speed",
    "trace_published",
    "formula_trace",
)
INTERRUPTED = 130
NO_TESTS = 5
"""pytest's exit status where no test was asked for."""


class RunError(Exception):
    """Something the person at the keyboard has to put right; the text says what."""


class Terminated(KeyboardInterrupt):
    """We were told to end, and unlike with Ctrl-C our children were not."""


# --- Python and the environment


def python_complaint(version: tuple[int, int, int], executable: str) -> str | None:
    """Say why this Python cannot be used, or None when it can."""
    if version[:2] >= OLDEST_PYTHON:
        return None
    needed = ".".join(map(str, OLDEST_PYTHON))
    given = ".".join(map(str, version))
    newer = [name for name in NEWER_PYTHONS if shutil.which(name)]
    advice = f"This machine has one: {newer[0]} run.py" if newer else "Install one and start run.py with it."
    return f"Headroom needs Python {needed} or newer; this is Python {given} ({executable}). {advice}"


class Environment(NamedTuple):
    """The virtual environment in a folder."""

    folder: Path

    @property
    def python(self) -> Path:
        """The interpreter, whether or not it exists yet."""
        return self.folder / ("Scripts/python.exe" if WINDOWS else "bin/python")

    def version(self) -> str:
        """Python version as the environment was made with it, empty when that is not known."""
        with contextlib.suppress(OSError):
            for line in (self.folder / "pyvenv.cfg").read_text(encoding="utf-8").splitlines():
                key, _, value = line.partition("=")
                if key.strip() in {"version", "version_info"}:
                    return value.strip()
        return ""

    def usable(self) -> bool:
        """Whether the interpreter starts, is new enough and has pip."""
        test = f"import sys, pip; sys.exit(sys.version_info < {OLDEST_PYTHON})"
        try:
            return _quiet([self.python, "-c", test], timeout_s=60) == 0
        except (OSError, subprocess.TimeoutExpired):
            return False

    def create(self) -> None:
        """Make the environment, or make it again over a broken one.

        Raises:
            RunError: The venv module failed, as it does on Debian without python3-venv.
        """
        print(f"Making {self.folder.name} with Python {sys.version.split()[0]} ...", flush=True)
        command = [sys.executable, "-m", "venv", "--clear", str(self.folder)]
        if subprocess.run(command, check=False, env=child_environment()).returncode != 0:
            raise RunError(
                f"Python could not make a virtual environment in {self.folder} (its words are above). "
                "On Debian and Ubuntu: apt install python3-venv"
            )


def child_environment(**more: str) -> dict[str, str]:
    """Environment variables for a child: ours, less those that would lead it to other packages."""
    foreign = {"PYTHONPATH", "PYTHONHOME", "PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_REQUIRE_VIRTUALENV"}
    kept = {key: value for key, value in os.environ.items() if key not in foreign}
    return {**kept, "PYTHONUTF8": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", **more}


def stop(child: subprocess.Popen[Any], *, patience_s: float = 0.5) -> None:
    """End a child that has not ended yet: wait, since Ctrl-C reaches it as well; then ask; then insist."""
    for limit_s, end in ((patience_s, child.terminate), (STOP_LIMIT_S, child.kill)):
        try:
            child.wait(timeout=limit_s)
        except subprocess.TimeoutExpired:
            end()
    child.wait()


def _quiet(command: Sequence[str | Path], *, timeout_s: float) -> int:
    """Run a command without its output and return its exit status."""
    silent = subprocess.DEVNULL
    return subprocess.run(
        list(map(str, command)), check=False, timeout=timeout_s, stdin=silent, stdout=silent, stderr=silent
    ).returncode


# --- Installing


def fingerprint(requirements: Path, python_version: str) -> str:
    """Name the contents of a requirements file and the Python they were installed for."""
    text = requirements.read_text(encoding="utf-8")
    return hashlib.sha256(f"{python_version}\n{text}".encode()).hexdigest()


class Stamp(NamedTuple):
    """A file in the environment that says which version of a requirements file it holds."""

    path: Path

    def read(self) -> str:
        """What was installed, UNFINISHED while that goes on, empty when nothing was."""
        try:
            return self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return ""

    def write(self, text: str) -> None:
        """Put it in place whole."""
        draft = self.path.with_suffix(".part")
        draft.write_text(text, encoding="utf-8")
        draft.replace(self.path)


def ensure_installed(environment: Environment, requirements: Sequence[Path]) -> bool:
    """Bring the environment to these requirements; True when something had to be installed.

    An installation that was cut short may leave a package that pip takes for complete, so the environment is
    then made again.

    Raises:
        RunError: The environment could not be made, or pip failed.
    """
    stamps = {path: Stamp(environment.folder / f"headroom-{path.stem}.stamp") for path in requirements}
    found = [stamp.read() for stamp in stamps.values()]
    wanted = [fingerprint(path, environment.version()) for path in requirements]
    if environment.python.exists() and found == wanted:
        return False
    if UNFINISHED in found or not environment.usable():
        environment.create()
    names = " and ".join(path.name for path in requirements)
    print(f"Installing {names} into {environment.folder.name}; the first time takes minutes ...", flush=True)
    for stamp in stamps.values():
        stamp.write(UNFINISHED)
    status, complaints = pip_install(environment, requirements)
    if status > 0:  # pip came to its own end, and it undoes what it cannot finish
        for stamp in stamps.values():
            stamp.path.unlink()
    if status != 0:
        raise RunError(f"pip failed (its words are above). {pip_advice(complaints)}")
    for path, stamp in stamps.items():
        stamp.write(fingerprint(path, environment.version()))
    return True


def pip_install(environment: Environment, requirements: Sequence[Path]) -> tuple[int, str]:
    """Install requirement files together; return pip's exit status and what it said on standard error."""
    command = [str(environment.python), "-m", "pip", "install", "--no-input"]
    for path in requirements:
        command += ["-r", str(path)]
    complaints: list[str] = []
    with subprocess.Popen(
        command, cwd=ROOT, env=child_environment(), stderr=subprocess.PIPE, encoding="utf-8", errors="replace"
    ) as pip:
        try:
            for line in pip.stderr or ():
                sys.stderr.write(line)
                complaints.append(line)
            return pip.wait(), "".join(complaints)
        finally:
            stop(pip)


# pip reports a missing network as a missing package as well, so the network is looked for first.
_PIP_CAUSES = {
    "The package index could not be reached: check the network and the proxy": (
        *("Retrying (Retry", "NewConnectionError", "ConnectTimeout", "ReadTimeout", "ProxyError"),
        *("name resolution", "getaddrinfo"),
    ),
    "The certificate of the package index was refused: check the proxy and the clock": (
        *("SSLError", "CERTIFICATE_VERIFY_FAILED"),
    ),
    "The disk is full: PyTorch alone takes several GB": ("No space left", "Errno 28", "WinError 112"),
    "A file could not be written: check who owns .venv": ("Permission denied", "Errno 13", "WinError 5"),
    "A package has no build for this Python or system: Python 3.11 to 3.13 on 64 bits is known to work": (
        *("No matching distribution", "Could not find a version", "Requires-Python"),
    ),
}


def pip_advice(complaints: str) -> str:
    """Say in one sentence what most likely went wrong, from pip's own error output."""
    for cause, marks in _PIP_CAUSES.items():
        if any(mark in complaints for mark in marks):
            return f"{cause}; then run the same command again."
    return "Run the same command again; if it fails again, remove the .venv folder first."


# --- The page


def port_is_free(port: int) -> bool:
    """Whether nothing listens on this local port and it can be bound."""
    with socket.socket() as caller:
        caller.settimeout(0.5)
        if caller.connect_ex((HOST, port)) == 0:
            return False
    with socket.socket() as listener:
        if not WINDOWS:  # there the option would let two servers share the port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError:
            return False
    return True


def pick_port(asked: int | None) -> int:
    """Take the port asked for, else the preferred one, else any that is free.

    Raises:
        RunError: The port asked for is taken or not allowed.
    """
    if asked is not None:
        if not port_is_free(asked):
            raise RunError(f"--port {asked} is taken or reserved. Leave --port out to get one that is free.")
        return asked
    return PREFERRED_PORT if port_is_free(PREFERRED_PORT) else any_free_port()


def any_free_port() -> int:
    """Take a local port that nothing uses at the moment."""
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        port: int = listener.getsockname()[1]
        return port


def page_url(port: int) -> str:
    """Address of the page, by number: the name localhost may lead to another server on IPv6."""
    return f"http://{HOST}:{port}"


def start_server(python: Path, *, port: int) -> subprocess.Popen[bytes]:
    """Start the page's server; `wait_until_healthy` tells when it answers."""
    command = [str(python), "-m", "streamlit", "run", "app.py"]
    command += [f"--server.address={HOST}", f"--server.port={port}", "--server.headless=true"]
    return subprocess.Popen(command, cwd=ROOT, env=child_environment())


def wait_until_healthy(server: subprocess.Popen[bytes], url: str, *, limit_s: float = START_LIMIT_S) -> None:
    """Return once the page answers.

    Raises:
        RunError: The server ended, or did not answer within the limit.
    """
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise RunError(f"The page's server ended with status {server.returncode} (its words are above).")
        with contextlib.suppress(OSError), direct.open(f"{url}/_stcore/health", timeout=2) as answer:
            if answer.status == 200:
                return
        time.sleep(0.1)
    raise RunError(f"The page did not answer at {url} within {limit_s:.0f} s.")


def has_screen(variables: Mapping[str, str]) -> bool:
    """Whether a browser window can open; without one, Linux would start a text browser in this terminal."""
    if not sys.platform.startswith("linux"):
        return True
    return any(variables.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME", "BROWSER"))


def serve(environment: Environment, *, port: int, browser: bool) -> int:
    """Run the page until Ctrl-C (exit status 0) or until its server ends (its own status).

    Raises:
        RunError: The page did not come up.
    """
    url = page_url(port)
    server = start_server(environment.python, port=port)
    try:
        wait_until_healthy(server, url)
        print(f"Headroom is at {url} (Ctrl-C stops it).", flush=True)
        if browser and has_screen(os.environ):
            webbrowser.open(url)
        return server.wait()
    except KeyboardInterrupt:
        print("Stopped.", flush=True)
        return 0
    finally:
        stop(server)


# --- Tests


class Step(NamedTuple):
    """One command of the test run.

    `fine` lists the exit statuses that count as passed; `again` runs once when the command failed, and counts.
    """

    name: str
    command: list[str]
    fine: tuple[int, ...] = (0,)
    again: tuple[str, ...] = ()


def short_steps(python: Path, pytest_args: Sequence[str]) -> list[Step]:
    """The commands behind `run.py test`, the tests last so that their closing line is near the end."""
    lint_imports = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    return [
        Step("ruff", [str(python), "-m", "ruff", "check", "."]),
        Step("mypy", [str(python), "-m", "mypy"]),
        Step("import-linter", [str(python), "-c", lint_imports, "--no-logo"]),
        Step("Chromium for the browser tests", [str(python), "-m", "tests.chromium"]),
        *pytest_steps(python, pytest_args),
    ]


def pytest_steps(python: Path, pytest_args: Sequence[str]) -> list[Step]:
    """The tests without a browser side by side, then those in the browser one at a time: pages take turns.

    Browsers, ports and processes are not always on time on a busy machine: what failed has one more try, by itself,
    which the output shows.
    """
    fine = (0, NO_TESTS) if pytest_args else (0,)
    pytest = [str(python), "-m", "pytest"]
    plain = [*pytest, "-m", "not long and not browser"]
    in_browser = [*pytest, "-m", "browser and not long", *pytest_args]
    return [
        Step(
            "pytest", [*plain, *side_by_side(), *pytest_args], fine, (*plain, *pytest_args, "--last-failed")
        ),
        Step("pytest, in the browser", in_browser, fine, (*in_browser, "--last-failed")),
    ]


def side_by_side() -> list[str]:
    """The options that run the tests of different files side by side, in at most four processes."""
    return ["-n", str(min(os.cpu_count() or 1, 4)), "--dist", "loadfile"]


def long_steps(python: Path, pytest_args: Sequence[str], benchmarks: Path) -> list[Step]:
    """The commands behind `run.py check`: the long tests, two at a time, then each benchmark by itself."""
    pytest = [str(python), "-m", "pytest", "-n", str(min(os.cpu_count() or 1, 2)), "--dist", "worksteal"]
    plain = [*pytest, "-m", "(long or hypothesis) and not browser", *pytest_args]
    in_browser = [*pytest, "-m", "long and browser", *pytest_args]
    fine = (0, NO_TESTS)
    steps = [
        Step("Chromium for the browser tests", [str(python), "-m", "tests.chromium"]),
        Step("pytest, long matrices and new random inputs", plain, fine),
        Step("pytest, every example on every page", in_browser, fine, (*in_browser, "--last-failed")),
    ]
    present = [name for name in BENCHMARKS if (benchmarks / f"{name}.py").exists()]
    return steps + [Step(f"benchmark {name}", [str(python), "-m", f"benchmarks.{name}"]) for name in present]


def run_step(step: Step) -> bool:
    """Run one step, a second time if it has one more try, and return whether it passed."""
    if run_command(step.command, step.fine):
        return True
    if not step.again:
        return False
    print(f"\n--- {step.name}: what failed, once more", flush=True)
    return run_command(step.again, step.fine)


def run_command(command: Sequence[str], fine: Sequence[int]) -> bool:
    """Run a command and return whether it passed; when interrupted, let it put its own things away."""
    child = subprocess.Popen(command, cwd=ROOT, env=child_environment())
    try:
        return child.wait() in fine
    except Terminated:
        if not WINDOWS:
            child.send_signal(signal.SIGINT)
        raise
    finally:
        stop(child, patience_s=STOP_LIMIT_S)


def run_steps(steps: Sequence[Step]) -> int:
    """Run every step even when one fails, say which did, and return 0 only when none did."""
    failed = []
    for step in steps:
        print(f"\n--- {step.name}", flush=True)
        if not run_step(step):
            failed.append(step.name)
    print(f"\nFailed: {', '.join(failed)}." if failed else "\nAll passed.", flush=True)
    return 1 if failed else 0


# --- Command line


def port_number(text: str) -> int:
    """Read a port for argparse.

    Raises:
        argparse.ArgumentTypeError: It is none.
    """
    if text.isascii() and text.isdigit() and 1 <= int(text) <= 65535:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a port: a whole number from 1 to 65535")


class Order(NamedTuple):
    """What the command line asks for."""

    action: str
    port: int | None = None
    browser: bool = True
    pytest_args: tuple[str, ...] = ()


def parse(arguments: Sequence[str]) -> Order:
    """Read the command line; what follows `test` or `check` goes to pytest untouched."""
    first, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if first in {"test", "check"} and not {"-h", "--help"} & set(rest):
        return Order(action=first, pytest_args=tuple(rest[1:] if rest[:1] == ["--"] else rest))
    parser = argparse.ArgumentParser(
        prog="run.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", nargs="?", choices=["start", "test", "check"], default="start")
    parser.add_argument("--port", type=port_number, help=f"default: {PREFERRED_PORT}, or one that is free")
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser window")
    options = parser.parse_args(arguments)
    if options.action != "start":
        parser.error(f"write `run.py {options.action}` first, then what pytest should get")
    return Order(action="start", port=options.port, browser=not options.no_browser)


def carry_out(order: Order, environment: Environment) -> int:
    """Install what the order needs, do it, and return the exit status.

    Raises:
        RunError: Something is missing that run.py cannot get by itself.
    """
    runtime = ROOT / "requirements.txt"
    if order.action == "start":
        pick_port(order.port)  # a port that is taken is better told before the installation
        ensure_installed(environment, [runtime])
        return serve(environment, port=pick_port(order.port), browser=order.browser)
    ensure_installed(environment, [runtime, ROOT / "requirements-dev.txt"])
    if order.action == "test":
        return run_steps(short_steps(environment.python, order.pytest_args))
    return run_steps(long_steps(environment.python, order.pytest_args, ROOT / "benchmarks"))


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise Terminated


def main(arguments: Sequence[str]) -> int:
    """Do what the command line asks and return the exit status."""
    complaint = python_complaint(sys.version_info[:3], sys.executable)
    if complaint:
        print(complaint, file=sys.stderr)
        return 1
    order = parse(arguments)
    for name in ("SIGTERM", "SIGHUP", "SIGBREAK"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _interrupt)
    try:
        return carry_out(order, Environment(ROOT / ".venv"))
    except RunError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
