"""How the ranks of a log are joined: the NCCL lines of all its stretches together."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from planner.diagnose.forms.nccl import FORM
from planner.diagnose.record import Record

State = Literal["good", "attention", "unknown"]
SOCKETS: Final = "Socket"


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """What NCCL said.

    Attributes:
        version: Of NCCL; empty where no line tells.
        network: The network it chose (`IB`, `Socket`, `AWS Libfabric`, ...); empty likewise.
        ranks: Of the largest communicator.
        nodes: Of it, where the version tells.
        p2p: Channels from card to card directly.
        shm: Channels through host memory.
        socket: Channels over TCP sockets.
        rdma: Channels over a network card's own transfers, staged in host memory.
        direct: The same straight from and to the card (GPUDirect RDMA).
        no_direct: GPUDirect RDMA was said to be disabled.
        no_device: No InfiniBand or RoCE device was found.
        warnings: Warnings.
        warning: The first of them.
        line: First line of it.
    """

    version: str = ""
    network: str = ""
    ranks: int = 0
    nodes: int = 0
    p2p: int = 0
    shm: int = 0
    socket: int = 0
    rdma: int = 0
    direct: int = 0
    no_direct: bool = False
    no_device: bool = False
    warnings: int = 0
    warning: str = ""
    line: int = 0

    @property
    def between_nodes(self) -> int:
        """Channels between nodes."""
        return self.socket + self.rdma + self.direct


def links_of(records: Iterable[Record]) -> Links | None:
    """All NCCL records of a text as one; None where there is none."""
    found = [record for record in records if record.form == FORM]
    if not found:
        return None

    def added(name: str) -> int:
        return sum(int(record.number(name) or 0) * record.count for record in found)

    def most(name: str) -> int:
        return max(int(record.number(name) or 0) for record in found)

    def first(name: str) -> str:
        return next((str(record.fact(name)) for record in found if record.fact(name) is not None), "")

    return Links(
        version=first("version"), network=first("network"), ranks=most("ranks"), nodes=most("nodes"), p2p=added("p2p"),
        shm=added("shm"), socket=added("socket"), rdma=added("rdma"), direct=added("direct"),
        no_direct=most("no_direct") > 0, no_device=most("no_device") > 0, warnings=added("warnings"),
        warning=first("warning"), line=found[0].line,
    )  # fmt: skip
