"""Megatron-LM of 2021: a step's gradients outlive it, by hand and through the allocator's rules.

Each parameter's `main_grad` names the gradient that was reduced last, and `zero_grad` drops `grad` alone; main
gradients in fp32 are replaced, never dropped. So the backward pass has two sets of 16-bit gradients.
"""

from collections.abc import Iterable
from typing import Any

import pytest

from planner.ledger import Category, Ledger, Phase
from planner.units import MIB
from profiler.allocator.caching import CachingAllocator
from tests.planner.training import cases

BATCHES = 4


SMALL_VOCABULARY = {**cases.GPT2, "vocab_size": 512}
LAST_MATRIX = 3072 * 768 + 768
"""Elements of the matrix whose gradient comes at a layer's fullest moment, with its bias."""


def ledger(version: str, batches: int = BATCHES) -> Ledger:
    precision = {
        "parameters": "fp16", "compute": "fp16", "gradients": "fp16", "gradient_copy": "fp32", "master": "fp32",
        "optimizer": "fp32",
    }  # fmt: skip
    training: dict[str, Any] = {
        "sequence_length": 512, "micro_batch": 1, "checkpointing": "full", "precision": precision,
        "gradient_accumulation": batches, "optimizer": {"name": "adamw", "implementation": "fused"},
    }  # fmt: skip
    runtime = {"name": "megatron_lm", "version": version}
    return cases.ledger(SMALL_VOCABULARY, runtime=runtime, training=training)


@pytest.mark.parametrize(
    ("phase", "each", "coming"),
    [
        (Phase.REST, 2 + 4, 0),
        (Phase.FORWARD, 2 + 4, 0),
        (Phase.BACKWARD, 2 + 2 + 4, LAST_MATRIX),
        (Phase.OPTIMIZER_STEP, 2 + 4, 0),
    ],
)
def test_gradients_by_phase(phase: Phase, each: int, coming: int) -> None:
    """Bytes a parameter: the last step's or this one's, both in the backward pass, and main gradients in fp32."""
    found = ledger("2021-05")
    params = found.total("master_weights") // 4
    assert found.total("flattened_gradients") == 2 * params
    assert found.category_bytes(phase, Category.GRADIENTS) == each * params + 2 * coming


def test_a_single_micro_batch_has_no_gradient_to_add_to() -> None:
    """Its gradients come one by one, beside those of the step before."""
    whole = [e for e in ledger("2021-05", 1).entries if e.name == "gradients" and Phase.REST in e.phases]
    assert [Phase.BACKWARD in e.phases for e in whole] == [False]


def test_later_versions_have_buffers() -> None:
    found = ledger("2022-05")
    assert found.total("last_gradients") == found.total("flattened_gradients") == 0


class Loop:
    """A loop with these lifetimes, through the allocator's rules: matrices of twelve layers, checkpointed."""

    layer = (16 * MIB, 16 * MIB, 32 * MIB, 32 * MIB)

    def __init__(self) -> None:
        self.device, self.peak, self._names = CachingAllocator(), 0, iter(range(1_000_000))

    def made(self, sizes: Iterable[int]) -> list[int]:
        new = []
        for size in sizes:
            new.append(next(self._names))
            self.device.allocate(new[-1], size)
        self.peak = max(self.peak, self.device.count.allocated)
        return new

    def gone(self, blocks: Iterable[int]) -> None:
        for block in blocks:
            self.device.free(block)

    def backward(self, *, adds: bool) -> list[int]:
        """A micro-batch's gradients, or none where they are added to earlier ones."""
        inputs = self.made([12 * MIB] * 12)
        new: list[int] = []
        for _ in range(12):
            working = self.made([12 * MIB] * 6)
            for size in self.layer:
                come = self.made([2 * size])
                new += () if adds else come
                self.gone(come if adds else ())
            self.gone([*working, inputs.pop()])
        return new

    def run(self, steps: int) -> None:
        params = self.layer * 12
        self.made([2 * p for p in params] + [4 * p for p in params])
        old: list[int] = []
        main: list[int] = []
        for _ in range(steps):
            new = [block for n in range(BATCHES) for block in self.backward(adds=n > 0)]
            self.gone(old)
            self.gone(self.made([2 * sum(params)]))
            old, first = new, not main
            if first:
                main = self.made(4 * p for p in params)
                self.made([4 * p for p in params] * 2)
            for i, size in enumerate(() if first else params):
                again = self.made([4 * size])
                self.gone([main[i]])
                main[i : i + 1] = again


def test_the_allocator_keeps_a_set_more_than_the_flat_one() -> None:
    """26 bytes a parameter are reserved beside the activations, as the cache has it.

    Main gradients are made anew one by one (`.float()`) and settle where the flat one was.
    """
    loop = Loop()
    loop.run(4)
    total = sum(loop.layer) * 12
    activations = loop.peak - 22 * total
    assert 0 < activations < total
    assert loop.device.count.reserved == pytest.approx(26 * total + activations, rel=0.03)
