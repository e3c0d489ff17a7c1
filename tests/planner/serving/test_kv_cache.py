"""KV cache against closed forms and published figures."""

from __future__ import annotations

from math import ceil
from typing import get_args

import pytest

from hardware_db import load_tables
from planner.claims.types import planned
from planner.estimate import plan
from planner.issues import ScenarioError
from planner.memory.kv_cache import (
    KV_BYTES,
    CacheShape,
    cache_shapes,
    element_bytes,
    kv_heads_on_rank,
    shapes_by_count,
)
from planner.memory.serving_paged import PAD_LIMIT, PAD_LIMIT_LATER, Group, PagedPool, paged_pool
from planner.model.from_config import model_from_config
from planner.model.spec import AttentionKind
from planner.scenario_values import KvFormat
from planner.units import GIB, MIB
from planner.validation import parse_scenario
from tests.planner.serving.cases import (
    DEEPSEEK_V3,
    QWEN3_30B_A3B,
    Config,
    gpt_oss,
    llama,
    serve,
    tables,
    truth,
)


def token_bytes(config: Config, kv_cache: str = "bf16", tensor: int = 1) -> float:
    shapes = shapes_by_count(model_from_config(config).layers, tensor)
    return sum(count * shape.token_bytes(kv_cache, kv_cache) for shape, count in shapes.items())


# SEEDS G8: 80 layers of 8192 with as many KV heads as query heads, and with 8 KV heads
SEVENTY = llama(
    hidden_size=8192, num_hidden_layers=80, num_attention_heads=64, num_key_value_heads=64, head_dim=128
)


@pytest.mark.parametrize(
    ("config", "tokens", "size"),
    [
        pytest.param(SEVENTY, 2048, 5 * GIB, id="G8-multi-head-80x8192-2048-tokens-5.0-GiB"),
        pytest.param(
            SEVENTY | {"num_key_value_heads": 8},
            2048,
            640 * MIB,
            id="G8-8-heads-of-128-2048-tokens-0.625-GiB",
        ),
        pytest.param(
            SEVENTY | {"num_key_value_heads": 8, "head_dim": 64},
            2048,
            320 * MIB,
            id="8-heads-of-64-half-of-that",
        ),
        pytest.param(llama(num_key_value_heads=1), 1, 32 * 2 * 128 * 2, id="multi-query"),
        pytest.param(QWEN3_30B_A3B, 4096, 384 * MIB, id="qwen3-30b-a3b-4096-llama.cpp-log-384-MiB"),
        pytest.param(DEEPSEEK_V3, 1, 61 * 576 * 2, id="deepseek-v3-latent-576-a-layer"),
    ],
)
def test_cache_of_a_sequence(config: Config, tokens: int, size: int) -> None:
    assert token_bytes(config) * tokens == size


def test_the_wrong_claim_of_48_gb_is_nine_times_off() -> None:
    assert 48e9 / (token_bytes(SEVENTY) * 2048) == pytest.approx(9, abs=0.1)


def test_j001_vllm_charges_every_layer_of_gpt_oss() -> None:
    record = next(r for r in truth("scenarios.jsonl") if r["id"] == "J001")
    answer = serve(gpt_oss(36, 128), weights="mxfp4", version="0.11.0").serving
    assert answer is not None
    assert answer.kv_bytes_per_token == record["expected"]["value"] == 73_728
    tokens = record["figures"]["kv_gib"] * GIB / answer.kv_bytes_per_token
    assert tokens == pytest.approx(record["figures"]["tokens"], rel=1e-3)


def test_j002_paged_engines_hold_whole_pages_of_gpt_oss() -> None:
    load = {"concurrency": 32, "prompt_tokens": 8000, "output_tokens": 192}
    plan = serve(gpt_oss(24, 32), weights="mxfp4", max_model_len=8192, workload=load)
    assert plan.devices[0].ledger.total("kv_cache") / GIB == pytest.approx(12.0, rel=0.01)


def test_j002_llama_cpp_caps_the_windows() -> None:
    plan = serve(gpt_oss(24, 32), "llama_cpp", max_model_len=32 * 8192, max_sequences=32, weights="mxfp4")
    ledger = plan.devices[0].ledger
    assert ledger.total("kv_cache") == 6 * GIB
    assert ledger.total("kv_cache_window") == 12 * 32 * 768 * 2048  # 128 + 512, padded to 256


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("fp32", 32),
        ("bf16", 16),
        ("fp16", 16),
        ("fp8", 8),
        ("q8_0", 8.5),
        ("q5_1", 6),
        ("q4_0", 4.5),
        ("iq4_nl", 4.5),
    ],
)
def test_bits_of_cache_formats(name: str, bits: float) -> None:
    assert element_bytes(name) * 8 == bits


def test_every_cache_format_of_the_schema_has_a_size() -> None:
    assert set(get_args(KvFormat)) == set(KV_BYTES)


@pytest.mark.parametrize(
    ("heads", "tensor", "held"),
    [(8, 1, 8), (8, 2, 4), (8, 8, 1), (8, 16, 1), (4, 8, 1), (1, 4, 1), (10, 4, 3)],
)
def test_heads_are_never_divided(heads: int, tensor: int, held: int) -> None:
    assert kv_heads_on_rank(heads, tensor) == held


def test_the_latent_is_whole_on_every_rank() -> None:
    assert token_bytes(DEEPSEEK_V3, tensor=8) == token_bytes(DEEPSEEK_V3)


def test_keys_and_values_in_two_formats() -> None:
    one = serve(llama(), "llama_cpp", max_model_len=4096, kv_cache="q8_0", kv_cache_v="q4_0")
    expected = 32 * 4096 * 1024 * (34 + 18) / 32
    assert one.devices[0].ledger.total("kv_cache") == expected


# --- the pool of vLLM: blocks printed in logs of 0.19 against the tokens and concurrency printed beside them


def pool(
    full: int, windowed: int, window: int | None, kind: AttentionKind, groups: int, size: int
) -> PagedPool:
    shapes = {CacheShape(kind=AttentionKind.FULL, key=128, value=128): full}
    if windowed:
        shapes[CacheShape(kind=kind, window=window, key=128, value=128)] = windowed
    made = paged_pool(
        shapes, key_format="bf16", value_format="bf16", block_tokens=16, batched_tokens=8192, hybrid=True
    )
    assert (len(made.groups), made.group_layers) == (groups, size)
    return made


@pytest.mark.parametrize(
    ("layout", "blocks", "tokens", "concurrency"),
    [
        pytest.param((23, 23, 4096, AttentionKind.SLIDING, 2, 23), 7335, 58_672, 7.16, id="gemma-2-27b"),
        pytest.param((13, 13, 4096, AttentionKind.SLIDING, 2, 13), 83_770, 670_160, 81.73, id="gemma-2-2b"),
        pytest.param(
            (10, 52, 1024, AttentionKind.SLIDING, 7, 10), 15_997, 36_560, 4.46, id="gemma-3-27b-padded"
        ),
        pytest.param(
            (12, 36, 8192, AttentionKind.CHUNKED, 4, 12), 91_495, 365_968, 44.68, id="llama-4-scout"
        ),
        pytest.param(
            (12, 12, 128, AttentionKind.SLIDING, 2, 12), 323_972, 2_591_776, 316.07, id="gpt-oss-20b"
        ),
    ],
)
def test_groups_of_hybrid_models(
    layout: tuple[int, int, int, AttentionKind, int, int], blocks: int, tokens: int, concurrency: float
) -> None:
    made = pool(*layout)
    assert made.tokens(blocks) == tokens
    assert round(blocks / made.blocks_for(8192), 2) == concurrency


def test_one_layer_more_of_a_kind_is_padded_not_split() -> None:
    assert pool(13, 12, 128, AttentionKind.SLIDING, 2, 13).group_layers == 13


def test_an_older_limit_splits_earlier() -> None:
    shapes = {
        CacheShape(kind=AttentionKind.FULL, key=1, value=1): 10,
        CacheShape(kind=AttentionKind.SLIDING, key=1, value=1, window=64): 13,
    }

    def made(pad_limit: float) -> PagedPool:
        return paged_pool(
            shapes,
            key_format="bf16",
            value_format="bf16",
            block_tokens=16,
            batched_tokens=64,
            hybrid=True,
            pad_limit=pad_limit,
        )

    old, new = made(PAD_LIMIT), made(PAD_LIMIT_LATER)
    assert (old.group_layers, new.group_layers) == (10, 13)


def test_without_hybrid_groups_windows_cost_as_much_as_all() -> None:
    shapes = {
        CacheShape(kind=AttentionKind.FULL, key=64, value=64): 4,
        CacheShape(kind=AttentionKind.SLIDING, key=64, value=64, window=64): 20,
    }
    made = paged_pool(
        shapes, key_format="bf16", value_format="bf16", block_tokens=16, batched_tokens=64, hybrid=False
    )
    assert made.groups == (Group(kind=AttentionKind.FULL),)
    assert made.token_bytes == 24 * 2 * 64 * 2


def test_a_block_is_as_large_as_a_recurrent_state() -> None:
    shapes = {
        CacheShape(kind=AttentionKind.FULL, key=256, value=256): 2,
        CacheShape(kind=AttentionKind.LINEAR, state=100_000, conv=1000): 6,
    }
    made = paged_pool(
        shapes, key_format="bf16", value_format="bf16", block_tokens=16, batched_tokens=64, hybrid=True
    )
    state = 100_000 * 4 + 1000 * 2
    assert made.page_bytes >= state
    assert made.block_tokens == ceil(state / 1024 / 16) * 16
    assert made.blocks_for(made.block_tokens * 3) == 3 + 3  # one full group, three recurrent ones


@pytest.mark.parametrize("context", [1, 15, 16, 17, 4096])
def test_the_longest_sequence_is_the_inverse_of_its_blocks(context: int) -> None:
    made = pool(12, 36, 8192, AttentionKind.CHUNKED, 4, 12)
    need = made.blocks_for(context)
    longest = made.longest(need, 10_000)
    assert made.blocks_for(longest) <= need < made.blocks_for(longest + 16)
    assert longest >= context


def test_an_encoder_is_no_server_of_text() -> None:
    bert = {
        "model_type": "bert", "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
        "intermediate_size": 3072, "vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2,
    }  # fmt: skip
    with pytest.raises(ScenarioError) as refused:
        serve(bert)
    assert ("model_cannot_generate", "model.config.model_type") in [
        (i.code, i.field) for i in refused.value.issues
    ]


@pytest.mark.parametrize(("version", "windowed_tokens"), [(None, 512), ("4.56.0", 512), ("4.50.0", 32768)])
def test_transformers_keeps_a_window_since_4_56(version: str | None, windowed_tokens: int) -> None:
    """gemma-3-1b: 22 layers see 512 tokens, 4 all; 139 MiB at 32,768 tokens (lablup/mlxcel pull 172)."""
    runtime = {"name": "transformers"} | ({"version": version} if version else {})
    job = {
        "task": "serve",
        "model": {"id": "google/gemma-3-1b-pt"},
        "hardware": {"devices": [{"gpu": "h100-sxm-80gb", "count": 1}]},
        "runtime": runtime,
        "workload": {"concurrency": 1, "prompt_tokens": 32767, "output_tokens": 1},
        "serving": {"weights": "bf16", "kv_cache": "bf16"},
    }
    held = planned(job, load_tables()).worst.ledger.total("kv_cache", "kv_cache_window")
    assert held == (22 * windowed_tokens + 4 * 32768) * 2 * 256 * 2


FALCON_H1 = {"id": "tiiuae/Falcon-H1-0.5B-Base"}


@pytest.mark.parametrize("runtime", ["vllm", "sglang", "llama_cpp", "transformers"])
def test_attention_with_mamba_heads_beside_it_keeps_both(runtime: str) -> None:
    """Falcon-H1-0.5B: per layer 2 x 2 heads x 64 a token, and a state of 24 x 64 x 128 with 1792 x 3 inputs."""
    document = {
        "version": 1, "task": "serve", "model": FALCON_H1, "hardware": {"devices": [{"gpu": "h100-sxm-80gb"}]},
        "runtime": {"name": runtime}, "serving": {"max_model_len": 8192, "max_sequences": 1, "prefix_caching": False},
    }  # fmt: skip
    asked, issues = parse_scenario(document)
    assert asked is not None, issues
    made = plan(asked, tables())
    layer = made.model.layers[0]
    shapes = {shape.kind: shape for shape in cache_shapes(layer, 1)}
    assert (shapes[AttentionKind.FULL].key, shapes[AttentionKind.FULL].value) == (128, 128)
    state = shapes[AttentionKind.STATE_SPACE]
    assert (state.state, state.conv) == (24 * 64 * 128, (24 * 64 + 2 * 128) * 3)
    assert made.serving is not None
    assert made.serving.kv_bytes_per_token == 36 * 2 * 128 * 2
    assert made.serving.state_bytes_per_sequence > 0
