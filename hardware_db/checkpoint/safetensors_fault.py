"""What is wrong with a safetensors file that its library refuses, told by what stands in the file.

Layout: eight bytes with the header's length, the header as JSON, the tensors' bytes.
https://github.com/huggingface/safetensors#format
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hardware_db.checkpoint.found import CheckpointError
from planner.checks.words import shown

LENGTH_BYTES: Final = 8
LARGEST_HEADER_BYTES: Final = 100_000_000
"""As the library has it (safetensors 0.8, `MAX_HEADER_SIZE`)."""
FIELDS: Final = ("dtype", "shape", "data_offsets")


def fault_of(path: Path) -> CheckpointError:
    """Why a file is refused: `cut_short`, or `broken` with the place, what is there and what is allowed."""
    size, name = path.stat().st_size, path.name
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(LENGTH_BYTES), "little")
        if size < LENGTH_BYTES:
            return CheckpointError("cut_short", given=name, size=size, needs=LENGTH_BYTES)
        if not 2 <= length <= LARGEST_HEADER_BYTES:
            return _broken(name, f"header_length {length}; 2 to {LARGEST_HEADER_BYTES}")
        raw = stream.read(length)
    start = LENGTH_BYTES + length
    if size < start:
        return CheckpointError("cut_short", given=name, size=size, needs=start)
    try:
        header = json.loads(raw)
    except (ValueError, RecursionError):
        return _broken(name, f"header {shown(raw[:40].decode('utf-8', 'replace'))}; JSON")
    if not isinstance(header, dict):
        return _broken(name, f"header {shown(header)}; JSON {{}}")
    return _tensors(name, size, start, header)


def _tensors(name: str, size: int, start: int, header: Mapping[str, object]) -> CheckpointError:
    needs = start
    for tensor, stated in header.items():
        if tensor == "__metadata__":
            continue
        if not isinstance(stated, dict) or not set(FIELDS) <= set(stated):
            return _broken(name, f"{tensor[:80]}: {shown(stated)}; {{{', '.join(FIELDS)}}}")
        match stated["data_offsets"]:
            case [int(first), int(end)] if 0 <= first <= end:
                needs = max(needs, start + end)
            case other:
                return _broken(
                    name, f"{tensor[:80]}.data_offsets: {shown(other)}; [0 <= first, first <= end]"
                )
    if size < needs:
        return CheckpointError("cut_short", given=name, size=size, needs=needs)
    return _broken(name, f"tensors do not fill {size - start} bytes without gap or overlap")


def _broken(name: str, detail: str) -> CheckpointError:
    return CheckpointError("broken", given=name, detail=detail)
