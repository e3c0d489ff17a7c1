"""What differs between scenarios, in sentences and table cells."""

from collections.abc import Sequence
from typing import Final

from planner.ledger import Category
from planner.plan_types import Verdict
from ui import parts, verdict
from ui.changes import ORDER
from ui.compare.fields import FieldChange, field_changes
from ui.compare.reasons import Reason, reasons
from ui.compare.sides import Answered, Side, at_peak, categories
from ui.compare.values import change_text, value_text
from ui.counts import short_count
from ui.issue_words import field_name, issue_html
from ui.numbers import DASH, gib1, gib2, signed_gib, symbol_value, whole
from ui.words import Safe, Words

MOST_NAMED: Final = 3
MOST_LISTED: Final = 12
SHORTEST_COUNT: Final = 100_000
"""Values from here on are shown as 1.53 B rather than in full."""

COUNTED: Final = frozenset({"P", "L", "N", "t", "s", "b", "n", "V", "h", "i", "rank", "bits", "e", "T", "S"})
"""Symbols that have words of their own."""


def headline(sides: Sequence[Answered], words: Words) -> Safe:
    """What the others do to the fullest card of the first, each in a clause."""
    first, others = sides[0], sides[1:]
    form = "one" if len(others) == 1 else "two"
    clauses = [
        words(
            f"compare.head.{form}",
            name=side.letter,
            effect=_effect(first, side, words, alone=form == "one"),
            outcome=words(f"compare.outcome.{_outcome(first.plan.verdict, side.plan.verdict)}"),
        )
        for side in others
    ]
    return words.html("compare.head.joined", clauses=words("compare.head.between").join(clauses))


def _effect(first: Answered, side: Answered, words: Words, *, alone: bool) -> str:
    delta = side.worst.peak_bytes - first.worst.peak_bytes
    kind = "same" if gib1(abs(delta)) == gib1(0) else "saves" if delta < 0 else "needs"
    return words(f"compare.effect.{kind}.{'alone' if alone else 'listed'}", gib=gib1(abs(delta)))


def _outcome(before: Verdict, after: Verdict) -> str:
    """What becomes of the verdict; words are `compare.outcome.<it>`."""
    if Verdict.UNKNOWN in {before, after}:
        return "unknown"
    return f"{'stays' if before is after else 'becomes'}_{after.value}"


def tally(sides: Sequence[Answered], words: Words) -> Safe:
    """How many of the others fit, in the tint of the best of them."""
    verdicts = sorted((side.plan.verdict for side in sides[1:]), key=ORDER.__getitem__)
    counts = [
        words.count(f"compare.tally.{one.value}", verdicts.count(one)) for one in dict.fromkeys(verdicts)
    ]
    kind, icon = verdict.TAG[verdicts[0]]
    text = words("compare.tally.between").join(counts)
    return Safe(f'<span class="tag {kind}">{icon}&ensp;{words.html("compare.tally.is", text=text)}</span>')


def why(sides: Sequence[Answered], words: Words) -> Safe:
    """Which fields were changed, a sentence a side."""
    first = sides[0]
    sentences = []
    for side in sides[1:]:
        asked = [change for change in field_changes(first.plan, side.plan) if change.asked]
        if not asked:
            sentences.append(words.html("compare.why.nothing", name=side.letter))
            continue
        named = [change_text(change, first.plan, side.plan, words) for change in asked[:MOST_NAMED]]
        key = "compare.why.more" if len(asked) > MOST_NAMED else "compare.why.all"
        sentences.append(
            words.html(key, name=side.letter, changes=words.clauses(named), n=whole(len(asked) - MOST_NAMED))
        )
    return words.sentences(sentences)


def cell(side: Side, words: Words) -> tuple[Safe, Safe, Safe]:
    """A side in the strip: its name, needs of usable, and below its tag with two figures."""
    label = words.html("compare.side", letter=side.letter, name=side.name)
    if side.plan is None:
        problems = Safe("<br>".join(issue_html(issue, words) for issue in side.issues))
        return label, Safe(DASH), Safe(f'<span class="bad">{problems}</span>')
    worst = side.plan.worst
    needs = gib1(worst.peak_bytes)
    value = (
        words.html("strip.gib", value=needs)
        if worst.usable_bytes is None
        else words.html("strip.of", needs=needs, usable=gib1(worst.usable_bytes))
    )
    phase = words(f"phase.{worst.peak_phase.value}.name")
    headroom = DASH if worst.headroom_bytes is None else signed_gib(worst.headroom_bytes)
    figures = words.html("compare.figures", headroom=headroom, phase=phase)
    if side.plan.serving is not None:
        tokens = whole(side.plan.serving.kv_tokens)
        figures = words.html("compare.figures_serving", headroom=headroom, tokens=tokens)
    return label, value, Safe(f'<div class="tagline">{verdict.tag(side.plan.verdict, words)}</div>{figures}')


def empty_cell(letter: str, words: Words) -> tuple[Safe, Safe, Safe]:
    """A side that has not been chosen."""
    return words.html("compare.side", letter=letter, name=""), Safe(DASH), words.html("compare.empty")


def differences_note(sides: Sequence[Answered], words: Words) -> str:
    """What the figures are; where the fullest phases differ, which they are."""
    phases = [side.worst.peak_phase for side in sides]
    if len(set(phases)) == 1:
        return words("compare.differences_note")
    named = [
        words(
            "compare.phase_of", letter=side.letter, phase=words(f"phase.{side.worst.peak_phase.value}.name")
        )
        for side in sides
    ]
    return words("compare.differences_phases", phases=words.listed(named))


def known_line(sides: Sequence[Answered], words: Words) -> Safe:
    """How the answers are known, said once where it is the same for all."""
    lines: dict[Safe, list[str]] = {}
    for side in sides:
        lines.setdefault(verdict.known_line(side.plan, words), []).append(side.letter)
    if len(lines) == 1:
        return next(iter(lines))
    return Safe(
        "<br>".join(
            words.html("compare.known", letters=words.listed(letters), line=line)
            for line, letters in lines.items()
        )
    )


def difference_head(sides: Sequence[Answered], words: Words) -> list[str]:
    """Column heads of the differences."""
    first = sides[0].letter
    head = [words("compare.part"), first]
    for side in sides[1:]:
        head += [side.letter, words("compare.minus", of=side.letter, what=first)]
    return [*head, words("compare.because")]


def difference_rows(sides: Sequence[Answered], words: Words) -> list[list[str]]:
    """A row a category, then the peak, and the card where the cards differ."""
    rows = [_category_row(category, sides, words) for category in categories(tuple(sides))]
    rows.append(_total_row("peak", [side.worst.peak_bytes for side in sides], words))
    usable = [side.worst.usable_bytes for side in sides]
    if len(set(usable)) > 1:
        rows.append(_card_row("usable", usable, words))
        rows.append(_card_row("headroom", [side.worst.headroom_bytes for side in sides], words))
    return rows


def _category_row(category: Category, sides: Sequence[Answered], words: Words) -> list[str]:
    sizes = [at_peak(side).get(category, 0) for side in sides]
    name = Safe(f"{parts.swatch(category)}{words.html(f'category.{category.value}')}")
    return [name, *_figures(sizes), Safe(f'<span class="m">{because(category, sides, words)}</span>')]


def _figures(sizes: Sequence[int]) -> list[str]:
    cells: list[str] = [gib2(sizes[0])]
    for size in sizes[1:]:
        cells += [gib2(size), _difference(size - sizes[0])]
    return cells


def _difference(delta_bytes: int) -> str:
    """With its sign, and blank where nothing is left of it after rounding."""
    text = signed_gib(delta_bytes, 2)
    if text[0] not in "+\u2212":
        return ""
    return Safe(f'<span class="{"ok" if delta_bytes < 0 else "bad"}">{text}</span>')


def _total_row(name: str, sizes: Sequence[int], words: Words) -> list[str]:
    first = sizes[0]
    cells = [words.html("compare.total", text=words(f"table.{name}")), _bold(gib2(first))]
    for size in sizes[1:]:
        text = signed_gib(size - first, 2)
        cells += [_bold(gib2(size)), _bold(text) if text[0] in "+\u2212" else Safe("")]
    return [*cells, ""]


def _card_row(name: str, sizes: Sequence[int | None], words: Words) -> list[str]:
    """Usable memory or headroom: more of it is better, so differences carry no colour."""
    show = signed_gib if name == "headroom" else None
    cells: list[str] = [words(f"table.{name}")]
    for i, size in enumerate(sizes):
        cells.append(DASH if size is None else show(size, 2) if show else gib2(size))
        if i:
            known = size is not None and sizes[0] is not None
            text = (
                signed_gib(size - sizes[0], 2) if known and size is not None and sizes[0] is not None else ""
            )
            cells.append(text if text[:1] in {"+", "\u2212"} else "")
    return [*cells, ""]


def _bold(text: str) -> Safe:
    return Safe(f"<b>{text}</b>")


def because(category: Category, sides: Sequence[Answered], words: Words) -> Safe:
    """The causes of a category's differences; what both others share is said once."""
    first = sides[0]
    told: list[tuple[str, list[str]]] = []
    for side in sides[1:]:
        delta = at_peak(side).get(category, 0) - at_peak(first).get(category, 0)
        if not _difference(delta):
            continue
        found = reasons(first, side, category, field_changes(first.plan, side.plan))
        told.append((side.letter, [reason_text(reason, first, side, words) for reason in found]))
    if len(told) < 2:
        return words.html("compare.reasons", text=words.clauses(told[0][1] if told else []))
    shared = [text for text in told[0][1] if text in told[1][1]]
    pieces = list(shared)
    for letter, texts in told:
        own = [text for text in texts if text not in shared]
        if own:
            pieces.append(words("compare.in_side", letter=letter, text=words.listed(own)))
    return words.html("compare.reasons", text=words.clauses(pieces))


def reason_text(reason: Reason, first: Answered, second: Answered, words: Words) -> str:
    """One cause in words."""
    if reason.kind == "field" and reason.field is not None:
        text = change_text(reason.field, first.plan, second.plan, words)
        if not reason.before or not reason.after:
            return text
        return words(
            "compare.reason.field_each", text=text, before=_ratio(reason.before), after=_ratio(reason.after)
        )
    return words(
        f"compare.reason.{_reason_key(reason)}",
        entry=words(f"entry.{reason.entry}"),
        symbol=reason.symbol,
        before=_ratio(reason.before) if reason.kind == "each" else _value(reason.before, words),
        after=_ratio(reason.after) if reason.kind == "each" else _value(reason.after, words),
        before_gpu=verdict.gpu_name(first.worst, words),
        after_gpu=verdict.gpu_name(second.worst, words),
        before_phase=words(f"phase.{first.worst.peak_phase.value}.name"),
        after_phase=words(f"phase.{second.worst.peak_phase.value}.name"),
    )


def _reason_key(reason: Reason) -> str:
    return f"symbol_{reason.symbol}" if reason.kind == "symbol" and reason.symbol in COUNTED else reason.kind


def _value(value: float, words: Words) -> str:
    return short_count(int(value), words) if value >= SHORTEST_COUNT else symbol_value(value)


def _ratio(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def changed_head(sides: Sequence[Answered], words: Words) -> list[str]:
    """Column heads of the changed fields."""
    return [words("compare.field"), *(side.letter for side in sides)]


def changed_rows(sides: Sequence[Answered], words: Words) -> tuple[list[list[str]], int]:
    """A row a field that any of the others has differently, blank where it is as in the first.

    Returns:
        At most a dozen rows, those asked for first, and how many were left out.
    """
    first = sides[0]
    lists = [field_changes(first.plan, side.plan) for side in sides[1:]]
    merged: dict[str, FieldChange] = {}
    for change in sorted((c for found in lists for c in found), key=lambda c: not c.asked):
        merged.setdefault(change.path, change)
    rows = []
    for path, change in list(merged.items())[:MOST_LISTED]:
        cells: list[str] = [_field_cell(change, words), value_text(path, change.before, first.plan, words)]
        for side, found in zip(sides[1:], lists, strict=True):
            own = next((c for c in found if c.path == path), None)
            cells.append("" if own is None else value_text(path, own.after, side.plan, words))
        rows.append(cells)
    return rows, max(0, len(merged) - MOST_LISTED)


def _field_cell(change: FieldChange, words: Words) -> str:
    name = field_name(change.path, words)
    return name if change.asked else words.html("compare.followed", field=name)
