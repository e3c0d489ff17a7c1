"""How a program is watched. No PyTorch here, and no package outside the standard library."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

TARGET_FRAC: Final = 0.02
"""Share of the step that the hook may take before it samples half as often."""

SNAPSHOT_REQUEST: Final = "snapshot"
"""A file of this name in the hook's folder asks for a memory snapshot of the next step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSettings:
    """Settings of the hook.

    Attributes:
        folder: Where each watched process writes its lines.
        follow_step: Step whose tensors are followed one by one, 0 for none.
        every: Every which step is sampled at the start; doubled where sampling takes too long.
        snapshot_step: Step of which a memory snapshot is written (CUDA), 0 for none.
        keep_peaks: Leave the allocator's peak counters alone; peaks are then those since the program's start.
    """

    folder: str
    follow_step: int = 0
    every: int = 1
    snapshot_step: int = 0
    keep_peaks: bool = False

    def lines_path(self) -> str:
        """The file of this process."""
        return str(Path(self.folder, f"{os.getpid()}.lines"))

    def to_text(self) -> str:
        """As the value of an environment variable."""
        return json.dumps(asdict(self))


def settings_from(text: str) -> HookSettings:
    """From the value of an environment variable.

    Raises:
        ValueError: It is none, or has values that are none.
        TypeError: It has other fields.
    """
    given = json.loads(text)
    return HookSettings(**given)
