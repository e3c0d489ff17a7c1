"""Which GGUF files make one model, and the checkpoint they make."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from hardware_db.checkpoint.formats import FILE_TYPES
from hardware_db.checkpoint.found import MOST_FILES, Checkpoint, CheckpointError
from hardware_db.checkpoint.gguf import Header
from hardware_db.checkpoint.gguf_config import config_of

_PIECE: Final = re.compile(r"(?P<stem>.+)-(?P<n>\d{5})-of-(?P<of>\d{5})\.gguf", re.IGNORECASE)
MOST_NAMED: Final = 12


def parts_of(name: str, names: Iterable[str]) -> list[str]:
    """Every piece of a file that was cut into pieces, in order; the file alone where it was not.

    Raises:
        CheckpointError: `no_such_file` or `too_many`.
    """
    piece = _PIECE.fullmatch(name)
    if piece is None:
        return [name]
    count = int(piece["of"])
    if count > MOST_FILES:
        raise CheckpointError("too_many", given=name, count=count, allowed=MOST_FILES)
    wanted = [f"{piece['stem']}-{n:05d}-of-{piece['of']}.gguf" for n in range(1, count + 1)]
    missing = next((file for file in wanted if file not in set(names)), None)
    if missing is not None:
        raise CheckpointError("no_such_file", given=missing, allowed=str(count))
    return wanted


def pick_gguf(names: Sequence[str], tag: str, where: str) -> list[str]:
    """The files of the one model that is meant: the only one, or the one whose name holds the tag.

    Vision projectors (`mmproj`) and importance matrices are no models.

    Raises:
        CheckpointError: `several_files` names what there is to choose from; `no_such_file` if none holds the tag.
    """
    models: dict[str, str] = {}
    for name in sorted(names):
        if re.search(r"mmproj|imatrix", name, re.IGNORECASE):
            continue
        piece = _PIECE.fullmatch(name)
        models.setdefault(piece["stem"] if piece else name, name)
    found = [name for stem, name in models.items() if not tag or _holds(stem, tag)]
    listed = ", ".join(_short(name) for name in list(models.values())[:MOST_NAMED])
    if not found:
        raise CheckpointError("no_such_file", given=tag or where, allowed=listed)
    if len(found) > 1:
        raise CheckpointError("several_files", given=where, allowed=listed)
    return parts_of(found[0], names)


def _holds(stem: str, tag: str) -> bool:
    """Whether a name holds the tag as a whole word: `Q4_K` is not `Q4_K_M`."""
    return re.search(rf"(^|[-./]){re.escape(tag)}($|[-./])", stem, re.IGNORECASE) is not None


def _short(name: str) -> str:
    return name if len(name) <= 80 else f"{name[:77]}..."


def from_headers(headers: Sequence[Header], *, source: str, files: int, repo: str = "") -> Checkpoint:
    """The checkpoint of a file and its pieces; the first one's metadata holds.

    Args:
        headers: Of all pieces, in their order.
        source: Where they were read.
        files: How many there are.
        repo: Name of the repository, empty for files at hand.
    """
    first = headers[0]
    joined = Header(
        values=first.values,
        tensors=tuple(tensor for header in headers for tensor in header.tensors),
        shapes={name: shape for header in headers for name, shape in header.shapes.items()},
        needs_bytes=sum(header.needs_bytes for header in headers),
    )
    architecture, config = config_of(joined)
    kind = joined.values.get("general.file_type")
    return Checkpoint(
        source=source,
        repo=repo,
        container="gguf",
        files=files,
        config=config,
        architecture=architecture,
        file_type=FILE_TYPES.get(kind) if isinstance(kind, int) else None,
        tensors=joined.tensors,
    )
