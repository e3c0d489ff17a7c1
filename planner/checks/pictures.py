"""Pictures in a training step: a tower to take them, a size, and room in the sequence."""

from collections.abc import Iterator
from typing import Final

from planner.checks.codes import make
from planner.checks.question import Question
from planner.issues import Issue
from planner.model.spec import ModelSpec

TOWER: Final = "vision_tower"


def sees(model: ModelSpec) -> bool:
    """Whether the model has a vision tower, described or not."""
    return any(block.name == TOWER for block in model.blocks)


def check_pictures(question: Question) -> Iterator[Issue]:
    """Pictures without a tower, without a size, or with tokens that leave none of the sequence to text."""
    training, model = question.training, question.model
    images, tower = training.images, question.model.tower
    if not question.trains or not images:
        return
    if not sees(model):
        yield make("images_without_tower", "training.images", given=images)
        return
    if tower is None:
        return
    if not tower.fixed and training.image_pixels is None:
        yield make("image_pixels_missing", "training.image_pixels", model_type=model.model_type)
        return
    tokens = images * tower.tokens(training.image_pixels)
    if tokens >= training.sequence_length:
        yield make(
            "images_beyond_sequence", "training.images",
            given=images, tokens=tokens, allowed=training.sequence_length,
        )  # fmt: skip
