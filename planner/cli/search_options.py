"""Options of `search` on the command line; no more is loaded with every command."""

import argparse
import math
from typing import Final

LONGEST_COUNT: Final = 9
"""Digits of a count."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("file", metavar="FILE", help="a scenario (JSON); - reads standard input")
    parser.add_argument("--kind", default="on_demand", metavar="KIND", help="on_demand, spot or marketplace")
    parser.add_argument(
        "--owned", action="append", default=[], metavar="GPU=N", help="cards that are there, no offers"
    )
    parser.add_argument(
        "--provider", action="append", default=[], metavar="NAME", help="only this one; may be repeated"
    )
    parser.add_argument(
        "--region", action="append", default=[], metavar="NAME", help="only this one; may be repeated"
    )
    parser.add_argument("--most-gpus", type=_count, metavar="N", help="largest plan (64)")
    parser.add_argument("--deadline-days", type=_amount, metavar="DAYS", help="longest run")
    parser.add_argument("--budget-usd", type=_amount, metavar="USD", help="dearest run")
    parser.add_argument(
        "--tokens", type=_amount, metavar="N", help="training tokens (the scenario's, else 1e9)"
    )
    parser.add_argument(
        "--sequences",
        type=_count,
        metavar="N",
        help="sequences of an optimizer step, kept (the scenario's: micro-batch x accumulation x data; else 64)",
    )
    parser.add_argument("--allow", metavar="NAMES", help="techniques, with commas; all for every one")
    parser.add_argument(
        "--weights", metavar="NAMES", help="serving: other formats, with commas (fp8, awq4, int8, bf16)"
    )
    parser.add_argument("--tight", action="store_true", help="plans count that may not fit")
    parser.add_argument("--json", action="store_true", help="everything that was found")


def _count(text: str) -> int:
    """A whole number from 1 up.

    Raises:
        ArgumentTypeError: It is none.
    """
    if not (text.isascii() and text.isdecimal() and len(text) <= LONGEST_COUNT and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: a whole number from 1 up")
    return int(text)


def _amount(text: str) -> float:
    """A number above 0.

    Raises:
        ArgumentTypeError: It is none.
    """
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: a number above 0")
    return value
