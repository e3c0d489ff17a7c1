"""Out-of-memory messages of PyTorch: CUDA, HIP and other allocators of the same text, MPS, and the driver's own.

Source: `c10/cuda/CUDACachingAllocator.cpp`, `CUDACachingAllocator::malloc`, PyTorch 1.4 to 2.13.
"""

import re
from collections.abc import Iterator
from typing import Final

from planner.diagnose.passage import Passage
from planner.diagnose.record import MOST_PROCESS_BYTES, Process, Record, facts, known
from planner.diagnose.sizes import Size, amount, size

_HEAD: Final = re.compile(rf"(?P<api>CUDA|HIP|XPU|NPU)outofmemory\.?(?:Triedtoallocate{amount('request')})?")
_PLAIN: Final = re.compile(r"显存(?:不足|不够|溢出|耗尽)")
"""The same in Chinese, as people write it themselves."""
_OLD: Final = re.compile(
    rf"\(GPU(?P<gpu>\d{{1,4}});(?:{amount('total')}totalcapacity;)?(?:{amount('allocated')}alreadyallocated;)?"
    rf"(?:{amount('free')}free;)?(?:{amount('allowed')}allowed;)?"
    rf"(?:{amount('reserved')}(?:reservedintotalbyPyTorch|cached))?"
)
_CAPACITY: Final = re.compile(
    rf"\.?GPU(?P<gpu>\d{{1,4}})hasatotalcapaci?tyof{amount('total')}ofwhich{amount('free')}isfree\."
)
_PROCESS: Final = re.compile(rf"Process(?P<pid>\d{{1,12}})has{amount('held')}memoryinuse\.")
_OWN: Final = re.compile(rf"Includingnon-PyTorchmemory,thisprocesshas{amount('own')}memoryinuse\.")
_ALLOWED: Final = re.compile(rf"{amount('allowed')}allowed;")
_REST: Final = re.compile(
    rf"Oftheallocatedmemory{amount('allocated')}isallocatedbyPyTorch,"
    rf"(?:with{amount('pool')}allocatedinprivatepools\(e\.g\.,\w{{3,4}}Graphs\),)?"
    rf"(?:and{amount('unallocated')}isreservedbyPyTorchbutunallocated)?"
)
_ADVICE: Final = (
    ("PYTORCH_ALLOC_CONF=expandable", "torch_2_10"),
    ("PYTORCH_CUDA_ALLOC_CONF=expandable", "torch_2_2"),
    ("PYTORCH_HIP_ALLOC_CONF=expandable", "torch_2_2"),
    ("max_split_size_mb", "torch_2_1"),
)
_DRIVER: Final = re.compile(
    r"(?P<api>CUDA|HIP)error:outofmemory|cudaErrorMemoryAllocation|hipErrorOutOfMemory|CUBLAS_STATUS_ALLOC_FAILED"
    r"|CUDNN_STATUS_ALLOC_FAILED|FailedtoCUDA(?:host)?(?:calloc|malloc)"
)
_GGML: Final = re.compile(r"currentdevice:(\d{1,4})")
_MPS: Final = re.compile(
    rf"MPSbackendoutofmemory\(MPSallocated:{amount('allocated')},otherallocations:{amount('other')},"
    rf"maxallowed:{amount('allowed')}\)\.(?:Triedtoallocate{amount('request')})?"
)
TAIL: Final = 900
"""Characters after the figures in which the advice stands."""


def find(passage: Passage) -> Iterator[Record]:
    """Every message of the passage, in order of the text within each kind."""
    dense = passage.dense
    for head in _HEAD.finditer(dense):
        yield _message(passage, head)
    for said in _PLAIN.finditer(dense):
        here = passage.line_of(said.start())
        yield Record(form="torch_unknown", failure=True, rank=here.rank, line=here.number)
    for found in _DRIVER.finditer(dense):
        here = passage.line_of(found.start())
        device = _GGML.search(dense, found.end(), found.end() + 400)
        yield Record(
            form="torch_driver" if device is None else "ggml_driver",
            failure=True,
            device=int(device[1]) if device else None,
            rank=here.rank,
            line=here.number,
        )
    for found in _MPS.finditer(dense):
        here = passage.line_of(found.start())
        names = ("request", "allocated", "other", "allowed")
        sizes = {name: size(found[name]) for name in names if found[name]}
        yield Record(form="torch_mps", failure=True, sizes=known(sizes), line=here.number)


def _message(passage: Passage, head: re.Match[str]) -> Record:
    dense, end = passage.dense, head.end()
    sizes: dict[str, Size | None] = {"request": size(head["request"] or "")}
    processes: tuple[Process, ...] = ()
    device, form, unknown = None, "torch_unknown", False
    if old := _OLD.match(dense, end):
        sizes |= _named(old, "total", "allocated", "free", "allowed", "reserved")
        device, end = int(old["gpu"]), old.end()
        form = "torch_1_10" if "max_split_size_mb" in dense[end : end + TAIL] else "torch_1"
    elif new := _CAPACITY.match(dense, end):
        sizes |= _named(new, "total", "free")
        device, end = int(new["gpu"]), new.end()
        processes, end = _processes(dense, end)
        if own := _OWN.match(dense, end):
            sizes["own"], end = _of_process(own["own"]), own.end()
            unknown = sizes["own"] is None
        for pattern, names in ((_ALLOWED, ("allowed",)), (_REST, ("allocated", "pool", "unallocated"))):
            if part := pattern.match(dense, end):
                sizes |= _named(part, *names)
                end = part.end()
        form = _variant(dense[end : end + TAIL])
    here = passage.line_of(head.start())
    return Record(
        form=form,
        failure=True,
        sizes=known(sizes),
        facts=facts(api=head["api"].lower(), own_unknown=1 if unknown else None),
        processes=processes,
        device=device,
        rank=here.rank,
        line=here.number,
    )


def _variant(tail: str) -> str:
    next_message = tail.find("outofmemory.Tried")
    advice = tail if next_message < 0 else tail[:next_message]
    return next((form for mark, form in _ADVICE if mark in advice), "torch_2")


def _processes(dense: str, end: int) -> tuple[tuple[Process, ...], int]:
    found = []
    while other := _PROCESS.match(dense, end):
        found.append(Process(int(other["pid"]), _of_process(other["held"])))
        end = other.end()
    return tuple(found), end


def _of_process(printed: str) -> Size | None:
    """What a process holds; None where the driver could not tell and printed all ones."""
    held = size(printed)
    return held if held is not None and held.bytes < MOST_PROCESS_BYTES else None


def _named(found: re.Match[str], *names: str) -> dict[str, Size | None]:
    return {name: size(found[name]) for name in names if found[name]}
