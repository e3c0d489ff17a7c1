"""The Method page's tables, as HTML."""

from html import escape
from typing import Final

from hardware_db.scores import Coverage
from planner.accuracy.score import POOLED, Cell
from planner.ledger import Category, Entry
from planner.plan_types import Known, Plan
from planner.references import Reference
from ui import parts
from ui.citations import reference_line, title_of, where_of
from ui.issue_words import field_name
from ui.method.accuracy import cell_read_from_itself
from ui.method.data_files import DataFile
from ui.method.formulas import Formula, symbol_meaning
from ui.method.gaps import Gap
from ui.method.published import Published, Runs
from ui.method.shares import share_text, signed_share
from ui.method.verified import Evidence
from ui.numbers import DASH, gib2, percent, ranges, symbol_value, whole
from ui.tasks import TASKS
from ui.words import Safe, Words
from ui.worked import formula_html

SERVE: Final = "serve"
CELL_COLUMNS: Final = ("metric", "family", "n", "unsupported", "median", "p90", "bias", "inside")
COVERAGE_COLUMNS: Final = ("family", "layer", "inside", "share", "below", "above", "width", "shipped")
EVERY: Final = "*"
"""All sources of a layer together."""


def cells_table(score: Published, words: Words) -> Safe:
    """Every cell of the score; a dagger where a constant was read from the same rows."""
    rows = [_cell(cell, score, words) for cell in score.cells if cell.n]
    head = [words(f"method.cells.{name}") for name in CELL_COLUMNS]
    return parts.table(head, rows, name=words("method.cells.name"), left=(1,))


def _cell(cell: Cell, score: Published, words: Words) -> list[str]:
    family = cell.family if cell.family != POOLED else words("method.cells.pooled")
    if cell_read_from_itself(cell, score):
        family = words("method.cells.own", family=family)
    return [
        words(f"method.metric.{cell.metric}"),
        family,
        whole(cell.n),
        whole(cell.unsupported) if cell.unsupported else DASH,
        DASH if cell.median_abs_error is None else share_text(cell.median_abs_error),
        DASH if cell.p90_abs_error is None else share_text(cell.p90_abs_error),
        DASH if cell.bias is None else signed_share(cell.bias),
        DASH if cell.inside_band_frac is None else percent(cell.inside_band_frac),
    ]


def held_table(score: Published, words: Words) -> Safe:
    """Runs inside a band made without their source, by runtime and task."""
    head = [words(f"method.held.{name}") for name in ("runtime", "task", "sources", "inside", "share")]
    rows = [
        [
            words("method.cells.own", family=words(f"runtime.{row.runtime}"))
            if row.own_errors
            else words(f"runtime.{row.runtime}"),
            words(f"task.{row.task}.short"),
            whole(row.sources),
            words("method.held.of", inside=whole(row.held_inside), n=whole(row.n)),
            percent(row.held_inside / row.n) if row.n else DASH,
        ]
        for row in sorted(score.runs, key=lambda row: -row.n)
    ]
    return parts.table(head, rows, name=words("method.held.title"), left=(1,))


def coverage_table(score: Published, words: Words) -> Safe:
    """Readings inside bands made without their source: each layer, then each source and layer."""
    head = [words(f"method.coverage.{name}") for name in COVERAGE_COLUMNS]
    own = {family for constant in score.in_sample for family in constant.families}
    rows = [_covered(row, words, own=row.family in own) for row in score.coverage]
    return parts.table(head, rows, name=words("method.coverage.title"), left=(1,))


def _covered(row: Coverage, words: Words, *, own: bool) -> list[str]:
    name = Safe(f"<b>{words.html('method.coverage.every')}</b>") if row.family == EVERY else row.family
    return [
        words("method.cells.own", family=name) if own else name,
        words(f"method.coverage.in.{row.layer}"),
        words("method.held.of", inside=whole(row.inside), n=whole(row.n)),
        percent(row.inside / row.n) if row.n else DASH,
        whole(row.below) if row.below else DASH,
        whole(row.above) if row.above else DASH,
        _half_width(row.half_width_frac),
        _half_width(row.shipped_half_width_frac),
    ]


def _half_width(value: float | None) -> str:
    return DASH if value is None else f"±{share_text(value)}"


def in_sample_table(score: Published, words: Words) -> Safe:
    """Constants that were read from rows they are scored on."""
    head = [words(f"method.own.{name}") for name in ("constant", "families", "metrics", "rows")]
    rows = [
        [
            Safe(f"<code>{escape(found.name)}</code>"),
            ", ".join(found.families),
            words.listed(words(f"method.metric.{metric}") for metric in found.metrics),
            DASH if found.n_rows is None else whole(found.n_rows),
        ]
        for found in score.in_sample
    ]
    return parts.table(head, rows, name=words.count("method.own.title", len(rows)), wide=(0, 1, 2))


def formula_heading(category: Category, formulas: list[Formula], words: Words) -> Safe:
    """A category and how many formulas it has."""
    count = words.count("method.formulas.count", len(formulas))
    swatch = parts.swatch(category)
    name = words.html(f"category.{category.value}")
    return Safe(f'<div class="sec"><h2>{swatch}{name}</h2><span>{escape(count)}</span></div>')


def formula_table(category: Category, formulas: list[Formula], plan: Plan, words: Words) -> Safe:
    """Formulas with their symbols explained, and where each is known from."""
    head = [words(f"method.formulas.{name}") for name in ("entry", "formula", "symbols", "size", "known")]
    rows = [_formula(formula, plan, words) for formula in formulas]
    return parts.table(head, rows, name=words(f"category.{category.value}"), wide=(0, 1, 2, 4))


def _formula(formula: Formula, plan: Plan, words: Words) -> list[str]:
    entry = formula.entry
    name = words.html(f"entry.{entry.name}") if words.has(f"entry.{entry.name}") else escape(entry.name)
    if len(plan.devices) > 1:
        where = words.html("method.formulas.on", indices=ranges(formula.indices))
        name = f'{name}<br><span class="m">{where}</span>'
    symbols = "<br>".join(_symbol(entry, symbol, value, words) for symbol, value in entry.symbols)
    return [
        Safe(name),
        formula_html(entry.formula),
        Safe(symbols),
        words("method.formulas.sized", size=gib2(entry.bytes)),
        Safe(f"{reference_line(formula.reference, words)}{_estimate(formula, words)}"),
    ]


def _symbol(entry: Entry, symbol: str, value: int | float, words: Words) -> Safe:
    meaning = symbol_meaning(entry, symbol, words)
    return Safe(
        f"<code>{escape(symbol)}</code> = {symbol_value(value)}"
        + (f' <span class="m">{escape(meaning)}</span>' if meaning else "")
    )


def _estimate(formula: Formula, words: Words) -> str:
    return (
        f'<br><span class="tight">{words.html("method.formulas.estimate")}</span>'
        if formula.entry.estimate
        else ""
    )


def references_table(
    references: list[tuple[tuple[str, ...], Reference]], used: frozenset[str], words: Words
) -> Safe:
    """Every reference, with a mark on those that the open question uses."""
    head = [words(f"method.references.{name}") for name in ("reference", "where", "kind", "used")]
    rows = [
        [
            _title(reference, words),
            where_of(reference, words),
            words(f"working.kind.{reference.kind}"),
            words("method.references.here") if used & set(keys) else "",
        ]
        for keys, reference in references
    ]
    return parts.table(head, rows, name=words("method.references.name"), left=(2,), wide=(0, 1))


def _title(reference: Reference, words: Words) -> Safe:
    title = title_of(reference, words)
    if not reference.url:
        return title
    return Safe(f'<a href="{escape(reference.url)}" rel="noreferrer">{title}</a>')


def training_evidence(found: dict[str, tuple[Evidence, ...]], plan: Plan, words: Words) -> Safe:
    """Trainers by task; the open question's cell is bold."""
    tasks = tuple(task for task in TASKS if task != SERVE)
    head = [words("method.verified.runtime"), *(words(f"task.{task}.short") for task in tasks)]
    rows: list[list[str]] = []
    for name, cells in found.items():
        own = [cell for cell in cells if cell.task != SERVE]
        if any(cell.possible for cell in own):
            drawn = [_evidence(cell, words, here=_is_asked(cell, plan)) for cell in own]
            rows.append([words(f"runtime.{name}"), *drawn])
    columns = tuple(range(1, len(tasks) + 1))
    return parts.table(head, rows, name=words("method.verified.training"), left=columns)


def serving_evidence(found: dict[str, tuple[Evidence, ...]], plan: Plan, words: Words) -> Safe:
    """Engines, a row each."""
    head = [words(f"method.verified.{key}") for key in ("runtime", "how", "median", "band", "right")]
    cells = [cell for own in found.values() for cell in own if cell.task == SERVE and cell.possible]
    rows = [_engine(cell, words, here=_is_asked(cell, plan)) for cell in cells]
    return parts.table(head, rows, name=words("method.verified.serving"), left=(1,))


def _is_asked(cell: Evidence, plan: Plan) -> bool:
    return (cell.runtime, cell.task) == (plan.resolved.runtime.name, plan.resolved.task)


def _engine(cell: Evidence, words: Words, *, here: bool) -> list[str]:
    runs, verdicts = cell.runs, cell.verdicts
    how = "<br>".join(_known_lines(cell, words))
    mark = f"<br><b>{words.html('method.verified.here')}</b>" if here else ""
    banded = runs is not None and runs.low_frac is not None and runs.high_frac is not None
    return [
        words(f"runtime.{cell.runtime}"),
        Safe(f"{how}{mark}"),
        share_text(runs.median_abs_error) if runs else DASH,
        f"{runs.low_frac:.2f}{DASH}{runs.high_frac:.2f}" if runs and banded else DASH,
        words("method.held.of", inside=whole(verdicts.right), n=whole(verdicts.n)) if verdicts else DASH,
    ]


def _known_lines(cell: Evidence, words: Words) -> list[str]:
    """How a runtime and task is known: a mark and a word each."""
    lines: list[str] = []
    if cell.traced:
        lines.append(f'<span class="ok">✓ {words.html("method.verified.trace")}</span>')
    if cell.known is Known.PUBLISHED and cell.runs is not None:
        text = words.html("method.verified.published", n=whole(cell.runs.n))
        lines.append(f'<span class="ok">✓ {text}</span>')
    elif not cell.traced:
        lines.append(f'<span class="m">{words.html("method.verified.none")}</span>')
    if cell.known is not Known.PUBLISHED and cell.runs is not None:
        lines.append(f'<span class="m">{words.count("method.verified.few", cell.runs.n)}</span>')
    return lines


def _evidence(cell: Evidence, words: Words, *, here: bool) -> Safe:
    if not cell.possible:
        return Safe("")
    lines = _known_lines(cell, words)
    if cell.known is Known.PUBLISHED and cell.runs is not None:
        lines.append(f'<span class="m">{_runs_line(cell.runs, words)}</span>')
    if cell.verdicts is not None:
        right = {"right": whole(cell.verdicts.right), "n": whole(cell.verdicts.n)}
        lines.append(f'<span class="m">{words.html("method.verified.verdicts", **right)}</span>')
    body = "<br>".join(lines)
    return Safe(f"<b>{body}<br>{words.html('method.verified.here')}</b>" if here else body)


def _runs_line(runs: Runs, words: Words) -> Safe:
    return words.html(
        "method.verified.runs",
        median=share_text(runs.median_abs_error),
        low=f"{runs.low_frac or 1:.2f}",
        high=f"{runs.high_frac or 1:.2f}",
    )


def files_table(files: tuple[DataFile, ...], words: Words) -> Safe:
    """Every table: what it holds, rows, dates, figures from memory."""
    head = [
        words(f"method.data.{name}")
        for name in ("file", "what", "rows", "oldest", "newest", "undated", "recalled")
    ]
    rows = [
        [
            Safe(f"<code>{escape(item.file)}</code>"),
            words(f"method.data.of.{item.what}"),
            whole(item.rows),
            item.oldest or DASH,
            item.newest or DASH,
            whole(item.undated) if item.undated else DASH,
            whole(item.recalled) if item.recalled else DASH,
        ]
        for item in files
    ]
    return parts.table(head, rows, name=words("method.data.title"), wide=(1,))


def licence_table(rows: tuple[tuple[str, ...], ...], title: str, words: Words) -> Safe:
    """Source, licence and use."""
    head = [words(f"method.licences.{name}") for name in ("source", "licence", "used")]
    return parts.table(
        head, [[cell.replace("`", "") for cell in row] for row in rows], name=title, wide=(0, 1, 2)
    )


def gaps_table(gaps: tuple[Gap, ...], title: str, words: Words) -> Safe:
    """Field and what becomes of it."""
    head = [words("method.gaps.field"), words("method.gaps.what")]
    rows = [[_field(field, words), _reason(code, words)] for field, code in gaps]
    return parts.table(head, rows, name=title, wide=(1,))


def _field(path: str, words: Words) -> str:
    """A field by its label; by its path, as code, where the form does not show it."""
    name = field_name(path, words)
    return Safe(f"<code>{escape(path)}</code>") if name == path else name


def _reason(code: str, words: Words) -> str:
    key = f"issue.not_modelled_reason.{code}"
    return words(key) if words.has(key) else code


def unanswered_table(score: Published, words: Words) -> Safe:
    """Published records that got no answer, by reason."""
    head = [words("method.gaps.reason"), words("method.gaps.records")]
    rows = [[Safe(f"<code>{escape(reason)}</code>"), whole(count)] for reason, count in score.unsupported]
    return parts.table(head, rows, name=words("method.gaps.unanswered"))
