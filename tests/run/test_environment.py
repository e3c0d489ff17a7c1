"""run.py: the Python it takes, the environment it makes, and what pip says when it fails."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import run

if TYPE_CHECKING:
    from collections.abc import Sequence


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
