"""Every language has the same words, no text stands outside them, and the page speaks the one that is asked for."""

from __future__ import annotations

import ast
import re
import string
from typing import TYPE_CHECKING

import pytest
import streamlit as st
from hypothesis import given
from hypothesis import strategies as some

import run
from planner.references import REFERENCES
from tests.ui.conftest import checked, headline, html
from ui.citations import coded, first_keys, where_of
from ui.counts import exact_count, read_count, short_count, steps
from ui.language import known_language
from ui.streamlit_words import PLACES, UNNAMED, worded_rules
from ui.words import FALLBACK, Safe, Words, languages, own_words, words_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from streamlit.testing.v1 import AppTest

    OpenPage = Callable[..., AppTest]

OTHERS = tuple(code for code in languages() if code != FALLBACK)
CJK = re.compile(r"[\u3000-\u303f\u3400-\u9fff\uff00-\uffef]")
ENGLISH = re.compile(r"[a-z]{3,} [a-z]{3,}")
NAMES = re.compile(r"`[^`]*`|<code>.*?</code>")
MARKUP = re.compile(r"<[^>]*>|[{][^}]*[}]")
TAG = re.compile(r"</?([a-z]+)")
COUNTS = some.integers(0, 10**15) | some.integers(0, 10**6).map(lambda n: n * 10**9)
MAY_BE_EMPTY = {"join.sentence"}


OF_REFERENCES = "citation."
"""English says these in `planner.references`."""


AS_WRITTEN = {
    "field.serving.flash_attention.label",
    "technique.flash_attention.name",
    "change.flash_attention.what",
    "trace.attention.flash",
    "measure.terminal.command",
    "import.example",
    "snapshot.open.example",
}
"""Names of a technique, commands and what a program prints."""


def placeholders(text: str) -> list[str]:
    """The named fields of a text, each as often as it stands there."""
    return sorted(name for _, name, _, _ in string.Formatter().parse(text) if name)


def test_there_is_a_second_language() -> None:
    assert "zh" in OTHERS


@pytest.mark.parametrize("code", OTHERS)
def test_every_language_has_the_same_keys(code: str) -> None:
    own = {key for key in own_words(code) if not key.startswith(OF_REFERENCES)}
    assert sorted(own ^ own_words(FALLBACK).keys()) == []


@pytest.mark.parametrize("code", OTHERS)
def test_what_we_say_of_a_reference_is_worded(code: str) -> None:
    words = words_for(code)
    english = [
        key
        for reference, key in first_keys().items()
        if ENGLISH.search(NAMES.sub("", reference.where)) and not words.has(f"citation.where.{key}")
    ]
    assert english == [], f"words are missing: citation.where.<key> in {code}.toml"
    known = {f"citation.{part}.{key}" for key in REFERENCES for part in ("where", "title")}
    assert [key for key in words.names(OF_REFERENCES) if key not in known] == []
    for reference, key in first_keys().items():
        assert sorted(NAMES.findall(where_of(reference, words))) == sorted(
            NAMES.findall(coded(reference.where))
        ), key


@pytest.mark.parametrize("code", OTHERS)
def test_placeholders_and_tags_are_those_of_english(code: str) -> None:
    first, own = own_words(FALLBACK), own_words(code)
    wrong = [
        key
        for key in first.keys() & own.keys()
        if set(placeholders(first[key])) != set(placeholders(own[key]))
        or sorted(TAG.findall(first[key])) != sorted(TAG.findall(own[key]))
    ]
    assert sorted(wrong) == []


@pytest.mark.parametrize("code", OTHERS)
def test_no_text_is_empty_that_english_has(code: str) -> None:
    first, own = own_words(FALLBACK), own_words(code)
    assert [key for key in own if first.get(key) and not own[key].strip() and key not in MAY_BE_EMPTY] == []


@pytest.mark.parametrize("code", OTHERS)
def test_no_sentence_is_left_in_english(code: str) -> None:
    first, own = own_words(FALLBACK), own_words(code)
    left = [
        key
        for key, text in own.items()
        if text == first.get(key) and ENGLISH.search(MARKUP.sub(" ", text)) and key not in AS_WRITTEN
    ]
    assert left == []


@pytest.mark.parametrize("code", OTHERS)
def test_sizes_name_a_unit_where_english_does(code: str) -> None:
    first, own = own_words(FALLBACK), own_words(code)
    assert [key for key in first.keys() & own.keys() if ("GiB" in first[key]) != ("GiB" in own[key])] == []


def test_lists_and_sentences_are_joined_as_the_language_does() -> None:
    english, chinese = words_for("en"), words_for("zh")
    assert (english.both(["a", "b", "c"]), chinese.both(["a", "b", "c"])) == ("a, b and c", "a\u3001b\u548cc")
    assert (english.both(["a"]), english.clauses(["a", "b"])) == ("a", "a; b")
    assert (english.sentences(["A.", Safe("<b>B.</b>")]), english.text(["A<"])) == ("A. <b>B.</b>", "A<")
    assert chinese.sentences(["<", "b"]) == "&lt;b"
    assert (english.opening("logits"), chinese.opening("logits")) == ("Logits", "logits")
    assert (english.inside("In"), chinese.inside("In")) == ("in", "In")


def test_the_words_of_streamlit_are_replaced_in_other_languages_only() -> None:
    plain = worded_rules(words_for("en"))
    assert 'content:"Inputs and pages"' in plain
    assert not any(place in plain for place in PLACES.values())
    rules = worded_rules(words_for("zh"))
    assert 'content:"\u4e0a\u4f20"' in rules
    assert "display:none!important" in rules  # the place whose text is empty
    evil = Words("xx", {f"streamlit.{name}": '"</style><b>\\' for name in (*PLACES, *UNNAMED)})
    assert not re.search(r'<|content:"[^"]*"[^;]', worded_rules(evil))


def test_no_chinese_stands_in_the_code() -> None:
    found = [
        f"{path.relative_to(run.ROOT)}:{node.lineno}: {node.value!r}"
        for path in (*sorted((run.ROOT / "ui").rglob("*.py")), run.ROOT / "app.py")
        for node in constants(path)
        if CJK.search(str(node.value))
    ]
    assert found == []


def constants(path: Path) -> list[ast.Constant]:
    """The texts of a module, those that document left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone
    ]


def test_chinese_in_the_code_is_found(tmp_path: Path) -> None:
    path = tmp_path / "page.py"
    path.write_text('"""\u8bf4\u660e"""\nst.write(f"\u663e\u5b58 {x}", "ok")\n', encoding="utf-8")
    assert [bool(CJK.search(str(node.value))) for node in constants(path)].count(True) == 1


@pytest.mark.parametrize(
    ("tag", "code"),
    [
        ("zh", "zh"),
        ("zh-CN", "zh"),
        ("zh-TW", "zh"),
        ("zh-Hant-HK", "zh"),
        ("ZH_cn", "zh"),
        ("en-GB", "en"),
        ("de-DE", ""),
        ("zha", ""),
        ("", ""),
    ],
)
def test_a_browsers_tag_names_a_language(tag: str, code: str) -> None:
    assert known_language(tag) == code


@pytest.mark.parametrize(
    ("number", "english", "chinese"),
    [
        (8_030_261_248, "8.03\u00a0B", "80.3\u4ebf"),
        (7_000_000_000, "7.00\u00a0B", "70.0\u4ebf"),
        (124_439_808, "124\u00a0M", "1.24\u4ebf"),
        (22_713_216, "22.7\u00a0M", "2271\u4e07"),
        (100_000_000, "100\u00a0M", "1.00\u4ebf"),
        (10_000_000_000, "10.0\u00a0B", "100\u4ebf"),
        (100_000_000_000, "100\u00a0B", "1000\u4ebf"),
        (671_026_419_200, "671\u00a0B", "6710\u4ebf"),
        (1_000_000_000_000, "1.00\u00a0T", "1.00\u4e07\u4ebf"),
        (9_000, "9.00\u00a0K", "9,000"),
        (640, "640", "640"),
    ],
)
def test_counts_are_written_by_the_steps_of_the_language(number: int, english: str, chinese: str) -> None:
    assert short_count(number, words_for("en")) == english
    assert short_count(number, words_for("zh")) == chinese


@pytest.mark.parametrize(
    ("typed", "count"),
    [
        ("70\u4ebf", 7 * 10**9),
        ("1000\u4ebf", 10**11),
        ("\u5343\u4ebf", 10**11),
        ("1\u5343\u4ebf", 10**11),
        ("\u767e\u4ebf", 10**10),
        ("1.75\u5343\u4ebf", 175 * 10**9),
        ("1\u4ebf", 10**8),
        ("1.4 \u4e07\u4ebf", 14 * 10**11),
        ("\uff13\u4e07", 30_000),
        ("7B", 7 * 10**9),
        ("8.03\u00a0b", 8_030_000_000),
        ("15 trillion", 15 * 10**12),
        ("1,000", 1000),
        ("4096", 4096),
        ("1.5", None),
        ("", None),
        ("B", None),
        ("-3", None),
        ("7 parsecs", None),
        ("1e9", None),
        ("9" * 40, None),
        ("999999\u4e07\u4ebf", 999999 * 10**12),
    ],
)
def test_counts_are_read_in_every_language(typed: str, count: int | None) -> None:
    assert read_count(typed) == count


@pytest.mark.parametrize("code", languages())
@given(number=COUNTS)
def test_a_count_is_read_as_it_was_written(code: str, number: int) -> None:
    assert read_count(exact_count(number, words_for(code))) == number


@pytest.mark.parametrize(
    ("number", "english", "chinese"),
    [(10**9, "1\u00a0B", "10\u4ebf"), (1_234_567, "1,234,567", "1,234,567"), (640, "640", "640")],
)
def test_a_count_is_written_as_a_person_types_it(number: int, english: str, chinese: str) -> None:
    assert exact_count(number, words_for("en")) == english
    assert exact_count(number, words_for("zh")) == chinese


@pytest.mark.parametrize("code", languages())
def test_the_steps_of_a_language_are_listed_largest_first(code: str) -> None:
    powers = [power for _, power in steps(words_for(code)("count.steps"))]
    assert powers == sorted(powers, reverse=True)
    assert len(powers) > 2


def is_chinese(page: AppTest) -> bool:
    """Whether the headline is."""
    return bool(CJK.search(headline(page)))


def test_the_address_bar_names_the_language(open_page: OpenPage) -> None:
    assert is_chinese(open_page(lang="zh"))
    assert not is_chinese(open_page(lang="tlh"))


@pytest.mark.parametrize(("locale", "chinese"), [("zh-TW", True), ("en-US", False), ("fr", False)])
def test_the_first_guess_is_the_browsers(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch, locale: str, chinese: bool
) -> None:
    monkeypatch.setattr(type(st.context), "locale", property(lambda _: locale))
    assert is_chinese(open_page()) is chinese
    assert not is_chinese(open_page(lang="en"))


def test_the_switch_is_kept_and_no_link_carries_it(open_page: OpenPage) -> None:
    page = open_page()
    english, before = html(page), page.session_state["scenario_document"]
    checked(page.segmented_control(key="language_choice").set_value("zh").run())
    assert is_chinese(page)
    checked(page.number_input(key="training.micro_batch").set_value(2).run())
    assert is_chinese(page)
    assert "lang" not in page.query_params
    checked(page.number_input(key="training.micro_batch").set_value(1).run())
    checked(page.segmented_control(key="language_choice").set_value("en").run())
    assert page.session_state["scenario_document"] == before
    assert html(page) == english


def test_the_switch_overrules_the_address_bar(open_page: OpenPage) -> None:
    page = open_page(lang="zh")
    checked(page.segmented_control(key="language_choice").set_value("en").run())
    assert not is_chinese(page)
