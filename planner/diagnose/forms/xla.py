"""Out-of-memory messages of JAX, XLA and TensorFlow."""

import re
from collections.abc import Iterator
from math import prod
from typing import Final

from planner.diagnose.passage import Passage
from planner.diagnose.record import Record, facts, known
from planner.diagnose.sizes import Size, amount, size

_ALLOCATE: Final = re.compile(
    rf"(?:Outofmemorywhiletryingtoallocate|Outofmemoryallocating){amount('request')}"
)
_STATS: Final = {
    "parameters": "parameterallocation",
    "constants": "constantallocation",
    "outputs": "maybe_live_outallocation",
    "temporaries": "preallocatedtempallocation",
    "program": "totalallocation",
    "fragmentation": "totalfragmentation",
}
_BUFFER: Final = re.compile(
    rf"Buffer1:Size:{amount('buffer')}(?:Operator:op_name=\"(?P<op>[^\"]{{1,200}})\")?"
    r"(?:.{0,600}?Shape:(?P<shape>\w{1,8}\[[\d,]{0,80}\]))?"
)
_HBM: Final = re.compile(
    rf"Ranoutofmemoryinmemoryspace(?P<space>\w{{1,12}})\.Used{amount('used')}of{amount('total')}\w{{1,12}}\."
    rf"Exceeded\w{{1,12}}capacityby{amount('over')}"
)
_TENSOR: Final = re.compile(
    r"OOMwhenallocatingtensorwithshape\[(?P<shape>[\d,]{1,80})\]andtype(?P<type>\w{2,8}?)on(?P<device>/job\S{1,80}?)by"
)
_GPU: Final = re.compile(r"GPU:(\d{1,4})$")
_BYTES: Final = {
    "float": 4, "float32": 4, "half": 2, "float16": 2, "bfloat16": 2, "double": 8, "int32": 4, "int64": 8,
    "int8": 1, "uint8": 1, "bool": 1,
}  # fmt: skip
STATS_REACH: Final = 3000


def find(passage: Passage) -> Iterator[Record]:
    """Every message of the passage."""
    dense = passage.dense
    for found in _ALLOCATE.finditer(dense):
        sizes: dict[str, Size | None] = {"request": size(found["request"])}
        after = dense[found.end() : found.end() + STATS_REACH]
        for name, words in _STATS.items():
            if stat := re.search(rf"{words}:({amount('x')})", after):
                sizes[name] = size(stat[1])
        buffer = _BUFFER.search(after)
        if buffer is not None:
            sizes["buffer"] = size(buffer["buffer"])
        here = passage.line_of(found.start())
        yield Record(
            form="xla",
            failure=True,
            sizes=known(sizes),
            facts=facts(op=buffer["op"], shape=buffer["shape"]) if buffer is not None else (),
            rank=here.rank,
            line=here.number,
        )
    for found in _HBM.finditer(dense):
        here = passage.line_of(found.start())
        sizes = {name: size(found[name]) for name in ("used", "total", "over")}
        yield Record(form="xla_tpu", failure=True, sizes=known(sizes), line=here.number)
    for found in _TENSOR.finditer(dense):
        yield _tensor(passage, found)


def _tensor(passage: Passage, found: re.Match[str]) -> Record:
    here = passage.line_of(found.start())
    element = _BYTES.get(found["type"])
    dims = [int(part) for part in found["shape"].split(",") if part]
    request = size(str(prod(dims) * element), "B") if element and dims and len(dims) <= 8 else None
    device = _GPU.search(found["device"])
    return Record(
        form="tensorflow",
        failure=True,
        sizes=known({"request": request}),
        facts=facts(shape=f"{found['type']}[{found['shape']}]"),
        device=int(device[1]) if device else None,
        line=here.number,
    )
