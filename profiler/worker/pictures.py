"""Pictures of a batch, in the form that a class of transformers takes them, and which parts of it they pass through."""

from collections.abc import Mapping
from math import isqrt
from typing import Any, Final

import torch

from planner.model.tower import Tower
from planner.scenario import Training

FRAMES: Final = 1
AXES: Final = 3
"""Of a position: frame, row, column."""
PARTS: Final = ("vision_tower", "visual", "vision_model", "multi_modal_projector", "connector")
"""Names that transformers' classes give to a tower and to what joins it to the language model."""

PICTURES: Final = rf"^(.*\.)?({'|'.join(PARTS)})\..*"
"""Names of all modules inside them."""


def grid_of(tower: Tower, pixels: int | None) -> tuple[int, int]:
    """Rows and columns of patches of one picture, as near to a square as its patches allow."""
    units = tower.patches(pixels) // tower.side**2
    rows = next(n for n in range(isqrt(units), 0, -1) if units % n == 0)
    return rows * tower.side, units // rows * tower.side


def picture_batch(
    tower: Tower, training: Training, config: Mapping[str, Any], device: str, vocab: int, *, by_shape: bool
) -> dict[str, Any]:
    """What a forward call gets beside labels: tokens, some of which stand for pictures, and the pictures.

    Args:
        tower: The tower, as the plan has it.
        training: The scenario's block; it has pictures.
        config: Keys of the model's config.json.
        device: Where the batch lies.
        vocab: Width of the logits.
        by_shape: Tensors have no values; what the class would work out from values is given.
    """
    images = training.images or 0
    token = _image_token(config)
    tokens = torch.randint(0, min(vocab, token) if token > 1 else vocab, _shape(training), device=device)
    if not by_shape:
        tokens[:, : images * tower.tokens(training.image_pixels)] = token
    given: dict[str, Any] = {"input_ids": tokens, "labels": tokens.clone()}
    count = training.micro_batch * images
    rows, columns = grid_of(tower, training.image_pixels)
    side = tower.patch_size
    if tower.fixed:
        size = tower.image_size
        pictures = torch.rand((count, tower.channels, size, size), device=device)
        return {**given, "pixel_values": pictures, **_kinds(tower, tokens)}
    if tower.whole_pictures:
        pictures = torch.rand((count, tower.channels, rows * side, columns * side), device=device)
        return {**given, "pixel_values": pictures, "image_sizes": [(rows * side, columns * side)] * count}
    width = tower.channels * tower.frames * side**2
    grid = torch.tensor([[FRAMES, rows, columns]] * count)
    pixels = torch.rand((count * rows * columns, width), device=device)
    given |= {"pixel_values": pixels, "image_grid_thw": grid if by_shape else grid.to(device)}
    if not by_shape:
        return {**given, "mm_token_type_ids": (tokens == token).int()}
    places = torch.zeros((AXES, *tokens.shape), dtype=torch.long, device=device)
    return {**given, "position_ids": places, **_worked_out(tower, count, rows * columns, device)}


def _shape(training: Training) -> tuple[int, int]:
    return training.micro_batch, training.sequence_length


def _image_token(config: Mapping[str, Any]) -> int:
    found = next((config[key] for key in ("image_token_id", "image_token_index") if key in config), 1)
    return int(found)


def _kinds(tower: Tower, tokens: Any) -> dict[str, Any]:
    """Classes whose pictures' tokens see each other are told which those are."""
    return {"token_type_ids": torch.zeros_like(tokens)} if tower.masks_text else {}


def _worked_out(tower: Tower, count: int, patches: int, device: str) -> dict[str, Any]:
    """Positions and boundaries (`accepts_precomputed_kwargs`), of which the latter have values."""
    total, window = count * patches, tower.window_patches
    found = {
        "image_position_ids": torch.zeros((total, 2), dtype=torch.long, device=device),
        "image_cu_seqlens": torch.arange(0, total + 1, patches, dtype=torch.int32),
    }
    if window:
        ends = [*range(0, total, window), total]
        found |= {
            "image_window_index": torch.zeros(total // tower.side**2, dtype=torch.long, device=device),
            "image_cu_window_seqlens": torch.tensor(ends, dtype=torch.int32),
        }
    if tower.interpolates:
        found |= {
            "image_interp_indices": torch.zeros((total, 4), dtype=torch.long, device=device),
            "image_interp_weights": torch.zeros((total, 4), device=device),
        }
    return found


def freeze_pictures(model: Any) -> None:
    """Leave tower and projector as they are."""
    for name, module in model.named_modules():
        if name.rpartition(".")[2] in PARTS:
            module.requires_grad_(False)
