"""The plan as a Markdown report: verdict, cards, the fullest card's entries, defaults. Words come from the caller."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from planner.exports.types import Export
from planner.ledger import Category
from planner.plan_types import DevicePlan, Plan
from planner.units import gib

MOST_ENTRIES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportWords:
    """Every word of the report.

    Attributes:
        title: First line.
        verdict: The answer in a sentence.
        headings: Headings by id: `cards`, `peak`, `entries`, `defaults`, `remarks`, `question`.
        columns: Column names by id: `devices`, `card`, `peak`, `usable`, `left`, `entry`, `formula`, `gib`, `field`,
            `value`, `low`, `high`.
        category: The name of a category.
        entry: The name of an entry.
        remarks: Warnings and notes, worded.
        question: The scenario file, as JSON.
    """

    title: str
    verdict: str
    headings: dict[str, str]
    columns: dict[str, str]
    category: Callable[[Category], str]
    entry: Callable[[str], str]
    remarks: tuple[str, ...]
    question: str


HEADINGS = ("cards", "peak", "entries", "defaults", "remarks", "question")
COLUMNS = (
    "devices",
    "card",
    "peak",
    "usable",
    "left",
    "low",
    "high",
    "entry",
    "formula",
    "gib",
    "field",
    "value",
)


def report(plan: Plan, words: ReportWords) -> Export:
    """The report; its chart is a Mermaid pie, which Git hosts draw."""
    worst = plan.worst
    lines = [f"# {plain(words.title)}", "", plain(words.verdict), ""]
    lines += [f"## {words.headings['cards']}", "", *_cards(plan, words), ""]
    lines += [f"## {words.headings['peak']}", "", *_pie(worst, words), ""]
    lines += [f"## {words.headings['entries']}", "", *_entries(worst, words), ""]
    if plan.defaults:
        head = (words.columns["field"], words.columns["value"])
        lines += [f"## {words.headings['defaults']}", "", *_table(head, plan.defaults), ""]
    if words.remarks:
        lines += [
            f"## {words.headings['remarks']}",
            "",
            *(f"- {plain(remark)}" for remark in words.remarks),
            "",
        ]
    lines += [f"## {words.headings['question']}", "", "```json", words.question, "```"]
    return Export(target="report", file_name="headroom-report.md", text="\n".join(lines) + "\n")


def plain(text: str) -> str:
    """Text on one line in which Markdown and HTML find nothing to act on."""
    flat = " ".join(text.split())
    for sign in ("\\", "`", "*", "_", "<", "[", "|"):
        flat = flat.replace(sign, f"\\{sign}")
    return flat


def _size(amount_bytes: int | None) -> str:
    return "–" if amount_bytes is None else f"{gib(amount_bytes):,.2f}"


def _cards(plan: Plan, words: ReportWords) -> list[str]:
    columns = words.columns
    names = ("devices", "card", "peak", "low", "high", "usable", "left")
    rows = [
        (
            f"{device.indices[0]}–{device.indices[-1]}"
            if len(device.indices) > 1
            else str(device.indices[0]),
            device.gpu_name,
            _size(device.peak_bytes),
            _size(device.band.low_bytes if device.band else None),
            _size(device.band.high_bytes if device.band else None),
            _size(device.usable_bytes),
            _size(device.headroom_bytes),
        )
        for device in plan.devices
    ]
    return _table(tuple(columns[name] for name in names), rows)


def _pie(device: DevicePlan, words: ReportWords) -> list[str]:
    parts = device.ledger.by_category(device.peak_phase)
    rows = [
        f'    "{words.category(category)}" : {gib(size):.2f}'.replace('""', '"')
        for category, size in parts.items()
        if size > 0
    ]
    return ["```mermaid", "pie showData", *rows, "```"]


def _entries(device: DevicePlan, words: ReportWords) -> list[str]:
    alive = device.ledger.alive(device.peak_phase)[:MOST_ENTRIES]
    head = (words.columns["entry"], words.columns["formula"], words.columns["gib"])
    return _table(head, ((words.entry(entry.name), entry.formula, _size(entry.bytes)) for entry in alive))


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    names = [plain(name) for name in head]
    body = ["| " + " | ".join(plain(cell) for cell in row) + " |" for row in rows]
    return ["| " + " | ".join(names) + " |", "|" + " --- |" * len(names), *body]
