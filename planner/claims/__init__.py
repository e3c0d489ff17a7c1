"""What people say about GPU memory, beside what the planner finds: each claim worked out live."""

from collections.abc import Callable, Mapping
from typing import Final

from planner.claims import bytes_per_parameter as states
from planner.claims import training
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
}
