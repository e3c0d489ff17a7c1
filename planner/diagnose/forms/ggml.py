"""Buffer lines and failures of llama.cpp, and the offload line of Ollama.

Source: `ggml/src/ggml-cuda/ggml-cuda.cu`, `ggml/src/ggml-alloc.c`, `src/llama-model.cpp`; `llm/memory.go` of Ollama.
"""

import re
from collections.abc import Iterator
from typing import Final

from planner.diagnose.passage import Line, Passage
from planner.diagnose.record import Fact, Record, facts, integer, known
from planner.diagnose.sizes import Size, size, total

_MIB: Final = r"(\d{1,9}(?:\.\d{1,4})?) ?MiB"
_ALLOCATING: Final = re.compile(rf"allocating\s{{1,3}}{_MIB} on device (\d{{1,4}}): \w{{2,6}}Malloc failed")
_BUFFER: Final = re.compile(
    r"(?P<who>alloc_tensor_range|ggml_gallocr_reserve_n\w{0,8}|\w{1,60}): failed to allocate "
    r"(?P<name>[A-Za-z]{2,20})(?P<device>\d{0,4})\w{0,12} buffer of size (?P<bytes>\d{1,15})"
)
_RETRY: Final = re.compile(r"retrying without pipeline parallelism")
_KINDS: Final = {
    "model": "weights",
    "KV": "kv_cache",
    "compute": "compute_buffer",
    "output": "output",
    "RS": "state",
}
_LINE: Final = re.compile(
    rf"(?P<name>[A-Za-z]{{2,12}})(?P<device>\d{{0,4}})(?P<more>_\w{{1,20}})?\s{{1,4}}"
    rf"(?P<kind>{'|'.join(_KINDS)}) buffer size =\s{{0,12}}{_MIB}"
)
_CELLS: Final = re.compile(
    rf"llama_(?P<what>kv_cache|memory_recurrent)\w{{0,20}}: size =\s{{0,12}}{_MIB}\s{{0,3}}\(\s{{0,12}}"
    r"(?P<cells>\d{1,12}) cells,\s{0,12}(?P<layers>\d{1,6}) layers"
)
_OF_CACHE: Final = re.compile(r"failed to allocate buffer for kv[_ ]cache")
AFTER: Final = 4
"""Lines in which the one who asked says what for: the same function allocates weights and caches."""
_FILE: Final = re.compile(r"([\w.\-]{1,120}\.gguf)\b", re.IGNORECASE)
_OFFLOADED: Final = re.compile(r"offloaded (\d{1,5})/(\d{1,5}) layers to GPU")
_PAIR: Final = re.compile(
    r"(?<![\w.])([a-z][\w.]{1,60})=(?:\"([^\"]{0,300})\"|(\[[^\]]{0,300}\])|([^\s\"\[]{1,200}))"
)
_SIZE: Final = re.compile(r"(\d{1,12}(?:\.\d{1,4})?) (TiB|GiB|MiB|KiB|B)\b")
_NAMES: Final = {
    "memory.required.full": "needed",
    "memory.required.partial": "needed_partial",
    "memory.required.kv": "kv_cache",
    "memory.weights.total": "weights",
    "memory.weights.repeating": "weights_layers",
    "memory.weights.nonrepeating": "weights_rest",
    "memory.graph.full": "graph",
    "memory.graph.partial": "graph_partial",
    "memory.gpu_overhead": "overhead",
    "projector.weights": "projector",
    "projector.graph": "projector_graph",
}


def find(passage: Passage) -> Iterator[Record]:
    """Every buffer line, failure and offload line of the passage."""
    file = next((found[1] for line in passage.lines if (found := _FILE.search(line.text[:4000]))), None)
    for number, line in enumerate(passage.lines):
        of_cache = any(
            _OF_CACHE.search(next_.text[:4000]) for next_ in passage.lines[number : number + AFTER]
        )
        if "MiB" in line.text or "buffer" in line.text or "layers" in line.text or "retrying" in line.text:
            yield from _of_line(line, file, of_cache=of_cache)


def _of_line(line: Line, file: str | None, *, of_cache: bool) -> Iterator[Record]:
    text = line.text[:4000]
    if "layers.offload=" in text:
        yield _offload(line, text)
        return
    if found := _ALLOCATING.search(text):
        yield _record(
            line,
            "llama_cpp_malloc",
            failure=True,
            sizes={"request": size(found[1], "MiB")},
            device=int(found[2]),
            phase="kv_cache" if of_cache else _phase(text),
            file=file,
        )
    elif found := _BUFFER.search(text):
        yield _record(
            line,
            "llama_cpp_buffer",
            failure=True,
            sizes={"request": size(found["bytes"], "B")},
            device=integer(found["device"]),
            phase="kv_cache" if of_cache else _phase(text),
            where=found["name"],
            file=file,
        )
    elif _RETRY.search(text):
        yield _record(line, "llama_cpp_retry", failure=False)
    yield from _readings(line, text)


def _readings(line: Line, text: str) -> Iterator[Record]:
    for found in _LINE.finditer(text):
        where = found["name"] + found["device"] + (found["more"] or "")
        yield _record(
            line,
            "llama_cpp",
            sizes={_KINDS[found["kind"]]: size(found[5], "MiB")},
            device=integer(found["device"]),
            where=where,
        )
    if held := _CELLS.search(text):
        yield _record(
            line,
            "llama_cpp_cells",
            sizes={"kv_cache" if held["what"] == "kv_cache" else "state": size(held[2], "MiB")},
            cells=int(held["cells"]),
            layers=int(held["layers"]),
        )
    if done := _OFFLOADED.search(text):
        yield _record(line, "llama_cpp_layers", layers_offload=int(done[1]), layers_model=int(done[2]))


def _phase(text: str) -> str | None:
    """Which buffer it was, from the function that asked for it."""
    for mark, phase in (
        ("alloc_tensor_range", "weights"),
        ("kv_cache", "kv_cache"),
        ("gallocr", "compute_buffer"),
        ("graph_reserve", "compute_buffer"),
        ("sched_reserve", "compute_buffer"),
    ):
        if mark in text:
            return phase
    return None


def _record(
    line: Line,
    form: str,
    *,
    failure: bool = False,
    sizes: dict[str, Size | None] | None = None,
    device: int | None = None,
    **values: Fact | None,
) -> Record:
    return Record(
        form=form,
        failure=failure,
        sizes=known(sizes or {}),
        facts=facts(**values),
        device=device,
        rank=line.rank,
        line=line.number,
    )


def _offload(line: Line, text: str) -> Record:
    pairs = {found[1]: found[2] or found[3] or found[4] or "" for found in _PAIR.finditer(text)}
    sizes: dict[str, Size | None] = {
        ours: _one(pairs[theirs]) for theirs, ours in _NAMES.items() if theirs in pairs
    }
    for theirs, ours in (("memory.available", "free"), ("memory.required.allocations", "allocations")):
        each = _all(pairs.get(theirs, ""))
        if each:
            sizes[ours] = total(*each)
    return _record(
        line,
        "ollama_offload",
        failure=False,
        sizes=sizes,
        layers_offload=integer(pairs.get("layers.offload")),
        layers_model=integer(pairs.get("layers.model")),
        split=pairs.get("layers.split") or None,
        cards=len(_all(pairs.get("memory.available", ""))) or None,
        library=pairs.get("library"),
    )


def _one(text: str) -> Size | None:
    found = _SIZE.search(text)
    return size(found[1], found[2]) if found else None


def _all(text: str) -> list[Size]:
    each = (size(found[1], found[2]) for found in _SIZE.finditer(text))
    return [found for found in each if found is not None]
