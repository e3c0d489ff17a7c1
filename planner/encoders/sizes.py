"""What the symbols of a tape stand for."""

import json
from collections.abc import Mapping
from math import prod
from typing import Final

from planner.memory.adapters import adapter_rank
from planner.model.spec import ModelSpec
from planner.model.task_heads import labels_of
from planner.training.setup import Setup
from planner.units import round_up

EFFICIENT: Final = 32
"""The memory-efficient kernel rounds rows up to this."""
FLASH: Final = 128
HEAD: Final = 32
SOURCES: Final = 1_500
TARGETS: Final = 448
"""`WhisperConfig.max_source_positions` and `max_target_positions`."""
CHANNELS: Final = 3
TEXTS: Final = 77


def numbers_of(model: ModelSpec, setup: Setup) -> dict[str, int]:
    """Every symbol's number for a step of the model."""
    config, b, layer = config_of(model), setup.batch, model.layers[0]
    s, u = positions_of(model, setup, config), _targets(model, setup, config)
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


def nested(config: Mapping[str, object], key: str) -> Mapping[str, object]:
    """A config within a config."""
    found = config.get(key)
    return found if isinstance(found, Mapping) else {}


def number(config: Mapping[str, object], key: str, default: int = 0) -> int:
    """A whole number of a config."""
    found = config.get(key)
    return found if type(found) is int else default


def positions_of(model: ModelSpec, setup: Setup, config: Mapping[str, object]) -> int:
    """Positions of a sequence: those of a picture or of half a minute of sound are what they are."""
    if model.model_type == "whisper":
        return number(config, "max_source_positions", SOURCES)
    pictures = nested(config, "vision_config") or config
    if "image_size" in pictures and "patch_size" in pictures:
        return _patches(pictures) + (model.model_type != "siglip")
    return setup.sequence


def _patches(config: Mapping[str, object]) -> int:
    return (number(config, "image_size") // max(1, number(config, "patch_size"))) ** 2


def _targets(model: ModelSpec, setup: Setup, config: Mapping[str, object]) -> int:
    asked = setup.target_tokens // setup.batch
    return (
        min(asked, number(config, "max_target_positions", TARGETS))
        if model.model_type == "whisper"
        else asked
    )


def _of_pictures(config: Mapping[str, object], b: int) -> dict[str, int]:
    pictures, texts = nested(config, "vision_config") or config, nested(config, "text_config")
    if "image_size" not in pictures or "patch_size" not in pictures:
        return {}
    channels, side = number(pictures, "num_channels", CHANNELS), number(pictures, "image_size")
    found = {
        "c": b * channels * side**2,
        "p": b * _patches(pictures),
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
