"""The formulas of a plan: each once, by category, with its symbols explained and where it is known from."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from planner.ledger import Category, Entry
from planner.plan_types import DevicePlan, Plan
from planner.references import REFERENCES, Reference
from ui.words import Words

_FORMAT: Final = re.compile(r"n_([a-z]\w*)")
_NUMBERED: Final = re.compile(r"([nt])_\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """One formula of the plan, with the values of the device where it is largest.

    Attributes:
        entry: The entry there.
        largest: The group of devices it is on.
        indices: Every device that has it.
        reference: Where it is from.
    """

    entry: Entry
    largest: DevicePlan
    indices: tuple[int, ...]
    reference: Reference


def by_category(plan: Plan) -> dict[Category, list[Formula]]:
    """Every formula of every device's ledger, in stacking order, the largest first."""
    found: dict[Category, list[Formula]] = {}
    for formula in _formulas(plan):
        found.setdefault(formula.entry.category, []).append(formula)
    return {
        category: sorted(found[category], key=lambda formula: -formula.entry.bytes)
        for category in Category
        if category in found
    }


def _formulas(plan: Plan) -> Iterable[Formula]:
    seen: dict[tuple[str, str, str], list[tuple[DevicePlan, Entry]]] = {}
    for device in plan.devices:
        for entry in device.ledger.entries:
            seen.setdefault((entry.name, entry.formula, entry.reference), []).append((device, entry))
    for places in seen.values():
        device, entry = max(places, key=lambda place: place[1].bytes)
        indices = tuple(sorted({index for place, _ in places for index in place.indices}))
        yield Formula(entry=entry, largest=device, indices=indices, reference=REFERENCES[entry.reference])


def symbol_meaning(entry: Entry, symbol: str, words: Words) -> str:
    """What a symbol stands for in an entry's formula; "" where no words are known.

    Words of the reference and of the entry come before the common ones: `n` is a number of heads in one formula,
    of tokens in another.
    """
    for key in (f"by.{entry.reference}.{symbol}", f"in.{entry.name}.{symbol}", f"any.{symbol}"):
        if words.has(f"method.symbol.{key}"):
            return words(f"method.symbol.{key}")
    numbered = _NUMBERED.fullmatch(symbol)
    if numbered is not None:
        return words(f"method.symbol.numbered.{numbered[1]}")
    stored = _FORMAT.fullmatch(symbol)
    if stored is not None:
        key = f"format.{stored[1]}"
        return words("method.symbol.stored", format=words(key) if words.has(key) else stored[1].upper())
    return ""


def used_references(plan: Plan) -> frozenset[str]:
    """Keys of the references that the plan's formulas name."""
    return frozenset(entry.reference for device in plan.devices for entry in device.ledger.entries)


def all_references() -> list[tuple[tuple[str, ...], Reference]]:
    """Every reference once, with the keys that name it: by kind, then by title."""
    keys: dict[Reference, list[str]] = {}
    for key, reference in REFERENCES.items():
        keys.setdefault(reference, []).append(key)
    order = sorted(keys, key=lambda reference: (reference.kind, reference.title.lower(), reference.where))
    return [(tuple(keys[reference]), reference) for reference in order]
