"""The head that a job puts on an encoder: that of its pretraining, or a classifier.

A config describes the encoder itself. What runs is a class around it: `pretrain` trains the masked-language model
(transformers' `...ForMaskedLM`: a transform, and an output matrix that is the embedding), every other training a
classifier (`...ForSequenceClassification`, `...ForImageClassification`). Serving runs the encoder as it is.
Source: the modeling files of transformers 5.24.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final

from planner.model.parts import head, matrix
from planner.model.spec import Block, ModelSpec, Part, Structure

LABELS: Final = 2
"""`PreTrainedConfig.num_labels` where a config says nothing."""
TRANSFORM: Final = "lm_transform"
CLASSIFIER: Final = "classifier"
"""Also the name that PEFT trains whole beside adapters (`modules_to_save`)."""
POOLED: Final = frozenset({"bert"})
"""Encoders whose classifier reads the pooler's output; the others' has a matrix of its own, or none."""
DENSE: Final = {
    "roberta": "classifier.dense",
    "xlm-roberta": "classifier.dense",
    "electra": "classifier.dense",
    "distilbert": "pre_classifier",
    "modernbert": "head.dense",
}
"""The matrix before the classifier's own."""
PICTURES: Final = frozenset({"vit", "dinov2"})
TRAINING: Final = frozenset({"pretrain", "full", "lora", "qlora"})


def with_task_head(model: ModelSpec, task: str) -> ModelSpec:
    """The model that a job of this kind runs.

    Args:
        model: A model as its config describes it.
        task: The scenario's.
    """
    if model.structure is not Structure.ENCODER or task not in TRAINING:
        return model
    return _headed(model, pretrains=task == "pretrain")


def says_head(model: ModelSpec) -> str:
    """`masked_lm` or `classifier`, by the head that a model was given; "" for none."""
    if model.structure is not Structure.ENCODER:
        return ""
    names = {block.name for block in model.blocks}
    return "masked_lm" if TRANSFORM in names else "classifier" if CLASSIFIER in names else ""


@lru_cache(maxsize=256)
def _headed(model: ModelSpec, *, pretrains: bool) -> ModelSpec:
    kind = model.model_type
    if kind in PICTURES:
        return _of_pictures(model)
    if kind not in POOLED and kind not in DENSE:
        return model
    return _masked_lm(model) if pretrains else _sequence_classifier(model)


def labels_of(config: Mapping[str, object]) -> int:
    """Classes that a config names."""
    given, named = config.get("num_labels"), config.get("id2label")
    if type(given) is int and given > 0:
        return given
    return len(named) if isinstance(named, Mapping) and named else LABELS


def _config(model: ModelSpec) -> dict[str, object]:
    wanted = {"num_labels", "id2label", "tie_word_embeddings", "norm_bias", "classifier_bias", "decoder_bias"}
    return {key: json.loads(text) for key, text in model.config if key in wanted}


def _others(model: ModelSpec) -> tuple[Block, ...]:
    return tuple(block for block in model.blocks if block.name not in {"pooler", CLASSIFIER})


def _masked_lm(model: ModelSpec) -> ModelSpec:
    hidden, config = model.hidden_size, _config(model)
    narrow = model.embedding_params // model.vocab_size
    modern = model.model_type == "modernbert"
    bias = not modern or bool(config.get("classifier_bias", False))
    norm = narrow * (2 if not modern or config.get("norm_bias") else 1)
    dense = matrix(TRANSFORM, hidden, narrow, Part.OTHER, bias=bias)
    return replace(
        model,
        head=head(
            narrow,
            model.vocab_size,
            bias=not modern or bool(config.get("decoder_bias", True)),
            name="decoder",
        ),
        tie_word_embeddings=config.get("tie_word_embeddings", True) is not False,
        blocks=(*_others(model), Block(name=TRANSFORM, params=dense.params + norm, stage="last")),
    )


def _sequence_classifier(model: ModelSpec) -> ModelSpec:
    hidden, config = model.hidden_size, _config(model)
    labels = labels_of(config)
    params = hidden * labels + labels
    if model.model_type in POOLED:
        return replace(model, blocks=(*model.blocks, Block(name=CLASSIFIER, params=params, stage="last")))
    modern = model.model_type == "modernbert"
    bias = not modern or bool(config.get("classifier_bias", False))
    dense = hidden * hidden + (hidden if bias else 0)
    if modern:
        dense += hidden * (2 if config.get("norm_bias") else 1)
    return replace(
        model, blocks=(*_others(model), Block(name=CLASSIFIER, params=dense + params, stage="last"))
    )


def _of_pictures(model: ModelSpec) -> ModelSpec:
    """A classifier in the place of a pooler; one that the config describes stays."""
    if any(block.name == CLASSIFIER for block in model.blocks):
        return model
    read = model.hidden_size * (2 if model.model_type == "dinov2" else 1)
    labels = labels_of(_config(model))
    return replace(
        model,
        blocks=(*_others(model), Block(name=CLASSIFIER, params=read * labels + labels, stage="last")),
    )
