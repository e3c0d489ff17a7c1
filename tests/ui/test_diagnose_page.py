"""The Diagnose page as Streamlit runs it: the example, other messages, an upload, fixes applied, words."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest
from streamlit.testing.v1 import AppTest

import run
from planner.diagnose import diagnose
from planner.diagnose.causes import Cause
from planner.diagnose.checklist import ITEMS
from planner.diagnose.fixes import (
    _BY_FORM,
    _BY_PHASE,
    _BY_TENSOR,
    _KV,
    _OF_LLAMA_WEIGHTS,
    _OUTSIDE,
    _PLANNED,
    OUTSIDE_WORDS,
)
from planner.diagnose.layers import Basis, Identity
from planner.diagnose.phases import PHASES
from planner.diagnose.tensors import SOURCES
from planner.diagnose.vain import BATCH_IS_NOT_IT
from planner.throughput.training_speed import REFERENCES
from tests.planner.diagnose.cases import MESSAGES
from tests.planner.diagnose.test_diagnosis import MOCK, message
from tests.planner.diagnose.test_nccl import SOCKETS
from tests.profiler.test_findings import rank, with_ranks
from tests.ui.conftest import charts, checked, headline, html
from tests.ui.test_page import current
from ui.answers import answer
from ui.charts import diagnose_bars
from ui.diagnose import intake, wording
from ui.diagnose.trouble import CHECKS
from ui.document import put
from ui.examples import STORIES, default_document, story_document
from ui.measure import actions
from ui.words import Words, words_for

if TYPE_CHECKING:
    from ui.document import Document

EVIL = "<img src=x onerror=alert(1)>"
BY_TAG = {entry["tag"]: entry["text"] for entry in MESSAGES}


def _diagnose() -> None:
    from ui.language import current_words  # noqa: PLC0415
    from ui.pages import diagnose as page  # noqa: PLC0415

    current_words()
    page.draw()


@pytest.fixture
def words() -> Words:
    return words_for("en")


def opened(text: str | None = None, document: Document | None = None) -> AppTest:
    page = AppTest.from_function(_diagnose, default_timeout=60)
    if document is not None:
        page.session_state["scenario_document"] = document
    page = checked(page.run())
    return page if text is None else paste(page, text)


def paste(page: AppTest, text: str) -> AppTest:
    return checked(page.text_area(key=intake.TEXT).set_value(text).run())


def test_it_opens_with_an_example_that_fits_the_open_question() -> None:
    page = opened()
    assert headline(page) == "The fp32 logits did not fit: 1.96 GiB asked, 1.21 GiB free"
    text = html(page)
    assert "Demand, not fragmentation" in text
    assert "1 × 4,096 × 128,256 × 4 bytes" in text
    assert "0.33 GiB over" in text
    assert "equals capacity" in text
    assert "It is already 1." in text
    assert "An example." in text


def test_the_figure_shows_the_layers_and_the_request() -> None:
    figure = charts(opened())["diagnose_bars"]
    bars = {
        trace["name"]: (trace["y"], trace["x"], trace.get("base"))
        for trace in figure["data"]
        if trace["type"] == "bar"
    }
    assert set(bars) == {
        "Allocated by PyTorch",
        "Reserved, unallocated",
        "CUDA context, libraries",
        "Request",
    }
    held = sum(x[0] for name, (_, x, _) in bars.items() if name != "Request")
    assert held == pytest.approx(38.18, abs=0.001)
    assert bars["Request"][2][0] == pytest.approx(38.18, abs=0.001)
    assert bars["Request"][1][0] == pytest.approx(1.96, abs=0.001)


def test_a_fix_is_applied_to_the_open_plan() -> None:
    page = opened()
    button = next(b for b in page.button if "AdamW" in b.label)
    page = checked(button.click().run())
    assert current(page)["training"]["optimizer"]["name"] == "adamw_8bit"
    assert answer(current(page)).plan is not None
    assert not any("AdamW" in b.label for b in page.button)


@pytest.mark.parametrize(
    ("text", "head", "said"),
    [
        (BY_TAG["1e"], "Somebody else is on the card", "This process uses little"),
        (BY_TAG["1b"], "There was memory, but in pieces too small", "14.70 GiB lie in the allocator"),
        (BY_TAG["1f"], "A cap was reached", "may take 8.00 GiB"),
        (BY_TAG["1w"], "The driver had spilled", "all ones"),
        (BY_TAG["4e"], "The KV cache cannot hold one full request", "77,824 tokens would fit"),
        (BY_TAG["4d"], "The KV cache cannot hold one full request", "holds 8,192"),
        (BY_TAG["1h"], "Out of memory outside of PyTorch", "the text does not prove it"),
        (message(request="120.00 GiB"), "A tensor of that size cannot be meant", "stays wrong in a smaller batch"),
        ("Killed", "Host memory ran out", "Raise the container"),
        ("hello", "Nothing about memory", "nothing to draw"),
        ("", "Nothing about memory", "nothing to draw"),
        (EVIL, "Nothing about memory", ""),
    ],
)  # fmt: skip
def test_other_messages(text: str, head: str, said: str) -> None:
    page = opened(text)
    assert headline(page).startswith(head)
    assert said in html(page)
    assert EVIL not in html(page)


@pytest.mark.parametrize("tag", sorted(BY_TAG))
def test_every_published_message_is_worded(tag: str) -> None:
    assert headline(opened(BY_TAG[tag]))


@pytest.mark.parametrize("story", STORIES)
def test_every_story_has_its_troubleshooting(story: str) -> None:
    page = opened(message(), story_document(story))
    text = html(page)
    assert "On the open plan" in text
    assert "{" not in re.sub(r"<style.*?</style>", "", text, flags=re.DOTALL)


def test_the_troubleshooting_follows_the_plan() -> None:
    before, after = (
        html(opened()),
        html(opened(document=put(default_document(), "training.loss", "fused_linear"))),
    )
    assert "headroom −2." in before
    assert "headroom −2." not in after


def test_a_log_file_is_opened_and_closed() -> None:
    page = opened()
    log = ("step 1 loss 2.0\n" * 5000 + BY_TAG["1e"] + "\n").encode()
    key = next(each.key or "" for each in page.file_uploader if (each.key or "").startswith(intake.UPLOAD))
    page = checked(page.file_uploader(key=key).set_value((f"{EVIL}.log", log, "text/plain")).run())
    page = checked(page.run())
    assert headline(page).startswith("Somebody else is on the card")
    assert EVIL not in html(page)
    assert "line 5,001" in html(page)
    page = checked(page.button(key="message_close").click().run())
    assert headline(page).startswith("The fp32 logits")


def test_a_long_paste_is_read_and_leaves_the_field() -> None:
    log = "step 1 loss 2.0\n" * 20_000 + BY_TAG["1e"]
    page = opened(log)
    assert headline(page).startswith("Somebody else is on the card")
    assert f"Pasted text of {len(log):,} characters" in html(page)
    assert intake.TEXT not in {area.key for area in page.text_area}
    page = checked(page.button(key="message_close").click().run())
    assert headline(page).startswith("The fp32 logits")


def test_a_text_field_has_no_limit_that_drops_a_paste() -> None:
    (field,) = (area for area in opened().text_area if area.key == intake.TEXT)
    assert not field.proto.max_chars


def test_nccl_lines_are_told_beside_the_plans_share() -> None:
    text = html(opened(SOCKETS))
    assert "goes between nodes over TCP sockets (2 channels)" in text
    assert "of a step is spent waiting for other cards" in text
    assert "The log has 64 ranks, the open plan 6 cards." in text


def test_the_checklist_is_ticked_from_the_plan() -> None:
    text = html(opened(document=put(default_document(), "training.precision.compute", "fp32")))
    assert "OMP_NUM_THREADS" in text
    assert "Computes in fp32" in text
    assert ">Measured<" not in text


def test_an_opened_report_ticks_its_own_column() -> None:
    page = AppTest.from_function(_diagnose, default_timeout=60)
    page.session_state[actions._OPENED] = with_ranks(rank(0, 1.0, 100, 0.1), rank(1, 2.0, 130, 0.45))
    text = html(checked(page.run()))
    assert ">Measured<" in text
    assert "Measured: 45\u00a0% of a step the rank that talks most talks or waits." in text


def test_errors_of_the_question_keep_the_answer() -> None:
    page = opened(document=put(default_document(), "parallel.tensor", 5))
    assert 'role="alert"' in html(page)


# ---------------------------------------------------------------- words


def literals(function: str, files: str) -> set[str]:
    found = set()
    for path in (run.ROOT / "planner" / "diagnose").glob(files):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == function:
                given = [
                    *node.args[:1],
                    *(word.value for word in node.keywords if word.arg in {"code", "reason"}),
                ]
                found |= {each.value for each in given if isinstance(each, ast.Constant)}
    return {str(each) for each in found}


def sign_codes() -> set[str]:
    source = (run.ROOT / "planner" / "diagnose" / "communication.py").read_text(encoding="utf-8")
    return set(re.findall(r'(?:_sign|_judged)\(\s*"(\w+)"', source))


def test_every_code_has_its_words(words: Words) -> None:
    causes = [f"diagnose.{group}.{cause.value}" for cause in Cause for group in ("head", "tag", "why")]
    groups = (
        *_OUTSIDE.values(),
        *_BY_PHASE.values(),
        *_BY_TENSOR.values(),
        *_BY_FORM.values(),
        _KV,
        _OF_LLAMA_WEIGHTS,
    )
    codes = {code for group in groups for code in group} | {
        "expandable_segments",
        "cap_longest_row",
        "lower_utilization",
        *OUTSIDE_WORDS.values(),
    }
    fixes = [f"diagnose.fix.{code}.{form}" for code in codes - _PLANNED for form in ("what", "note")]
    planned = [f"change.{code}.{form}" for code in _PLANNED for form in ("what", "note")]
    remarks = [f"diagnose.remark.{code}" for code in literals("_remark", "remarks.py")]
    tensors = [f"diagnose.tensor.{name}" for name in SOURCES]
    layers = [f"diagnose.held.{name}" for name in {*diagnose_bars.COLORS, "free"}]
    checks = [
        f"diagnose.trouble.{name}.{form}" for name in CHECKS for form in ("symptom", "cause", "check", "here")
    ]
    phases = [f"diagnose.phase.{name}" for name, _ in PHASES]
    identities = [
        f"diagnose.{group}.{prefix}{i.value}"
        for i in Identity
        for group, prefix in (("identity", ""), ("sure", "layers_"))
    ]
    bases = [f"diagnose.basis.{basis.value}" for basis in Basis if basis is not Basis.PRINTED]
    assert len(remarks) > 10
    assert len(tensors) > 10
    signs = [f"diagnose.sign.{name}" for name in sign_codes()]
    items = [f"diagnose.check.{name}.item" for name in ITEMS]
    steps = [f"speed.part.{name}" for name in REFERENCES]
    assert len(signs) > 8
    keys = [
        *signs,
        *items,
        *steps,
        *causes,
        *fixes,
        *planned,
        *remarks,
        *tensors,
        *layers,
        *checks,
        *phases,
        *identities,
        *bases,
    ]
    assert sorted(key for key in keys if not words.has(key)) == []


def test_every_reason_has_its_words(words: Words) -> None:
    source = (run.ROOT / "planner" / "diagnose" / "vain.py").read_text(encoding="utf-8")
    reasons = set(re.findall(r'Vain\(code="(\w+)", reason="(\w+)"\)', source))
    texts = [f"diagnose.vain.{code}" for code, _ in reasons] + [
        f"diagnose.vain_reason.{reason}" for _, reason in reasons
    ]
    texts += [f"diagnose.vain_reason.{reason}" for reason in BATCH_IS_NOT_IT.values()]
    texts += [
        f"diagnose.vain_reason.{reason}"
        for reason in ("already_one", "not_in_this_phase", "tensor_of_the_model")
    ]
    assert len(texts) > 12
    assert [key for key in texts if not words.has(key)] == []


def test_a_figure_is_shown_as_it_was_printed() -> None:
    assert [wording.spaced(text) for text in ("430.00MiB", "0bytes", "13GB", "5.02G", "12B")] == [
        "430.00 MiB",
        "0 bytes",
        "13 GB",
        "5.02 G",
        "12 B",
    ]


def test_the_alternative_says_the_figure_in_words(words: Words) -> None:
    layers = diagnose(MOCK).layers
    assert layers is not None
    said = diagnose_bars.alternative(layers, 2**31, words)
    assert said == "38.18 of 39.39 GiB in use. The request is 2.00, 1.21 were free."
