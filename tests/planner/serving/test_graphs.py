"""What captured graphs hold: sizes, parts of split attention, logits, graphs of prompts, and the reserve for them.

Values from the sources of vLLM 0.11.0, 0.12.0, 0.16.0 and 0.19.0, and of SGLang 0.4.3.post4, 0.5.8, 0.5.10,
0.5.12, 0.5.15 and 0.5.19.
"""

from __future__ import annotations

from typing import Any

import pytest

from planner.memory.serving_graphs_sglang import decode_batches, prompt_sizes
from planner.model.from_config import model_from_config
from planner.runtimes.sglang_static import bucket, static_frac
from tests.planner.serving.cases import DEEPSEEK_V3, llama, scenario, serve

H100 = "h100-sxm-80gb"


def symbols(config: dict[str, Any], runtime: str = "vllm", **settings: Any) -> dict[str, float]:
    """Symbols of the graphs' entry."""
    entries = serve(config, runtime, **settings).devices[0].ledger.entries
    return dict(next(entry.symbols for entry in entries if entry.name == "cuda_graphs"))


def split_bytes(found: dict[str, float]) -> float:
    """Bytes of the parts of split attention, 0 where there are none."""
    return found["k"] * found["H"] * found["U"] * (found["v"] + 1) * 4 if "k" in found else 0


def test_split_attention_keeps_32_parts_of_every_head() -> None:
    """FlashAttention 3, `out_accum` and `softmax_lse_accum`: 32 parts x 32 heads x 512 sequences x 129 x 4 B."""
    found = symbols(llama(), version="0.19.0", gpu=H100, max_sequences=1024, max_model_len=8192)
    assert split_bytes(found) == 32 * 32 * 512 * (128 + 1) * 4
    halved = symbols(llama(), version="0.19.0", gpu=H100, count=2, parallel={"tensor": 2}, max_sequences=1024)
    assert split_bytes(halved) * 2 == split_bytes(found)


def test_latent_attention_keeps_parts_as_wide_as_the_latent() -> None:
    settings: dict[str, Any] = {
        "gpu": "h200-sxm-141gb", "count": 8, "parallel": {"tensor": 8}, "weights": "fp8", "max_sequences": 256,
    }  # fmt: skip
    found = symbols(DEEPSEEK_V3, version="0.19.0", **settings)
    assert split_bytes(found) == 32 * 16 * 256 * (512 + 1) * 4
    assert split_bytes(symbols(DEEPSEEK_V3, version="0.19.0", kv_cache="fp8", **settings)) == 0
    assert split_bytes(symbols(DEEPSEEK_V3, version="0.11.0", **settings)) == 0
    chosen = {**DEEPSEEK_V3, "index_topk": 2048}
    assert split_bytes(symbols(chosen, version="0.19.0", **settings)) == 0


@pytest.mark.parametrize(
    "settings",
    [
        {"gpu": "a100-sxm-80gb", "version": "0.19.0"},
        {"gpu": "b200-sxm-180gb", "version": "0.19.0"},
        {"gpu": H100, "version": "0.10.2"},
        {"gpu": H100, "version": "0.19.0", "weights": "fp32"},
    ],
)
def test_other_kernels_keep_no_parts(settings: dict[str, Any]) -> None:
    assert split_bytes(symbols(llama(), max_model_len=4096, **settings)) == 0


@pytest.mark.parametrize(
    ("version", "largest", "sizes"),
    [
        ("0.4.3", 80, 13),
        ("0.5.8", 4, 3),
        ("0.5.8", 24, 7),
        ("0.5.8", 256, 36),
        ("0.5.8", 512, 52),
        ("0.5.8", 30, 8),
    ],
)
def test_batches_of_sglang(version: str, largest: int, sizes: int) -> None:
    """The largest is captured too, where it is no step."""
    batches = decode_batches(scenario(llama(), "sglang", version=version), largest)
    assert len(batches) == sizes
    assert batches[-1] == largest


@pytest.mark.parametrize(
    ("config", "settings", "sizes"),
    [
        (llama(), {"version": "0.5.10"}, 58),
        (llama(), {"version": "0.5.9"}, 0),
        (llama(), {"version": "0.5.10", "max_total_tokens": 1024}, 38),
        (llama(), {"version": "0.5.10", "speculative": "eagle3"}, 0),
        (llama(), {"version": "0.5.10", "cuda_graphs": False}, 0),
        (llama(), {"version": "0.5.10", "parallel": {"pipeline": 2}, "count": 2}, 0),
        (DEEPSEEK_V3, {"version": "0.5.10"}, 42),
        (DEEPSEEK_V3, {"version": "0.5.10", "parallel": {"data": 8, "expert": 8}, "count": 8}, 0),
    ],
)
def test_prompts_run_in_graphs_from_0_5_10(
    config: dict[str, Any], settings: dict[str, Any], sizes: int
) -> None:
    asked = scenario(config, "sglang", **settings)
    assert len(prompt_sizes(asked, model_from_config(config), 8192)) == sizes


@pytest.mark.parametrize(
    ("config", "settings", "reserve_mib"),
    [
        (llama(), {"version": "0.5.8"}, 512 + 12288 + 512 + 128),
        (llama(), {"version": "0.5.10"}, 512 + 12288 + 512 + 128 + 58 * 8),
        (DEEPSEEK_V3, {"version": "0.5.10"}, 512 + 12288 + 512 + 128 + 1536),
        (llama(), {"version": "0.5.8", "speculative": "eagle3"}, 512 + 12288 + 512 + 128 + 2048),
        (llama(), {"version": "0.5.12", "speculative": "eagle3"}, 512 + 12288 + 512 + 128 + 4096),
        (llama(), {"version": "0.5.12", "speculative": "draft"}, 512 + 12288 + 512 + 128 + 6144),
        (llama(), {"version": "0.5.15", "speculative": "eagle3"}, 512 + 12288 + 512 + 128),
        (
            DEEPSEEK_V3,
            {"version": "0.5.8", "parallel": {"data": 8, "expert": 8}, "count": 8},
            512 + 12288 + 512 + 1024 + 256 * 8 * 3,
        ),
    ],
)
def test_reserve_of_sglang(config: dict[str, Any], settings: dict[str, Any], reserve_mib: float) -> None:
    asked = scenario(config, "sglang", gpu="generic-80gb", **settings)
    found = static_frac(asked, model_from_config(config), 8192, 256)
    assert found == round(1 - reserve_mib / (80 * 1024), 3)


@pytest.mark.parametrize(
    ("version", "gpu", "ranks", "frac"),
    [
        ("0.4.5", "h200-sxm-141gb", 8, 0.81),
        ("0.4.7", "generic-80gb", 4, 0.85),
        ("0.4.9", "rtx-4090-24gb", 2, round(1 - 3.0 / 24, 3)),
        ("0.4.9", "generic-80gb", 4, round(1 - 11.5 / 80, 3)),
        ("0.5.2", "generic-141gb", 8, round(1 - 16 / 141, 3)),
        ("0.5.1", "generic-180gb", 8, round(1 - 32 / 180, 3)),
        ("0.5.3", "generic-80gb", 1, round(1 - 13440 / 81920, 3)),
    ],
)
def test_three_rules_for_the_share(version: str, gpu: str, ranks: int, frac: float) -> None:
    """By ranks, from 0.4.8 by card, from 0.5.3 by chunk and captured batches."""
    asked = scenario(llama(), "sglang", gpu=gpu, count=ranks, version=version, parallel={"tensor": ranks})
    assert static_frac(asked, model_from_config(llama()), *bucket_of(version, gpu, ranks)) == pytest.approx(
        frac
    )


def bucket_of(version: str, gpu: str, ranks: int) -> tuple[int, int]:
    asked = scenario(llama(), "sglang", gpu=gpu, count=ranks, version=version, parallel={"tensor": ranks})
    return bucket(asked)


@pytest.mark.parametrize(
    ("version", "gpu", "ranks", "found"),
    [
        ("0.4.3", "l4-24gb", 4, (2048, 80)),
        ("0.4.3", "generic-80gb", 1, (8192, 160)),
        ("0.4.9", "rtx-5090-32gb", 1, (2048, 8)),
        ("0.5.2", "h200-sxm-141gb", 1, (8192, 256)),
        ("0.5.3", "rtx-4090-24gb", 1, (2048, 16)),
        ("0.5.8", "rtx-4090-24gb", 1, (2048, 24)),
        ("0.5", "rtx-4090-24gb", 1, (2048, 24)),
        ("0.5.8", "generic-180gb", 8, (16384, 512)),
    ],
)
def test_chunk_and_batches_of_a_card(version: str, gpu: str, ranks: int, found: tuple[int, int]) -> None:
    assert bucket_of(version, gpu, ranks) == found
