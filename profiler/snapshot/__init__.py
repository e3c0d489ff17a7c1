"""Memory that a real run recorded: `torch.cuda.memory._dump_snapshot` files, `memory_stats`, `memory_summary`.

`read_snapshot`, `read_memory_text` and `read_memory_file` (either) are safe on files from anywhere: they run
nothing, and what they take of time and memory is bounded by the size of the file. PyTorch is not needed.
"""

from profiler.snapshot.errors import MemoryFileError
from profiler.snapshot.files import read_memory_file
from profiler.snapshot.read import read_snapshot
from profiler.snapshot.texts import read_memory_text
from profiler.snapshot.view import (
    UNKNOWN,
    BlockNote,
    DeviceMemory,
    Figure,
    Frame,
    Level,
    MemoryFile,
    OutOfMemory,
    PoolLevel,
    Remark,
    SnapshotPoint,
)

__all__ = [
    "UNKNOWN",
    "BlockNote",
    "DeviceMemory",
    "Figure",
    "Frame",
    "Level",
    "MemoryFile",
    "MemoryFileError",
    "OutOfMemory",
    "PoolLevel",
    "Remark",
    "SnapshotPoint",
    "read_memory_file",
    "read_memory_text",
    "read_snapshot",
]
