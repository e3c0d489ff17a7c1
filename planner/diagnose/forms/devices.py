"""`nvidia-smi` as a table and as a query, and what it prints where it can't read the driver."""

import re
from collections.abc import Iterator
from typing import Final

from planner.diagnose.passage import Line, Passage
from planner.diagnose.record import Process, Record, facts, known
from planner.diagnose.sizes import size

UNREADABLE: Final = (
    "N/A", "[N/A]", "Not Supported", "[Not Supported]", "[Insufficient Permissions]", "ERR!", "[Unknown Error]",
    "[GPU is lost]",
)  # fmt: skip
_NONE: Final = "|".join(map(re.escape, UNREADABLE))
_NAME_LINE: Final = re.compile(r"\|\s{1,6}(\d{1,3})\s{1,4}(\S.{1,40}?)\s{2,40}(?:On|Off|N/A)\s{1,8}\|")
_USE_LINE: Final = re.compile(
    rf"\|[^|]{{5,60}}\|\s{{0,12}}(?:(\d{{1,9}})MiB\s{{0,4}}/\s{{0,4}}(\d{{1,9}})MiB|({_NONE})(?:\s{{0,8}}/\s{{0,8}}(?:{_NONE}))?)"
    r"\s{0,12}\|"
)
_MIG_LINE: Final = re.compile(
    r"\|\s{1,6}(\d{1,3})\s{1,6}(\d{1,3})\s{1,6}(\d{1,3})\s{1,6}(\d{1,3})\s{1,6}\|\s{0,12}(\d{1,9})MiB\s{0,4}/"
    r"\s{0,4}(\d{1,9})MiB"
)
_PROCESS_LINE: Final = re.compile(
    r"\|\s{1,6}(\d{1,3})\s{1,8}\S{1,4}\s{1,8}\S{1,4}\s{1,12}(\d{1,10})\s{1,8}(?:C|G|C\+G|M\+C)\s{1,6}\S.{0,80}?"
    rf"\s(?:(\d{{1,9}})MiB|({_NONE}))\s{{0,8}}\|"
)
_CELL: Final = rf"(?:\d{{1,9}}(?: MiB)?|{_NONE})"
_QUERY: Final = re.compile(
    rf"(?:(\d{{1,3}}), )?([A-Za-z][^,|]{{2,60}}), ({_CELL}), ({_CELL}), ({_CELL})(?:,.{{0,200}})?"
)
_FAILED: Final = re.compile(
    r"(?P<mismatch>Driver/library version mismatch|NVMLError_LibRmVersionMismatch)"
    r"|(?P<lost>Failed to initialize NVML: Unknown Error|NVMLError_GpuIsLost|GPU is lost)"
    r"|(?P<none>No devices were found)"
    r"|(?P<driver>couldn't communicate with the NVIDIA driver|NVMLError_DriverNotLoaded)"
    r"|(?P<library>NVMLError_LibraryNotFound)|(?P<function>NVMLError_FunctionNotFound)"
)


def find(passage: Passage) -> Iterator[Record]:
    """Every card of a table or a query, its processes, and failures of the driver's tools."""
    device, name = None, None
    processes: dict[int, list[Process]] = {}
    found: list[Record] = []
    for line in passage.lines:
        text = line.text[:400]
        if failed := _FAILED.search(text):
            yield Record(form=f"nvml_{failed.lastgroup}", failure=True, line=line.number)
        elif query := _QUERY.fullmatch(text.strip()):
            yield _query(line, query)
        elif "|" not in text:
            continue
        elif process := _PROCESS_LINE.search(text):
            held = size(process[3], "MiB") if process[3] else None
            processes.setdefault(int(process[1]), []).append(Process(int(process[2]), held))
        elif named := _NAME_LINE.search(text):
            device, name = int(named[1]), named[2]
        elif mig := _MIG_LINE.search(text):
            found.append(_card(line, int(mig[1]), name, mig[5], mig[6], mig=int(mig[3])))
        elif (used := _USE_LINE.search(text)) and name is not None:
            found.append(_card(line, device, name, used[1], used[2]))
            name = None
    for card in found:
        yield _with_processes(card, processes.get(-1 if card.device is None else card.device, []))


def _with_processes(card: Record, processes: list[Process]) -> Record:
    return Record(
        form=card.form,
        failure=False,
        sizes=card.sizes,
        facts=card.facts,
        processes=tuple(processes),
        device=card.device,
        line=card.line,
    )


def _card(
    line: Line,
    device: int | None,
    name: str | None,
    used: str | None,
    whole: str | None,
    mig: int | None = None,
) -> Record:
    sizes = {"used": size(used, "MiB") if used else None, "total": size(whole, "MiB") if whole else None}
    return Record(
        form="nvidia_smi",
        failure=False,
        sizes=known(sizes),
        facts=facts(name=name, mig=mig),
        device=device,
        line=line.number,
    )


def _query(line: Line, query: re.Match[str]) -> Record:
    cells = dict(zip(("total", "used", "free"), query.groups()[2:], strict=True))
    sizes = {
        key: size(text.removesuffix(" MiB"), "MiB") if text[:1].isdecimal() else None
        for key, text in cells.items()
    }
    return Record(
        form="nvidia_smi_query",
        failure=False,
        sizes=known(sizes),
        facts=facts(name=query[2]),
        device=int(query[1]) if query[1] else None,
        line=line.number,
    )
