"""`search` on the command line: the machines that its options name."""

import argparse
from datetime import date

from planner.hardware import Tables
from planner.search.offers import KINDS, machines_of
from planner.search.rigs import owned
from planner.search.types import Machine


def machines(options: argparse.Namespace, tables: Tables, today: date) -> tuple[Machine, ...]:
    """The cards that are there, or the offers of a kind, by provider and region.

    Raises:
        ValueError: An option can't be used; the message names it, what was given and what is allowed.
    """
    if options.owned:
        return tuple(machine for text in options.owned for machine in _owned(text, tables))
    if options.kind not in KINDS:
        raise ValueError(f"kind: {options.kind!r}; allowed: {', '.join(KINDS)}")
    for field in ("provider", "region"):
        known = sorted({getattr(offer, field) for offer in tables.offers})
        unknown = [name for name in getattr(options, field) if name not in known]
        if unknown:
            raise ValueError(f"{field}: {unknown[0]!r}; allowed: {', '.join(known)}")
    return machines_of(
        tables.offers, tables, options.kind, today=today,
        providers=frozenset(options.provider), regions=frozenset(options.region),
    )[0]  # fmt: skip


def _owned(text: str, tables: Tables) -> tuple[Machine, ...]:
    gpu_id, _, count = text.partition("=")
    gpu = tables.gpus.get(gpu_id)
    if gpu is None or not count.isdecimal() or int(count) < 1:
        raise ValueError(
            f"owned: {text!r}; allowed: an id of `gpus`, = and a number from 1 up (h100-sxm-80gb=8)"
        )
    return owned(gpu, int(count))
