"""A model description from a Hugging Face config.json."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace

from planner.model import (
    dense_decoders,
    dual_encoders,
    encoder_decoder,
    encoders,
    gemma,
    gpt,
    gpt_variants,
    hybrid,
    hyper,
    mamba,
    megatron,
    mla_moe,
    moe,
    moe_variants,
    multimodal,
    nas,
)
from planner.model.fields import VOCAB, WIDTH, Fields, shown
from planner.model.spec import ModelSpec, UnknownArchitecture

BUILDERS: dict[str, Callable[[Fields], ModelSpec]] = {
    **dense_decoders.BUILDERS,
    **gpt.BUILDERS,
    **gpt_variants.BUILDERS,
    **moe.BUILDERS,
    **moe_variants.BUILDERS,
    **mla_moe.BUILDERS,
    **hyper.BUILDERS,
    **hybrid.BUILDERS,
    **mamba.BUILDERS,
    **gemma.BUILDERS,
    **nas.BUILDERS,
    **encoders.BUILDERS,
    **dual_encoders.BUILDERS,
    **encoder_decoder.BUILDERS,
    **megatron.BUILDERS,
}
"""Builder of every modelled `model_type` that stands alone."""

MODEL_TYPES = tuple(sorted({*BUILDERS, *multimodal.WRAPPERS}))
"""Every `model_type` that can be described."""


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
        raise UnknownArchitecture("", "missing_key", "model_type", _lower_bound(config))
    if not isinstance(model_type, str):
        raise UnknownArchitecture("", "bad_value", "model_type", value=shown(model_type), allowed="text")
    spec = _build(Fields(config, model_type))
    return replace(spec, id=model_id, config=_as_text(config))


def _build(f: Fields) -> ModelSpec:
    wrapper = multimodal.WRAPPERS.get(f.model_type)
    if wrapper is not None:
        return multimodal.build(f, wrapper, BUILDERS)
    builder = BUILDERS.get(f.model_type)
    if builder is None:
        name = shown(f.model_type)
        raise UnknownArchitecture(
            name.strip("'\""), "unknown_model_type", "model_type", _lower_bound(f.config), value=name
        )
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
