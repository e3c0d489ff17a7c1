"""What people say about GPU memory, beside what the planner finds: each claim worked out live."""

from collections.abc import Callable, Mapping
from typing import Final

from planner.claims import (
    allocator,
    clouds,
    cost,
    formats,
    network,
    pipelines,
    serving,
    settings,
    speed,
    training,
)
from planner.claims import bytes_per_parameter as states
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
    "g8": serving.g8,
    "g9": training.g9,
    "g9_time": speed.g9_time,
    "g10": training.g10,
    "g11": serving.g11,
    "g12": training.g12,
    "g13": training.g13,
    "g14": states.g14,
    "g15": formats.g15,
    "g16": formats.g16,
    "g17": formats.g17,
    "g18": cost.g18,
    "g19": speed.g19,
    "g20": pipelines.g20,
    "g21": cost.g21,
    "g22": training.g22,
    "g23": pipelines.g23,
    "g24": states.g24,
    "g25": states.g25,
    "g26": formats.g26,
    "g27": training.g27,
    "g28": allocator.g28,
    "g29": allocator.g29,
    "g30": allocator.g30,
    "g31": settings.g31,
    "g32": serving.g32,
    "g33": speed.g33,
    "g34": speed.g34,
    "g35": serving.g35,
    "g36": training.g36,
    "e1": cost.e1,
    "e2": clouds.e2,
    "e3": cost.e3,
    "e4": cost.e4,
    "e5": speed.e5,
    "e6": network.e6,
    "f1": serving.f1,
}
