"""Checkpoints on disk: a folder as the Hub has it, or one file."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from hardware_db.checkpoint.formats import SAFETENSORS
from hardware_db.checkpoint.found import (
    LARGEST_CONFIG_BYTES,
    LARGEST_INDEX_BYTES,
    MOST_FILES,
    Checkpoint,
    CheckpointError,
    Tensor,
)
from hardware_db.checkpoint.gguf import MAGIC, Fetch, read_header
from hardware_db.checkpoint.gguf_files import from_headers, parts_of, pick_gguf
from hardware_db.checkpoint.safetensors_fault import fault_of
from planner.units import ceil_div

CONFIG: Final = "config.json"
INDEX: Final = "model.safetensors.index.json"
SINGLE: Final = "model.safetensors"


def read_local(path: Path) -> Checkpoint:
    """The checkpoint in a folder, or the one that a file belongs to.

    Raises:
        CheckpointError: Nothing there that can be read.
    """
    try:
        return _folder(path) if path.is_dir() else _file(path)
    except OSError as problem:
        detail = problem.strerror or type(problem).__name__
        raise CheckpointError("unreadable", given=str(path), detail=detail) from problem


def _folder(path: Path) -> Checkpoint:
    path, source = _snapshot(path), _cached_name(path) or path.resolve().name
    names = sorted(entry.name for entry in path.iterdir() if entry.is_file())
    safetensors = _safetensors_names(path, names)
    if safetensors:
        return _safetensors(path, safetensors, source)
    ggufs = [name for name in names if name.lower().endswith(".gguf")]
    if ggufs:
        return _gguf(path, pick_gguf(ggufs, "", path.name))
    if any(name.endswith((".bin", ".pt", ".pth")) for name in names):
        raise CheckpointError("only_pickles", given=str(path), allowed="safetensors, gguf")
    if CONFIG in names:
        return _safetensors(path, [], source)
    raise CheckpointError("no_weights", given=str(path), allowed="safetensors, gguf, config.json")


def _cached_name(path: Path) -> str:
    """The repository whose folder in the Hub's cache this is (`models--org--name`), "" if it is none."""
    kind, _, name = path.name.partition("--")
    return name.replace("--", "/", 1) if kind == "models" and (path / "snapshots").is_dir() else ""


def _snapshot(path: Path) -> Path:
    """The commit that such a folder's `main` means, else the newest one there; the folder itself if it is none."""
    if not _cached_name(path):
        return path
    commits = sorted((path / "snapshots").iterdir(), key=lambda found: found.stat().st_mtime)
    main = path / "refs" / "main"
    named = path / "snapshots" / main.read_text(encoding="utf-8").strip()[:64] if main.is_file() else None
    if named is not None and named in commits:
        return named
    return commits[-1] if commits else path


def _file(path: Path) -> Checkpoint:
    with path.open("rb") as stream:
        start = stream.read(4)
    if start == MAGIC:
        names = [entry.name for entry in path.parent.iterdir() if entry.name.endswith(".gguf")]
        return _gguf(path.parent, parts_of(path.name, names))
    if path.suffix == ".safetensors":
        return _safetensors(path.parent, [path.name], path.name)
    if path.name in {INDEX, CONFIG}:
        return _folder(path.parent)
    raise CheckpointError("no_weights", given=str(path), allowed="safetensors, gguf, config.json")


def _safetensors_names(path: Path, names: Iterable[str]) -> list[str]:
    """Files that the index names, else the one file, else every one there is."""
    if INDEX in names:
        index = read_json(path / INDEX, LARGEST_INDEX_BYTES)
        found = names_in_index(index, INDEX)
        missing = sorted(set(found) - set(names))
        if missing:
            raise CheckpointError("no_such_file", given=missing[0], allowed=str(len(found)))
        return found
    if SINGLE in names:
        return [SINGLE]
    return [name for name in names if name.endswith(".safetensors")]


def names_in_index(index: object, name: str) -> list[str]:
    """File names of a safetensors index; a name with a path in it is refused.

    Raises:
        CheckpointError: `broken` or `too_many`.
    """
    weights = index.get("weight_map") if isinstance(index, Mapping) else None
    files = sorted(set(map(str, weights.values()))) if isinstance(weights, Mapping) else []
    if not files or any("/" in file or "\\" in file or file.startswith(".") for file in files):
        raise CheckpointError("broken", given=name, detail="weight_map")
    if len(files) > MOST_FILES:
        raise CheckpointError("too_many", given=name, count=len(files), allowed=MOST_FILES)
    return files


def read_json(path: Path, largest: int) -> object:
    """A JSON file that is not too large.

    Raises:
        CheckpointError: `too_large` or `bad_config`.
    """
    size = path.stat().st_size
    if size > largest:
        raise CheckpointError("too_large", given=path.name, size=size, allowed=largest)
    return parse_json(path.read_bytes(), path.name)


def parse_json(raw: bytes, name: str) -> object:
    """The value of a JSON text.

    Raises:
        CheckpointError: `bad_config`.
    """
    try:
        value: object = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as problem:
        at = f"{problem.lineno}:{problem.colno}" if isinstance(problem, json.JSONDecodeError) else "1:1"
        raise CheckpointError("bad_config", given=name, detail=f"line:column {at}") from problem
    return value


def config_from(value: object, name: str = CONFIG) -> dict[str, object]:
    """A config that is an object.

    Raises:
        CheckpointError: `bad_config`.
    """
    if not isinstance(value, dict):
        raise CheckpointError("bad_config", given=name, detail=type(value).__name__)
    return value


def _safetensors(path: Path, names: list[str], source: str) -> Checkpoint:
    if len(names) > MOST_FILES:
        raise CheckpointError("too_many", given=source, count=len(names), allowed=MOST_FILES)
    config = path / CONFIG
    return Checkpoint(
        source=source,
        container="safetensors",
        files=len(names),
        config=config_from(read_json(config, LARGEST_CONFIG_BYTES)) if config.is_file() else None,
        tensors=tuple(tensor for name in names for tensor in _read_safetensors(path / name)),
    )


def _read_safetensors(path: Path) -> list[Tensor]:
    """Tensors of one file; the library checks that header and file agree to the last byte."""
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415

    found = []
    try:
        with safe_open(path, framework="np") as file:
            for name in file.keys():  # noqa: SIM118 -- no mapping
                part = file.get_slice(name)
                found.append(tensor_of(name, part.get_dtype(), part.get_shape()))
    except SafetensorError as problem:
        raise fault_of(path) from problem
    return found


def tensor_of(name: str, dtype: str, shape: Iterable[int]) -> Tensor:
    """A tensor of a safetensors header; an unknown type keeps its name, and counts a byte an element."""
    ident, bits = SAFETENSORS.get(dtype, (dtype.lower(), 8))
    elements = 1
    for size in shape:
        elements *= size
    return Tensor(name=name, format=ident, elements=elements, bytes=ceil_div(elements * bits, 8))


def _gguf(folder: Path, names: list[str]) -> Checkpoint:
    headers = []
    for name in names:
        path = folder / name
        header = read_header(_fetch(path), name)
        size = path.stat().st_size
        if size < header.needs_bytes:
            raise CheckpointError("cut_short", given=name, size=size, needs=header.needs_bytes)
        headers.append(header)
    return from_headers(headers, source=names[0], files=len(names))


def _fetch(path: Path) -> Fetch:
    def fetch(offset: int, size: int) -> bytes:
        with path.open("rb") as stream:
            stream.seek(offset)
            return stream.read(size)

    return fetch
