"""The speed score as `python -m benchmarks.speed_accuracy --write` left it, in tables."""

from hardware_db.scores import SpeedScore
from ui import parts
from ui.method.shares import share_text
from ui.numbers import percent, whole
from ui.words import Safe, Words


def lines_table(score: SpeedScore, words: Words) -> Safe:
    """A line a sort of run: our error beside the simple rule's, under one test."""
    columns = ("group", "sources", "runs", "median", "p90", "rule_error", "fold", "inside", "rule")
    head = [words(f"method.speed.{name}") for name in columns]
    rows = [
        [
            words(f"method.speed.of.{line.simple_key}_{line.kinds[0]}"),
            whole(line.families),
            whole(line.rows),
            share_text(line.family_median),
            share_text(line.family_p90),
            share_text(line.simple_family_median),
            words(
                "method.speed.both",
                ours=share_text(line.fold_median),
                rule=share_text(line.simple_fold_median),
            ),
            words(
                "method.speed.held",
                runs=percent(line.inside_frac),
                sources=percent(line.inside_family_frac),
            ),
            words(f"method.speed.by.{line.simple_key}"),
        ]
        for line in score.lines
    ]
    return parts.table(head, rows, name=words("method.speed.title"), left=(8,), wide=(0, 8))


def families_table(score: SpeedScore, words: Words) -> Safe:
    """A line a source and kind of run."""
    head = [words(f"method.speed.{name}") for name in ("kind", "source", "runs", "median", "fold")]
    rows = [
        [
            words(f"method.speed.of_kind.{row.kind}"),
            row.family,
            whole(row.rows),
            share_text(row.family_median),
            share_text(row.fold_median),
        ]
        for row in score.families
    ]
    return parts.table(head, rows, name=words("method.speed.families"), left=(1,))


def note(score: SpeedScore, words: Words) -> Safe:
    """What was tested, when, and what has no prediction."""
    return words.html(
        "method.speed.test",
        rows=whole(sum(line.rows for line in score.lines)),
        date=score.made_on,
        out=words.count("method.speed.left_out", score.left_out),
    )
