"""Lines of NCCL at `NCCL_DEBUG=INFO`: by which way each channel goes, which network was chosen, what was warned of.

Source: NCCL 2.28 `transport/net.cc`, `transport/p2p.cc`, `transport/shm.cc` (`Channel 00/0 : 0[0] -> 1[1] via ...`),
`init.cc` (`comm ... rank 0 nranks 8`); before 2.12 the channel has no second number, before 2.7 it is a `Ring`.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from planner.diagnose.passage import Passage
from planner.diagnose.record import Record, facts

FORM: Final = "nccl"
_CHANNEL: Final = re.compile(
    r"NCCL INFO (?:Channel|Ring) \d{1,4}(?:/\d{1,4})? ?: {1,2}\d{1,6}(?:\[\w{1,16}\])? -> \d{1,6}(?:\[\w{1,16}\])?"
    r"(?: \[(?:send|receive)\])? via (?P<way>P2P|SHM|NET)(?:/(?P<what>[A-Za-z]\w{0,30}))?(?P<rest>\S{0,60})"
)
_NETWORK: Final = re.compile(r"NCCL INFO (?:Using network|Assigned NET plugin) (\w{1,30})")
_RANKS: Final = re.compile(r"NCCL INFO .{0,80}\brank (\d{1,6}) n[rR]anks (\d{1,6})\b")
_NODES: Final = re.compile(r"NCCL INFO .{0,120}\bnNodes (\d{1,6})\b")
_VERSION: Final = re.compile(r"NCCL version (\d{1,2}\.\d{1,2}\.\d{1,3})\b")
_NO_DIRECT: Final = re.compile(r"NCCL INFO .{0,60}GPU Direct RDMA Disabled")
_NO_DEVICE: Final = re.compile(r"NCCL INFO NET/IB : No device found")
_WARN: Final = re.compile(r"NCCL WARN (.{1,160})")
_MEMORY: Final = re.compile(r"Cudafailure(?:\d{1,4})?'outofmemory'")
_WATCHDOG: Final = re.compile(
    r"Watchdogcaughtcollectiveoperationtimeout:Work\w{0,12}\((?:.{0,60}?OpType=(?P<operation>\w{1,40}))?"
    r"(?:.{0,200}?ranfor(?P<ran_ms>\d{1,12})milliseconds)?"
)
_SOCKET: Final = "Socket"
_DIRECT: Final = "GDRDMA"


def find(passage: Passage) -> Iterator[Record]:
    """All NCCL lines of the passage as one record: channels counted by their way."""
    ways: Counter[str] = Counter()
    told: dict[str, str | int] = {}
    first = 0
    for line in passage.lines:
        text = line.text[:400]
        if "NCCL" not in text:
            continue
        if _take(text, ways, told):
            first = first or line.number
    if first:
        counted = {
            name: ways[name] or None for name in ("p2p", "shm", "socket", "rdma", "direct", "warnings")
        }
        yield Record(form=FORM, failure=False, facts=facts(**counted, **told), line=first)


def failures(passage: Passage) -> Iterator[Record]:
    """What failed inside NCCL: a call that found no memory, a collective that its watchdog gave up."""
    for found in _MEMORY.finditer(passage.dense):
        here = passage.line_of(found.start())
        yield Record(form="nccl_memory", failure=True, rank=here.rank, line=here.number)
    for found in _WATCHDOG.finditer(passage.dense):
        here = passage.line_of(found.start())
        told = facts(operation=found["operation"], ran_s=_seconds(found["ran_ms"]))
        yield Record(form="nccl_timeout", failure=True, facts=told, rank=here.rank, line=here.number)


def _take(text: str, ways: Counter[str], told: dict[str, str | int]) -> bool:
    """Count one line; whether it says anything."""
    if channel := _CHANNEL.search(text):
        ways[_way(channel)] += 1
        return True
    if warned := _WARN.search(text):
        ways["warnings"] += 1
        told.setdefault("warning", warned[1].strip())
        return True
    for name, pattern in (("network", _NETWORK), ("version", _VERSION)):
        if found := pattern.search(text):
            told[name] = found[1]
            return True
    if found := _RANKS.search(text):
        told["ranks"] = max(int(found[2]), int(told.get("ranks", 0)))
        if nodes := _NODES.search(text):
            told["nodes"] = max(int(nodes[1]), int(told.get("nodes", 0)))
        return True
    for name, pattern in (("no_direct", _NO_DIRECT), ("no_device", _NO_DEVICE)):
        if pattern.search(text):
            told[name] = 1
            return True
    return False


def _seconds(milliseconds: str | None) -> int | None:
    return None if milliseconds is None else round(int(milliseconds) / 1000)


def _way(channel: re.Match[str]) -> str:
    if channel["way"] != "NET":
        return channel["way"].lower()
    if channel["what"] == _SOCKET:
        return "socket"
    return "direct" if _DIRECT in channel["rest"] else "rdma"
