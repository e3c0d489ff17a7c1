"""The ledger: every byte is an entry with a category, the phases it lives in, its formula and its reference.

Formula, trace and measurement all write this. A device's peak is the largest sum over one phase.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import accumulate
from typing import Final, NamedTuple

from planner.lazy import lazy


class _Name(StrEnum):
    """A name that hashes like the text it equals, at its speed (an `Enum` hashes its own name, in Python)."""

    __hash__ = str.__hash__


class Category(_Name):
    """Where memory goes, in stacking order."""

    WEIGHTS = "weights"
    GRADIENTS = "gradients"
    OPTIMIZER = "optimizer_states"
    ACTIVATIONS = "activations"
    LOGITS = "logits_and_loss"
    KV_CACHE = "kv_cache"
    COMMUNICATION = "communication"
    CONTEXT = "cuda_context"
    ALLOCATOR = "allocator_cache"


class Phase(_Name):
    """Moments of a job, in order. `REST` lies between two steps, with optimizer states in place."""

    LOAD = "load"
    REST = "rest"
    FORWARD = "forward"
    LOSS = "loss"
    BACKWARD = "backward"
    OPTIMIZER_STEP = "optimizer_step"
    PREFILL = "prefill"
    DECODE = "decode"


class Layer(_Name):
    """Who counts the bytes: PyTorch's live tensors, its cache, the process, the whole device."""

    ALLOCATED = "allocated"
    RESERVED = "reserved"
    PROCESS = "process"
    DEVICE = "device"


TRAINING_PHASES = (Phase.REST, Phase.FORWARD, Phase.LOSS, Phase.BACKWARD, Phase.OPTIMIZER_STEP)
SERVING_PHASES = (Phase.REST, Phase.PREFILL, Phase.DECODE)
LAYER_ORDER = tuple(Layer)
ALWAYS = frozenset(Phase)

Symbol = tuple[str, int | float]


class Entry(NamedTuple):
    """One term of the sum. A tuple, as plans make hundreds of them and it is made twice as fast as a dataclass.

    Attributes:
        category: Where it is stacked.
        name: Stable id of what it is (`saved_activations`, `logits_fp32`, ...); locale files word it.
        bytes: Size on this device.
        phases: Phases in which it is alive at the phase's fullest moment.
        formula: The formula in symbols, such as ``b*s*V*4``.
        symbols: Each symbol with the value put in, in order of appearance.
        reference: Key into `planner.references`.
        layer: The innermost layer that counts it.
        estimate: True for a fitted or rule-of-thumb size (drawn hatched), False for a closed form.
        moment: Where a ledger keeps every moment of a phase: the number of its own, and of the moment within it.
    """

    category: Category
    name: str
    bytes: int
    phases: frozenset[Phase]
    formula: str
    symbols: tuple[Symbol, ...]
    reference: str
    layer: Layer = Layer.ALLOCATED
    estimate: bool = False
    moment: tuple[int, ...] = ()

    def alive_in(self, phases: frozenset[Phase]) -> "Entry":
        """The same in other phases; faster than `_replace`."""
        return entry_of((*self[:3], phases, *self[4:]))


entry_of: Final = partial(tuple.__new__, Entry)
"""Makes an entry of all its values in order, in a third of the time that naming them takes."""


@dataclass(frozen=True)
class Ledger:
    """The entries of one device, all of them bytes on the device; host memory is in `Plan.host`.

    Args:
        entries: Every term; zero-byte terms may be left out.
        phases: The phases this job passes through, in order.
    """

    entries: tuple[Entry, ...]
    phases: tuple[Phase, ...]

    def phase_bytes(self, phase: Phase, layer: Layer = Layer.DEVICE) -> int:
        """Bytes alive in `phase`, counting every layer up to and including `layer`."""
        return self._totals[phase][LAYER_ORDER.index(layer)]

    def peak(self, layer: Layer = Layer.DEVICE) -> tuple[Phase, int]:
        """The fullest phase and its bytes."""
        rank = LAYER_ORDER.index(layer)
        sizes = [self._totals[phase][rank] for phase in self.phases]
        most = max(sizes)
        return self.phases[sizes.index(most)], most

    def by_category(self, phase: Phase, layer: Layer = Layer.DEVICE) -> dict[Category, int]:
        """Bytes alive in `phase` by category, in stacking order; empty categories left out."""
        allowed = LAYER_ORDER[: LAYER_ORDER.index(layer) + 1]
        totals: dict[Category, int] = {}
        for category in Category:
            total = sum(
                e.bytes
                for e in self.entries
                if e.category is category and phase in e.phases and e.layer in allowed
            )
            if total:
                totals[category] = total
        return totals

    def category_bytes(self, phase: Phase, category: Category, but: Phase | None = None) -> int:
        """Allocated bytes of one category alive in `phase`, those alive in `but` left out."""
        size = 0
        for entry in self._allocated.get(category, ()):
            if phase in entry.phases and (but is None or but not in entry.phases):
                size += entry.bytes
        return size

    def alive(self, phase: Phase) -> tuple[Entry, ...]:
        """Entries alive in `phase`, largest first."""
        return tuple(sorted((e for e in self.entries if phase in e.phases), key=lambda e: -e.bytes))

    def total(self, *names: str) -> int:
        """Bytes of the entries called one of `names`, whatever their phases."""
        return sum(e.bytes for e in self.entries if e.name in names)

    def with_entry(self, entry: Entry) -> "Ledger":
        """The same with one entry more (left out if empty); what was added up so far is not added up again."""
        if not entry.bytes:
            return self
        more = Ledger((*self.entries, entry), self.phases)
        totals, rank = dict(self._totals), LAYER_ORDER.index(entry.layer)
        for phase in entry.phases.intersection(totals):
            sizes = totals[phase]
            totals[phase] = (*sizes[:rank], *[size + entry.bytes for size in sizes[rank:]])
        more.__dict__["_totals"] = totals
        return more

    @lazy
    def _allocated(self) -> dict[Category, list[Entry]]:
        found: dict[Category, list[Entry]] = {}
        for entry in self.entries:
            if entry.layer is Layer.ALLOCATED:
                found.setdefault(entry.category, []).append(entry)
        return found

    @lazy
    def _totals(self) -> dict[Phase, tuple[int, ...]]:
        """Bytes alive in each phase, up to each layer."""
        alike: dict[tuple[frozenset[Phase], Layer], int] = {}
        for entry in self.entries:
            key = entry.phases, entry.layer
            alike[key] = alike.get(key, 0) + entry.bytes
        sums = {phase: [0] * len(LAYER_ORDER) for phase in self.phases}
        for (phases, layer), size in alike.items():
            rank = LAYER_ORDER.index(layer)
            for phase, by_layer in sums.items():
                if phase in phases:
                    by_layer[rank] += size
        return {phase: tuple(accumulate(by_layer)) for phase, by_layer in sums.items()}


def make_ledger(entries: Iterable[Entry], phases: tuple[Phase, ...]) -> Ledger:
    """A ledger without its empty entries."""
    return Ledger(tuple([entry for entry in entries if entry.bytes]), phases)
