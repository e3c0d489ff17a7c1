"""Records of storages: what the tracker writes and the grouping reads. No PyTorch here."""

from dataclasses import dataclass
from typing import Final

PARAMETER: Final = "parameter"
BUFFER: Final = "buffer"
GRADIENT: Final = "gradient"
OPTIMIZER_STATE: Final = "optimizer_state"
INPUT: Final = "input"
COMMUNICATION: Final = "communication"
CAST: Final = "cast"
"""Detail of a parameter's copy in another number format."""

RECOMPUTED: Final = "recomputed"
"""Detail of what a module's forward pass makes while the backward pass is under way."""


@dataclass(slots=True, eq=False)
class Storage:
    """One storage.

    Attributes:
        bytes: Its size now, or when it died.
        phase: Phase it was made in.
        module: Path of the innermost module running when it was made, in the backward pass of the one whose
            operator is being differentiated; for what is owned (parameters, gradients, states), the owner's name.
        op: The operator that made it.
        shape: Shape of the first tensor on it.
        dtype: Number format of that tensor.
        kind: One of the kinds above, None while not known.
        detail: State's name for optimizer states (`exp_avg`), `cast` for a parameter in another format,
            `recomputed` for what checkpointing makes again.
        born_in_step: Step it was made in.
        died_in: Phase it died in, None while alive.
    """

    bytes: int
    phase: str
    module: str
    op: str
    shape: tuple[int, ...]
    dtype: str
    kind: str | None = None
    detail: str = ""
    born_in_step: int = 0
    died_in: str | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """The fullest moment of a phase.

    Attributes:
        phase: Which.
        bytes: Alive then.
        step: Which step.
        alive: What was alive, with its size then.
    """

    phase: str
    bytes: int
    step: int
    alive: tuple[tuple[Storage, int], ...]
