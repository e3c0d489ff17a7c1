"""A model description from a Hugging Face config.json."""

import json
from collections.abc import Mapping
from dataclasses import replace

from planner.model.diffusion_parts import CLASS_TYPES
from planner.model.errors import UnknownArchitecture
from planner.model.fields import VOCAB, WIDTH, Fields, shown
from planner.model.registry import FAMILY_OF, MULTIMODAL, builder_of
from planner.model.spec import ModelSpec


def model_from_config(config: Mapping[str, object], *, model_id: str = "") -> ModelSpec:
    """Describe the model of a config.json that was read as a dict.

    Args:
        config: Keys and values as in the file.
        model_id: Catalog id, if it has one.

    Returns:
        The model with exact parameter counts, or with `approximate` saying what is not exact.

    Raises:
        UnknownArchitecture: No closed form for this model type, a key that is missing, a value that
            cannot be.
    """
    model_type = config.get("model_type")
    if model_type is None:
        model_type = _diffusers_type(config)
    if model_type is None:
        raise UnknownArchitecture("", "missing_key", "model_type", _lower_bound(config))
    if not isinstance(model_type, str):
        raise UnknownArchitecture("", "bad_value", "model_type", value=shown(model_type), allowed="text")
    spec = _build(Fields(config, model_type))
    return replace(spec, id=model_id, config=_as_text(config))


def _diffusers_type(config: Mapping[str, object]) -> str | None:
    """The type of a config.json that names a class of diffusers instead.

    Raises:
        UnknownArchitecture: A class that is not described: another denoiser, a VAE, a whole pipeline's index.
    """
    name = config.get("_class_name")
    if name is None:
        return None
    known = CLASS_TYPES.get(name) if isinstance(name, str) else None
    if known is None:
        described = ", ".join(sorted(CLASS_TYPES))
        raise UnknownArchitecture(
            "diffusers", "bad_value", "_class_name", value=shown(name), allowed=described
        )
    return known


def _build(f: Fields) -> ModelSpec:
    if FAMILY_OF.get(f.model_type) == MULTIMODAL:
        from planner.model import multimodal  # noqa: PLC0415 -- loaded when first needed, as the families are

        return multimodal.build(f)
    builder = builder_of(f.model_type)
    if builder is None:
        name = shown(f.model_type)
        bound = _lower_bound(f.config)
        raise UnknownArchitecture(name[1:-1], "unknown_model_type", "model_type", bound, value=name)
    return builder(f)


def _lower_bound(config: Mapping[str, object]) -> int | None:
    """The token embedding, the one thing every language model has."""
    hidden, vocab = config.get("hidden_size"), config.get("vocab_size")
    if type(hidden) is int and type(vocab) is int and 1 <= hidden <= WIDTH[1] and 1 <= vocab <= VOCAB[1]:
        return hidden * vocab
    return None


def _as_text(config: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    return tuple((key, _json(config[key])) for key in sorted(config))


def _json(value: object) -> str:
    try:
        return json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return shown(value)
