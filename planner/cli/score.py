"""A score as text for a terminal."""

from collections.abc import Iterator

from planner.accuracy.contradictions import Contradiction
from planner.accuracy.score import Cell, FitsTable, Score
from planner.cli.report import table


def score_lines(score: Score) -> Iterator[str]:
    """The cells, the verdict table and the counts."""
    whole = sum(not item.metric for item in score.unsupported)
    yield (
        f"{score.num_records} records, {len(score.rows)} figures compared, "
        f"{score.num_undetermined} undetermined; "
        f"no answer for {whole} records and {len(score.unsupported) - whole} more figures."
    )
    yield ""
    header = ["metric", "family", "n", "unsupported", "median", "p90", "bias", "in band"]
    yield from table(header, (_cell_row(cell) for cell in score.cells), left=2)
    if any(
        (
            score.fits.fits_said_fits,
            score.fits.fits_said_not,
            score.fits.failed_said_fits,
            score.fits.failed_said_not,
        )
    ):
        yield ""
        yield from _fits(score.fits)
    if score.unsupported:
        yield ""
        yield "No answer, by reason:"
        counts: dict[str, int] = {}
        for item in score.unsupported:
            counts[item.reason] = counts.get(item.reason, 0) + 1
        yield from (
            f"  {count:5d}  {reason}" for reason, count in sorted(counts.items(), key=lambda kv: -kv[1])
        )


def contradiction_line(found: Contradiction) -> str:
    """One pair of records that can't both be right."""
    return f"{found.first} and {found.second} ask the same, and their {found.field} is {found.apart_frac:.1%} apart"


def _cell_row(cell: Cell) -> list[str]:
    return [
        cell.metric,
        cell.family,
        str(cell.n),
        str(cell.unsupported),
        _percent(cell.median_abs_error),
        _percent(cell.p90_abs_error),
        _percent(cell.bias, sign=True),
        _percent(cell.inside_band_frac, decimals=0),
    ]


def _percent(value: float | None, *, sign: bool = False, decimals: int = 2) -> str:
    if value is None:
        return "-"
    return f"{value:+.{decimals}%}" if sign else f"{value:.{decimals}%}"


def _fits(fits: FitsTable) -> Iterator[str]:
    rows = [
        ["ran", str(fits.fits_said_fits), str(fits.fits_said_not)],
        ["did not", str(fits.failed_said_fits), str(fits.failed_said_not)],
    ]
    yield from table(["fits", "said fits", "said not"], rows)
    yield (
        f"balanced accuracy {_percent(fits.balanced_accuracy, decimals=1)}, "
        f"unsafe: {fits.unsafe_logged} logged, "
        f"{fits.unsafe_inferred} inferred, no verdict: {fits.no_verdict}"
    )
    if fits.unsafe_gib is not None:
        yield f"unsafe ones: {fits.unsafe_gib:.1f} GiB under what is usable (median)"
    if fits.refused_gib is not None:
        yield f"refused though they ran: {fits.refused_gib:.1f} GiB over what is usable (median)"
