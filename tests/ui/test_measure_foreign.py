"""Reports of other ways to measure on the page: a wrapped program, a watched card, ranks, a file that breaks off."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler.hook.collect import collect
from profiler.nvml import Nvml
from profiler.report import Report, dump_report
from profiler.report_parts import Program, RankFigures
from profiler.watching import Watch
from tests.profiler.fake_nvml import Card, FakeNvml
from tests.profiler.hook.test_collect import BEGIN, CUDA, END, step, write
from tests.ui.conftest import headline, html
from tests.ui.measure_cases import report_of, tiny
from tests.ui.measure_driver import opened, upload


def wrapped(folder: Path, *more: dict[str, object]) -> Report:
    write(folder, BEGIN, CUDA, step(1), step(2), step(3), *more)
    report = collect(folder, Program(way="wrap", name="train.py"))
    assert report is not None
    return report


def watched() -> Report:
    nvml = Nvml(FakeNvml(Card("A", "GPU-1")))
    cards = nvml.devices().value
    assert cards is not None
    seen = Watch(nvml, cards)
    seen.look(0.0)
    return seen.report(Program(way="watch", name="gpu:0"))


def shown(report: Report) -> str:
    page = upload(opened(), dump_report(report).encode())
    assert not page.exception
    return html(page)


def test_a_wrapped_program_is_shown_without_a_plan(tmp_path: Path) -> None:
    page = upload(opened(), dump_report(wrapped(tmp_path, END)).encode())
    assert not page.exception
    assert headline(page).startswith("Measured ")


def test_a_program_that_was_ended_says_so(tmp_path: Path) -> None:
    assert "The program was ended from outside after step 3" in shown(wrapped(tmp_path))


def test_a_watched_card_has_no_phases_and_breaks_nothing() -> None:
    assert "Opened from a file" in shown(watched())


def test_a_report_of_ranks(tmp_path: Path) -> None:
    ranks = (RankFigures(rank=0), RankFigures(rank=1, outcome="silent"))
    shown(wrapped(tmp_path, END).model_copy(update={"ranks": ranks}))


@pytest.mark.parametrize("share", [0.98, 0.9])
def test_a_file_that_breaks_off_shows_what_it_has(share: float) -> None:
    text = dump_report(report_of(tiny(), "cpu"))
    page = upload(opened(), text[: int(share * len(text))].encode())
    assert headline(page).startswith("Measured ")
    assert "The file breaks off after" in html(page)


def test_a_file_of_a_newer_version_shows_what_is_known() -> None:
    text = dump_report(report_of(tiny(), "cpu")).replace('"version": 2', '"version": 7, "aura": 1', 1)
    page = upload(opened(), text.encode())
    assert headline(page).startswith("Measured ")
    assert "The report is of version 7" in html(page)
