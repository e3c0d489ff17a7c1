"""Cards, and a process on them, over time, from outside: only the driver is asked. No PyTorch."""

import datetime as dt
import platform
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from profiler.documents import Options, Param, Remark
from profiler.events import Sample
from profiler.host_memory import resident_bytes
from profiler.nvml import DeviceInfo, Nvml
from profiler.nvml_load import LinkCounters, read_load
from profiler.report import MAX_SAMPLES, DeviceReadings, Environment, Report
from profiler.report_parts import MAX_READINGS, CardReading, CardSeries, Program

LOST: Final = frozenset({"gpu_lost", "reset_required"})
"""Reasons after which a card does not come back without a restart."""


@dataclass(slots=True)
class _Card:
    """What is kept of a card while it is watched."""

    info: DeviceInfo
    readings: list[CardReading] = field(default_factory=list)
    counters: LinkCounters | None = None
    last_used: int | None = None
    peak: int | None = None
    process_peak: int | None = None
    lost_at_s: float | None = None
    keep_every: int = 1
    seen: int = 0

    def keep(self, reading: CardReading) -> None:
        """Keep a reading; the fullest one is never thinned away."""
        self.seen += 1
        used = reading.used_bytes
        is_peak = used is not None and not reading.stale and (self.peak is None or used > self.peak)
        if is_peak:
            self.peak = used
        self.process_peak = _most(self.process_peak, reading.process_bytes)
        if self.seen % self.keep_every and not is_peak:
            return
        self.readings.append(reading)
        if len(self.readings) >= MAX_READINGS:
            fullest = max(self.readings, key=lambda one: one.used_bytes or 0)
            self.readings = [one for place, one in enumerate(self.readings) if place % 2 or one is fullest]
            self.keep_every *= 2


class Watch:
    """Watches cards, and one process if told.

    Args:
        nvml: The driver library.
        cards: The cards to look at.
        pid: The process, None for none.
    """

    def __init__(self, nvml: Nvml, cards: tuple[DeviceInfo, ...], pid: int | None = None) -> None:
        self._nvml = nvml
        self._pid = pid
        self._cards = [_Card(card) for card in cards]
        self._remarks: dict[str, Remark] = {}
        self._samples: list[Sample] = []
        self._resident: int | None = None
        self._keep_every = 1
        self._looks = 0
        self._failing: set[str] = set()

    @property
    def all_lost(self) -> bool:
        """Whether no card is left to look at."""
        return bool(self._cards) and all(card.lost_at_s is not None for card in self._cards)

    def look(self, at_s: float) -> None:
        """Read everything once.

        Args:
            at_s: Seconds since the start.
        """
        for card in self._cards:
            if card.lost_at_s is None:
                self._look_at(card, at_s)
        resident = None if self._pid is None else resident_bytes(self._pid)
        self._resident = _most(self._resident, resident)
        self._looks += 1
        if self._looks % self._keep_every:
            return
        used = _sum(card.readings[-1].used_bytes for card in self._cards if card.readings)
        own = _sum(card.readings[-1].process_bytes for card in self._cards if card.readings)
        self._samples.append(
            Sample(at_s=at_s, device_used_bytes=used, process_bytes=own, resident_bytes=resident)
        )
        if len(self._samples) >= MAX_SAMPLES:
            del self._samples[::2]
            self._keep_every *= 2

    def _look_at(self, card: _Card, at_s: float) -> None:
        uuid = card.info.uuid.value
        if uuid is None:
            return
        memory = self._nvml.memory(uuid)
        if memory.value is None:
            self._does_not_answer(card, at_s, memory.reason, memory.detail)
            return
        self._failing.discard(uuid)
        reading, card.counters = read_load(self._nvml, uuid, at_s, card.counters)
        card.last_used = memory.value.used_bytes
        card.keep(
            reading.model_copy(
                update={"used_bytes": memory.value.used_bytes, "process_bytes": self._process_bytes(uuid)}
            )
        )

    def _does_not_answer(self, card: _Card, at_s: float, reason: str, detail: str) -> None:
        """The last reading stays, marked as old; a lost card is not asked again."""
        uuid = card.info.uuid.value or ""
        card.keep(CardReading(at_s=at_s, used_bytes=card.last_used, stale=True))
        if reason in LOST:
            card.lost_at_s = at_s
            self._note("gpu_lost", card, at_s, reason, detail)
        elif uuid not in self._failing:
            self._failing.add(uuid)
            self._note("nvml_failed", card, at_s, reason, detail)

    def _note(self, code: str, card: _Card, at_s: float, reason: str, detail: str) -> None:
        params: dict[str, Param] = {
            "index": card.info.index,
            "at_s": round(at_s, 1),
            "reason": reason,
            "detail": detail[:300],
        }
        self._remarks[f"{code} {card.info.index} {card.info.uuid.value}"] = Remark(code=code, params=params)

    def _process_bytes(self, uuid: str) -> int | None:
        if self._pid is None:
            return None
        own = self._nvml.process_bytes(uuid, self._pid)
        if own.value is None and own.reason not in {"pid_not_listed", ""}:
            params: dict[str, Param] = {"what": "process", "reason": own.reason}
            self._remarks.setdefault(f"process {own.reason}", Remark(code="not_read", params=params))
        return own.value

    def report(self, program: Program, *, interrupted: bool = False) -> Report:
        """What was seen so far.

        Args:
            program: What was watched.
            interrupted: It ended before it should have.
        """
        lost = any(card.lost_at_s is not None for card in self._cards)
        first = self._cards[0].info if self._cards else None
        return Report(
            created_at=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            scenario={},
            config={},
            options=Options(device="cuda" if self._cards else "cpu"),
            environment=Environment(
                device="cuda" if self._cards else "cpu",
                device_name=(first.name.value or "")
                if first
                else (platform.processor() or platform.machine()),
                python=platform.python_version(),
                torch="",
                transformers="",
                driver=self._nvml.driver_version().value or "" if self._cards else "",
                system=platform.platform()[:300],
            ),
            program=program,
            outcome="interrupted" if lost or interrupted else "completed",
            readings=self._readings(first),
            samples=tuple(self._samples),
            cards=tuple(_series(card) for card in self._cards),
            remarks=tuple(self._remarks.values()),
        )

    def _readings(self, first: DeviceInfo | None) -> DeviceReadings:
        memory = first.memory.value if first else None
        fullest = self._cards[0] if len(self._cards) == 1 else None
        return DeviceReadings(
            total_bytes=memory.total_bytes if memory and fullest else None,
            peak_bytes=fullest.peak if fullest else None,
            process_peak_bytes=_sum(card.process_peak for card in self._cards),
            resident_peak_bytes=self._resident,
        )


def _series(card: _Card) -> CardSeries:
    memory = card.info.memory.value
    return CardSeries(
        index=card.info.index,
        uuid=card.info.uuid.value or "",
        name=card.info.name.value or "",
        total_bytes=memory.total_bytes if memory else None,
        reserved_bytes=memory.reserved_bytes if memory else None,
        mig=card.info.mig,
        lost_at_s=card.lost_at_s,
        readings=tuple(card.readings),
    )


def _most(one: int | None, other: int | None) -> int | None:
    return one if other is None else other if one is None else max(one, other)


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
