"""Every word stands in the locale file, every id has its words, every placeholder is filled."""

from __future__ import annotations

import ast
import json
import re
import string
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import pytest

import run
from planner import scenario_values as schema
from planner.checks.codes import CODES
from planner.issues import Issue, Severity
from planner.ledger import Category, Phase
from planner.plan_types import Known, Verdict
from planner.references import REFERENCES
from planner.runtimes.every import PROFILES
from ui.answers import answer
from ui.changes import note, outcomes, what
from ui.compare.values import written_text
from ui.examples import STORIES, story_document
from ui.inputs.techniques import SERVING, TRAINING
from ui.issue_words import field_name, issue_html, issue_text
from ui.numbers import DASH
from ui.tasks import TASKS
from ui.words import MissingWordsError, Safe, Words, flatten, words_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ui.document import Document

UI = run.ROOT / "ui"
TRUTH = run.ROOT / "tests" / "data" / "truth"
SOURCES = ("training", "training_fits", "serving", "serving_fits")
# Not words: names of fonts, a word of the data, a folder of the system: by file, the names they stand in.
NOT_FOR_PEOPLE = {"ui/tokens.py": {"FONT"}, "ui/cost/quotes.py": {"PER_GPU"}}
SYSTEM_FOLDERS = {"Application Support"}
WORDS = re.compile(r"[A-Za-z]{2,}[,.:;]? [a-zA-Z]{2,}")
TAGS = re.compile(r"<[^>]*>?|^[^<]*>")


@pytest.fixture(scope="module")
def words() -> Words:
    return words_for("en")


def truth_scenarios() -> Iterator[Document]:
    for name in SOURCES:
        for line in (TRUTH / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
            yield json.loads(line)["scenario"]


def literal_texts(path: Path) -> list[tuple[int, str]]:
    """Strings of a module that read like a sentence: two words in a row once tags are gone.

    Left out: strings that stand alone (they document), messages of our own mistakes, and `NOT_FOR_PEOPLE`.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = NOT_FOR_PEOPLE.get(path.relative_to(run.ROOT).as_posix(), set())
    skipped: set[int] = set()
    for node in ast.walk(tree):
        alone = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        named = (
            isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id in names
        )
        pattern = isinstance(node, ast.Call) and ast.unparse(node.func) == "re.compile"
        if alone or named or pattern or isinstance(node, ast.Raise):
            skipped |= {id(child) for child in ast.walk(node)}
    return [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped
        if node.value not in SYSTEM_FOLDERS and WORDS.search(TAGS.sub("", node.value))
    ]


def test_no_text_for_people_stands_in_the_code() -> None:
    found = [
        f"{path.relative_to(run.ROOT)}:{line}: {text!r}"
        for path in sorted(UI.rglob("*.py"))
        for line, text in literal_texts(path)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("code", "number"),
    [
        ('st.button("Apply it now")', 1),
        ("st.html(f'<b>It does fit {x}</b>')", 1),
        ('"""Text that documents."""\nx = "ids_only"', 0),
        ('raise ValueError("no words for it")', 0),
        ("st.html('<div class=\"fix row\">')", 0),
    ],
)
def test_text_in_the_code_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, number: int
) -> None:
    monkeypatch.setattr(run, "ROOT", tmp_path)
    path = tmp_path / "page.py"
    path.write_text(code, encoding="utf-8")
    assert len(literal_texts(path)) == number


def test_every_issue_code_has_its_sentence(words: Words) -> None:
    for code, entry in CODES.items():
        params: tuple[tuple[str, str | None], ...] = tuple((name, "7") for name in entry.params)
        for values in (params, tuple((name, None) for name in entry.params)):
            issue = Issue(code, "training.micro_batch", entry.severity, values)
            assert issue_text(issue, words).strip()


def test_an_issue_is_escaped(words: Words) -> None:
    issue = Issue("model_id_unknown", "model.id", Severity.ERROR, (("closest", "<i>"), ("given", "<script>")))
    assert "<script>" not in issue_html(issue, words)
    assert "<i>" not in issue_html(issue, words)


@pytest.mark.parametrize(
    ("group", "ids"),
    [
        ("category", [category.value for category in Category]),
        ("part", [category.value for category in Category]),
        ("verdict.word", [verdict.value for verdict in Verdict]),
        ("changes", [verdict.value for verdict in Verdict]),
        ("known", [known.value for known in Known]),
        ("runtime", [*get_args(schema.RuntimeName), *PROFILES]),
        ("optimizer", get_args(schema.OptimizerName)),
        ("adapter", get_args(schema.AdapterMethod)),
        ("format", [*get_args(schema.Dtype), *get_args(schema.AdapterBase)]),
        ("working.kind", {reference.kind for reference in REFERENCES.values()}),
    ],
)
def test_every_id_has_its_words(words: Words, group: str, ids: list[str]) -> None:
    assert [name for name in ids if not words.has(f"{group}.{name}")] == []


def test_every_phase_task_technique_and_story_has_its_words(words: Words) -> None:
    keys = [f"phase.{phase.value}.{form}" for phase in Phase for form in ("name", "short", "while")]
    keys += [f"task.{task}.{form}" for task in TASKS for form in ("name", "short")]
    keys += [f"technique.{t.name}.{form}" for t in (*TRAINING, *SERVING) for form in ("name", "effect")]
    keys += [f"story.{story}.name" for story in STORIES]
    assert [key for key in keys if not words.has(key)] == []


@pytest.fixture(scope="module")
def planned() -> list[Document]:
    return [*map(story_document, STORIES), *truth_scenarios()]


def test_every_entry_and_reference_of_the_published_runs_has_its_words(
    words: Words, planned: list[Document]
) -> None:
    entries, references, sources, reasons = set(), set(), set(), set()
    for document in planned:
        found = answer(document)
        for issue in found.issues:
            params = dict(issue.params)
            coded = params.get("reason") or params.get("because")
            if issue.code in {"no_effect", "not_modelled", "model_approximate"} and coded:
                reasons.add(
                    f"issue.{issue.code}_{'because' if issue.code == 'no_effect' else 'reason'}.{coded}"
                )
        if found.plan is None:
            continue
        for device in found.plan.devices:
            sources.add(f"known.usable_source.{device.usable_source}")
            entries |= {f"entry.{entry.name}" for entry in device.ledger.entries}
            references |= {entry.reference for entry in device.ledger.entries}
    assert len(entries) > 40
    assert sorted(key for key in entries | sources | reasons if not words.has(key)) == []
    assert sorted(references - set(REFERENCES)) == []


def test_what_a_runtime_fills_in_is_said_by_name(words: Words, planned: list[Document]) -> None:
    plans = [found for document in planned[::5] if (found := answer(document).plan) is not None]
    filled = {pair for found in plans for pair in found.defaults}
    assert len(filled) > 20
    assert sorted({path for path, _ in filled if field_name(path, words) == path}) == []
    shown = {written_text(path, value, words) for path, value in filled}
    assert not shown & {"()", "False", "True", "None"}
    assert {DASH, words("compare.no")} <= shown


def test_every_change_has_its_words(words: Words, planned: list[Document]) -> None:
    seen = set()
    for document in planned[::9]:
        plan = answer(document).plan
        if plan is None:
            continue
        for outcome in outcomes(document, plan):
            seen.add(outcome.change.name)
            assert what(outcome.change, words)
            assert note(outcome.change, words)
    assert len(seen) > 8


class _Tags(HTMLParser):
    """Keeps the tags that a text uses."""

    def __init__(self) -> None:
        super().__init__()
        self.used: set[str] = set()

    def handle_starttag(self, tag: str, _attrs: object) -> None:
        self.used.add(tag)


def test_the_locale_file_holds_words_and_no_markup_beyond_emphasis(words: Words) -> None:
    parser = _Tags()
    for key in words.names():
        parser.feed(words._template(key))
    assert parser.used <= {"b", "small", "span", "a", "br", "code"}


def test_every_placeholder_is_named(words: Words) -> None:
    for key in words.names():
        for _, name, _, _ in string.Formatter().parse(words._template(key)):
            assert name is None or name.isidentifier(), key


def test_parameters_are_escaped_unless_safe() -> None:
    words = Words("xx", {"a": "<b>{x}</b>"})
    assert words.html("a", x="<i>") == "<b>&lt;i&gt;</b>"
    assert words.html("a", x=Safe("<i>")) == "<b><i></b>"


def test_missing_words_are_an_error_not_a_key_on_the_page() -> None:
    with pytest.raises(MissingWordsError, match="no words for 'b'"):
        Words("xx", {"a": "x"})("b")


def test_a_locale_file_holds_text_only() -> None:
    with pytest.raises(TypeError, match=r"a\.b"):
        flatten({"a": {"b": 1}})


def test_a_language_without_a_file_is_english() -> None:
    assert words_for("tlh").language == "en"


@pytest.mark.parametrize(("sizes", "said"), [({}, False), ({"hidden_size": 1024, "vocab_size": 50000}, True)])
def test_what_a_config_of_an_unknown_class_holds_is_said_only_where_it_is_known(
    sizes: dict[str, int], said: bool
) -> None:
    asked = {
        "version": 1,
        "task": "full",
        "model": {"config": {"model_type": "next_year", **sizes}},
        "hardware": {"devices": [{"gpu": "h100-sxm-80gb"}]},
    }
    text = issue_text(answer(asked).errors[0], words_for("en"))
    assert text.startswith("Model type 'next_year' is not modelled, so nothing is guessed.")
    assert ("Its embedding alone has 51,200,000 parameters." in text) is said
    assert "embedding" not in text or said
