"""Drives the Measure page in a test: a child that does as told, a machine made up, buttons by key."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any

import pytest
from streamlit.testing.v1 import AppTest

from profiler.documents import Options
from profiler.nvml import Nvml
from profiler.runner import Patience, Runner
from tests.profiler import jobs as stub
from tests.profiler.fake_nvml import Card, FakeNvml, memory
from tests.ui.conftest import checked
from tests.ui.measure_cases import GIB, tiny
from ui.measure import jobs as shared
from ui.measure import machine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from profiler.runner import Job
    from ui.document import Document

ROOMY = 64 * GIB


def measure_page() -> None:
    from ui.pages import measure  # noqa: PLC0415

    measure.draw()


@dataclasses.dataclass
class Child:
    """How the next child behaves.

    Attributes:
        mode: Mode of the stub child; `nowhere` names a program that does not exist.
        patience: How long it is waited for.
        started: Options of the jobs started, oldest first.
    """

    mode: str = "ok"
    patience: Patience = stub.SHORT
    started: list[Options] = dataclasses.field(default_factory=list)

    def runner(self) -> Runner:
        command = (sys.executable, "-S", "-E", str(stub.STUB), self.mode)
        return Noting(self, ("/nowhere/at/all",) if self.mode == "nowhere" else command)


class Noting(Runner):
    """Notes how it was asked to measure."""

    def __init__(self, child: Child, command: tuple[str, ...]) -> None:
        super().__init__(command, child.patience)
        self._child = child

    def start(
        self,
        scenario_document: Mapping[str, Any],
        options: Options,
        *,
        config: Mapping[str, Any] | None = None,
        predicted_bytes: int | None = None,
    ) -> Job:
        self._child.started.append(options)
        return super().start(scenario_document, options, config=config, predicted_bytes=predicted_bytes)


def on_machine(
    monkeypatch: pytest.MonkeyPatch, library: FakeNvml, *, free: int | None = ROOMY, torch: str = "2.13.0"
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(machine, "nvml", lambda: Nvml(library))
    monkeypatch.setattr(machine, "available_bytes", lambda: free)
    monkeypatch.setattr(machine, "torch_version", lambda: torch)


def opened(document: Document | None = None) -> AppTest:
    page = AppTest.from_function(measure_page, default_timeout=60)
    page.session_state["scenario_document"] = document or tiny()
    return checked(page.run())


def press(page: AppTest, key: str) -> AppTest:
    return checked(page.button(key=key).click().run())


def has(page: AppTest, key: str) -> bool:
    return any(button.key == key for button in page.button)


def start(page: AppTest) -> Job:
    """Press the button; the job that it started."""
    press(page, "measure_start")
    run = shared.jobs().run("cpu")
    assert run is not None
    return run.job


def finished(page: AppTest) -> AppTest:
    """The page after its job has ended."""
    run = shared.jobs().run("cpu")
    assert run is not None
    stub.finish(run.job)
    return checked(page.run())


def h100(used: int = 0) -> Card:
    return Card("NVIDIA H100 80GB HBM3", "GPU-1", memory(80 * GIB, used, 80 * GIB - used))


def upload(page: AppTest, data: bytes, name: str = "report.json") -> AppTest:
    keys = [each.key or "" for each in page.file_uploader]
    key = next(key for key in keys if key.startswith("measure_upload"))
    return checked(page.file_uploader(key=key).set_value((name, data, "application/json")).run())
