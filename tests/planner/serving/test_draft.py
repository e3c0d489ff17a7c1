"""Drafts for speculative decoding: their weights, and their caches in the engine's own pool."""

from __future__ import annotations

from typing import Any

import pytest

from planner.estimate import plan
from planner.exports.serving_flags import command_for
from planner.imports import import_text
from planner.issues import ScenarioError
from planner.plan_types import Plan
from tests.planner.serving.cases import DEEPSEEK_V3, llama, scenario, tables

Config = dict[str, Any]
SMALL = llama(
    hidden_size=2048, num_hidden_layers=16, num_attention_heads=32, head_dim=64, intermediate_size=8192,
    tie_word_embeddings=True,
)  # fmt: skip
"""Llama-3.2-1B: 1,235,814,400 parameters."""
EAGLE = llama(num_hidden_layers=1, draft_vocab_size=32000)
TOKEN_8B, TOKEN_1B = 32 * 2 * 8 * 128 * 2, 16 * 2 * 8 * 64 * 2


def served(runtime: str = "vllm", *, config: Config | None = None, tensor: int = 1, **serving: Any) -> Plan:
    asked = scenario(
        config or llama(), runtime, count=tensor, parallel={"tensor": tensor},
        **{"max_model_len": 8192, **serving},
    )  # fmt: skip
    return plan(asked, tables())


@pytest.mark.parametrize("runtime", ["vllm", "sglang"])
def test_a_draft_model_is_held_and_cached(runtime: str) -> None:
    ledger = served(runtime, speculative="draft", draft_model={"config": SMALL}).worst.ledger
    assert ledger.total("draft_weights") == 2 * 1_235_814_400
    assert ledger.total("kv_cache") == 8192 * (TOKEN_8B + TOKEN_1B)


def test_a_draft_is_divided_as_the_model_is() -> None:
    one, two = (
        served(tensor=n, speculative="draft", draft_model={"config": SMALL}).worst.ledger for n in (1, 2)
    )
    assert two.total("draft_weights") / one.total("draft_weights") == pytest.approx(0.5, rel=1e-3)


def test_a_draft_of_the_catalog() -> None:
    named = served(speculative="draft", draft_model={"id": "meta-llama/Llama-3.2-1B"})
    assert named.worst.ledger.total("draft_weights") == 2 * 1_235_814_400
    assert not {i.code for i in named.issues} & {"not_modelled", "draft_vocabulary"}


def test_an_eagle_head_is_a_layer_with_twice_the_input_a_joint_and_a_vocabulary_of_its_own() -> None:
    attention = 2 * 4096 * (4096 + 2 * 1024) + 4096 * 4096
    params = attention + 3 * 4096 * 14336 + 3 * 4096 * 4096 + 32000 * 4096 + 3 * 4096
    ledger = served(speculative="eagle3", draft_model={"config": EAGLE}).worst.ledger
    assert ledger.total("draft_weights") == 2 * params
    assert ledger.total("kv_cache") == 8192 * TOKEN_8B // 32 * 33


def test_prediction_layers_have_a_cache() -> None:
    config = DEEPSEEK_V3 | {"num_nextn_predict_layers": 1}
    settings: Config = {"config": config, "tensor": 8, "weights": "fp8"}
    with_mtp, plain = served(speculative="mtp", **settings), served(**settings)
    caches = [made.worst.ledger.total("kv_cache_latent") for made in (with_mtp, plain)]
    assert caches[0] * 61 == caches[1] * 62


def test_recurrent_states_are_kept_for_every_drafted_token() -> None:
    """Published (vLLM, Qwen3.6-27B with MTP on two cards): 10.85 GiB hold 2.34 sequences of 262144 tokens.

    Printed were 612157 tokens: 418 blocks of 1600 tokens, of which a sequence takes 179. A block of 17 layers has
    1638400 bytes each, so large that a state fits whose convolution keeps three inputs more.
    """
    linear = {
        "model_type": "qwen3_5_text", "hidden_size": 5120, "num_hidden_layers": 64, "num_attention_heads": 24,
        "num_key_value_heads": 4, "head_dim": 256, "intermediate_size": 17408, "vocab_size": 248320,
        "linear_num_value_heads": 48, "linear_num_key_heads": 16, "linear_key_head_dim": 128,
        "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "mtp_num_hidden_layers": 1,
        "max_position_embeddings": 262144, "tie_word_embeddings": False,
        "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 16,
    }  # fmt: skip
    settings: Config = {"config": linear, "tensor": 2, "kv_cache": "fp8", "max_model_len": 262144}
    with_mtp = served(speculative="mtp", draft_tokens=3, **settings).worst.ledger.total("kv_cache")
    assert with_mtp == 179 * 17 * 1638400
    without = served(**settings).worst.ledger.total("kv_cache")
    assert without == (168 + 3 * 2) * 16 * 1605632
    uncached = served(prefix_caching=False, **settings).worst.ledger.total("kv_cache")
    assert uncached == (168 + 3) * 16 * 1605632
    assert served(version="0.23.0", **settings).worst.ledger.total("kv_cache") == uncached


@pytest.mark.parametrize(
    ("serving", "code", "field"),
    [
        (
            {"speculative": "draft", "draft_model": {"id": "no/such"}},
            "model_id_unknown",
            "serving.draft_model.id",
        ),
        ({"speculative": "draft", "draft_model": {}}, "model_not_given", "serving.draft_model.id"),
        (
            {"speculative": "draft", "draft_model": {"config": {}}},
            "draft_not_described",
            "serving.draft_model",
        ),
    ],
)
def test_a_draft_that_is_none_is_refused(serving: Config, code: str, field: str) -> None:
    with pytest.raises(ScenarioError) as refusal:
        served(**serving)
    assert (refusal.value.issues[0].code, refusal.value.issues[0].field) == (code, field)


def test_what_does_not_fit_or_matter_is_said() -> None:
    other = served(speculative="draft", draft_model={"config": SMALL | {"vocab_size": 1000}})
    assert "draft_vocabulary" in {issue.code for issue in other.issues}
    idle = served(draft_model={"config": SMALL}, draft_tokens=4)
    assert {i.field for i in idle.issues if i.code == "no_effect"} == {
        "serving.draft_model",
        "serving.draft_tokens",
    }
    assert ("not_modelled", "serving.speculative") in {
        (i.code, i.field) for i in served(speculative="draft").issues
    }


@pytest.mark.parametrize(
    ("runtime", "serving", "words"),
    [
        ("vllm", {"speculative": "mtp"}, '"method": "mtp", "num_speculative_tokens": 1'),
        ("vllm", {"speculative": "draft"}, '"model": "meta-llama/Llama-3.2-1B", "num_speculative_tokens": 4'),
        ("vllm", {"speculative": "eagle3"}, '"method": "eagle3", "model": "meta-llama/Llama-3.2-1B"'),
        (
            "sglang",
            {"speculative": "draft"},
            "STANDALONE --speculative-draft-model-path meta-llama/Llama-3.2-1B",
        ),
        ("sglang", {"speculative": "mtp"}, "--speculative-algorithm EAGLE"),
    ],
)
def test_flags(runtime: str, serving: Config, words: str) -> None:
    named: Config = {"draft_model": {"id": "meta-llama/Llama-3.2-1B"}, "draft_tokens": 4}
    made = command_for(served(runtime, **serving, **({} if serving["speculative"] == "mtp" else named)))
    assert made is not None
    assert words in " ".join(made.words)


def test_a_command_line_brings_its_draft() -> None:
    text = (
        "vllm serve meta-llama/Llama-3.1-8B --speculative-config "
        '\'{"model": "meta-llama/Llama-3.2-1B", "num_speculative_tokens": 5}\''
    )
    base = {"version": 1, "task": "serve", "model": {}, "hardware": {"devices": [{"gpu": "unknown"}]}}
    serving = import_text(text, base).document["serving"]
    assert serving["speculative"] == "draft"
    assert serving["draft_model"] == {"id": "meta-llama/Llama-3.2-1B"}
    assert serving["draft_tokens"] == 5
