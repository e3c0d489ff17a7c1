"""A recorded stand-in for the NVML binding: what real machines answered, call by call."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml

MIB = 1_048_576
Answer = Any | Callable[..., Any]


def failure(code: int) -> Callable[..., Any]:
    """A call that fails as the real binding does."""

    def call(*_: object) -> Any:
        raise pynvml.NVMLError(code)

    return call


def memory(total: int, used: int, free: int, reserved: int | None = None) -> SimpleNamespace:
    extra = {} if reserved is None else {"reserved": reserved}
    return SimpleNamespace(total=total, used=used, free=free, **extra)


@dataclass
class Card:
    """One card, or a MIG instance.

    Attributes:
        name: As the driver gives it.
        uuid: Its id.
        memory: Answer of `nvmlDeviceGetMemoryInfo`.
        mig: Instances, None where the card cannot be cut.
        processes: Answer of `nvmlDeviceGetComputeRunningProcesses`.
        overrides: Other answers by function.
    """

    name: Any
    uuid: Any
    memory: Answer = field(default_factory=lambda: memory(1000 * MIB, 200 * MIB, 800 * MIB))
    mig: "list[Card] | None" = None
    processes: Answer = field(default_factory=list)
    overrides: Mapping[str, Answer] = field(default_factory=dict)


class FakeNvml:
    """Answers like `pynvml`. A function that is named in `missing` does not exist."""

    def __init__(
        self, *cards: Card, missing: tuple[str, ...] = (), overrides: Mapping[str, Answer] | None = None
    ) -> None:
        self._cards = cards
        self._missing = missing
        self._overrides = overrides or {}
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in self._missing:
            raise AttributeError(name)
        if name == "nvmlMemory_v2":
            return 2
        if not name.startswith("nvml"):
            raise AttributeError(name)
        return lambda *arguments: self._call(name, *arguments)

    def _call(self, name: str, *arguments: Any) -> Any:
        self.calls.append(name)
        if name in self._overrides:
            return _answer(self._overrides[name], *arguments)
        if name in {"nvmlInit", "nvmlShutdown"}:
            return None
        if name == "nvmlSystemGetDriverVersion":
            return b"570.86.15"
        if name == "nvmlDeviceGetCount":
            return len(self._cards)
        if name == "nvmlDeviceGetHandleByIndex":
            return self._cards[arguments[0]]
        if name == "nvmlDeviceGetHandleByUUID":
            return self._by_uuid(arguments[0])
        return self._about(name, *arguments)

    def _by_uuid(self, uuid: str) -> Any:
        every = [card for parent in self._cards for card in (parent, *(parent.mig or ()))]
        found = [card for card in every if card.uuid in {uuid, uuid.encode()}]
        if not found:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return found[0]

    def _about(self, name: str, card: Card, *arguments: Any) -> Any:
        if name in card.overrides:
            return _answer(card.overrides[name], *arguments)
        match name:
            case "nvmlDeviceGetName":
                return card.name
            case "nvmlDeviceGetUUID":
                return card.uuid
            case "nvmlDeviceGetMemoryInfo":
                return _answer(card.memory, *arguments)
            case "nvmlDeviceGetComputeRunningProcesses":
                return _answer(card.processes)
            case "nvmlDeviceGetMigMode" if card.mig is not None:
                return [int(bool(card.mig)), int(bool(card.mig))]
            case "nvmlDeviceGetMaxMigDeviceCount" if card.mig is not None:
                return 7
            case "nvmlDeviceGetMigDeviceHandleByIndex" if card.mig is not None:
                if arguments[0] >= len(card.mig):
                    raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
                return card.mig[arguments[0]]
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


def _answer(answer: Answer, *arguments: Any) -> Any:
    return answer(*arguments) if callable(answer) else answer
