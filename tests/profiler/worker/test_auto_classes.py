"""The class that a trace builds is the model of the plan: parameters of catalogue models, on shape-only tensors."""

import json
from typing import Any, Final

import pytest

from hardware_db import load_tables
from planner.estimate import plan
from planner.scenario import Scenario
from profiler.plan_request import prepare
from profiler.worker.auto_classes import own_batch
from profiler.worker.workloads import CannotBuildError, build_model

TABLES: Final = load_tables()
QUICK: Final = (
    ("google-bert/bert-base-uncased", "full"),
    ("google-bert/bert-base-uncased", "pretrain"),
    ("distilbert/distilbert-base-uncased", "pretrain"),
    ("google/flan-t5-base", "full"),
    ("openai/whisper-tiny", "full"),
    ("tiiuae/falcon-40b", "full"),
)
ENCODERS: Final = frozenset({"bert", "roberta", "xlm-roberta", "distilbert", "modernbert"})
NO_CLASS: Final = frozenset({
    *("baichuan", "chatglm", "deepseek", "dbrx", "deepseek_v41", "glm5_next", "grok1", "internlm2"),
    *("minicpm", "mistral4", "mistral_large4", "nemotron-nas", "qwen3_vl", "qwen3_vl_moe", "step3p7"),
})  # fmt: skip
"""Types without a class of a causal model, or whose class these libraries cannot make."""

OTHER_CLASS: Final = frozenset({"wav2vec2", "longcat_flash", "kimi_linear"})
"""Types whose class has more: a head for letters; up projections of experts that compute nothing; another model."""


def _scenario(model: str, task: str, attention: str) -> dict[str, Any]:
    return {
        "version": 1,
        "task": task,
        "model": {"id": model},
        "hardware": {"devices": [{"gpu": "h100-sxm-80gb"}]},
        "runtime": {"name": "hf_trainer"},
        "training": {"micro_batch": 1, "sequence_length": 64, "attention": attention},
    }


def _counts(model: str, task: str) -> tuple[int, int]:
    """Parameters of the class, and of the plan without towers that a class of text does not have."""
    for attention in ("sdpa", "eager"):
        answer = plan(Scenario.model_validate(_scenario(model, task, attention)), TABLES)
        prepared = prepare(answer, "cuda", None)
        resolved = Scenario.model_validate_json(json.dumps(prepared.scenario))
        try:
            made = build_model(resolved, prepared.config, "meta")  # type: ignore[arg-type]  # no device is meant
        except CannotBuildError as refused:
            if "attention implementation" in str(refused) and attention == "sdpa":
                continue
            raise
        left_out = sum(
            block.params
            for block in answer.model.blocks
            if block.name == "vision_tower" and "vision_config" not in prepared.config
        )
        return sum(x.numel() for x in made.parameters()), answer.model.params_total - left_out
    raise AssertionError(model)


@pytest.mark.parametrize(("model", "task"), QUICK)
def test_the_class_has_the_parameters_of_the_plan(model: str, task: str) -> None:
    built, planned = _counts(model, task)
    assert built == planned


@pytest.mark.long
@pytest.mark.parametrize("model", sorted(TABLES.models))
def test_every_class_has_the_parameters_of_the_plan(model: str) -> None:
    kind = str(TABLES.models[model]["model_type"])
    if kind in OTHER_CLASS:
        pytest.skip("the class has more")
    if kind in NO_CLASS:
        with pytest.raises((CannotBuildError, TypeError)):
            _counts(model, "full")
        return
    for task in ("full", "pretrain") if kind in ENCODERS else ("full",):
        built, planned = _counts(model, task)
        assert built == planned


@pytest.mark.parametrize(
    ("model", "task", "given"),
    [
        ("google-bert/bert-base-uncased", "full", {"input_ids": (1, 64), "labels": (1,)}),
        ("google/vit-base-patch16-224", "full", {"pixel_values": (1, 3, 224, 224), "labels": (1,)}),
        ("openai/whisper-tiny", "full", {"input_features": (1, 80, 3000), "labels": (1, 448)}),
        ("openai/clip-vit-base-patch32", "full", {"input_ids": (1, 77), "pixel_values": (1, 3, 224, 224)}),
        ("google-bert/bert-base-uncased", "pretrain", {}),
        ("google-t5/t5-small", "full", {}),
    ],
)
def test_batches_are_what_the_class_takes(model: str, task: str, given: dict[str, tuple[int, ...]]) -> None:
    answer = plan(Scenario.model_validate(_scenario(model, task, "sdpa")), TABLES)
    prepared = prepare(answer, "cuda", None)
    make = own_batch(answer.resolved, prepared.config, "meta", answer.model.vocab_size)
    made = make() if make else {}
    assert {name: tuple(x.shape) for name, x in made.items() if hasattr(x, "shape")} == given
