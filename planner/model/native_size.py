"""Pictures of a denoiser as tokens: of a side in pixels, back, and of the size that the model was made for."""

from math import isqrt
from typing import Final

from planner.model.fields import Fields
from planner.model.spec import Latents

CELL_PX: Final = 8
"""Pixels along a side of a cell of the latents, of every VAE of pictures here."""
DEFAULT_SIDE_PX: Final = 128 * CELL_PX
SIDES_PX: Final = (64, 8192)


def native_side_px(f: Fields) -> int:
    """Side of the pictures that the model was made for, by `sample_size` of its config (in cells of the latents).

    diffusers' pipelines make pictures of `sample_size` times the VAE's scale unless told; those whose denoiser names
    none make them of 1024.
    """
    cells = f.config.get("sample_size")
    side = cells * CELL_PX if type(cells) is int else 0
    return side if SIDES_PX[0] <= side <= SIDES_PX[1] else DEFAULT_SIDE_PX


def tokens_of(latents: Latents, side: int) -> int:
    """Tokens of a square picture, those of the text included where they are part of the sequence.

    Args:
        latents: What the denoiser works on.
        side: Pixels along a side; of a clip, as many frames as one token stands for.
    """
    return max(1, side // latents.pixels_per_token) ** 2 + (latents.text_tokens if latents.joint else 0)


def side_of(latents: Latents, tokens: int) -> int:
    """Pixels along a side of the square picture that a sequence stands for."""
    return isqrt(max(1, tokens - latents.text_in_sequence(tokens))) * latents.pixels_per_token


def native_tokens(latents: Latents) -> int:
    """Tokens of a picture as large as those that the model was made for."""
    return tokens_of(latents, latents.native_side_px)
