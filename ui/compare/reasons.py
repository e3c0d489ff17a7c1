"""Why a category differs between two plans: read off the entries of both ledgers and the fields that changed."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from planner.ledger import Category, Entry
from planner.plan_types import DevicePlan
from ui.compare.fields import FieldChange
from ui.compare.sides import Answered

MOST_REASONS: Final = 2
ENOUGH_FRAC: Final = 0.9
"""Share of a category's difference after which smaller causes are left out."""

PRECISION: Final = "training.precision"
TOKENS: Final = ("training.micro_batch", "training.sequence_length", "parallel.context")
CACHED: Final = ("workload.concurrency", "serving.max_model_len", "serving.max_total_tokens")
METHOD: Final = ("model", "task", "adapter.targets", "adapter.rank")
DIVISION: Final = ("parallel.sharding", "parallel.sharding_degree", "parallel.data", "parallel.tensor")

COUNTS_OF_LAYERS: Final = frozenset({"P", "L", "n_blocks"})
CONSTANTS: Final = frozenset({"c", "k", "w", "f"})
"""Symbols whose values say nothing to a reader."""

SYMBOL_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "t": (*TOKENS, "serving.batched_tokens"),
    "T": ("serving.batched_tokens",),
    "u": ("serving.batched_tokens",),
    "s": ("training.sequence_length", *CACHED),
    "b": ("training.micro_batch",),
    "S": ("serving.max_sequences", "workload.concurrency"),
    "rank": ("adapter.rank",),
    "N": DIVISION,
    "b_k": ("serving.kv_cache",),
    "b_v": ("serving.kv_cache_v", "serving.kv_cache"),
    "g": ("serving.max_sequences", "serving.cuda_graph_max_batch"),
}
"""Fields that set a symbol, most telling first."""

ENTRY_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "kv_cache": CACHED,
    "kv_cache_window": CACHED,
    "kv_cache_latent": CACHED,
}
"""Fields that set the count `n` of tokens in a cache."""

CATEGORY_FIELDS: Final[dict[Category, tuple[str, ...]]] = {
    Category.WEIGHTS: ("adapter.base", "serving.weights", "task", f"{PRECISION}.parameters", *DIVISION),
    Category.GRADIENTS: ("task", f"{PRECISION}.gradients", "training.optimizer.in_backward", *DIVISION),
    Category.OPTIMIZER: (
        *("parallel.offload.optimizer", "training.optimizer.name", "training.optimizer.implementation"),
        *(f"{PRECISION}.optimizer", f"{PRECISION}.master", "task", *DIVISION),
    ),
    Category.ACTIVATIONS: (
        *("training.checkpointing", "training.attention", "task", "adapter.method", "training.loss"),
        *(f"{PRECISION}.autocast", "runtime.name"),
    ),
    Category.LOGITS: ("training.loss", "runtime.name"),
    Category.KV_CACHE: ("serving.kv_cache", *CACHED),
    Category.COMMUNICATION: (
        "parallel.sharding",
        "parallel.data",
        "parallel.offload.optimizer",
        "runtime.name",
    ),
    Category.CONTEXT: ("runtime.name", "hardware.devices"),
    Category.ALLOCATOR: ("runtime.allocator", "serving.cuda_graphs", "runtime.name"),
}
"""Fields that decide which entries of a category there are, and by which formula."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One cause.

    Attributes:
        kind: `field`, `layers`, `card`, `stage` and `phase` (of the fullest card), `moment` (within a
            phase), `symbol`, `each`, `follows`, `gone`, `new` or `formula`.
        field: The field that changed, for `field`.
        entry: The entry it was read off.
        symbol: The symbol, for `symbol`.
        before: Its value in the first plan; for `each`, and for `field` unless 0, bytes for one parameter.
        after: Its value in the second plan.
    """

    kind: str
    field: FieldChange | None = None
    entry: str = ""
    symbol: str = ""
    before: float = 0
    after: float = 0

    @property
    def identity(self) -> tuple[object, ...]:
        """What makes two reasons the same: entries aside where the words do not name them."""
        if self.kind == "field" and self.field is not None:
            return ("field", self.field.path)
        if self.kind in {"layers", "card", "follows", "phase", "stage", "moment"}:
            return (self.kind,)
        if self.kind in {"each", "symbol"}:
            return (self.kind, self.symbol, self.before, self.after)
        return (self.kind, self.entry)


def reasons(
    first: Answered, second: Answered, category: Category, changes: Sequence[FieldChange]
) -> tuple[Reason, ...]:
    """The causes of a category's difference on the fullest cards, largest first, at most two.

    Args:
        first: What is compared with.
        second: What is compared.
        category: The category.
        changes: Fields that differ between them.
    """
    pairs = list(_pairs(first.worst, second.worst, category))
    pairs.sort(key=lambda pair: -abs(_size(pair[2]) - _size(pair[1])))
    total = sum(abs(_size(after) - _size(before)) for _, before, after in pairs)
    found: dict[tuple[object, ...], Reason] = {}
    explained = 0
    for name, before, after in pairs:
        delta = abs(_size(after) - _size(before))
        if not delta or explained >= ENOUGH_FRAC * total or len(found) >= MOST_REASONS:
            break
        explained += delta
        reason = _reason(first, second, name, before, after, changes)
        found.setdefault(reason.identity, reason)
    return tuple(found.values())


def _pairs(
    first: DevicePlan, second: DevicePlan, category: Category
) -> Iterator[tuple[str, tuple[Entry, ...], tuple[Entry, ...]]]:
    """Entries of one name in both, as far as they are alive at the two peaks."""
    before, after = (_by_name(device, category) for device in (first, second))
    for name in dict.fromkeys([*before, *after]):
        yield name, before.get(name, ()), after.get(name, ())


def _by_name(device: DevicePlan, category: Category) -> dict[str, tuple[Entry, ...]]:
    found: dict[str, tuple[Entry, ...]] = {}
    for entry in device.ledger.alive(device.peak_phase):
        if entry.category is category:
            found[entry.name] = (*found.get(entry.name, ()), entry)
    return found


def _size(entries: Iterable[Entry]) -> int:
    return sum(entry.bytes for entry in entries)


def _reason(
    first: Answered,
    second: Answered,
    name: str,
    before: tuple[Entry, ...],
    after: tuple[Entry, ...],
    changes: Sequence[FieldChange],
) -> Reason:
    if not before or not after:
        return _one_sided(first, second, name, (before or after)[0], changes, gone=bool(before))
    old, new = before[0], after[0]
    if _same_at_one_moment(first, second, name):
        return Reason(kind="phase", entry=name)
    if old.category is Category.ALLOCATOR:
        field = _field_reason(CATEGORY_FIELDS[old.category], changes, name)
        return field or Reason(kind="follows", entry=name)
    if old.formula == new.formula:
        return _symbol_reason(first, second, old, new, changes)
    field = _field_reason(CATEGORY_FIELDS[old.category], changes, name)
    each = _bytes_each(old, new)
    if field is not None and each is not None:
        return replace(field, before=each.before, after=each.after)
    return field or each or Reason(kind="formula", entry=name)


def _one_sided(
    first: Answered,
    second: Answered,
    name: str,
    entry: Entry,
    changes: Sequence[FieldChange],
    *,
    gone: bool,
) -> Reason:
    """An entry that only one of the two has at its peak: another moment, another setting, another share."""
    other = second if gone else first
    phases = first.worst.peak_phase, second.worst.peak_phase
    if phases[0] is not phases[1] and any(e.name == name for e in other.worst.ledger.entries):
        return Reason(kind="phase", entry=name)
    if first.worst.stage != second.worst.stage and any(_holds(device, name) for device in other.plan.devices):
        return Reason(kind="stage", entry=name)
    field = _field_reason(CATEGORY_FIELDS[entry.category], changes, name)
    return field or Reason(kind="gone" if gone else "new", entry=name)


def _symbol_reason(
    first: Answered, second: Answered, old: Entry, new: Entry, changes: Sequence[FieldChange]
) -> Reason:
    """The same formula with other values: told by a field that sets one of them, else by what it is."""
    values = dict(new.symbols)
    changed = [(s, was, values[s]) for s, was in old.symbols if s in values and values[s] != was]
    for symbol, _, _ in changed:
        field = _field_reason(_paths(symbol, old), changes, old.name)
        if field is not None:
            return field
    counted = any(symbol in COUNTS_OF_LAYERS for symbol, _, _ in changed)
    if counted and _layers(first) != _layers(second):
        return Reason(kind="layers", entry=old.name, before=_layers(first), after=_layers(second))
    if first.worst.peak_phase is not second.worst.peak_phase:
        return Reason(kind="phase", entry=old.name)
    if counted and first.plan.model.params_total == second.plan.model.params_total:
        return Reason(kind="moment", entry=old.name)
    if old.category is Category.CONTEXT and first.worst.gpu_id != second.worst.gpu_id:
        return Reason(kind="card", entry=old.name)
    for symbol, was, now in changed:
        if symbol not in CONSTANTS:
            return Reason(kind="symbol", entry=old.name, symbol=symbol, before=was, after=now)
    return Reason(kind="moment", entry=old.name)


def _paths(symbol: str, entry: Entry) -> tuple[str, ...]:
    """Fields that can set a symbol of an entry, most telling first."""
    if symbol == "P":
        return (*METHOD, *DIVISION)
    if symbol == "n":
        return ENTRY_FIELDS.get(entry.name, ())
    if symbol in {"e", "bits", "r"} or symbol.startswith("n_"):
        return CATEGORY_FIELDS[entry.category]
    return SYMBOL_FIELDS.get(symbol, ())


def _field_reason(paths: Iterable[str], changes: Sequence[FieldChange], name: str) -> Reason | None:
    """The first of these fields that changed, those that were asked for before those that followed."""
    listed = tuple(paths)
    for asked in (True, False):
        for path in listed:
            for change in changes:
                if change.path == path and change.asked is asked:
                    return Reason(kind="field", field=change, entry=name)
    return None


def _bytes_each(old: Entry, new: Entry) -> Reason | None:
    """Bytes for one parameter, where both formulas count parameters."""
    counts = [dict(entry.symbols).get("P") for entry in (old, new)]
    if not counts[0] or not counts[1]:
        return None
    return Reason(kind="each", entry=old.name, before=old.bytes / counts[0], after=new.bytes / counts[1])


def _same_at_one_moment(first: Answered, second: Answered, name: str) -> bool:
    """Whether the entries of a name differ only because the two peaks lie in different phases."""
    phase = first.worst.peak_phase
    if phase is second.worst.peak_phase:
        return False
    sizes = [
        _size(entry for entry in side.worst.ledger.alive(phase) if entry.name == name)
        for side in (first, second)
    ]
    return sizes[0] == sizes[1]


def _holds(device: DevicePlan, name: str) -> bool:
    return any(entry.name == name for entry in device.ledger.entries)


def _layers(side: Answered) -> int:
    first, last = side.worst.layers
    return last - first
