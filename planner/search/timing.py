"""Step times of every variant and micro-batch on a number of cards, as one array."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter, itemgetter
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from planner.hardware import Gpu, Tables
from planner.model.spec import ModelSpec
from planner.search.facts import Rows, facts_of
from planner.search.probes import (
    OF_CARD,
    PER_SHARD,
    PLAIN,
    SHARES,
    CardRates,
    Course,
    card_rates,
    course,
    per_shard,
    with_reference,
)
from planner.search.space import Variant
from planner.search.wiring import CardLinks, Sender, Volume
from planner.throughput.step_work import StepWork
from planner.throughput.training_time import runtime_factor, step_parts, training_rates
from planner.throughput.types import Unknown

Floats = NDArray[np.float64]
Part = TypeVar("Part")
TRAFFIC: Final = ("inside", "outside", "rings", "hops", "local")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Variants that can be laid out on a number of cards, with what their links carry.

    Attributes:
        rows: Positions in the list of variants, R of them.
        data: Copies of the model, shape (R,).
        accumulation: Micro-batches of a step, shape (R, B); 0 where the micro-batch does not divide the batch.
        plain: Numbers of `PLAIN`, each (R, B).
        per_shard: Numbers of `PER_SHARD`, each (R, B).
        bubble: Idle over busy time, (R, B).
        one: In-the-way volumes by `TRAFFIC` for a micro-batch of one sequence, each (R,).
        two: Of two.
        states: Gathering and reducing.
        once: The same once a step.
        factor: Of the runtime, (R,).
    """

    rows: NDArray[np.intp]
    data: NDArray[np.int64]
    accumulation: NDArray[np.int64]
    plain: dict[str, Floats]
    per_shard: dict[str, Floats]
    bubble: Floats
    one: dict[str, Floats]
    two: dict[str, Floats]
    states: dict[str, Floats]
    once: dict[str, Floats]
    factor: Floats

    def of(self, chosen: NDArray[np.bool_]) -> "Grid":
        """Some of the rows."""
        if chosen.all():
            return self
        return Grid(**{item.name: _chosen(getattr(self, item.name), chosen) for item in fields(self)})


def _chosen(value: Any, chosen: NDArray[np.bool_]) -> Any:
    if isinstance(value, dict):
        return {name: array[chosen] for name, array in value.items()}
    return value[chosen]


class Clock:
    """Step times of a list of variants; what cards have in common is worked out once.

    Args:
        variants: The variants.
        model: The model.
        tables: Cards, servers, constants.
        micro_batches: Sizes, ascending.
        sequences: Of an optimizer step.
    """

    def __init__(
        self,
        variants: Sequence[Variant],
        model: ModelSpec,
        tables: Tables,
        micro_batches: Sequence[int],
        sequences: int,
    ) -> None:
        self.variants, self.model, self.tables = variants, model, tables
        self.reference = with_reference(tables)
        self.rates = training_rates(tables)
        self.batches = np.array(micro_batches, np.int64)
        self.sequences = sequences
        self.facts = facts_of(variants)
        self._courses: dict[int, Course] = {}
        self._sharded: dict[tuple[int, int], dict[str, float]] = {}
        self._senders: dict[int, Sender] = {}
        self._ways: dict[tuple[int, int, int], tuple[Volume, Volume]] = {}
        self._states: dict[tuple[int, int, int], tuple[Volume, Volume]] = {}
        self._grids: dict[tuple[int, int, int], Grid] = {}
        self._cards: dict[tuple[int, str], CardRates] = {}
        self._has_experts = any(v.resolved.parallel.expert > 1 for v in variants)
        self._factors = np.array([runtime_factor(v.resolved.runtime, tables) for v in variants], np.float64)

    def grid(self, devices: int, per_node: int, most_tensor: int) -> Grid | None:
        """The variants that fill `devices` cards; None if there are none.

        Args:
            devices: Cards.
            per_node: Those of them that reach each other without the network.
            most_tensor: Largest tensor-parallel group.
        """
        key = devices, per_node, most_tensor
        if key not in self._grids:
            self._grids[key] = self._grid(self._rows(devices, most_tensor), devices, per_node)
        found = self._grids[key]
        return found if len(found.rows) else None

    def _rows(self, devices: int, most_tensor: int) -> Rows:
        """Variants whose copies fill the cards and divide the batch; sharding needs something to shard over."""
        facts = self.facts
        data = devices // facts.copy
        fills = (devices % facts.copy == 0) & (self.sequences % np.maximum(1, data) == 0)
        alone = data * facts.context == 1
        vain = facts.sharded & alone & ~facts.offloads
        rows: Rows = np.flatnonzero(
            fills & (facts.tensor <= most_tensor) & ~vain & (devices <= facts.most_cards)
        )
        return rows

    def _grid(self, rows: Rows, devices: int, per_node: int) -> Grid:
        facts = self.facts
        data = devices // facts.copy[rows]
        each = data[:, None] * self.batches[None, :]
        accumulation = np.where(self.sequences % each == 0, self.sequences // each, 0)
        m = np.maximum(accumulation, 1)
        courses = _Spread(facts.layouts, rows, lambda i, _: self.course(i), data)
        ways = _Spread(facts.layouts, rows, lambda i, n: self._way(i, n, per_node), data)
        states = _Spread(facts.reducers, rows, lambda i, n: self._state(i, n, per_node), data)
        amounts = _Spread(facts.steps if self._has_experts else facts.optimizers, rows, self.sharded, data)
        shards = np.where(facts.sharded[rows], data * facts.context[rows], 1)[:, None]
        per_shard = {
            name: amounts.each(map(itemgetter(name), amounts.found))[:, None] / shards
            + np.zeros_like(m, np.float64)
            for name in PER_SHARD
        }
        host = courses.each(one.activation_host for one in courses.found)[:, None]
        per_shard["host_s"] = per_shard["host_s"] + host * m * self.batches
        fixed, slopes = [one.fixed for one in courses.found], [one.slopes for one in courses.found]
        plain = {
            name: courses.each(map(itemgetter(name), fixed))[:, None]
            + courses.each(map(itemgetter(name), slopes))[:, None] * self.batches
            for name in PLAIN
        }
        return Grid(
            rows=rows,
            data=data,
            accumulation=accumulation,
            plain=plain,
            per_shard=per_shard,
            bubble=courses.each(one.bubble for one in courses.found)[:, None] / m,
            one=_volumes(ways, 0),
            two=_volumes(ways, 1),
            states=_volumes(states, 0),
            once=_volumes(states, 1),
            factor=self._factors[rows],
        )

    def course(self, index: int) -> Course:
        """How a variant's work grows."""
        key = int(self.facts.layouts[index])
        if key not in self._courses:
            self._courses[key] = course(self.variants[index], self.model, self.reference)
        return self._courses[key]

    def sharded(self, index: int, data: int) -> dict[str, float]:
        """The optimizer's step; experts are sharded by steps, so that every number of copies has its own."""
        variant = self.variants[index]
        parts = variant.resolved.parallel.expert > 1
        key = (int(self.facts.steps[index]), data) if parts else (int(self.facts.optimizers[index]), 0)
        if key not in self._sharded:
            self._sharded[key] = per_shard(
                variant, self.model, self.reference, self.course(index), data if parts else 2
            )
        return self._sharded[key]

    def _sender(self, index: int) -> Sender:
        key = int(self.facts.courses[index])
        if key not in self._senders:
            passes = self.course(index).fixed["layer_passes"]
            self._senders[key] = Sender(self.variants[index], self.model, self.reference, passes)
        return self._senders[key]

    def _way(self, index: int, data: int, per_node: int) -> tuple[Volume, Volume]:
        variant = self.variants[index]
        layout = int(self.facts.layouts[index])
        key = layout, data, per_node
        if variant.resolved.parallel.expert == 1:
            near = data * variant.tensor * variant.context < per_node
            key = layout, -1 if near else 0, min(per_node, variant.tensor * variant.context)
        if key not in self._ways:
            self._ways[key] = self._sender(index).in_the_way(data, per_node)
        return self._ways[key]

    def _state(self, index: int, data: int, per_node: int) -> tuple[Volume, Volume]:
        variant = self.variants[index]
        near = min(per_node, variant.tensor * variant.context * data)
        key = int(self.facts.reducers[index]), data, near
        if key not in self._states:
            self._states[key] = self._sender(index).states(data, near)
        return self._states[key]

    def card(self, formats: int, gpu: Gpu) -> CardRates:
        """The card's own numbers in one set of formats."""
        key = formats, gpu.id
        if key not in self._cards:
            variant = self.variants[self.facts.formats.index(formats)]
            self._cards[key] = card_rates(variant, gpu.id, self.model, self.tables)
        return self._cards[key]

    def times(
        self, grid: Grid, gpu: Gpu, links: CardLinks, devices: int
    ) -> tuple[Floats, tuple[Unknown, ...]]:
        """Seconds of a step, shape (R, B): infinite where the batch is not divided; and what no time is known for.

        Returns:
            Times, NaN where the tables lack a figure, and what is lacking there.
        """
        facts = self.facts
        kinds, position = np.unique(facts.format_array[grid.rows], return_inverse=True)
        found = [self.card(int(kind), gpu) for kind in kinds]
        missing = tuple(dict.fromkeys(item for one in found for item in one.missing))
        known = np.array([not one.missing for one in found])[position]
        lacking = _lacking(gpu, links, devices)
        if lacking:
            known[:], missing = False, (*missing, *lacking)
        offloads = facts.offloads[grid.rows]
        if links.host is None and offloads.any():
            known, missing = known & ~offloads, (*missing, Unknown(code="no_host_link", gpu_id=gpu.id))
        cards = {
            name: np.array([one.values.get(name, 1.0) for one in found])[position][:, None]
            for name in OF_CARD
        }
        numbers: dict[str, Any] = {**cards, **grid.plain, **grid.per_shard, **self._waits(grid, links)}
        numbers["host_s"] = numbers["host_s"] / (links.host or 1.0)
        numbers["micro_batches"] = np.maximum(grid.accumulation, 1)
        numbers["bubble_frac"] = grid.bubble
        total = step_parts(StepWork(**numbers), self.rates).total * grid.factor[:, None]
        total = np.where(grid.accumulation > 0, total, np.inf)
        return np.where(known[:, None] | np.isinf(total), total, np.nan), missing

    def _waits(self, grid: Grid, links: CardLinks) -> dict[str, Floats]:
        batch = self.batches[None, :].astype(np.float64)
        one, two = _seconds(grid.one, links), _seconds(grid.two, links)
        way = {name: one[name] + (two[name] - one[name]) * (batch - 1) for name in one}
        states, once = _seconds(grid.states, links), _seconds(grid.once, links)
        shares = dict.fromkeys(SHARES, NONE)
        return {
            **_named("", way, links),
            **_named("state_", states, links),
            **_named("once_", once, links),
            **shares,
        }


NONE: Final = np.zeros((1, 1))


def _named(prefix: str, found: dict[str, Floats], links: CardLinks) -> dict[str, Floats]:
    fabric, inside = links.kind == "fabric", found["inside"]
    return {
        f"{prefix}fabric_s": inside if fabric else NONE,
        f"{prefix}pcie_s": NONE if fabric else inside,
        f"{prefix}network_s": found["outside"],
        f"{prefix}hops": found["hops"],
    }


def _seconds(volumes: dict[str, Floats], links: CardLinks) -> dict[str, Floats]:
    """Ideal seconds: a ring between nodes uses the network cards of all its ranks in a node, up to the peer rate."""
    local = volumes["local"]
    network, peer = links.network or 1.0, links.peer or np.inf
    rate = np.where(local > 1, np.minimum(network * local, peer), network)
    return {
        "inside": (volumes["inside"] / (links.peer or 1.0))[:, None],
        "outside": (volumes["outside"] / network + volumes["rings"] / rate)[:, None],
        "hops": volumes["hops"][:, None],
    }


def _lacking(gpu: Gpu, links: CardLinks, devices: int) -> tuple[Unknown, ...]:
    found = []
    per_node = min(links.domain, devices)
    if devices > 1 and per_node > 1 and links.peer is None:
        found.append(Unknown(code="no_peer_link", gpu_id=gpu.id))
    if devices > per_node and links.network is None:
        found.append(Unknown(code="no_network_rate", gpu_id=gpu.id))
    return tuple(found)


class _Spread(Generic[Part]):
    """What is asked once for all variants that have it in common, spread over the rows.

    Args:
        keys: Equal for those variants; of all, (V,).
        rows: Variants that are asked for, (R,).
        ask: Answers for a variant and its copies of the model.
        data: Copies, (R,); equal where the keys are.
    """

    def __init__(
        self, keys: NDArray[np.int64], rows: Rows, ask: Callable[[int, int], Part], data: NDArray[np.int64]
    ) -> None:
        _, first, self.position = np.unique(keys[rows], return_index=True, return_inverse=True)
        self.found = [ask(int(rows[i]), int(data[i])) for i in first]

    def each(self, numbers: Iterable[float]) -> Floats:
        """A number of every answer, spread over the rows: (R,)."""
        return np.array(list(numbers), np.float64)[self.position]


def _volumes(spread: _Spread[tuple[Volume, Volume]], which: int) -> dict[str, Floats]:
    """Of each row, (R,)."""
    found = [pair[which] for pair in spread.found]
    return {name: spread.each(map(attrgetter(name), found)) for name in TRAFFIC}
