"""Encoders and encoder-decoders, whose steps are followed operation by operation where a card runs them whole."""

import json
from dataclasses import replace
from functools import lru_cache
from typing import Final

from planner.ledger import Entry
from planner.memory.inventory import Tensor
from planner.model.own_tokens import SOURCES
from planner.model.spec import ModelSpec, Structure
from planner.model.task_heads import CLASSIFIER
from planner.moments import fullest
from planner.scenario import Adapter, Parallel, Training
from planner.training.step import Step

HEAD_APART: Final = frozenset({"modernbert"})
"""Classes whose classifier is a matrix of its own, beside a head with another matrix and a norm."""


def without_fixed(model: ModelSpec) -> ModelSpec:
    """The model without tables that no training changes: Whisper's encoder has fixed positions (`requires_grad_`)."""
    return _without_sources(model) if model.model_type == "whisper" else model


@lru_cache(maxsize=32)
def _without_sources(model: ModelSpec) -> ModelSpec:
    rows = json.loads(dict(model.config).get("max_source_positions", "null")) or SOURCES
    return replace(model, position_params=max(0, model.position_params - rows * model.hidden_size))


def new_head(model: ModelSpec, width_frac: float = 1.0) -> list[Tensor]:
    """The classifier of an encoder, of which adapters train a copy (PEFT `modules_to_save`): it is new.

    Args:
        model: The model.
        width_frac: Bytes of its elements, which are the base's, as a share of an adapter's.
    """
    block = next((block for block in model.blocks if block.name == CLASSIFIER), None)
    if block is None or model.structure is not Structure.ENCODER:
        return []
    params = block.params
    if model.model_type in HEAD_APART:
        params %= model.hidden_size * model.hidden_size
        params -= model.hidden_size
    rows, rest = divmod(int(params * width_frac), model.hidden_size)
    found = [Tensor(rows, model.hidden_size, 1, "adapter")] if rows else []
    return [*found, Tensor(rest, 1, 1, "adapter")] if rest else found


def follows_encoder(step: Step) -> bool:
    """Whether the step is followed operation by operation."""
    setup = step.setup
    return is_followed(step.model, setup.runtime, setup.training, setup.parallel, setup.adapter)


def is_followed(
    model: ModelSpec, runtime: str, training: Training, parallel: Parallel, adapter: Adapter | None
) -> bool:
    """Whether a job's steps are.

    Args:
        model: The model.
        runtime: Whose loop.
        training: The scenario's block, as resolved.
        parallel: The same.
        adapter: The same.
    """
    if model.structure not in {Structure.ENCODER, Structure.ENCODER_DECODER}:
        return False
    from planner.encoders.step import is_written  # noqa: PLC0415 - only encoders need it

    return is_written(model, runtime, training, parallel, adapter)


def encoder_forward(step: Step) -> list[Entry]:
    """What the forward pass and the loss hold at their fullest."""
    from planner.encoders.step import forward_moments  # noqa: PLC0415 - only encoders need it

    forward, loss = forward_moments(step)
    return [*fullest(forward), *fullest(loss)]


def encoder_moments(step: Step) -> list[list[Entry]]:
    """The entries of the fullest moments of the backward pass."""
    from planner.encoders.step import backward_moments  # noqa: PLC0415 - only encoders need it

    return backward_moments(step)
