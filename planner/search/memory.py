"""Whether a variant fits on a card, with as few ledgers as can be.

A ledger depends on the card only by what its driver and libraries hold and, where the card is full, by its size; so one
ledger answers for all cards of a generation. Where weights, states and kept activations alone are too large, none is
made.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.accuracy.bands import band_row
from planner.hardware import Band, Gpu, Tables
from planner.ledger import Phase
from planner.memory.runtime import (
    WORKSPACE_THREADS,
    context_bytes,
    cublas_workspace_bytes,
    nccl_bytes,
    te_workspace_bytes,
)
from planner.model.spec import ModelSpec
from planner.placement import place
from planner.scenario import Scenario
from planner.search.facts import Facts, Rows
from planner.search.probes import REFERENCE_ID, placed, with_reference
from planner.search.space import Variant
from planner.search.types import Limits
from planner.training.gather import stays_gathered
from planner.training.gradients import gradient_phases
from planner.training.groups import total
from planner.training.ledgers import held_tensors, training_ledgers
from planner.training.loss import loss_entries
from planner.training.saved import held_layers
from planner.training.setup import Setup, setup_for
from planner.training.step import FORWARD_AND_LOSS, Step

SAFE_FRAC: Final = 0.98
"""Room for what a lower bound rounds: blocks of packed weights, shards that are not quite equal."""
STATES_A_PARAMETER: Final = {"adamw": 2, "adam": 2, "lamb": 2}
"""Elements of state that are certain; other optimizers count as none in the lower bound."""
BYTES_A_PARAMETER: Final = {"adamw_8bit": 2.0, "lion_8bit": 1.0}
"""Of states that are kept in blocks of bytes."""
PACKED_BYTES: Final = {"nf4": 0.5, "nf4_dq": 0.5, "gptq4": 0.5, "int8": 1.0, "gptq8": 1.0}
GRADIENTS_FROM: Final = 2
WEIGHTS_FROM: Final = 3
"""Stages of ZeRO that divide them."""
FULL: Final = 1
"""Usable bytes of a card that is always full: its allocator keeps the least it can."""

Key = tuple[int, int, int]
"""Variant, copies, micro-batch."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What the first stage of a variant holds, before any of it is sharded.

    Attributes:
        layers: Activations that one sequence keeps in it.
        loss_fixed: Logits and loss, whatever the micro-batch; 0 where the head is elsewhere.
        loss_slope: The same for each of its sequences.
        params: Parameters.
        trained: Those that get gradients.
        setup: The step in numbers.
    """

    layers: float
    loss_fixed: float
    loss_slope: float
    params: int
    trained: int
    setup: Setup


def _in_loss(step: Step) -> int:
    return sum(entry.bytes for entry in loss_entries(step) if Phase.LOSS in entry.phases)


class Memory:
    """Peaks of variants, each worked out once.

    Args:
        variants: The variants.
        facts: Of them.
        model: The model.
        tables: Cards and constants.
        limits: Sequences of a step, and whether a plan counts that fits by its low end only.
    """

    def __init__(
        self, variants: Sequence[Variant], facts: Facts, model: ModelSpec, tables: Tables, limits: Limits
    ) -> None:
        self.variants, self.facts, self.model, self.tables = variants, facts, model, tables
        self.sequences, self.accept_tight = limits.sequences, limits.accept_tight
        self.margin_frac = variants[0].resolved.hardware.margin_frac if variants else 0.0
        self.reference = with_reference(tables)
        self.ledgers = 0
        self.bands = [_band(v.resolved, tables) for v in variants]
        self._shrunk = np.array(
            [band.low_frac if self.accept_tight else band.high_frac for band in self.bands], np.float64
        )
        self._peaks: dict[tuple[str, Key], int] = {}
        self._seen: dict[tuple[str, int, int], list[int]] = {}
        self._divided: dict[tuple[str, int, int], list[int]] = {}
        self._kinds: dict[tuple[int, ...], tuple[Gpu, Tables]] = {}
        self._kept: dict[int, Kept] = {}
        self._bounds: NDArray[np.float64] | None = None

    def fits(self, key: Key, gpu: Gpu) -> bool:
        """Whether a variant fits; a smaller micro-batch or more copies that do not settle the rest.

        More sequences at once, with as many micro-batches in flight, never take less; neither do fewer cards to
        divide over, with as many sequences at once.
        """
        variant, data, batch = key
        kind = self._kind(gpu)[0].id
        if (kind, key) not in self._peaks:
            if self._is_too_large_on_more(kind, key, gpu):
                return False
            seen = self._seen.setdefault((kind, variant, data), [])
            for other in seen:
                if other < batch and self._alike(key, other) and not self._holds((variant, data, other), gpu):
                    return False
            least = self._least(key)
            if least < batch and not self._holds((variant, data, least), gpu):
                return False
        return self._holds(key, gpu)

    def _is_too_large_on_more(self, kind: str, key: Key, gpu: Gpu) -> bool:
        """Whether it does not even fit divided over more cards.

        One card alone has no buffers of other ranks; of a packed base each rank loads all before it keeps its part.
        """
        variant, data, batch = key
        base = self.variants[variant].resolved.adapter
        if data == 1 or (base is not None and base.base in PACKED_BYTES):
            return False
        wider = (one for one in self._divided.get((kind, variant, batch), ()) if one > data)
        return any(not self._holds((variant, one, batch), gpu) for one in wider)

    def _least(self, key: Key) -> int:
        """The smallest micro-batch that is like this one but for its size."""
        variant, data, batch = key
        least = batch
        while least % 2 == 0 and self._alike((variant, data, batch), least // 2):
            least //= 2
        return least

    def _alike(self, key: Key, other: int) -> bool:
        """Whether two micro-batches keep as many in flight and accumulate alike."""
        variant, data, batch = key
        if self.sequences % (data * other):
            return False
        here, there = (self.sequences // (data * size) for size in (batch, other))
        stages = self.variants[variant].pipeline
        return min(stages, here) == min(stages, there) and (here > 1) == (there > 1)

    def _holds(self, key: Key, gpu: Gpu) -> bool:
        return self.spare(key, gpu) >= 0

    def spare(self, key: Key, gpu: Gpu) -> int:
        """Bytes to spare by the rule of the verdict; below zero where it does not fit."""
        peak, usable = self.peak(key, gpu), gpu.usable_bytes or 0
        band = self.bands[key[0]]
        if self.accept_tight:
            return usable - round(peak * band.low_frac)
        return int(usable * (1 - self.margin_frac)) - round(peak * band.high_frac)

    def peak(self, key: Key, gpu: Gpu) -> int:
        """Fullest moment of the fullest card; its cache as there is room, or with `accept_tight` on a full card."""
        kind, tables = self._kind(gpu)
        known = kind.id, key
        if known not in self._peaks:
            self._peaks[known] = self._worked_out(key, kind, tables)
            self._seen.setdefault((kind.id, key[0], key[1]), []).append(key[2])
            self._divided.setdefault((kind.id, key[0], key[2]), []).append(key[1])
            self.ledgers += 1
        return self._peaks[known]

    def _worked_out(self, key: Key, kind: Gpu, tables: Tables) -> int:
        scenario = self.scenario(key, kind.id)
        shares = place(scenario, self.model, tables)
        ends = shares if len(shares) < 3 else (shares[0], shares[-1])
        ledgers = training_ledgers(ends, scenario, self.model, tables)
        return max(ledger.peak()[1] for ledger in ledgers)

    def scenario(self, key: Key, gpu_id: str) -> Scenario:
        """The resolved question of a plan."""
        variant, data, batch = key
        one = self.variants[variant]
        return placed(
            one.resolved, gpu_id, one.copy * data,
            data=data, micro_batch=batch, accumulation=self.sequences // (data * batch),
        )  # fmt: skip

    def _kind(self, gpu: Gpu) -> tuple[Gpu, Tables]:
        """A card of no known size, or a full one, that stands for all whose driver and libraries hold as much."""
        held = context_bytes(gpu, self.tables), cublas_workspace_bytes(gpu), te_workspace_bytes(gpu)
        if held not in self._kinds:
            usable = FULL if self.accept_tight else None
            stand_in = replace(gpu, id=f"search-{len(self._kinds)}", usable_bytes=usable)
            self._kinds[held] = stand_in, with_reference(self.tables, (stand_in,))
        return self._kinds[held]

    def limits(self, rows: Rows, gpu: Gpu) -> NDArray[np.float64]:
        """The most that peaks may be on a card beside what its driver and libraries hold always, shape (R,)."""
        usable = gpu.usable_bytes or 0
        most = usable if self.accept_tight else usable * (1 - self.margin_frac)
        held = context_bytes(gpu, self.tables) + WORKSPACE_THREADS * cublas_workspace_bytes(gpu)
        limits: NDArray[np.float64] = (most + 1) / self._shrunk[rows] - held
        return limits

    def floors(
        self,
        rows: Rows,
        data: NDArray[np.int64],
        accumulation: NDArray[np.int64],
        batches: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """Bytes that a card holds at the very least, driver and libraries apart: shape (R, B).

        Weights, gradients and states at the optimizer's step; weights, states, kept activations and logits in the
        loss, with gradients where those of earlier micro-batches are there; weights, states and gradients that are
        whole for a time in the backward pass.
        """
        if self._bounds is None:
            self._bounds = np.array([self._bound(i) for i in range(len(self.variants))], np.float64)
        found, facts = self._bounds[rows], self.facts
        stage, shards = facts.stage[rows], data * facts.context[rows]
        weights = found[:, 0] / np.where(stage >= WEIGHTS_FROM, shards, 1)
        gradients = found[:, 1] / np.where(stage >= GRADIENTS_FROM, shards, 1)
        states = found[:, 2] / np.where(stage >= 1, shards, 1)
        flying = np.minimum(facts.pipeline[rows][:, None], np.maximum(accumulation, 1))
        loss = found[:, 4][:, None] + found[:, 5][:, None] * batches[None, :]
        kept = found[:, 3][:, None] * batches[None, :] * flying + np.maximum(loss, 0)
        resting, gathered, whole = weights + states, *(np.where(shards > 1, found[:, i], 0) for i in (6, 7))
        stay = np.where(accumulation > 1, found[:, 9][:, None], found[:, 8][:, None]) * gradients[:, None]
        least: NDArray[np.float64] = SAFE_FRAC * np.maximum(
            (resting + gradients)[:, None],
            (resting + gathered)[:, None] + stay + np.maximum(kept, whole[:, None]),
        )
        degrees = data, facts.tensor[rows], facts.pipeline[rows], facts.context[rows]
        groups: NDArray[np.int64] = np.sum([degree > 1 for degree in degrees], axis=0)
        return least + nccl_bytes(1, self.tables) * groups[:, None]

    def _bound(self, index: int) -> tuple[float, ...]:
        """What a variant holds before any of it is sharded.

        Weights, gradients, states, activations of a sequence in flight, the loss's fixed part and that of a sequence;
        gathered weights and whole gradients of a pipeline's stage; whether gradients are there in the loss, with one
        micro-batch and with more.
        """
        found = self._layout(index)
        params, stepped, setup = found.params, found.trained, found.setup
        one = self.variants[index].resolved
        optimizer, offload = one.training.optimizer, one.parallel.offload
        elements = STATES_A_PARAMETER.get(optimizer.name, 0)
        states = BYTES_A_PARAMETER.get(optimizer.name, setup.state_bytes * elements)
        size = states + setup.master_bytes
        away = offload.optimizer != "none" or optimizer.paged
        without = optimizer.in_backward or offload.gradients != "none"
        stages = one.parallel.pipeline
        gathers = stages > 1 and one.parallel.sharding == "fsdp" and stays_gathered(setup, stages)
        whole = gathers and setup.adapter is None
        return (
            0.0 if offload.parameters != "none" else params * _weight_bytes(setup),
            0.0 if without else float(stepped * setup.gradient_bytes),
            0.0 if away else stepped * size,
            found.layers,
            found.loss_fixed,
            found.loss_slope,
            params * _weight_bytes(setup, setup.compute_bytes) if gathers else 0.0,
            float(stepped * setup.gradient_bytes) if whole else 0.0,
            *(float(Phase.LOSS in gradient_phases(_accumulated(setup, one, n))) for n in (1, 2)),
        )

    def _layout(self, index: int) -> "Kept":
        """What variants have in common that differ in sharding and optimizer only."""
        key = self.facts.layouts[index]
        if key not in self._kept:
            one = self.variants[index]
            scenario = placed(
                one.resolved, REFERENCE_ID, one.copy * 2, data=2, micro_batch=1, accumulation=one.pipeline
            )
            share = place(scenario, self.model, self.reference)[0]
            setup = setup_for(share, scenario, self.model)
            tensors, trained = held_tensors(share, self.model, setup)
            step = Step(replace(share, in_flight=1), setup, self.model, tensors, trained)
            away = one.resolved.training.activation_offload
            kept = 0 if away else sum(entry.bytes for entry in held_layers(step, FORWARD_AND_LOSS))
            logits = _in_loss(step)
            doubled = replace(setup, batch=2, tokens=2 * setup.tokens, target_tokens=2 * setup.target_tokens)
            slope = _in_loss(Step(step.share, doubled, self.model, tensors, trained)) - logits
            head = float(logits - slope), float(slope)
            self._kept[key] = Kept(float(kept), *head, total(tensors), total(trained), setup)
        return self._kept[key]


def _weight_bytes(setup: Setup, plain: int | None = None) -> float:
    """Bytes of a parameter at the least: packed, or as it is stored, or `plain`."""
    return PACKED_BYTES.get(setup.base or "", float(setup.param_bytes if plain is None else plain))


def _accumulated(setup: Setup, scenario: Scenario, micro_batches: int) -> Setup:
    """The step of a variant's own sharding, with that many micro-batches."""
    training = setup.training.model_copy(update={"gradient_accumulation": micro_batches})
    return replace(setup, training=training, parallel=scenario.parallel)


def _band(scenario: Scenario, tables: Tables) -> Band:
    """The band of the peak; the peak itself where there is none."""
    found = band_row(scenario, tables)
    if found is not None:
        return found[1]
    return Band(
        runtime="*", task="*", layer="device", n_rows=0, low_frac=1.0, high_frac=1.0, made_on="", source=""
    )
