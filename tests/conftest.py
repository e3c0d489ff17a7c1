"""What every test gets: no network, GPU tests only where there is a GPU, one Chromium, one running page."""

from __future__ import annotations

import functools
import ipaddress
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pynvml
import pytest
from hypothesis import settings
from playwright.sync_api import sync_playwright

import run
from tests import chromium

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

# Times on a busy machine say nothing about the code, so no test fails for its own. `run.py test` draws the same
# inputs every time, so that a change is judged by itself; `run.py check` draws new ones.
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("new", deadline=None, max_examples=300, print_blob=True)
settings.load_profile("same")

_connect = socket.socket.connect


def is_local(address: object) -> bool:
    """Whether a socket address stays on this machine: loopback, or a path."""
    if not isinstance(address, tuple):
        return True
    host = address[0]
    if host in {"localhost", ""}:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@pytest.fixture(scope="session", autouse=True)
def _no_network() -> Iterator[None]:
    def connect(self: socket.socket, address: Any) -> None:
        if not is_local(address):
            raise RuntimeError(f"a test tried to reach {address!r}; tests use no network")
        _connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", connect)
        yield


@pytest.fixture(scope="session", autouse=True)
def _own_data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what the pages save away from the user's own folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADROOM_DATA", str(tmp_path_factory.mktemp("data")))
        yield


@functools.cache
def why_no_gpu() -> str:
    """Say why GPU tests cannot run here, empty when they can."""
    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
        pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        return f"no NVIDIA GPU: {error}"
    return "" if count else "no NVIDIA GPU: the driver lists none"


def pytest_configure(config: pytest.Config) -> None:
    """Draw new inputs where the long tests are asked for."""
    asked = str(config.getoption("markexpr"))
    if "long" in asked and "not long" not in asked:
        settings.load_profile("new")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip GPU tests where there is no GPU."""
    if item.get_closest_marker("gpu") and why_no_gpu():
        pytest.skip(why_no_gpu())


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium; skips where there is none (`run.py test` fails there)."""
    path = chromium.find()
    if path is None:
        pytest.skip("no Chromium: `python -m tests.chromium` fetches one")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path)
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def page_url() -> Iterator[str]:
    """Address of the real page, served as run.py serves it."""
    port = run.any_free_port()
    server = run.start_server(Path(sys.executable), port=port)
    try:
        run.wait_until_healthy(server, run.page_url(port))
        yield run.page_url(port)
    finally:
        run.stop(server)
