"""What each technique does: a bar for the plain job, one for each technique's saving, one for the job itself."""

from ui.effects import Effects, Step
from ui.numbers import gib1, signed_gib
from ui.words import Safe, Words, escaped


def waterfall(found: Effects, words: Words) -> Safe:
    """Rows of HTML boxes with their label above, on one axis; a rule where the card of the question ends.

    Args:
        found: The steps.
        words: Names of the techniques.
    """
    most = max(found.plain_bytes, *(step.peak_bytes for step in found.steps))
    rule = _rule(found.usable_bytes, most)
    rows = [_row(words("waterfall.plain"), gib1(found.plain_bytes), _total(found.plain_bytes, most) + rule)]
    before = found.plain_bytes
    for step in found.steps:
        change = signed_gib(step.peak_bytes - before)
        rows.append(_row(_name(step, words), change, _change(before, step, most) + rule))
        before = step.peak_bytes
    rows.append(_row(words("waterfall.this"), gib1(before), _total(before, most) + rule))
    name = escaped(alternative(found, words))
    return Safe(f'<div class="falls" role="img" aria-label="{name}">{"".join(rows)}</div>')


def alternative(found: Effects, words: Words) -> str:
    """The chart in words."""
    parts, before = [words("waterfall.alt_plain", gib=gib1(found.plain_bytes))], found.plain_bytes
    for step in found.steps:
        change = signed_gib(step.peak_bytes - before)
        parts.append(
            words("waterfall.alt_step", name=_name(step, words), change=change, gib=gib1(step.peak_bytes))
        )
        before = step.peak_bytes
    return words.text(parts)


def _name(step: Step, words: Words) -> str:
    return " + ".join(words(f"waterfall.step.{name}") for name in step.names)


def _row(label: str, value: str, bar: str) -> str:
    return f"<div><span>{escaped(label)}</span><b>{escaped(value)}</b><p>{bar}</p></div>"


def _rule(usable_bytes: int | None, most: int) -> str:
    if usable_bytes is None or usable_bytes > most:
        return ""
    return f'<u style="left:{100 * usable_bytes / most:.4g}%"></u>'


def _total(size: int, most: int) -> str:
    return f'<i class="all" style="width:{100 * size / most:.4g}%"></i>'


def _change(before: int, step: Step, most: int) -> str:
    low, high = sorted((before, step.peak_bytes))
    kind = "more" if step.peak_bytes > before else "less"
    return (
        f'<i class="{kind}" style="left:{100 * low / most:.4g}%;width:{100 * (high - low) / most:.4g}%"></i>'
    )
