"""The decision tree of the founding articles, put to the same machines as the search.

Below a billion parameters: one card in bf16. Else ZeRO-2; where that does not fit, checkpointing; then the optimizer's
states on the host. The tree knows neither price nor time, so each machine gets the first step that fits on it.
"""

from typing import Final

from planner.hardware import Tables
from planner.model.spec import ModelSpec
from planner.scenario import Runtime, Scenario
from planner.search.engine import Engine
from planner.search.space import Changes, Variant, variant, without_cards
from planner.search.types import Limits

SMALL_PARAMS: Final = 1_000_000_000
ZERO2: Final[Changes] = {"parallel.sharding": "zero2"}
STEPS: Final[tuple[tuple[str, Changes], ...]] = (
    ("zero2", {**ZERO2, "training.checkpointing": "none"}),
    ("checkpointing", {**ZERO2, "training.checkpointing": "full"}),
    ("offload", {**ZERO2, "training.checkpointing": "full", "parallel.offload.optimizer": "cpu"}),
)
ONE_CARD: Final[Changes] = {"training.precision.compute": "bf16", "training.checkpointing": "none"}


def tree_engine(
    question: Scenario, model: ModelSpec, tables: Tables, limits: Limits
) -> tuple[Engine, tuple[str, ...]]:
    """A search over the tree's steps alone, and the steps' names in order."""
    base = without_cards(question)
    small = model.params_total < SMALL_PARAMS
    if not small:
        base = base.model_copy(update={"runtime": Runtime(name="deepspeed")})
    steps = (("one_card", ONE_CARD),) if small else STEPS
    made = tuple(_variant(base, model, changes) for _, changes in steps)
    return Engine(question, made, model, tables, limits), tuple(name for name, _ in steps)


def _variant(base: Scenario, model: ModelSpec, changes: Changes) -> Variant:
    settings: dict[str, str | int] = {
        "framework": base.runtime.name,
        "method": base.task,
        "states": "own",
        "compute": "own",
        "optimizer": base.training.optimizer.name,
        "checkpointing": str(changes["training.checkpointing"]),
        "tensor": 1,
        "pipeline": 1,
        "context": 1,
        "sharding": str(changes.get("parallel.sharding", "none")),
        "offload": "optimizer" if "parallel.offload.optimizer" in changes else "none",
    }
    return variant(base, model, settings, changes)
