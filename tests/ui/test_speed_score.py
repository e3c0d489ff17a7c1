"""The Method page's speed score: read from its file, every kind worded, ours beside the simple rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.speed_baselines import RULES
from hardware_db.scores import SPEED, SPEED_VERSION, speed_score
from planner.throughput.bands import PREFIX
from tests.planner.throughput.cases import TABLES
from ui.method.speed_score import families_table, lines_table, note
from ui.words import words_for

SCORE = speed_score()
KINDS = {
    name.removeprefix(PREFIX).removesuffix("_low_frac")
    for name in TABLES.constants
    if name.startswith(PREFIX)
}
KINDS = {name for name in KINDS if not name.endswith("_high_frac")}


def test_every_kind_of_band_is_scored_and_worded() -> None:
    assert {kind for line in SCORE.lines for kind in line.kinds} == KINDS
    for code in ("en", "zh"):
        words = words_for(code)
        assert all(words.has(f"method.speed.of_kind.{kind}") for kind in KINDS)
        assert all(words.has(f"method.speed.by.{key}") for key in RULES)
        assert all(words.has(f"method.speed.of.{line.simple_key}_{line.kinds[0]}") for line in SCORE.lines)


def test_the_table_has_our_error_and_the_rules() -> None:
    table = lines_table(SCORE, words_for("en"))
    assert table.count("<tr>") == len(SCORE.lines) + 1
    training = SCORE.lines[0]
    assert f"{100 * training.family_median:.0f}\u00a0%" in table
    assert f"{100 * training.simple_family_median:.0f}\u00a0%" in table
    assert all(line.family_median < line.simple_family_median for line in SCORE.lines)


def test_every_source_has_its_line() -> None:
    table = families_table(SCORE, words_for("en"))
    assert table.count("<tr>") == len(SCORE.families) + 1
    assert "torchtitan" in table
    assert str(SCORE.made_on) in note(SCORE, words_for("en"))


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "speed.json"
    path.write_text(
        SPEED.read_text(encoding="utf-8").replace(f'"version": {SPEED_VERSION}', '"version": 0'),
        encoding="utf-8",
    )
    with pytest.raises(ValueError, match="version 0"):
        speed_score(path)
