"""Models whose number of tokens is their own: pictures of one size, padded texts, half a minute of sound.

Source: transformers 5.24, `ViTEmbeddings` and `Dinov2Embeddings` (a token before the patches), `CLIPTextConfig` and
`SiglipTextConfig` (`max_position_embeddings`), `WhisperConfig` (`max_source_positions`, `max_target_positions`).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from planner.model.spec import ModelSpec

SOURCES: Final = 1_500
TARGETS: Final = 448
TEXTS: Final = 77
PICTURES: Final = frozenset({"vit", "dinov2"})
PAIRS: Final = frozenset({"clip", "siglip"})
SPEECH: Final = "whisper"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTokens:
    """Tokens that a step has whatever it is asked.

    Attributes:
        sequence: Tokens of a sequence: of the picture, of the text beside pictures, or of the sound.
        layers: Tokens that the layers see: those of the picture where a text is beside it, else `sequence`.
        decoder: Most tokens of the decoder; None where there is none.
        ends: More tokens than that have no learned position; pictures are resized.
    """

    sequence: int
    layers: int
    decoder: int | None = None
    ends: bool = True


def own_tokens(model: ModelSpec) -> OwnTokens | None:
    """A model's own numbers of tokens; None where a sequence is as long as one likes.

    DINOv2 with a gated feed-forward part is not followed operation by operation; its pictures may have any size.
    """
    kind = model.model_type
    if kind not in PICTURES | PAIRS | {SPEECH} or (kind in PICTURES and model.layers[0].mlp.gated):
        return None
    return _own_tokens(kind, model.config)


def length_left_out(model: ModelSpec) -> int | None:
    """Tokens of a sequence where a question about training does not say; None where the model does not either."""
    own = own_tokens(model)
    if own is not None:
        return own.sequence
    return model.max_position_embeddings if model.model_type in PICTURES else None


@lru_cache(maxsize=64)
def _own_tokens(model_type: str, stated: tuple[tuple[str, str], ...]) -> OwnTokens | None:
    config = {key: json.loads(value) for key, value in stated}
    if model_type == SPEECH:
        sources = number(config, "max_source_positions", SOURCES)
        targets = number(config, "max_target_positions", TARGETS)
        return OwnTokens(sequence=sources, layers=sources, decoder=targets)
    pictures = nested(config, "vision_config") or config
    if "image_size" not in pictures or "patch_size" not in pictures:
        return None
    seen = patches(pictures) + (model_type != "siglip")
    if model_type in PICTURES:
        return OwnTokens(sequence=seen, layers=seen, ends=False)
    texts = number(nested(config, "text_config"), "max_position_embeddings", TEXTS)
    return OwnTokens(sequence=texts, layers=seen)


def patches(pictures: Mapping[str, object]) -> int:
    """Patches of a picture of the config's own size."""
    return (number(pictures, "image_size") // max(1, number(pictures, "patch_size"))) ** 2


def nested(config: Mapping[str, object], key: str) -> Mapping[str, object]:
    """A config within a config."""
    found = config.get(key)
    return found if isinstance(found, Mapping) else {}


def number(config: Mapping[str, object], key: str, default: int = 0) -> int:
    """A whole number of a config."""
    found = config.get(key)
    return found if type(found) is int else default
