"""The search for a Chromium, on machines that have one, have a decoy, or have none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests import chromium

POSIX_SCRIPTS = pytest.mark.skipif(sys.platform == "win32", reason="the stand-ins are shell scripts")


def script(path: Path, status: int) -> Path:
    path.write_text(f"#!/bin/sh\nexit {status}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with no browser: an empty PATH and nothing of Playwright's."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(chromium.VARIABLE, raising=False)
    monkeypatch.setattr(chromium, "bundled", lambda: tmp_path / "bundled")
    return tmp_path


@POSIX_SCRIPTS
def test_a_browser_of_the_system_is_found(machine: Path) -> None:
    wanted = script(machine / "google-chrome", 0)
    assert chromium.find() == wanted


@POSIX_SCRIPTS
def test_a_decoy_that_does_not_start_is_passed_over(machine: Path) -> None:
    script(machine / "chromium-browser", 1)
    wanted = script(machine / "microsoft-edge", 0)
    assert chromium.find() == wanted


@POSIX_SCRIPTS
def test_playwrights_own_comes_last(machine: Path) -> None:
    bundled = script(machine / "bundled", 0)
    assert chromium.find() == bundled
    wanted = script(machine / "chromium", 0)
    assert chromium.find() == wanted


@POSIX_SCRIPTS
def test_the_variable_comes_first(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(machine / "chromium", 0)
    wanted = script(machine / "mine", 0)
    monkeypatch.setenv(chromium.VARIABLE, str(wanted))
    assert chromium.find() == wanted


def test_a_variable_that_names_no_browser_is_an_error(
    machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(chromium.VARIABLE, str(machine / "none"))
    assert chromium.main() == 1
    assert f"{chromium.VARIABLE}={machine / 'none'}" in capsys.readouterr().err


def test_none_at_all_says_what_to_do(
    machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert chromium.find() is None
    monkeypatch.setattr(chromium, "fetch", lambda: None)
    assert chromium.main() == 1
    told = capsys.readouterr().err
    assert "Install Chromium" in told
    assert str(machine) not in told


@POSIX_SCRIPTS
def test_one_that_could_be_fetched_is_used(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chromium, "fetch", lambda: script(machine / "bundled", 0))
    assert chromium.main() == 0


def test_windows_and_macos_places_are_known(machine: Path) -> None:
    assert machine / "chromium" not in chromium.candidates({})
    windows = chromium.candidates({"ProgramFiles": "C:/Program Files"}, "win32")
    assert Path("C:/Program Files/Google/Chrome/Application/chrome.exe") in windows
    assert any("Google Chrome.app" in str(path) for path in chromium.candidates({}, "darwin"))
