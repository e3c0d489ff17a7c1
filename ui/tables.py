"""The table twin of the figures, as cells and as CSV, and the working behind one card's peak."""

import csv
import io
from collections.abc import Callable

from planner.ledger import Category, Entry
from planner.plan_types import DevicePlan, Plan
from planner.references import REFERENCES
from ui.charts.gpu_bars import categories_at_peak
from ui.citations import reference_line
from ui.method.formulas import symbol_meaning
from ui.names import card_name
from ui.numbers import DASH, gib2, ranges, signed_gib, whole
from ui.phase_names import phase_name
from ui.verdict import TAG
from ui.words import Safe, Words
from ui.worked import worked_html


def gpu_head(plan: Plan, words: Words) -> list[str]:
    """Column heads of the table of cards."""
    parts = [words(f"part.{category.value}") for category in categories_at_peak(plan)]
    names = [words.opening(part) for part in parts]
    return [
        "",
        words("table.gpu"),
        *names,
        words("table.peak"),
        words("table.usable"),
        words("table.headroom"),
    ]


def gpu_rows(plan: Plan, words: Words) -> list[list[str]]:
    """Cells of the table of cards, a row a group of equal ones."""
    return [_gpu_row(device, plan, words) for device in plan.devices]


def _gpu_row(device: DevicePlan, plan: Plan, words: Words) -> list[str]:
    parts = device.ledger.by_category(device.peak_phase)
    name = card_name(device.gpu_name)
    if len(device.indices) > 1:
        name = words("chart.equal_cards", n=whole(len(device.indices)), name=name)
    kind = TAG[device.verdict][0]
    headroom: str = DASH
    if device.headroom_bytes is not None:
        text = signed_gib(device.headroom_bytes, 2)
        headroom = Safe(f'<span class="{kind}">{text}</span>') if kind in {"bad", "tight"} else text
    return [
        Safe(f"<b>{ranges(device.indices)}</b>"),
        name,
        *(gib2(parts.get(category, 0)) for category in categories_at_peak(plan)),
        Safe(f"<b>{gib2(device.peak_bytes)}</b>"),
        DASH if device.usable_bytes is None else gib2(device.usable_bytes),
        headroom,
    ]


def gpu_csv(plan: Plan) -> str:
    """The table of cards in bytes, with stable column names: every category, whether it is used or not."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        [
            *("devices", "gpu", "stage", "peak_phase"),
            *(f"{category.value}_bytes" for category in Category),
            *("peak_bytes", "band_low_bytes", "band_high_bytes", "usable_bytes", "headroom_bytes", "verdict"),
        ]
    )
    for device in plan.devices:
        parts = device.ledger.by_category(device.peak_phase)
        band = (device.band.low_bytes, device.band.high_bytes) if device.band else ("", "")
        writer.writerow(
            [
                " ".join(map(str, device.indices)),
                device.gpu_id,
                device.stage,
                device.peak_phase.value,
                *(parts.get(category, 0) for category in Category),
                device.peak_bytes,
                *band,
                "" if device.usable_bytes is None else device.usable_bytes,
                "" if device.headroom_bytes is None else device.headroom_bytes,
                device.verdict.value,
            ]
        )
    return out.getvalue()


def working_head(words: Words) -> list[str]:
    """Column heads of the working."""
    return [words(f"working.{name}") for name in ("entry", "formula", "gib", "bytes", "phases", "held_by")]


def working_rows(device: DevicePlan, words: Words) -> list[list[str]]:
    """Every entry of a card: formula, values put in, size, when it is alive, where the rule is from."""
    entries = sorted(device.ledger.entries, key=lambda e: (device.peak_phase not in e.phases, -e.bytes))
    return [_working_row(entry, device, words) for entry in entries]


def _working_row(entry: Entry, device: DevicePlan, words: Words) -> list[str]:
    alive = [phase for phase in device.ledger.phases if phase in entry.phases]
    phases = (
        words("working.always")
        if len(alive) == len(device.ledger.phases)
        else words.listed(phase_name(device.ledger.phases, phase, "name", words) for phase in alive)
    )
    name = words(f"entry.{entry.name}")
    if entry.estimate:
        name = words("working.estimate", name=name)
    return [
        name,
        worked_html(entry.formula, entry.symbols, meaning=meanings(entry, words)),
        gib2(entry.bytes),
        whole(entry.bytes),
        phases,
        reference_line(REFERENCES[entry.reference], words),
    ]


def meanings(entry: Entry, words: Words) -> Callable[[str], str]:
    """What the symbols of an entry's formula stand for."""
    return lambda symbol: symbol_meaning(entry, symbol, words)
