"""What the symbols of a tape stand for."""

import json
from collections.abc import Mapping
from math import prod
from typing import Final

from planner.memory.adapters import adapter_rank
from planner.model.own_tokens import TEXTS, nested, number, patches
from planner.model.spec import ModelSpec
from planner.model.task_heads import labels_of
from planner.training.setup import Setup
from planner.units import round_up

EFFICIENT: Final = 32
"""The memory-efficient kernel rounds rows up to this."""
FLASH: Final = 128
HEAD: Final = 32
CHANNELS: Final = 3


def numbers_of(model: ModelSpec, setup: Setup) -> dict[str, int]:
    """Every symbol's number for a step of the model."""
    config, b, layer = config_of(model), setup.batch, model.layers[0]
    s, u = setup.sequence, setup.target_tokens // b
    numbers = {
        "b": b,
        "s": s,
        "u": u,
        "t": b * s,
        "w": b * u,
        "h": model.hidden_size,
        "i": layer.mlp.intermediate_size,
        "q": layer.attention.q_width,
        "n": layer.attention.num_heads,
        "d": layer.attention.head_dim,
        "d64": round_up(layer.attention.head_dim, HEAD),
        "V": model.vocab_size,
        "C": labels_of(config),
        "rank": adapter_rank(setup.adapter) if setup.adapter else 0,
    }
    if model.model_type == "whisper":
        mels, frames = number(config, "num_mel_bins", 80), 2 * s
        numbers |= {"m": b * mels * frames, "f": b * frames, "a": 3 * mels}
    numbers |= _of_pictures(config, b)
    return numbers | _rounded(numbers)


def _rounded(numbers: Mapping[str, int]) -> dict[str, int]:
    return {
        f"{symbol}{step}": round_up(numbers[symbol], step)
        for symbol in ("s", "u", "j")
        for step in (EFFICIENT, FLASH)
        if symbol in numbers
    }


def elements(key: str, numbers: Mapping[str, int]) -> int:
    """How many elements a shape has."""
    return prod(int(part) if part.isdigit() else numbers[part] for part in key.split("*"))


def config_of(model: ModelSpec) -> dict[str, object]:
    """The model's config."""
    return {key: json.loads(value) for key, value in model.config}


def _of_pictures(config: Mapping[str, object], b: int) -> dict[str, int]:
    pictures, texts = nested(config, "vision_config") or config, nested(config, "text_config")
    if "image_size" not in pictures or "patch_size" not in pictures:
        return {}
    channels, side = number(pictures, "num_channels", CHANNELS), number(pictures, "image_size")
    found = {
        "c": b * channels * side**2,
        "p": b * patches(pictures),
        "a": channels * number(pictures, "patch_size") ** 2,
    }
    if not texts:
        return found
    width = number(texts, "hidden_size")
    heads = max(1, number(texts, "num_attention_heads", width // 64))
    return found | {
        "j": number(texts, "max_position_embeddings", TEXTS),
        "z": b * number(texts, "max_position_embeddings", TEXTS),
        "g": width,
        "k": number(texts, "intermediate_size"),
        "l": heads,
        "y": number(config, "projection_dim", 512),
        "T": number(texts, "vocab_size"),
        "e64": round_up(width // heads, HEAD),
    }
