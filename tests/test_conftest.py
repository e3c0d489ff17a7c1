"""The guard that keeps the tests off the network."""

from __future__ import annotations

import socket

import pytest

from tests.conftest import is_local


@pytest.mark.parametrize(
    "address", [("127.0.0.1", 80), ("::1", 80, 0, 0), ("localhost", 80), "headroom.sock"], ids=str
)
def test_this_machine_may_be_reached(address: object) -> None:
    assert is_local(address)


@pytest.mark.parametrize(
    "address", [("192.0.2.1", 80), ("example.org", 443), ("2001:db8::1", 80, 0, 0)], ids=str
)
def test_other_machines_may_not(address: object) -> None:
    assert not is_local(address)


def test_the_guard_is_up() -> None:
    with socket.socket() as caller, pytest.raises(RuntimeError, match="no network"):
        caller.connect(("192.0.2.1", 80))
