"""Serving figures that are far off, against the logs: `python -m benchmarks.serving_misses`.

Prints the errors of the KV pool's tokens over every row, then each row whose tokens or other figures are far off,
or that has no answer, with the reason for it.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.records import load
from hardware_db import load_tables
from planner.accuracy.predict import predictor
from planner.accuracy.score import percentile, score

FILES: Final = ("serving.jsonl", "serving_fits.jsonl")
REASONS: Final = Path(__file__).parents[1] / "tests" / "data" / "serving_misses.toml"
METRIC: Final = "kv_tokens"
FAR_OFF: Final = 0.08
"""What nine rows in ten should stay below."""
FIGURES: Final = "figures"
"""Reasons of rows that miss in another figure than the pool's tokens."""
OTHERS_FAR_OFF: Final = 0.15
"""From where on they stand in the list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Errors of the pools' tokens.

    Attributes:
        by_row: predicted / observed - 1 by record.
        others: Figures but the tokens that are far off, by record: what it is, and the error.
        unsupported: Records without an answer, and the first thing in the way.
        records: How many there are in all.
    """

    by_row: dict[str, float]
    others: dict[str, dict[str, float]]
    unsupported: dict[str, str]
    records: int

    @property
    def far_off(self) -> dict[str, float]:
        """Rows beyond the limit, largest first."""
        rows = sorted(self.by_row.items(), key=lambda row: -abs(row[1]))
        return {name: error for name, error in rows if abs(error) > FAR_OFF}

    def spread(self, without: frozenset[str] = frozenset()) -> tuple[float, float]:
        """Median and 90th percentile of the errors' sizes, some rows left out."""
        sizes = sorted(abs(error) for name, error in self.by_row.items() if name not in without)
        return percentile(sizes, 0.5), percentile(sizes, 0.9)


def reasons() -> dict[str, dict[str, str]]:
    """Why, by kind of miss and record."""
    return tomllib.loads(REASONS.read_text(encoding="utf-8"))


def errors() -> Errors:
    """Every record answered once."""
    records = load(FILES)
    found = score(records, predictor(load_tables()))
    tokens: dict[str, float] = {}
    others: dict[str, dict[str, float]] = {}
    for row in found.rows:
        if row.error is None:
            continue
        if row.metric == METRIC:
            tokens[row.id] = row.error
        elif abs(row.error) > OTHERS_FAR_OFF:
            others.setdefault(row.id, {})[row.metric] = row.error
    return Errors(
        by_row=tokens,
        others={name: missed for name, missed in others.items() if abs(tokens.get(name, 0.0)) <= FAR_OFF},
        unsupported={row.id: row.reason for row in found.unsupported if not row.metric},
        records=len(records),
    )


def lines(found: Errors, why: dict[str, dict[str, str]]) -> list[str]:
    """The table."""
    median, p90 = found.spread()
    rest = found.spread(frozenset(found.far_off))
    missing = len(found.unsupported)
    return [
        f"{METRIC}: {len(found.by_row)} rows, median {median:.2%}, 90th percentile {p90:.2%}",
        f"  without the {len(found.far_off)} below: median {rest[0]:.2%}, 90th percentile {rest[1]:.2%}",
        *(f"  {error:+8.1%}  {name}: {why[METRIC].get(name, '?')}" for name, error in found.far_off.items()),
        f"other figures: {len(found.others)} of {found.records} records more than {OTHERS_FAR_OFF:.0%} off",
        *(
            f"  {name}, {', '.join(f'{metric} {error:+.0%}' for metric, error in missed.items())}: "
            f"{why[FIGURES].get(name, '?')}"
            for name, missed in found.others.items()
        ),
        f"no answer: {missing} of {found.records} records ({missing / found.records:.1%})",
        *(
            f"  {name}: {why['unsupported'].get(name, '?')} ({reason})"
            for name, reason in found.unsupported.items()
        ),
    ]


def main() -> None:
    """Print the table."""
    for line in lines(errors(), reasons()):
        print(line)


if __name__ == "__main__":
    main()
