"""Weights of which two in four are kept (SEEDS B18): bytes, cards, what stays dense, what is read."""

from __future__ import annotations

import pytest

from hardware_db import load_tables
from planner.claims.serving import served
from planner.claims.types import cautions, planned
from planner.throughput.serving_speed import serving_speed

TABLES = load_tables()
LINEARS = 32 * (4096 * (4096 + 2 * 1024 + 4096) + 3 * 4096 * 14336)
MODEL = "meta-llama/Llama-3.1-8B"
ONE = {"prompt_tokens": 512, "output_tokens": 128, "concurrency": 1}


def weights(name: str, *parts: str) -> int:
    ledger = planned(served(MODEL, "h100-sxm-80gb", weights=name), TABLES).worst.ledger
    return sum(entry.bytes for entry in ledger.entries if entry.name in {f"weights_{part}" for part in parts})


@pytest.mark.parametrize(
    ("name", "element_bytes", "scales"),
    [
        ("sparse24_bf16", 4.5 / 4, 0),
        ("sparse24_fp8", 2.5 / 4, 4 * 32 * (4096 + 2 * 1024 + 4096 + 2 * 14336 + 4096)),
    ],
)
def test_b18_half_the_values_and_two_bits_a_kept_one(name: str, element_bytes: float, scales: int) -> None:
    assert weights(name, "attention", "mlp") == LINEARS * element_bytes + scales


def test_embedding_head_and_norms_stay_dense() -> None:
    assert weights("sparse24_bf16", "embedding", "head", "norm") == 2 * (8_030_261_248 - LINEARS)


@pytest.mark.parametrize(
    ("gpu", "name", "warned"),
    [
        ("a100-sxm-80gb", "sparse24_bf16", False),
        ("v100-sxm-32gb", "sparse24_bf16", True),
        ("a100-sxm-80gb", "sparse24_fp8", True),
        ("h100-sxm-80gb", "sparse24_fp8", False),
    ],
)
def test_cards_without_sparse_tensor_cores_are_named(gpu: str, name: str, warned: bool) -> None:
    assert ("dtype_unsupported" in cautions(served(MODEL, gpu, weights=name), TABLES)) is warned


def test_a_lone_request_reads_less() -> None:
    times = {
        name: serving_speed(
            planned({**served(MODEL, "h100-sxm-80gb", weights=name), "workload": ONE}, TABLES), TABLES
        )
        for name in ("bf16", "sparse24_bf16")
    }
    dense, sparse = (times[name].tpot_s or 0 for name in ("bf16", "sparse24_bf16"))
    assert 0.55 < sparse / dense < 0.85
