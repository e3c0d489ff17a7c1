"""What the Method page works out without Streamlit: the score's reading, formulas, evidence, data, gaps."""

from __future__ import annotations

import ast
import json
import re
from typing import TYPE_CHECKING

import pytest

import run
from benchmarks.records import MEMORY_FILES, load
from hardware_db import DATA, load_tables
from planner.estimate import plan
from planner.issues import ScenarioError
from planner.ledger import Category, Layer
from planner.plan_types import Known, Plan
from planner.references import REFERENCES, Reference
from planner.runtimes.every import PROFILES
from planner.units import GIB
from tests.planner.training import cases
from ui.answers import answer
from ui.citations import reference_line
from ui.examples import STORIES, story_document
from ui.issue_words import field_name
from ui.method import data_files as data
from ui.method import gaps, tables, verified, wording
from ui.method.accuracy import (
    NAMED_FAMILIES,
    OTHERS,
    SIDES,
    clean,
    families,
    middle,
    peaks,
    points_of,
    quantile,
    read_from_itself,
    serving_parts,
    together,
    with_own_band,
)
from ui.method.cross_validation import SPLITS, cross_validation
from ui.method.formulas import all_references, by_category, symbol_meaning, used_references
from ui.method.published import Published, published
from ui.method.shares import share_text, signed_share
from ui.words import Words, words_for

if TYPE_CHECKING:
    from pathlib import Path

    from planner.ledger import Entry

GAP_FILES = (
    *("planner/training/gaps.py", "planner/serving/gaps.py", "planner/checks/effects.py"),
    "planner/diffusion/gaps.py",
)

NO_GAPS = {("training.packing", "padded_to_sequence_length"), ("weights", "expert_weights")}
"""Pairs in those files that are no gap: a code that the planner drops itself, and names of two fields."""


@pytest.fixture
def words() -> Words:
    return words_for("en")


@pytest.fixture(scope="module")
def score() -> Published:
    return published()


def planned(story: str = STORIES[0]) -> Plan:
    found = answer(story_document(story)).plan
    assert found is not None
    return found


# The score


def test_the_file_is_read_once_and_whole(score: Published) -> None:
    assert published() is score
    tree = json.loads((DATA / "score.json").read_text(encoding="utf-8"))
    assert len(score.points) == len(tree["rows"])
    assert sum(count for _, count in score.unsupported) == len(tree["unsupported"])
    assert all(row.n == len(row.errors) and list(row.errors) == sorted(row.errors) for row in score.runs)


def test_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "score.json"
    path.write_text('{"version": 3}', encoding="utf-8")
    with pytest.raises(ValueError, match=r"score\.json: version 3, allowed: 2"):
        published(path)


def test_points_are_training_peaks_and_parts_of_servers(score: Published) -> None:
    assert {point.task for point in peaks(score)} <= {"pretrain", "full", "lora", "qlora"}
    assert {point.task for point in serving_parts(score)} == {"serve"}
    for side in SIDES:
        assert all(point.predicted and point.observed for point in points_of(score, side))


def test_sources_beyond_the_colours_are_together(score: Published) -> None:
    for side in SIDES:
        grouped = families(points_of(score, side))
        assert len(grouped) <= NAMED_FAMILIES
        assert sum(map(len, grouped.values())) == len(points_of(score, side))
        named = [len(members) for name, members in grouped.items() if name != OTHERS]
        assert named == sorted(named, reverse=True)


def test_nine_of_ten_lie_in_the_middle(score: Published) -> None:
    for side in SIDES:
        points = points_of(score, side)
        low, high = middle(points)
        inside = sum(low <= (point.error or 0) + 1 <= high for point in points)
        assert inside / len(points) == pytest.approx(0.9, abs=0.02)


def test_what_constants_were_read_from_is_left_out_of_the_figures_at_the_top(score: Published) -> None:
    kept = clean(serving_parts(score), score)
    assert 0 < len(kept) < len(serving_parts(score))
    assert not any(read_from_itself(point, score) for point in kept)
    assert any(point.metric == "weights_bytes" and point.family == "vllm-0.19-h100-logs" for point in kept)
    runs = together(score.runs)
    assert runs.n == sum(len(row.clean_errors) for row in score.runs)
    assert runs.n < sum(row.n for row in score.runs)
    assert 0 < runs.held_inside <= runs.n
    assert all(row.clean_inside <= row.held_inside <= row.n for row in score.runs)
    assert (runs.all_n, runs.all_inside) == tuple(
        sum(getattr(cell, name) for cell in score.coverage if cell.family != tables.EVERY)
        for name in ("runs", "runs_inside")
    )


def test_a_band_of_its_own_needs_enough_runs(score: Published) -> None:
    assert all(row.n >= 9 for row in with_own_band(score.runs))
    assert quantile((1.0, 2.0, 3.0), 0.5) == 2.0


@pytest.mark.parametrize(
    ("value", "text", "signed"),
    [
        (0.0, "0.00\u00a0%", "0.00\u00a0%"),
        (0.00001, "0.00\u00a0%", "0.00\u00a0%"),
        (-0.00001, "0.00\u00a0%", "0.00\u00a0%"),
        (0.0123, "1.2\u00a0%", "+1.2\u00a0%"),
        (-0.25, "\u221225\u00a0%", "\u221225\u00a0%"),
    ],
)
def test_errors_have_more_digits_the_smaller_they_are(value: float, text: str, signed: str) -> None:
    assert share_text(value) == text
    assert signed_share(value) == signed


def test_the_headline_and_the_strip_say_the_figures_of_the_file(score: Published, words: Words) -> None:
    runs = together(score.runs)
    assert f"Half of {runs.n} published runs" in wording.headline(runs, words)
    cells = wording.strip(score, words)
    assert len(cells) == 5
    failed = score.fits.failed_said_fits + score.fits.failed_said_not
    assert f"{score.fits.failed_said_fits} <small>of {failed} failures" in cells[4][1]
    assert f"{score.fits.unsafe_logged} seen, {score.fits.unsafe_inferred} inferred" in cells[4][2]


def test_cells_read_from_themselves_are_marked(score: Published, words: Words) -> None:
    text = tables.cells_table(score, words)
    assert "vllm-0.19-h100-logs †" in text
    assert "megatron-golden †" not in text
    assert "smaller ones †" in text, "the few rows of an older vLLM stand among the pooled ones"
    assert 'Working peak</td><td class="tl">smaller ones †' in text
    assert 'Weights</td><td class="tl">smaller ones</td>' in text
    named = tables.in_sample_table(score, words)
    assert "cuda_context_hopper_bytes" in named
    assert "CUDA context" in named
    assert "vLLM †" in tables.held_table(score, words)


def test_coverage_is_told_by_source_and_layer_with_the_width_beside_it(
    score: Published, words: Words
) -> None:
    text = tables.coverage_table(score, words)
    assert text.count("<b>All sources</b>") == len({cell.layer for cell in score.coverage})
    assert "fms-acceleration †" in text
    cell = next(cell for cell in score.coverage if cell.family == "torchtitan")
    assert f"{cell.inside} of {cell.n}" in text
    assert cell.half_width_frac is not None
    assert f"±{share_text(cell.half_width_frac)}" in text
    held = wording.sample_notes(score, words)
    assert f"of all {together(score.runs).all_n}" in held


def test_what_constants_of_the_other_half_miss_stands_beside_the_shipped_ones(
    score: Published, words: Words
) -> None:
    found = cross_validation()
    text = wording.sample_notes(score, words)
    for split in found.splits:
        assert split.mean_abs_error >= split.shipped_mean_abs_error, "the shipped ones saw every row"
        assert share_text(split.mean_abs_error) in text
        assert share_text(split.shipped_mean_abs_error) in text
    assert {split.by for split in found.splits} == set(SPLITS)


def test_every_metric_has_its_words(score: Published, words: Words) -> None:
    metrics = {point.metric for point in score.points} | {cell.metric for cell in score.cells}
    assert [name for name in metrics if not words.has(f"method.metric.{name}")] == []


# Formulas


def test_each_formula_of_the_question_stands_once() -> None:
    found = planned()
    listed = [formula for formulas in by_category(found).values() for formula in formulas]
    keys = [(f.entry.name, f.entry.formula, f.entry.reference) for f in listed]
    assert len(keys) == len(set(keys))
    entries = [entry for device in found.devices for entry in device.ledger.entries]
    assert set(keys) == {(e.name, e.formula, e.reference) for e in entries}
    for formula in listed:
        same = [e for e in entries if (e.name, e.formula) == (formula.entry.name, formula.entry.formula)]
        assert formula.entry.bytes == max(e.bytes for e in same)
    assert list(by_category(found)) == [c for c in Category if c in by_category(found)]


def test_a_formula_says_symbols_values_cards_and_reference(words: Words) -> None:
    found = planned()
    (head,) = [f for f in by_category(found)[Category.WEIGHTS] if f.entry.name == "head_weights"]
    text = tables.formula_table(Category.WEIGHTS, [head], found, words)
    assert '<code>P</code> = 525,340,672 <span class="m">parameters</span>' in text
    assert "GPU 5" in text
    assert REFERENCES[head.entry.reference].url in text


def entries_of_published_runs() -> list[Entry]:
    loaded, found = load_tables(), []
    for record in load(MEMORY_FILES):
        if record.scenario is None:
            continue
        try:
            devices = plan(record.scenario, loaded).devices
        except ScenarioError:
            continue
        found += [entry for device in devices for entry in device.ledger.entries]
    return found


def test_every_symbol_of_the_published_runs_is_explained(words: Words) -> None:
    entries = entries_of_published_runs()
    entries += [e for story in STORIES for d in planned(story).devices for e in d.ledger.entries]
    assert len(entries) > 10_000
    unexplained = {
        f"{entry.name} ({entry.formula}): {symbol}"
        for entry in entries
        for symbol, _ in entry.symbols
        if not symbol_meaning(entry, symbol, words)
    }
    assert sorted(unexplained) == []


def test_every_reference_is_listed_once_and_those_used_are_marked(words: Words) -> None:
    listed = all_references()
    assert sum(len(keys) for keys, _ in listed) == len(REFERENCES)
    assert len({reference for _, reference in listed}) == len(listed)
    used = used_references(planned())
    marked = tables.references_table(listed, used, words).count(">used<")
    assert marked == len({REFERENCES[key] for key in used})


def test_a_reference_is_escaped_and_its_code_is_code(words: Words) -> None:
    evil = Reference("<b>", "`a<b`: then", 'https://example.org/?a=1&b="', "paper")
    text = reference_line(evil, words)
    assert "<b>" not in text
    assert "<code>a&lt;b</code>: then" in text
    assert "&amp;b=&quot;" in text


# Evidence


def test_a_runtime_is_published_exactly_where_a_plan_says_so(score: Published) -> None:
    bands = {(band.runtime, band.task) for band in load_tables().bands}
    found = verified.table(score)
    assert set(found) == set(PROFILES)
    for cells in found.values():
        for cell in cells:
            own = (cell.runtime, cell.task) in bands
            assert cell.known is (Known.PUBLISHED if own else Known.NONE)
            assert cell.possible or cell.runs is None


@pytest.mark.parametrize(("runtime", "task"), sorted(verified.TRACED))
def test_what_is_called_traced_equals_a_traced_step(runtime: str, task: str) -> None:
    """Llama 3.2 1B, one sequence of 4096 tokens, AdamW: 20.452 GiB at the peak of the traced step."""
    found = cases.ledger(
        cases.LLAMA_1B, task=task, runtime={"name": runtime}, training={"checkpointing": "none"}
    )
    _, peak_bytes = found.peak(Layer.ALLOCATED)
    assert (peak_bytes - cases.WORKSPACES) / GIB == pytest.approx(20.452, rel=0.002)


def test_the_open_question_is_marked_in_its_table(score: Published, words: Words) -> None:
    found = verified.table(score)
    training = tables.training_evidence(found, planned(), words)
    serving = tables.serving_evidence(found, planned(), words)
    assert training.count("your question") == 1
    assert "your question" not in serving
    assert "too few for a band" in training
    assert "✓ trace" in training
    served = planned("llama-70b-awq-two-l40s")
    assert tables.serving_evidence(found, served, words).count("your question") == 1
    assert "your question" not in tables.training_evidence(found, served, words)


def test_every_runtime_stands_in_the_table_of_what_it_does(score: Published, words: Words) -> None:
    found = verified.table(score)
    training = tables.training_evidence(found, planned(), words)
    serving = tables.serving_evidence(found, planned(), words)
    for name, profile in PROFILES.items():
        label = f">{words(f'runtime.{name}')}</td>"
        assert (label in training) == (profile.kind != "serving"), name
        assert (label in serving) == (profile.kind != "training"), name


def test_the_reason_names_how_the_open_answer_is_known(score: Published, words: Words) -> None:
    text = wording.why(planned(), together(score.runs), words)
    assert 'class="tag' in text
    assert "90 % were asked for" in text


# Data


def test_every_table_is_counted_with_its_dates(score: Published) -> None:
    found = {item.file: item for item in data.data_files(load_tables(), score)}
    assert found["gpus.csv"].rows == len(load_tables().gpus)
    assert found["gpus.csv"].recalled == sum(bool(gpu.recalled) for gpu in load_tables().gpus.values()) > 0
    assert found["models.jsonl"].recalled == 27
    assert found["models.jsonl"].oldest is None
    assert found["models.jsonl"].undated == found["models.jsonl"].rows
    assert found["cloud.csv"].undated == 0
    assert found["training.jsonl"].rows == sum(
        bool(line.strip())
        for line in (run.ROOT / "tests/data/truth/training.jsonl").read_text(encoding="utf-8").splitlines()
    )
    for item in found.values():
        assert (item.oldest is None) == (item.newest is None)
        assert item.oldest is None or item.newest is None or item.oldest[:4] <= item.newest[:4]


def test_licences_are_those_of_the_readme() -> None:
    rows = data.data_licences()
    assert len(rows) > 10
    assert all(len(row) == 3 for row in rows)
    assert any("Apache-2.0" in row[1] for row in rows)
    assert data.licence_rows("# none\n") == ()


# Gaps


def codes_in(path: str) -> set[tuple[str, str]]:
    """(field, code) pairs written out in a module: the last two texts of every tuple that has them."""
    tree = ast.parse((run.ROOT / path).read_text(encoding="utf-8"))
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple) and len(node.elts) in {2, 3}:
            last = [
                e.value for e in node.elts[-2:] if isinstance(e, ast.Constant) and isinstance(e.value, str)
            ]
            if len(last) == 2 and re.fullmatch(r"[a-z0-9_]+", last[1]):
                found.add((last[0], last[1]))
    return found


def test_every_gap_of_the_planner_is_listed_and_no_other(words: Words) -> None:
    listed = {gap for group in gaps.BY_TASK.values() for gap in group}
    source = "\n".join((run.ROOT / path).read_text(encoding="utf-8") for path in GAP_FILES)
    stale = [gap for gap in listed if f'"{gap[1]}"' not in source]
    assert stale == []
    codes = {code for _, code in listed}
    written = set().union(*(codes_in(path) for path in GAP_FILES[:2])) - NO_GAPS
    assert sorted(pair for pair in written if pair[1] not in codes) == []
    assert [gap for gap in listed if not words.has(f"issue.not_modelled_reason.{gap[1]}")] == []
    assert [gap for gap in listed if not field_name(gap[0], words)] == []


def test_every_gap_of_the_published_runs_is_listed() -> None:
    listed = {code for group in gaps.BY_TASK.values() for _, code in group}
    loaded, seen = load_tables(), set()
    for record in load(MEMORY_FILES)[::5]:
        if record.scenario is None:
            continue
        try:
            found = plan(record.scenario, loaded)
        except ScenarioError:
            continue
        seen |= {dict(issue.params)["reason"] for issue in found.issues if issue.code == "not_modelled"}
    assert seen <= listed


def test_every_refused_setting_of_a_config_is_listed() -> None:
    found = set()
    for path in (run.ROOT / "planner" / "model").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            named = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            if named and node.func.attr == "unsupported" and isinstance(node.args[0], ast.Constant):  # type: ignore[attr-defined]
                found.add(node.args[0].value)  # type: ignore[attr-defined]
    assert set(gaps.REFUSED_KEYS) == found


def test_the_own_gaps_of_a_question_are_its_warnings() -> None:
    document = story_document(STORIES[0])
    document = {**document, "runtime": {**document.get("runtime", {}), "compile": True}}
    found = answer(document).plan
    assert found is not None
    codes = [dict(issue.params).get("reason") for issue in gaps.of_plan(found)]
    assert "compile_as_eager" in codes
