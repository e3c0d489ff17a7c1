"""Configs that cannot be: each is refused at its key, with what was given and what is allowed."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.model import MODEL_TYPES, ModelSpec, UnknownArchitecture, model_from_config
from tests.planner.model.samples import DEEPSEEK_V3, LLAMA, MEGATRON, MIXTRAL, class_counts

Config = dict[str, object]


def _without(config: Config, key: str) -> Config:
    return {name: value for name, value in config.items() if name != key}


def _refusal(config: Config) -> UnknownArchitecture:
    with pytest.raises(UnknownArchitecture) as caught:
        model_from_config(config)
    return caught.value


@pytest.mark.parametrize(
    "key",
    ["hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size"],
)
def test_a_missing_size(key: str) -> None:
    refusal = _refusal(_without(LLAMA, key))
    assert (refusal.model_type, refusal.reason, refusal.key) == ("llama", "missing_key", key)


@pytest.mark.parametrize(
    "value", [True, "4096", 4096.0, math.nan, math.inf, [4096], {}, 0, -1, 10**7, 10**400]
)
@pytest.mark.parametrize(
    "key", ["hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim"]
)
def test_a_size_that_is_none(key: str, value: object) -> None:
    refusal = _refusal({**LLAMA, key: value})
    assert (refusal.reason, refusal.key) == ("bad_value", key)
    assert refusal.value
    assert ".." in refusal.allowed
    assert key in str(refusal)


@pytest.mark.parametrize(
    ("config", "reason", "key"),
    [
        ({}, "missing_key", "model_type"),
        ({"model_type": None}, "missing_key", "model_type"),
        ({"model_type": 3}, "bad_value", "model_type"),
        ({"model_type": ""}, "unknown_model_type", "model_type"),
        ({"model_type": "flux9"}, "unknown_model_type", "model_type"),
        ({**LLAMA, "num_key_value_heads": 5}, "bad_value", "num_key_value_heads"),
        ({**_without(LLAMA, "head_dim"), "num_attention_heads": 24}, "bad_value", "num_attention_heads"),
        ({**LLAMA, "tie_word_embeddings": "yes"}, "bad_value", "tie_word_embeddings"),
        ({**LLAMA, "attention_bias": 1}, "bad_value", "attention_bias"),
        ({**LLAMA, "norm": "batch_norm"}, "bad_value", "norm"),
        ({**LLAMA, "vocab_size": 10**8 + 1}, "bad_value", "vocab_size"),
        ({**LLAMA, "num_hidden_layers": 2049}, "bad_value", "num_hidden_layers"),
        ({**LLAMA, "hidden_act": 3}, "bad_value", "hidden_act"),
        ({**LLAMA, "layer_types": ["full_attention"]}, "bad_value", "layer_types"),
        ({**LLAMA, "layer_types": ["full"] * 32}, "bad_value", "layer_types"),
        ({**LLAMA, "layer_types": "full"}, "bad_value", "layer_types"),
        ({**LLAMA, "layer_types": ["sliding_attention"] * 32}, "missing_key", "sliding_window"),
        ({**MIXTRAL, "num_experts_per_tok": 9}, "bad_value", "num_experts_per_tok"),
        ({**MIXTRAL, "num_local_experts": 0}, "bad_value", "num_local_experts"),
        (_without(MIXTRAL, "num_experts_per_tok"), "missing_key", "num_experts_per_tok"),
        (_without(DEEPSEEK_V3, "first_k_dense_replace"), "missing_key", "first_k_dense_replace"),
        ({**DEEPSEEK_V3, "kv_lora_rank": 0}, "bad_value", "kv_lora_rank"),
        ({**DEEPSEEK_V3, "n_shared_experts": -1}, "bad_value", "n_shared_experts"),
        ({**DEEPSEEK_V3, "moe_layer_freq": [1, 0]}, "bad_value", "moe_layer_freq"),
        (_without(MEGATRON, "norm"), "missing_key", "norm"),
        (_without(MEGATRON, "gated_mlp"), "missing_key", "gated_mlp"),
        (_without(MEGATRON, "add_bias_linear"), "missing_key", "add_bias_linear"),
        (_without(MEGATRON, "position_embedding"), "missing_key", "position_embedding"),
        ({**MEGATRON, "position_embedding": "sinus"}, "bad_value", "position_embedding"),
        ({"model_type": "llava", "text_config": 3}, "bad_value", "text_config"),
        ({"model_type": "llava"}, "missing_key", "text_config"),
        ({"model_type": "llava", "text_config": {}}, "missing_key", "text_config.model_type"),
        (
            {"model_type": "llava", "text_config": {"model_type": "x"}},
            "unknown_model_type",
            "text_config.model_type",
        ),
        (
            {"model_type": "llava", "text_config": {**LLAMA, "hidden_size": -4}},
            "bad_value",
            "text_config.hidden_size",
        ),
        (
            {
                "model_type": "llava",
                "text_config": LLAMA,
                "vision_config": {"model_type": "clip_vision_model"},
            },
            "missing_key",
            "vision_config.hidden_size",
        ),
        (
            {"model_type": "nemotron_h", "hybrid_override_pattern": "M?"},
            "bad_value",
            "hybrid_override_pattern",
        ),
        ({"model_type": "nemotron_h"}, "missing_key", "hybrid_override_pattern"),
        ({"model_type": "nemotron_h", "layer_types": []}, "bad_value", "layer_types"),
    ],
)
def test_what_is_refused(config: Config, reason: str, key: str) -> None:
    refusal = _refusal(config)
    assert (refusal.reason, refusal.key) == (reason, key)


def test_an_unknown_type_has_a_lower_bound_if_its_embedding_is_known() -> None:
    refusal = _refusal({"model_type": "next_year", "hidden_size": 1024, "vocab_size": 50000})
    assert refusal.lower_bound_params == 1024 * 50000
    assert _refusal({"model_type": "next_year", "hidden_size": 1024}).lower_bound_params is None
    assert (
        _refusal({"model_type": "next_year", "hidden_size": "1", "vocab_size": 9}).lower_bound_params is None
    )


def test_a_long_value_is_cut_in_the_message() -> None:
    assert len(_refusal({**LLAMA, "hidden_size": "9" * 10**6}).value) <= 60
    assert len(_refusal({"model_type": "x" * 10**6}).model_type) <= 60
    assert _refusal({**LLAMA, "hidden_size": 10**5000}).value == "int"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=-4, max_value=300)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["full_attention", "sliding_attention", "mamba", "llama", "gated-gelu"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=6,
)
SOUND = [config for record in class_counts() if isinstance(config := record["config"], dict)]
KEYS = sorted({key for config in SOUND for key in config})


REASONS = {"unknown_model_type", "missing_key", "bad_value", "unsupported_feature"}


def _built_or_refused(config: Config) -> ModelSpec | UnknownArchitecture:
    try:
        return model_from_config(config)
    except UnknownArchitecture as refusal:
        return refusal


def _survives(config: Config) -> None:
    outcome = _built_or_refused(config)
    if isinstance(outcome, UnknownArchitecture):
        assert outcome.reason in REASONS
        assert str(outcome)
        return
    assert outcome.params_total > 0
    assert 0 < outcome.params_active <= outcome.params_total
    assert 1 <= outcome.num_layers <= 4096


@given(
    st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=10), JSON, max_size=12),
    st.sampled_from(MODEL_TYPES),
)
def test_random_json_is_built_or_refused(config: Config, model_type: str) -> None:
    _survives({**config, "model_type": model_type})


@given(st.data())
def test_a_sound_config_with_random_values_is_built_or_refused(data: st.DataObject) -> None:
    sound = data.draw(st.sampled_from(SOUND))
    keys = st.sampled_from(sorted(sound))
    changes = data.draw(st.dictionaries(keys, JSON, min_size=1, max_size=3))
    _survives({**sound, **changes, "model_type": sound["model_type"]})


@given(st.data())
def test_a_sound_config_with_missing_keys_is_built_or_refused(data: st.DataObject) -> None:
    sound = data.draw(st.sampled_from(SOUND))
    gone = data.draw(st.sets(st.sampled_from(sorted(sound)), min_size=1, max_size=4))
    _survives({key: value for key, value in sound.items() if key not in gone or key == "model_type"})


def test_reading_through_json_changes_nothing() -> None:
    for config in SOUND[::10]:
        again = json.loads(json.dumps(config))
        assert model_from_config(again) == model_from_config(config)
