"""run.py: its command line."""

from __future__ import annotations

import pytest

import run


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
