"""A scenario document while a file is read into it."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, Final

from planner.imports.types import Imported, Param, Remark

SHOWN_CHARACTERS: Final = 80
_TRAINING_ONLY: Final = ("training", "adapter", "quantization_aware")
_SERVING_ONLY: Final = ("serving", "batching", "cache_tiers", "autoscale")


def shown(value: object) -> str:
    """A value of a file, short enough for a line."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"


class Draft:
    """The document, what was put into it, and the remarks. Used by one import and thrown away.

    Attributes:
        document: The question so far.
        taken: Fields that were put in.
        remarks: What is said of keys.
        models: Rows of the catalog by model id, where a file names its model in another way.
        known: How many keys of the file were known.
        told: Fields that a key of the file names straight.
    """

    def __init__(
        self, base: Mapping[str, Any], models: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        self.base = dict(base)
        self.document = deepcopy(self.base)
        self.models: Mapping[str, Mapping[str, Any]] = models or {}
        self.known = 0
        self.told: set[str] = set()
        self.taken: dict[str, Any] = {}
        self.remarks: list[Remark] = []

    def get(self, path: str) -> Any:
        """The value at a dotted path, None where there is none."""
        node: Any = self.document
        for part in path.split("."):
            node = node.get(part) if isinstance(node, dict) else None
        return node

    def put(self, path: str, value: Any) -> None:
        """Set a field; None takes it out. What stands in the way is replaced."""
        *parents, leaf = path.split(".")
        node = self.document
        for part in parents:
            if not isinstance(node.get(part), dict):
                node[part] = {}
            node = node[part]
        if value is None:
            node.pop(leaf, None)
        else:
            node[leaf] = value
            self.taken[path] = value

    def remark(self, key: str, value: object, reason: str, **params: Param) -> None:
        """Say something about a key."""
        self.remarks.append(
            Remark(key=key, value=shown(value), reason=reason, params=tuple(sorted(params.items())))
        )

    def train(self, runtime: str) -> None:
        """Make it a training question of a runtime; an adapter is added by `adapter`."""
        if self.document.get("task") == "serve":
            self.document.pop("parallel", None)
        self.runs_on(runtime)
        for block in _SERVING_ONLY:
            self.document.pop(block, None)
        if self.document.get("task") not in {"pretrain", "full"}:
            self.document["task"] = "full"
        self.document.pop("adapter", None)

    def serve(self, runtime: str) -> None:
        """Make it a serving question of an engine."""
        if self.document.get("task") != "serve":
            self.document.pop("parallel", None)
        elif self.get("runtime.name") not in {None, runtime}:
            self.document.pop("serving", None)
        self.runs_on(runtime)
        for block in _TRAINING_ONLY:
            self.document.pop(block, None)
        self.document["task"] = "serve"

    def adapter(self, method: str, *, quantized: bool) -> None:
        """Make it an adapter run."""
        self.put("task", "qlora" if quantized else "lora")
        self.put("adapter.method", method)

    def model(self, name: object) -> None:
        """The model by its name; a config of another model goes."""
        if isinstance(name, str) and name and name != self.get("model.id"):
            self.document["model"] = {}
            self.put("model.id", name)

    def cards(self, count: int, key: str) -> None:
        """How many cards the job has, where they are of one kind."""
        devices = self.get("hardware.devices")
        if not isinstance(devices, list) or not all(isinstance(row, dict) for row in devices):
            return
        have = sum(row.get("count", 1) for row in devices)
        if have == count:
            return
        if len(devices) > 1:
            self.remark(key, count, "mixed_cards", cards=have)
            return
        if self.get("parallel.data") is not None and "parallel.data" not in self.taken:
            self.put("parallel.data", None)
        devices[0]["count"] = count
        self.taken["hardware.devices.0.count"] = count

    def finished(self, source: str) -> Imported:
        """The outcome; a name that was given to another model or task goes."""
        if any(self.document.get(key) != self.base.get(key) for key in ("task", "model")):
            self.document.pop("name", None)
        return Imported(
            document=self.document,
            source=source,
            taken=tuple(self.taken.items()),
            remarks=tuple(self.remarks),
        )

    def runs_on(self, name: str) -> None:
        """The framework or engine; settings of another one go."""
        if self.get("runtime.name") not in {None, name}:
            self.document["runtime"] = {}
        self.put("runtime.name", name)


def leaves(document: object, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a document that is no object itself, with its dotted path."""
    if isinstance(document, Mapping):
        for name, value in document.items():
            yield from leaves(value, f"{path}.{name}" if path else str(name))
    else:
        yield path, document
