"""A user's own model as `package.module:factory`: what of a scenario applies to it. No PyTorch."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from planner.plan_types import Plan
from planner.scenario import Scenario
from profiler.allocator.settings import AllocatorSettings
from profiler.documents import Remark
from profiler.trace.module_source import ModuleSource
from profiler.trace.request import Asked, Capability, ask

ANY_CARD: Final = (9, 0)
"""Compute capability whose kernels are taken where no card is named."""

STAND_IN: Final[dict[str, Any]] = {
    "model_type": "gpt2", "n_embd": 64, "n_layer": 1, "n_head": 1, "vocab_size": 64, "n_positions": 64,
}  # fmt: skip
"""A plan needs a model; of this one's only the training settings and the card are used."""


def plain_question(gpu: str) -> dict[str, Any]:
    """The scenario that is meant where none is given: AdamW, in the model's own format.

    Args:
        gpu: Id of a card, or `unknown`.
    """
    return {
        "version": 1,
        "task": "full",
        "model": {"config": dict(STAND_IN)},
        "hardware": {"devices": [{"gpu": gpu}]},
        "training": {
            "sequence_length": 32,
            "checkpointing": "none",
            "precision": {"parameters": "fp32", "compute": "fp32", "autocast": False},
        },
    }


def ask_module(
    plan: Plan, capability: Capability | None, source: ModuleSource, settings: AllocatorSettings | None = None
) -> Asked:
    """Everything a start needs, with the module in place of the scenario's model.

    Args:
        plan: The plan whose training settings and card are used.
        capability: CUDA compute capability of its card, None where no card is named.
        source: The module.
        settings: The allocator's; None: as the scenario's runtime says.
    """
    asked = ask(plan, capability or ANY_CARD, settings)
    return replace(
        asked,
        scenario=asked.scenario | {"model": {"config": {"model_type": source.target}}},
        config={},
        options=asked.options.model_copy(update={"module": source}),
        refused=asked.refused + tuple(_not_for_a_module(plan.resolved)),
    )


def _not_for_a_module(scenario: Scenario) -> Iterator[Remark]:
    """What is done to a transformers model and cannot be done to any other."""
    training = scenario.training
    asked = {
        "task": (scenario.task, ("full", "pretrain")),
        "training.loss": (training.loss, (None, "standard")),
        "training.packing": (training.packing, (None, "none")),
        "training.checkpointing": (training.checkpointing, (None, "none")),
    }
    for field, (given, allowed) in asked.items():
        if given not in allowed:
            names = ", ".join(name for name in allowed if name)
            yield Remark(code="not_for_a_module", field=field, params={"given": given, "allowed": names})
