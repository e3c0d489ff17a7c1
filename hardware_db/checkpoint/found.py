"""What is found in a checkpoint, and why it cannot be read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from planner.units import MIB

LARGEST_CONFIG_BYTES: Final = 5 * MIB
LARGEST_INDEX_BYTES: Final = 64 * MIB
MOST_FILES: Final = 1000
MOST_TENSORS: Final = 1_000_000

Container = Literal["safetensors", "gguf"]
Param = str | int | None


class CheckpointError(Exception):
    """A checkpoint that cannot be read.

    Attributes:
        code: Stable; the page and the command line word it.
        params: What the sentence may use.
    """

    def __init__(self, code: str, **params: Param) -> None:
        super().__init__(f"{code} {params}")
        self.code = code
        self.params: Mapping[str, Param] = params


CODES: Final[Mapping[str, tuple[str, ...]]] = {
    "empty": (),
    "not_a_source": ("given",),
    "other_host": ("given", "allowed"),
    "no_such_path": ("given",),
    "unreadable": ("given", "detail"),
    "no_weights": ("given", "allowed"),
    "only_pickles": ("given", "allowed"),
    "several_files": ("given", "allowed"),
    "no_such_file": ("given", "allowed"),
    "gated": ("given", "address"),
    "missing_or_private": ("given",),
    "no_such_revision": ("given", "revision"),
    "offline": ("detail",),
    "busy": ("status",),
    "hub_refused": ("given", "status"),
    "too_large": ("given", "size", "allowed"),
    "too_many": ("given", "count", "allowed"),
    "broken": ("given", "detail"),
    "gguf_version": ("given", "version", "allowed"),
    "unknown_type": ("given", "detail", "tensor"),
    "cut_short": ("given", "size", "needs"),
    "not_ranged": ("given",),
    "bad_config": ("given", "detail"),
}
"""Every code with the names of its parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One tensor as a header states it.

    Attributes:
        name: Its name in the file.
        format: Number format: an id of the planner where it has one, else the file's own name in lowercase.
        elements: Elements; of a packed type the elements of the packed words.
        bytes: Bytes in the file.
    """

    name: str
    format: str
    elements: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A checkpoint's headers.

    Attributes:
        source: Where it was read: repository with commit, or the name of the folder or file.
        repo: Id of the repository, "" for local files.
        container: Kind of file.
        files: Files with weights that were read; 0 where there is a config alone.
        config: config.json, or what a GGUF header says in its place; None where there is neither.
        architecture: What a GGUF file calls its architecture, "" otherwise.
        file_type: Id of the mixture that a GGUF file names, None where it names none.
        tensors: Every tensor.
    """

    source: str
    repo: str = ""
    container: Container
    files: int
    config: Mapping[str, object] | None
    architecture: str = ""
    file_type: str | None = None
    tensors: tuple[Tensor, ...]

    @property
    def total_bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.bytes for tensor in self.tensors)
