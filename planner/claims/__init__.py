"""What people say about GPU memory, beside what the planner finds: each claim worked out live."""

from collections.abc import Callable, Mapping
from typing import Final

from planner.claims import bytes_per_parameter as states
from planner.claims import cost, speed, training
from planner.claims.types import Claim, Figure, Outcome
from planner.hardware import Tables

__all__ = ["CLAIMS", "Claim", "Figure", "Outcome"]

CLAIMS: Final[Mapping[str, Callable[[Tables], Claim]]] = {
    "g1": states.g1,
    "g2": states.g2,
    "g3": states.g3,
    "g4": states.g4,
    "g5": training.g5,
    "g6": training.g6,
    "g7": training.g7,
    "g9": training.g9,
    "g10": training.g10,
    "g12": training.g12,
    "g13": training.g13,
    "g14": states.g14,
    "g22": training.g22,
    "g24": states.g24,
    "g25": states.g25,
    "g27": training.g27,
    "g36": training.g36,
    "g9_time": speed.g9_time,
    "g18": cost.g18,
    "g19": speed.g19,
    "g21": cost.g21,
    "g33": speed.g33,
    "g34": speed.g34,
    "e1": cost.e1,
    "e2": cost.e2,
    "e3": cost.e3,
    "e4": cost.e4,
    "e5": speed.e5,
    "e6": speed.e6,
}
