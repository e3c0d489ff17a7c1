"""The Method page's sentences, strip, legend and verdict table, as HTML."""

from typing import Final

from planner.plan_types import Known, Plan
from ui import parts
from ui.charts.method_scatter import part_of
from ui.method.accuracy import (
    OTHERS,
    Together,
    clean,
    families,
    kind_of,
    median_abs_error,
    peaks,
    points_of,
    serving_parts,
    together,
)
from ui.method.cross_validation import cross_validation
from ui.method.cross_validation import note as cross_validation_note
from ui.method.gaps import NUM_MODEL_TYPES, REFUSED_KEYS
from ui.method.published import Published
from ui.method.shares import share_text
from ui.numbers import DASH, percent, whole
from ui.tokens import variable
from ui.words import Safe, Words

KNOWN_TAG: Final = {
    Known.TRACE: ("ok", "✓"),
    Known.PUBLISHED: ("ok", "✓"),
    Known.MEASURED: ("ok", "✓"),
    Known.NONE: ("tight", "!"),
}
SHAPES: Final = {
    "allocated": "●",
    "weights": "●",
    "reserved": "◆",
    "working": "◆",
    "cache": "■",
}


def headline(runs: Together, words: Words) -> Safe:
    """How right the plans are, in one sentence."""
    return words.html("method.headline", n=whole(runs.n), median=share_text(runs.median_abs_error))


def why(plan: Plan, runs: Together, words: Words) -> Safe:
    """How the open answer is known, and what the bands hold when a source is left out."""
    kind, icon = KNOWN_TAG[plan.known]
    tag = f'<span class="tag {kind}">{icon}&ensp;{words.html(f"method.tag.{plan.known.value}")}</span>'
    band = plan.worst.band
    known = words.html(
        f"known.{plan.known.value}",
        n=whole(band.num_rows if band else 0),
        basis=words(f"known.basis.{band.basis}") if band else "",
        runtime=words(f"runtime.{plan.resolved.runtime.name}"),
    )
    held = words.html("method.why.held", **_held(runs))
    return Safe(f"{tag}&ensp;{words.sentences([known, held])}")


def _held(runs: Together) -> dict[str, str]:
    """Shares of the runs inside bands made without their source: of sources apart from constants, and all."""
    return {
        "share": percent(runs.held_frac),
        "n": whole(runs.n),
        "all_share": percent(runs.all_frac),
        "all_n": whole(runs.all_n),
    }


def strip(score: Published, words: Words) -> list[tuple[str, str, str]]:
    """Training peaks, serving parts, bands held out, verdicts, unsafe verdicts."""
    training, serving = clean(peaks(score), score), clean(serving_parts(score), score)
    runs, fits = together(score.runs), score.fits
    failed = fits.failed_said_fits + fits.failed_said_not
    balanced = DASH if fits.balanced_accuracy is None else percent(fits.balanced_accuracy)
    decided = failed + fits.fits_said_fits + fits.fits_said_not
    return [
        (
            words("method.strip.training"),
            share_text(median_abs_error(training) or 0.0),
            words("method.strip.figures", n=whole(len(training))),
        ),
        (
            words("method.strip.serving"),
            share_text(median_abs_error(serving) or 0.0),
            words("method.strip.figures", n=whole(len(serving))),
        ),
        (
            words("method.strip.held"),
            percent(runs.held_frac),
            words("method.strip.held_note", n=whole(runs.n)),
        ),
        (words("method.strip.verdicts"), balanced, words("method.strip.balanced", n=whole(decided))),
        (
            words("method.strip.unsafe"),
            words.html("method.strip.of", n=whole(fits.failed_said_fits), failed=whole(failed)),
            words("method.strip.logged", logged=fits.unsafe_logged, inferred=fits.unsafe_inferred),
        ),
    ]


def legend(score: Published, side: str, words: Words) -> Safe:
    """The sources of one figure by colour, its shapes, and what a hollow point is."""
    points = points_of(score, side)
    items = []
    for position, (name, members) in enumerate(families(points).items()):
        swatch = f'<i class="sw" style="--part:var({variable(part_of(position))})"></i>'
        text = words.html(
            "method.legend.family",
            name=words("method.others") if name == OTHERS else name,
            n=whole(len(members)),
        )
        items.append(f"<span>{swatch}{text}</span>")
    kinds = dict.fromkeys(kind_of(point.metric) for point in points)
    items.extend(f"<span>{SHAPES[kind]} {words.html(f'method.legend.{kind}')}</span>" for kind in kinds)
    if any(point.inside_band is False for point in points):
        items.append(f"<span>○ {words.html('method.legend.outside')}</span>")
    return Safe(f'<div class="leg">{"".join(items)}</div>')


def fits_table(score: Published, words: Words) -> Safe:
    """The four cells of verdict against outcome, with the two wrong ones marked."""
    fits = score.fits
    head = [words(f"method.fits.{key}") for key in ("happened", "said_fits", "said_not")]
    rows: list[list[str]] = [
        [words("method.fits.ran"), whole(fits.fits_said_fits), _marked(fits.fits_said_not, "tight")],
        [words("method.fits.failed"), _marked(fits.failed_said_fits, "bad"), whole(fits.failed_said_not)],
    ]
    return parts.table(head, rows, name=words("method.fits.title"))


def _marked(number: int, tone: str) -> Safe:
    return Safe(f'<b class="{tone}">{whole(number)}</b>')


def fits_notes(score: Published, words: Words) -> Safe:
    """Balanced accuracy, and how far off the wrong verdicts are."""
    fits = score.fits
    lines = []
    if fits.balanced_accuracy is not None:
        lines.append(words.html("method.fits.balanced", share=percent(fits.balanced_accuracy)))
    if fits.unsafe_gib is not None:
        unsafe = {"logged": whole(fits.unsafe_logged), "inferred": whole(fits.unsafe_inferred)}
        lines.append(words.html("method.fits.unsafe", gib=f"{fits.unsafe_gib:.1f}", **unsafe))
    if fits.refused_gib is not None:
        lines.append(words.html("method.fits.refused", gib=f"{fits.refused_gib:.1f}"))
    return parts.bullets(lines)


def foot(score: Published, words: Words) -> Safe:
    """When and by what the score was made."""
    return words.html(
        "method.foot",
        date=score.made_on,
        command=score.made_by,
        records=whole(score.counts["records"]),
        figures=whole(score.counts["figures"]),
        undetermined=whole(score.counts["figures_undetermined"]),
    )


def sample_notes(score: Published, words: Words) -> Safe:
    """What of the score is no test: bands, constants, and formulas written with the rows in sight."""
    runs = together(score.runs)
    inside = [point.inside_band for point in score.points if point.inside_band is not None]
    share = percent(sum(inside) / len(inside)) if inside else DASH
    return parts.bullets(
        [
            words.html("method.sample.bands", share=share, n=whole(len(inside))),
            words.html("method.sample.held", **_held(runs)),
            words.html("method.sample.constants", n=whole(len(score.in_sample))),
            cross_validation_note(cross_validation(), words),
            words.html("method.sample.formulas"),
        ]
    )


def verified_notes(words: Words) -> list[Safe]:
    """What each kind of evidence means."""
    return [
        words.html(f"method.verified.means.{kind}") for kind in ("trace", "published", "none", "verdicts")
    ]


def refused_notes(num_pipelines: int, num_refused: int, words: Words) -> list[Safe]:
    """What is refused with a lower bound instead of guessed."""
    keys = words.listed(f"<code>{key}</code>" for key in REFUSED_KEYS)
    return [
        words.html("method.gaps.types", n=whole(NUM_MODEL_TYPES)),
        words.html("method.gaps.pipelines", n=whole(num_pipelines), refused=whole(num_refused)),
        words.html("method.gaps.keys", keys=Safe(keys)),
    ]
