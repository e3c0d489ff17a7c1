"""Kills by the host that look like failures of the card."""

import re
from collections.abc import Iterator
from typing import Final

from planner.diagnose.passage import Passage
from planner.diagnose.record import Record, known
from planner.diagnose.sizes import amount, size

_ALLOCATOR: Final = re.compile(
    r"(?:DefaultCPUAllocator:.{0,40}can.{0,3}tallocatememory:youtriedtoallocate|Unabletoallocate)(\d{1,15})bytes"
)
_OLLAMA: Final = re.compile(
    rf"modelrequiresmoresystemmemory\({amount('needed')}\)thanisavailable\({amount('available')}\)"
)
_KILLED: Final = re.compile(
    r"(?P<kernel>Out of memory: Kill(?:ed)? process|oom-kill:|oom_reaper)"
    r"|(?P<kubernetes>OOMKilled)|(?P<slurm>oom[_-]kill event|Exceeded job memory limit|OUT_OF_MEMORY)"
    r"|(?P<signal>exit(?:code|ed| code| status|s)?(?: with)?(?: code)?\s{0,3}[:=(]?\s{0,2}(?:-9|137)\b|SIGKILL"
    r"|died with <Signals\.SIGKILL)"
    r"|(?P<killed>^\s{0,8}Killed\s{0,8}$)"
)


def find(passage: Passage) -> Iterator[Record]:
    """Every sign that the host's memory ran out."""
    for found in _ALLOCATOR.finditer(passage.dense):
        here = passage.line_of(found.start())
        sizes = known({"request": size(found[1], "B")})
        yield Record(form="host_allocator", failure=True, sizes=sizes, rank=here.rank, line=here.number)
    for found in _OLLAMA.finditer(passage.dense):
        here = passage.line_of(found.start())
        sizes = known({name: size(found[name]) for name in ("needed", "available")})
        yield Record(form="host_ollama", failure=True, sizes=sizes, line=here.number)
    for line in passage.lines:
        if killed := _KILLED.search(line.text[:600]):
            yield Record(form=f"host_{killed.lastgroup}", failure=True, rank=line.rank, line=line.number)
