"""Scratch of ik_llama.cpp, llama.cpp and Ollama, against the buffers that their logs print."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planner.accuracy.predict import devices_of
from planner.estimate import plan
from planner.memory.serving_llama_latent import experts_offloaded, head_turns, on_cuda
from planner.memory.serving_llama_ollama import flash_by_default
from planner.model.from_config import model_from_config
from planner.scenario import Scenario
from planner.serving.readings import serving_readings
from planner.units import GIB, MIB
from tests.planner.serving.cases import (
    DEEPSEEK_V3,
    QWEN3_30B_A3B,
    Config,
    llama,
    scenario,
    serve,
    tables,
    truth,
    truth_scenario,
)

EXACT = [
    # (published record, MiB printed): heads in turns, experts copied in
    ("ik-disc258-44", 3588.01),
    ("ik-disc258-48", 4104.02),
    # heads in turns, the host works: masks and the latent in 16 bit stay; with a quantized cache twice
    ("ik-disc258-42", 3393.0),
    ("ik-disc258-45", 3425.0),
    # the same for an interleaved type that the build cannot multiply on CUDA, however large the step
    ("ik-issu450-25", 3650.0),
    # all heads at once, the host works
    ("ik-disc286-40", 503.0),
    ("ik-pull616-66-device0", 263.0),
    # logits of the last device, one residual stream
    ("ik-pull616-66-device1", 334.0),
    # both halves of the widest feed-forward layer and their product: masks beside it on the first device, none
    # where no attention follows, one in 16 bit where it does
    ("ik-pull377-67-device0", 412.0),
    ("ik-pull377-67-device2", 2560.0),
    ("ik-pull377-67-device3", 2086.0),
]
NEAR = [
    # gate and up of all experts copied in beside their outputs
    ("ik-disc258-50", 4252.01, 0.002),
    ("ik-disc258-49", 4472.01, 0.002),
    # long contexts: both masks beside keys and values of every turn
    ("ik-issu437-02-device0", 7272.01, 0.045),
    ("ik-issu437-08-device0", 4792.02, 0.015),
    ("ik-issu485-10-device0", 11718.24, 0.015),
    # llama.cpp, the first device only
    ("llamacpp-pull394-60-device0", 3285.0, 0.01),
    ("llamacpp-pull394-60-device1", 788.0, 0.02),
    # without flash attention: scores of every head
    ("ik-issu305-12-device1", 2491.5, 0.03),
    # Ollama's own engine
    ("ollama-qwen3-30b-q8-a10", 190.5, 0.015),
    ("ollama-gemma3-1b-6gb", 80.0, 0.001),
]
HOST = [
    ("ik-issu450-25", 352.01),
    ("ik-disc258-45", 176.01),
    ("ik-disc286-40", 162.01),
    ("ik-pull616-66-device0", 162.01),
    ("ik-disc334-30", 138.51),
    ("ollama-qwen3-30b-q8-a10", 84.0),
    ("llamacpp-qwen3-4b-gb10", 18.01),
    ("llamacpp-pull394-60-device0", 92.01),
]


def reading(name: str, metric: str) -> float:
    record = next(r for r in truth("serving.jsonl") if r["id"] == name)
    made = plan(truth_scenario(record), tables())
    return serving_readings(made, devices_of(made, record["rank"])[0])[metric] / MIB


@pytest.mark.parametrize(
    ("name", "billions", "weights_mib"),
    [
        # quantized by ik_llama.cpp: the decompression matrix a second time in the file
        ("ik-disc258-41", 672.05, 17744.02),
        # repacked: it is not
        ("ik-disc393-55", 671.026, 16706.99),
        ("ik-disc258-42", 671.026, None),
    ],
)
def test_copies_of_the_latent_in_the_file(name: str, billions: float, weights_mib: float | None) -> None:
    assert reading(name, "parameters") * MIB / 1e9 == pytest.approx(billions, abs=0.0005)
    if weights_mib is not None:
        assert reading(name, "weights_bytes") == pytest.approx(weights_mib, abs=0.2)


@pytest.mark.parametrize(("name", "mib"), EXACT)
def test_buffers_to_a_tenth_of_a_mebibyte(name: str, mib: float) -> None:
    assert reading(name, "compute_buffer_bytes") == pytest.approx(mib, abs=0.1)


@pytest.mark.parametrize(("name", "mib", "share"), NEAR)
def test_buffers_within_a_share(name: str, mib: float, share: float) -> None:
    assert reading(name, "compute_buffer_bytes") == pytest.approx(mib, rel=share)


@pytest.mark.parametrize(("name", "mib"), HOST)
def test_host_buffers(name: str, mib: float) -> None:
    assert reading(name, "host_compute_buffer_bytes") == pytest.approx(mib, abs=0.1)


@pytest.mark.parametrize(
    ("heads", "whole_mib", "bound", "turns"),
    [
        (128, 4096, 512, 8),
        (128, 5120, 512, 16),  # a tenth would do, but heads divide by 16
        (128, 7680, 512, 16),
        (128, 512, 512, 1),
        (128, 4096, None, 1),
        (128, 4096, 1, 128),
    ],
)
def test_turns_divide_the_heads(heads: int, whole_mib: int, bound: int | None, turns: int) -> None:
    assert head_turns(heads, whole_mib * MIB, bound) == turns


@pytest.mark.parametrize(("heads", "turns"), [(20, 4), (128, 32), (64, 32)])
def test_earlier_builds_halve_the_heads_of_a_turn(heads: int, turns: int) -> None:
    """Published in pull request 1211: of GLM-4.7-Flash's 20 heads five stay together, however low the bound."""
    assert head_turns(heads, 7168 * MIB, 256, halved=True) == turns


@pytest.mark.parametrize(
    ("build", "bound", "gib", "share"),
    [("b4122", None, 11.0, 0.05), ("b4122", 256, 7.3, 0.1), (None, 256, 7.3, 0.1), ("b4122", 64, 7.3, 0.1)],
)
def test_scratch_published_before_one_turn_was_held(
    build: str | None, bound: int | None, gib: float, share: float
) -> None:
    assert _glm_scratch_bytes(build, bound) == pytest.approx(gib * GIB, rel=share)


@pytest.mark.parametrize(("bound", "heads"), [(1400, 4), (700, 2), (100, 1)])
def test_later_builds_hold_one_turn(bound: int, heads: int) -> None:
    """Keys and values of its heads in 32 and 16 bit, rotary keys; query, result, stream, two masks."""
    cells, step = 202_752, 2048
    turn = cells * heads * (448 * 6 + 64 * 2)
    rest = step * (20 * 512 + 2048) * 4 + step * cells * 6
    assert _glm_scratch_bytes("b4200", bound) == turn + rest
    assert _glm_scratch_bytes("b4200", None) == _glm_scratch_bytes("b4122", None)


def _glm_scratch_bytes(build: str | None, bound: int | None) -> int:
    """GLM-4.7-Flash over four cards, 202752 tokens, 2048 a step."""
    document = {
        "version": 1, "task": "serve", "model": {"id": "zai-org/GLM-4.7-Flash"},
        "hardware": {"devices": [{"gpu": "rtx-3090-24gb", "count": 4}]},
        "runtime": {"name": "ik_llama_cpp", "version": build},
        "serving": {
            "max_model_len": 202_752, "batched_tokens": 2048, "max_sequences": 1, "mla_mode": 3,
            "flash_attention": True, "weights": "q4_k_m", "attention_max_batch_mib": bound,
        },
    }  # fmt: skip
    made = plan(Scenario.model_validate_json(json.dumps(document)), tables())
    return made.devices[0].ledger.total("compute_buffer")


@pytest.mark.parametrize(
    ("runtime", "config", "step", "copied"),
    [
        ("ik_llama_cpp", DEEPSEEK_V3, 512, False),
        ("ik_llama_cpp", DEEPSEEK_V3, 1024, True),
        ("ik_llama_cpp", QWEN3_30B_A3B, 512, True),
        ("llama_cpp", DEEPSEEK_V3, 32, True),
        ("llama_cpp", DEEPSEEK_V3, 16, False),
        ("ik_llama_cpp", llama(), 4096, False),
    ],
)
def test_when_experts_are_copied_to_a_device(runtime: str, config: Config, step: int, copied: bool) -> None:
    asked = scenario(config, runtime, host_experts=True, batched_tokens=step)
    assert experts_offloaded(asked, model_from_config(config), step) is copied


@pytest.mark.parametrize(
    ("settings", "mib"),
    [
        # keys and values of one layer: 8 heads of 128, twice, over 16384 tokens, 2 bytes each
        ({"kv_cache": "q8_0"}, 64.0),
        ({"kv_cache": "fp16", "kv_cache_v": "q4_0"}, 32.0),
        ({"kv_cache": "fp16"}, 0.0),
        ({"kv_cache": "q8_0", "flash_attention": False}, 0.0),
    ],
)
def test_a_quantized_cache_is_converted_a_layer_at_a_time(settings: dict[str, Any], mib: float) -> None:
    made = serve(llama(), "llama_cpp", gpu="rtx-4090-24gb", max_model_len=16384, **settings)
    assert made.devices[0].ledger.total("kv_conversion") / MIB == mib


@pytest.mark.parametrize(
    ("kind", "version", "flash"),
    [("gemma3_text", "0.12", False), ("gemma3_text", "0.14", True), ("qwen3", "0.12", True)],
)
def test_flash_attention_of_ollamas_own_engine(kind: str, version: str, flash: bool) -> None:
    config = llama(model_type=kind)
    asked = scenario(config, "ollama", version=version)
    assert flash_by_default(asked, model_from_config(config)) is flash


@pytest.mark.parametrize(("build", "mib"), [("b9200", 2408.0), ("b9400", 1236.0)])
def test_masks_in_16_bit_halve_the_hosts_buffer(build: str, mib: float) -> None:
    """Published in llama.cpp's issue 23527: a model of width 2048 at 150000 tokens, 4096 a step."""
    made = serve(
        QWEN3_30B_A3B, "llama_cpp", gpu="rtx-3090-24gb", version=build, max_model_len=150_000,
        batched_tokens=4096, max_sequences=1, weights="q4_k_m",
    )  # fmt: skip
    assert made.serving is not None
    assert made.serving.host.compute_buffer_bytes / MIB == pytest.approx(mib, abs=0.1)


@pytest.mark.parametrize(("build", "rows"), [(None, 512), ("b9200", 512), ("b9400", 4), ("b9400-np1", 1)])
def test_later_servers_make_room_for_one_row_of_logits_a_slot(build: str | None, rows: int) -> None:
    """llama.cpp's pull request 23861."""
    version = build.removesuffix("-np1") if build else None
    settings: Config = {"max_sequences": 1 if rows == 1 else 4, "max_model_len": 4096, "batched_tokens": 512}
    made = serve(llama(), "llama_cpp", gpu="a10-24gb", version=version, **settings)
    found = made.devices[0].ledger.total("compute_buffer")
    layer = 512 * (2 * 14336 + 2 * 4096) * 4
    assert found == max(rows * 128_256 * 4 + 512 * 4096 * 4, layer)


@pytest.mark.parametrize(
    ("device", "held"),
    [
        ({"gpu": "rtx-4090-24gb"}, True),
        ({"gpu": "rtx-4090-24gb", "free_bytes": 20 * 1024 * MIB}, False),
        ({"gpu": "a10-24gb"}, False),
    ],
)
def test_a_consumers_card_holds_more_beside_the_buffers(device: Config, held: bool) -> None:
    made = serve(llama(), "llama_cpp", devices=[device], max_model_len=4096)
    ledger = made.devices[0].ledger
    both = ledger.total("cuda_context", "display_and_libraries")
    assert (both == 864 * MIB) is held


@pytest.mark.parametrize(
    ("weights", "build", "expected"),
    [
        ("iq4_k_r4", 3703, False),
        ("iq4_k_r4", 3737, True),
        ("iq1_s_r4", 3720, False),
        ("iq1_s_r4", 3723, True),
        ("q4_k_r4", 9999, False),
        ("q8_0_r8", 9999, False),
        ("q4_k_m", 3671, True),
        ("iq2_kt", 3737, True),
        ("", 3671, True),
    ],
)
def test_interleaved_types_that_cuda_multiplies(weights: str, build: int, expected: bool) -> None:
    assert on_cuda(weights, build) is expected
