"""NCCL's lines: channels counted by their way, network, ranks, warnings, from any version and in any log."""

from __future__ import annotations

import pytest

from planner.diagnose import diagnose, read_whole
from planner.diagnose.causes import Cause
from planner.diagnose.links import Links, links_of
from planner.diagnose.scan import SHORT_TEXT
from tests.planner.diagnose.cases import MESSAGES, colored, prefixed

HEAD = "node-a:912:1150 [0] NCCL INFO"
DIRECT = "\n".join(
    [
        "NCCL version 2.27.6+cuda13.0",
        f"{HEAD} NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB ib0:10.0.0.7<0>",
        f"{HEAD} Using network IB",
        f"{HEAD} comm 0x55cc8aa86c70 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0",
        f"{HEAD} Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM",
        f"{HEAD} Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM",
        f"{HEAD} Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/3/GDRDMA",
        f"{HEAD} Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/2(4)/GDRDMA(PCI)/Shared",
        f"{HEAD} Connected all rings",
    ]
)
SOCKETS = "\n".join(
    [
        f"{HEAD} NET/IB : No device found.",
        f"{HEAD} Using network Socket",
        f"{HEAD} comm 0x7efe60002250 rank 15 nranks 64 cudaDev 0 nvmlDev 0 busId 1c000 - Init COMPLETE",
        f"{HEAD} Ring 00 : 35 -> 34 [send] via NET/Socket/0",
        f"{HEAD} Channel 03/0 : 15[7] -> 6[6] [send] via NET/Socket/3",
        f"{HEAD} Channel 01 : 2[4a000] -> 1[13000] via SHM/direct/direct",
    ]
)
STAGED = "\n".join(
    [
        f"{HEAD} NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0' (no module)",
        f"{HEAD} Channel 00 : 0[1a000] -> 1[1a000] [receive] via NET/IB/0",
        "node-a:912:1150 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer with error 12",
    ]
)


def links(text: str) -> Links:
    found = links_of(read_whole(text).records)
    assert found is not None
    return found


def test_direct_transfers_between_nodes() -> None:
    found = links(DIRECT)
    assert (found.version, found.network, found.ranks, found.nodes) == ("2.27.6", "IB", 16, 2)
    assert (found.p2p, found.direct, found.rdma, found.socket, found.shm) == (2, 2, 0, 0, 0)


def test_d7_sockets_between_nodes_are_told() -> None:
    found = links(SOCKETS)
    assert (found.network, found.socket, found.shm, found.ranks) == ("Socket", 2, 1, 64)
    assert found.no_device
    assert not found.no_direct


def test_staged_transfers_and_a_warning() -> None:
    found = links(STAGED)
    assert (found.rdma, found.direct, found.no_direct) == (1, 0, True)
    assert (found.warnings, found.warning) == (1, "NET/IB : Got completion from peer with error 12")


LOG = "step 1 loss 2.0\n" * 20_000
DAMAGED = {
    "rank": prefixed(DIRECT, "[rank3]: "),
    "kubernetes": prefixed(DIRECT, "2026-05-01T10:00:00.123456Z stderr F "),
    "crlf": DIRECT.replace("\n", "\r\n"),
    "ansi": "\n".join(map(colored, DIRECT.split("\n"))),
    "long": f"{LOG}{DIRECT}\n{LOG}",
}


@pytest.mark.parametrize("way", DAMAGED)
def test_they_are_read_however_they_arrive(way: str) -> None:
    found = links(DAMAGED[way])
    assert (found.p2p, found.direct, found.network, found.ranks) == (2, 2, "IB", 16)


def test_a_failure_in_the_same_log_is_still_judged() -> None:
    message = next(m["text"] for m in MESSAGES if m["tag"] == "1e")
    found = diagnose(f"{DIRECT}\n{message}\n{DIRECT}")
    assert found.why.cause is Cause.ANOTHER_PROCESS
    assert found.links is not None
    assert found.links.p2p == 4


def test_thousands_of_lines_take_no_place_of_a_failure() -> None:
    message = next(m["text"] for m in MESSAGES if m["tag"] == "1e")
    many = f"{HEAD} Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n" * (2 * SHORT_TEXT // 60)
    found = diagnose(many + message + "\n" + many)
    assert found.why.cause is Cause.ANOTHER_PROCESS
    assert found.links is not None
    assert found.links.p2p > 100


def test_other_logs_have_none() -> None:
    assert diagnose("step 1 loss 2.0\nNCCL is great").links is None
    assert diagnose(MESSAGES[0]["text"]).links is None
