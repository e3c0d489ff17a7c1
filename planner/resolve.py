"""Fills absent fields with the runtime's defaults, and keeps a list of what it filled in."""

from typing import Any, Final, TypeVar

from pydantic import BaseModel

from planner.model.native_size import native_tokens
from planner.model.own_tokens import length_left_out, own_tokens
from planner.model.spec import ModelSpec
from planner.runtimes import profile_for
from planner.runtimes.profile import Value
from planner.scenario import Scenario

Block = TypeVar("Block", bound=BaseModel)
BY_RUNTIME: Final = frozenset({"parallel.offload.gradients"})
"""Fields whose own default gives way to a runtime's habit where the question does not name them."""


def resolve(scenario: Scenario, model: ModelSpec) -> tuple[Scenario, tuple[tuple[str, str], ...]]:
    """The scenario with every default of its runtime filled in, and the (field, value) pairs that were.

    Only fields that are None, or of `BY_RUNTIME` and not given, are filled; a block that is absent altogether (such as
    `adapter`) stays absent. Of a length that the model has by itself, see `of_model`.
    Stages laid out by hand say how many there are, how wide, and in how many copies.
    """
    scenario = apply(scenario, of_stages(scenario))
    defaults = profile_for(scenario.runtime.name).defaults(scenario, model)
    filled = {path: value for path, value in defaults.items() if _is_absent(scenario, path)}
    filled |= of_model(scenario, model)
    kept = _kept_to(scenario, model)
    return apply(scenario, filled | kept), tuple((path, str(value)) for path, value in filled.items())


def of_model(scenario: Scenario, model: ModelSpec) -> dict[str, Value]:
    """Lengths that the question leaves out and the model has: a denoiser's picture, tokens that are a model's own."""
    training, own = scenario.training, own_tokens(model)
    length = native_tokens(model.latents) if model.latents else length_left_out(model)
    if not scenario.is_training:
        absent = model.latents is not None and scenario.serving.max_model_len is None
        return {"serving.max_model_len": length} if absent and length else {}
    found: dict[str, Value] = {}
    if length and "sequence_length" not in training.model_fields_set:
        found["training.sequence_length"] = length
    if own is not None and own.decoder and training.decoder_sequence_length is None:
        found["training.decoder_sequence_length"] = own.decoder
    return found


def _kept_to(scenario: Scenario, model: ModelSpec) -> dict[str, Value]:
    """The model's own number of tokens in place of another; one that is refused stays as it is."""
    own, given = own_tokens(model), scenario.training
    if own is None or not scenario.is_training or "sequence_length" not in given.model_fields_set:
        return {}
    refused = own.ends and given.sequence_length > own.sequence
    return {} if refused else {"training.sequence_length": own.sequence}


def of_stages(scenario: Scenario) -> dict[str, Value]:
    """Degrees that stages laid out by hand imply: their number, their width where it is one, their copies."""
    parallel = scenario.parallel
    if not parallel.stages:
        return {}
    widths = {stage.tensor for stage in parallel.stages}
    first = parallel.stages[0]
    copies = max(1, len(first.devices) // (first.tensor * parallel.context))
    return {
        "parallel.pipeline": len(parallel.stages),
        "parallel.data": parallel.data or copies,
        "parallel.tensor": widths.pop() if len(widths) == 1 else 1,
    }


def apply(scenario: Scenario, changes: dict[str, Value]) -> Scenario:
    """A copy with the fields at the given dotted paths set. Values are trusted, not validated."""
    tree: dict[str, Any] = {}
    for path, value in changes.items():
        node = tree
        *parents, leaf = path.split(".")
        for part in parents:
            node = node.setdefault(part, {})
        node[leaf] = value
    return _updated(scenario, tree)


def _updated(block: Block, tree: dict[str, Any]) -> Block:
    changes: dict[str, Any] = {}
    for name, value in tree.items():
        old = getattr(block, name)
        changes[name] = (
            _updated(old, value) if isinstance(value, dict) and isinstance(old, BaseModel) else value
        )
    return block.model_copy(update=changes)


def _is_absent(scenario: Scenario, path: str) -> bool:
    node: Any = scenario
    *parents, leaf = path.split(".")
    for part in parents:
        node = getattr(node, part)
        if node is None:
            return False
    given = leaf in node.model_fields_set
    return getattr(node, leaf) is None or (path in BY_RUNTIME and not given)
