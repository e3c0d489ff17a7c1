"""Kernels by card, format and call, as `sdp_utils.cpp` decides."""

from dataclasses import replace

import pytest

from profiler.trace.attention_rules import AttentionCall, Backend, choose
from profiler.trace.documents import Attention, Target

BF16 = AttentionCall(
    heads=32, key_heads=32, queries=128, keys=128, head_dim=128, value_dim=128, dtype="bfloat16", causal=True
)
FP32 = replace(BF16, dtype="float32")
TURING, AMPERE, ADA, HOPPER, BLACKWELL, GEFORCE = (7, 5), (8, 0), (8, 9), (9, 0), (10, 0), (12, 0)


@pytest.mark.parametrize(
    ("call", "capability", "backend"),
    [
        (BF16, AMPERE, "flash"),
        (BF16, ADA, "flash"),
        (BF16, GEFORCE, "flash"),
        (BF16, HOPPER, "cudnn"),
        (BF16, BLACKWELL, "cudnn"),
        (BF16, TURING, "math"),
        (replace(BF16, dtype="float16"), TURING, "efficient"),
        (FP32, AMPERE, "efficient"),
        (FP32, HOPPER, "efficient"),
        (replace(FP32, key_heads=8, grouped=True), AMPERE, "math"),
        (replace(BF16, key_heads=8, grouped=True), AMPERE, "flash"),
        (replace(BF16, key_heads=8, grouped=True), HOPPER, "cudnn"),
        (replace(BF16, has_mask=True, causal=False), AMPERE, "efficient"),
        (replace(BF16, has_mask=True, causal=False), HOPPER, "cudnn"),
        (replace(BF16, head_dim=256, value_dim=256), HOPPER, "flash"),
        (replace(BF16, head_dim=256, value_dim=256), ADA, "flash"),
        (replace(BF16, head_dim=256, value_dim=256, dropout=0.1), ADA, "efficient"),
        (replace(BF16, head_dim=200, value_dim=200), ADA, "efficient"),
        (replace(BF16, head_dim=200, value_dim=200, needs_grad=False), ADA, "flash"),
        (replace(BF16, head_dim=320, value_dim=320), AMPERE, "efficient"),
        (replace(BF16, head_dim=192), AMPERE, "efficient"),
        (replace(BF16, queries=64), AMPERE, "efficient"),
        (replace(BF16, head_dim=100, value_dim=100), HOPPER, "flash"),
        (replace(FP32, head_dim=30, value_dim=30), AMPERE, "math"),
        (replace(BF16, dropout=0.1), HOPPER, "flash"),
        (replace(BF16, dropout=0.125), HOPPER, "cudnn"),
        (replace(BF16, rows_are_dense=False), AMPERE, "math"),
        (replace(BF16, dtype="float64"), AMPERE, "math"),
    ],
)
def test_the_kernel_is_the_one_pytorch_takes(
    call: AttentionCall, capability: tuple[int, int], backend: Backend
) -> None:
    assert choose(call, Target(compute_capability=capability)) == backend


@pytest.mark.parametrize(
    ("asked", "call", "backend"),
    [
        ("flash", BF16, "flash"),
        ("flash", FP32, "math"),
        ("math", BF16, "math"),
        ("efficient", BF16, "efficient"),
    ],
)
def test_what_is_asked_for_is_taken_where_it_can_run(
    asked: Attention, call: AttentionCall, backend: Backend
) -> None:
    assert choose(call, Target(attention=asked)) == backend


def test_a_cpu_has_its_own_rules() -> None:
    cpu = Target(device="cpu")
    assert choose(FP32, cpu) == choose(replace(BF16, has_mask=True), cpu) == "flash"
    assert choose(replace(FP32, dropout=0.1), cpu) == "math"
    assert choose(replace(FP32, value_dim=64), cpu) == "math"
