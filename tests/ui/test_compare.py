"""What differs between scenarios and why: figures, causes, sentences."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from planner.ledger import Category
from tests.ui.test_page import link_of
from ui.charts.compare_bars import alternative, compare_bars
from ui.compare import wording
from ui.compare.choosing import read_link
from ui.compare.fields import field_changes
from ui.compare.reasons import Reason, reasons
from ui.compare.sides import Answered, answered, at_peak, categories, side
from ui.document import Document, put_all
from ui.examples import STORIES, default_document, story_document
from ui.words import Words, words_for

if TYPE_CHECKING:
    from collections.abc import Mapping


ALPACA = "llama-7b-full-four-3090"
SERVED = "llama-70b-awq-two-l40s"
TAGS = re.compile(r"<[^>]+>")


@pytest.fixture
def words() -> Words:
    return words_for("en")


def as_side(letter: str, document: Document, name: str = "") -> Answered:
    (found,) = answered((side(letter, name or letter, document),))
    return found


def pair(story: str, changes: Mapping[str, Any]) -> tuple[Answered, Answered]:
    document = story_document(story)
    return as_side("A", document), as_side("B", put_all(document, changes))


def causes(story: str, changes: Mapping[str, Any], category: Category) -> tuple[Reason, ...]:
    first, second = pair(story, changes)
    return reasons(first, second, category, field_changes(first.plan, second.plan))


def paths(found: tuple[Reason, ...]) -> list[str]:
    return [reason.field.path for reason in found if reason.field is not None]


def test_a_peak_in_the_same_phase_is_no_other_phase() -> None:
    """What one side alone holds at its peak is told by what was changed, or as new."""
    changes = {"parallel.tensor": 1, "parallel.data": 2, "workload.concurrency": 1}
    first, second = pair(SERVED, changes)
    assert first.worst.peak_phase is second.worst.peak_phase
    told = [
        reason.kind
        for category in Category
        for reason in reasons(first, second, category, field_changes(first.plan, second.plan))
    ]
    assert told
    assert "phase" not in told


def test_a_changed_field_is_named_with_both_values_in_force(words: Words) -> None:
    first, second = pair(ALPACA, {"training.micro_batch": 2})
    (change,) = field_changes(first.plan, second.plan)
    assert (change.path, change.before, change.after, change.asked) == ("training.micro_batch", 1, 2, True)
    assert TAGS.sub("", wording.why((first, second), words)) == "B: Micro-batch 1 → 2."


def test_saying_the_default_is_no_change(words: Words) -> None:
    first, second = pair(ALPACA, {"training.dropout": 0.0, "runtime.allocator": "default"})
    assert field_changes(first.plan, second.plan) == ()
    assert "asks the same" in wording.why((first, second), words)


def test_what_follows_from_a_change_is_told_apart() -> None:
    first, second = pair(ALPACA, {"runtime.name": "torchtune"})
    found = field_changes(first.plan, second.plan)
    assert [change.path for change in found if change.asked] == ["runtime.name"]
    assert found[0].asked


def test_the_name_of_a_scenario_and_its_prices_have_no_part() -> None:
    first, second = pair(ALPACA, {"name": "x", "economics": {"power_usd_per_kwh": 0.3}})
    assert field_changes(first.plan, second.plan) == ()


@pytest.mark.parametrize(
    ("story", "changes", "category", "path"),
    [
        (ALPACA, {"training.micro_batch": 2}, Category.ACTIVATIONS, "training.micro_batch"),
        (STORIES[0], {"training.sequence_length": 1024}, Category.LOGITS, "training.sequence_length"),
        (ALPACA, {"training.checkpointing": "full"}, Category.ACTIVATIONS, "training.checkpointing"),
        (ALPACA, {"training.optimizer.name": "adamw_8bit"}, Category.OPTIMIZER, "training.optimizer.name"),
        (STORIES[0], {"training.loss": "fused_linear"}, Category.LOGITS, "training.loss"),
        (SERVED, {"serving.kv_cache": "fp8"}, Category.KV_CACHE, "serving.kv_cache"),
        (SERVED, {"workload.concurrency": 8}, Category.KV_CACHE, "workload.concurrency"),
    ],
)
def test_a_difference_is_traced_to_its_field(
    story: str, changes: dict[str, Any], category: Category, path: str
) -> None:
    first, second = pair(story, changes)
    assert at_peak(first).get(category, 0) != at_peak(second).get(category, 0)
    assert paths(causes(story, changes, category))[:1] == [path]


def test_a_moved_layer_is_told_by_the_layers_held(words: Words) -> None:
    layers = story_document(STORIES[0])["parallel"]["pipeline_layers"]
    most = layers[-1]
    moved = [*layers[:3], layers[3] + 1, layers[4], most - 1]
    first, second = pair(STORIES[0], {"parallel.pipeline_layers": moved})
    (reason,) = reasons(first, second, Category.GRADIENTS, field_changes(first.plan, second.plan))
    assert (reason.kind, reason.before, reason.after) == ("layers", most, most - 1)
    assert wording.reason_text(reason, first, second, words) == f"Layers on the card {most} → {most - 1}"


def test_states_of_fewer_bytes_are_told_a_parameter(words: Words) -> None:
    first, second = pair(STORIES[0], {"training.optimizer.name": "adamw_8bit"})
    text = wording.because(Category.OPTIMIZER, (first, second), words)
    assert text.startswith("Optimizer AdamW → 8-bit AdamW: 8 → 2.0")
    assert text.endswith("bytes a parameter")


def test_the_allocators_share_follows() -> None:
    assert [
        r.kind for r in causes(STORIES[0], {"training.optimizer.name": "adamw_8bit"}, Category.ALLOCATOR)
    ] == ["follows"]


def test_another_card_is_named(words: Words) -> None:
    first, second = pair(ALPACA, {"hardware.devices": [{"gpu": "a100-sxm-80gb", "count": 4}]})
    assert "GPUs" in wording.why((first, second), words)
    rows = wording.difference_rows((first, second), words)
    assert [TAGS.sub("", row[0]) for row in rows[-3:]] == ["Peak", "Usable", "Headroom"]


def test_equal_is_blank_and_the_rest_is_signed(words: Words) -> None:
    sides = pair(STORIES[0], {"training.optimizer.name": "adamw_8bit"})
    by_name = {
        TAGS.sub("", row[0]): [TAGS.sub("", cell) for cell in row]
        for row in wording.difference_rows(sides, words)
    }
    assert by_name["Weights"][3:] == ["", ""]
    assert by_name["Weights"][1] == by_name["Weights"][2]
    assert by_name["Optimizer states"][3].startswith("−")
    first, second = sides
    delta = (second.worst.peak_bytes - first.worst.peak_bytes) / 2**30
    assert by_name["Peak"][3] == f"−{abs(delta):.2f}"
    assert "Usable" not in by_name


def test_the_differences_add_up_to_that_of_the_peaks() -> None:
    for changes in (
        {"training.micro_batch": 4},
        {"training.optimizer.name": "sgd"},
        {"parallel.sharding": "zero1"},
    ):
        first, second = pair(ALPACA, changes)
        parts = sum(at_peak(second).get(c, 0) - at_peak(first).get(c, 0) for c in categories((first, second)))
        assert parts == second.worst.peak_bytes - first.worst.peak_bytes


def test_causes_both_others_share_are_said_once(words: Words) -> None:
    document = story_document(ALPACA)
    sides = (
        as_side("A", document),
        as_side("B", put_all(document, {"training.micro_batch": 2})),
        as_side("C", put_all(document, {"training.micro_batch": 2})),
    )
    assert wording.because(Category.ACTIVATIONS, sides, words).count("Micro-batch 1 → 2") == 1
    other = (*sides[:2], as_side("C", put_all(document, {"training.micro_batch": 4})))
    text = wording.because(Category.ACTIVATIONS, other, words)
    assert "B: Micro-batch 1 → 2" in text
    assert "C: Micro-batch 1 → 4" in text


def test_every_cause_of_every_pair_of_stories_has_its_words(words: Words) -> None:
    sides = [as_side("A", story_document(story)) for story in STORIES]
    sides += [
        as_side("A", put_all(default_document(), {"task": "pretrain", "training.optimizer.name": "muon"}))
    ]
    seen = set()
    for first in sides:
        for second in sides:
            changes = field_changes(first.plan, second.plan)
            for category in categories((first, second)):
                for reason in reasons(first, second, category, changes):
                    seen.add(reason.kind)
                    assert wording.reason_text(reason, first, second, words)
            if first is not second:
                assert wording.headline((first, second), words)
                assert wording.changed_rows((first, second), words)[0]
    assert {"field", "follows"} <= seen


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"training.optimizer.name": "sgd"}, r"B saves \d+\.\d GiB on the fullest card and "),
        ({"training.micro_batch": 2}, r"B needs \d+\.\d GiB more on the fullest card and still does not fit"),
        ({"name": "x"}, r"B needs as much on the fullest card and still does not fit"),
    ],
)
def test_the_verdict_is_a_sentence_with_its_number(
    words: Words, changes: dict[str, Any], wanted: str
) -> None:
    assert re.match(wanted, wording.headline(pair(ALPACA, changes), words))


def test_a_plan_that_then_fits_is_said_to(words: Words) -> None:
    first, second = pair(ALPACA, {"hardware.devices": [{"gpu": "h100-sxm-80gb", "count": 4}]})
    assert wording.headline((first, second), words).endswith("and makes it fit")
    assert wording.headline((second, first), words).endswith("and no longer fits")
    assert "1 fits" in wording.tally((first, second), words)
    assert "2 fit<" in wording.tally((first, second, second), words)


def test_a_card_of_unknown_size_is_said_to_be_unknown(words: Words) -> None:
    first, second = pair(ALPACA, {"hardware.devices": [{"gpu": "unknown", "count": 4}]})
    assert wording.headline((first, second), words).endswith("is not known")
    rows = wording.difference_rows((first, second), words)
    assert rows[-1][2] == "–"
    assert second.letter in alternative([("B", "B", second.worst)], words)


def test_the_figure_has_one_axis_and_a_mark_each(words: Words) -> None:
    first, second = pair(ALPACA, {"hardware.devices": [{"gpu": "h100-sxm-80gb", "count": 4}]})
    rows = [(s.letter, "a name <b> that is far too long for a phone", s.worst) for s in (first, second)]
    figure = compare_bars(rows, words).to_plotly_json()
    sums: dict[int, float] = {}
    for trace in figure["data"]:
        if trace["type"] == "bar":
            for y, x in zip(trace["y"], trace["x"], strict=True):
                sums[y] = sums.get(y, 0) + x
    assert [sums[1], sums[0]] == pytest.approx([s.worst.peak_bytes / 2**30 for s in (first, second)])
    marks = [trace for trace in figure["data"] if trace["type"] == "scatter" and len(trace["x"]) == 2]
    assert [x * 2**30 for x in marks[0]["x"]] == pytest.approx(
        [s.worst.usable_bytes for s in (first, second)]
    )
    labels = [note["text"] for note in figure["layout"]["annotations"]]
    assert all("<b> that" not in text for text in labels)


def test_a_question_with_errors_says_them_in_its_cell(words: Words) -> None:
    wrong = side("B", "<i>x", put_all(default_document(), {"parallel.tensor": 5}))
    label, _, below = wording.cell(wrong, words)
    assert "&lt;i&gt;x" in label
    assert 'class="bad"' in below
    assert answered((wrong,)) == ()


@pytest.mark.parametrize(
    "wrap", ["{}", "http://127.0.0.1:8501/?s={}", "http://x/compare?lang=en&s={}#a", " {}&x=1 "]
)
def test_a_link_is_read_however_it_is_pasted(wrap: str) -> None:
    document = story_document(ALPACA)
    found, issues = read_link(wrap.format(link_of(document)))
    assert found == document
    assert issues == ()


@pytest.mark.parametrize("text", ["", "hello", "http://x/", "?s=", "1.AAAA", "9.x"])
def test_what_is_no_link_says_why(text: str) -> None:
    found, issues = read_link(text)
    assert found is None
    assert issues
