"""Which class of transformers runs a model's job, and what a batch of it is where that is not tokens with labels.

Encoders run with the head of the scenario's task (`planner.model.task_heads`).
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForCTC,
    AutoModelForImageClassification,
    AutoModelForImageTextToText,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForSpeechSeq2Seq,
)

from planner.model import UnknownArchitecture, model_from_config
from planner.model.spec import Structure
from planner.model.task_heads import CLASSIFIER, labels_of
from planner.scenario import Scenario

SPEECH: Final = frozenset({"whisper"})
PAIRS: Final = frozenset({"clip", "siglip"})
OWN_CLASSES: Final = {
    "vit": AutoModelForImageClassification,
    "dinov2": AutoModelForImageClassification,
    "clip": AutoModel,
    "siglip": AutoModel,
    "wav2vec2": AutoModelForCTC,
}
"""Encoders of pictures, of pairs of text and picture, of sound."""
CHANNELS: Final = 3
HEADS: Final = (CLASSIFIER, "pre_classifier", "head", "cls", "lm_head")
"""Names that classes give to what they put on an encoder, the output matrix apart."""

Make = Callable[[], dict[str, Any]]


def structure_of(config: Mapping[str, Any]) -> Structure:
    """What the model of a config is; a decoder where that is not known."""
    try:
        return model_from_config(config).structure
    except UnknownArchitecture:
        return Structure.DECODER


def auto_class(config: Mapping[str, Any], task: str) -> Any:
    """The class that makes a model with the head of the job.

    Args:
        config: Keys of config.json.
        task: The scenario's.
    """
    kind, structure = config.get("model_type"), structure_of(config)
    if structure is Structure.ENCODER_DECODER:
        return AutoModelForSpeechSeq2Seq if kind in SPEECH else AutoModelForSeq2SeqLM
    if structure is not Structure.ENCODER:
        return AutoModelForImageTextToText if "vision_config" in config else AutoModelForCausalLM
    text = AutoModelForMaskedLM if task == "pretrain" else AutoModelForSequenceClassification
    return OWN_CLASSES.get(str(kind), text)


def with_one_embedding(model: Any) -> Any:
    """The same model; both sides of an encoder-decoder look up one embedding, whether its head is that too or not."""
    shared = getattr(model, "shared", None)
    sides: list[Any] = [getattr(model, name, None) for name in ("encoder", "decoder")]
    for side in sides:
        if shared is not None and hasattr(side, "embed_tokens"):
            side.embed_tokens.weight = shared.weight
    return model


def trains_head(config: Mapping[str, Any], task: str) -> bool:
    """Whether a head is trained whole beside adapters: a classifier, which is new."""
    return (
        structure_of(config) is Structure.ENCODER
        and config.get("model_type") not in PAIRS
        and task != "pretrain"
    )


def own_batch(scenario: Scenario, config: Mapping[str, Any], device: Any, vocab: int) -> Make | None:
    """Makes what a class takes that reads something else than tokens with a label each; None for all others.

    Args:
        scenario: The job.
        config: Keys of config.json.
        device: Where the batch lies.
        vocab: Entries of the vocabulary.
    """
    kind, rows = str(config.get("model_type")), scenario.training.micro_batch
    if kind in SPEECH:
        return _speech(scenario, config, device, vocab)
    if kind in PAIRS:
        return _pairs(rows, config, device)
    if structure_of(config) is not Structure.ENCODER:
        return None
    if kind in OWN_CLASSES and "image_size" in config:
        return _pictures(rows, config, device)
    if kind == "wav2vec2":
        return lambda: {
            "input_values": torch.rand((rows, scenario.training.sequence_length), device=device),
            "labels": torch.ones((rows, 8), dtype=torch.long, device=device),
        }
    return None if scenario.task == "pretrain" else _classified(scenario, config, device, vocab)


def _classified(scenario: Scenario, config: Mapping[str, Any], device: Any, vocab: int) -> Make:
    rows, length = scenario.training.micro_batch, scenario.training.sequence_length
    return lambda: {
        "input_ids": torch.randint(0, vocab, (rows, length), device=device),
        "labels": torch.randint(0, labels_of(config), (rows,), device=device),
    }


def _picture(rows: int, config: Mapping[str, Any], device: Any) -> Any:
    side, channels = int(config["image_size"]), int(config.get("num_channels") or CHANNELS)
    return torch.rand((rows, channels, side, side), device=device)


def _pictures(rows: int, config: Mapping[str, Any], device: Any) -> Make:
    return lambda: {
        "pixel_values": _picture(rows, config, device),
        "labels": torch.randint(0, labels_of(config), (rows,), device=device),
    }


def _pairs(rows: int, config: Mapping[str, Any], device: Any) -> Make:
    text = config["text_config"]
    shape = rows, int(text["max_position_embeddings"])
    return lambda: {
        "input_ids": torch.randint(0, int(text["vocab_size"]), shape, device=device),
        "pixel_values": _picture(rows, config["vision_config"], device),
        "return_loss": True,
    }


def _speech(scenario: Scenario, config: Mapping[str, Any], device: Any, vocab: int) -> Make:
    """Two frames of sound for each position of the encoder, always as many; labels for the decoder."""
    training = scenario.training
    frames, mels = 2 * int(config.get("max_source_positions") or 1500), int(config.get("num_mel_bins") or 80)
    longest = int(config.get("max_target_positions") or 448)
    shape = training.micro_batch, min(longest, training.decoder_sequence_length or training.sequence_length)
    kinds = {"bf16": torch.bfloat16, "fp16": torch.float16}
    stored = (scenario.adapter.base if scenario.adapter else None) or training.precision.parameters or "fp32"
    dtype = torch.float32 if training.precision.autocast else kinds.get(stored, torch.float32)
    return lambda: {
        "input_features": torch.rand((training.micro_batch, mels, frames), dtype=dtype, device=device),
        "labels": torch.randint(0, vocab, shape, device=device),
    }
