"""CUDA's lists of autocast, as the installed PyTorch's own header has them."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from profiler.trace.child.autocast import (
    KEY,
    RESULT_IN_FP32,
    TO_FP32,
    TO_LOWER,
    WIDEST,
    cuda_lists,
)

HEADER = Path(torch.__file__).parent / "include" / "ATen" / "autocast_mode.h"


def _listed(name: str) -> set[str]:
    """Operators of one of the header's lists, with overloads as the dispatcher writes them."""
    text = HEADER.read_text(encoding="utf-8")
    found = re.search(rf"#define {name}\(_\)(.*?)\n\n", text, re.DOTALL)
    assert found is not None
    entries = re.findall(r"_\(([^)]*)\)", found.group(1))
    return {".".join(part.strip() for part in entry.split(",")) for entry in entries}


def _has_kernel(name: str) -> bool:
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", KEY))


def test_what_is_cast_to_fp32_is_the_headers_list() -> None:
    assert set(TO_FP32) == _listed("AT_FORALL_FP32")
    assert set(RESULT_IN_FP32) == _listed("AT_FORALL_FP32_SET_OPT_DTYPE")


@pytest.mark.parametrize("name", ["AT_FORALL_LOWER_PRECISION_FP", "AT_FORALL_PROMOTE"])
def test_what_the_cpus_list_lacks_is_added_and_taken_back(name: str) -> None:
    wanted = _listed(name)
    missing = {each for each in wanted if not _has_kernel(each)}
    assert missing <= set(TO_LOWER) | set(WIDEST)
    with cuda_lists():
        assert all(_has_kernel(each) for each in wanted)
    assert {each for each in wanted if not _has_kernel(each)} == missing


HALF, WIDE = torch.bfloat16, torch.float32


def _cast(function: Any, *args: Any) -> Any:
    with cuda_lists(), torch.autocast("cpu", dtype=HALF):
        return function(*args).dtype


@pytest.mark.parametrize(
    ("function", "args", "dtype"),
    [
        (torch.exp, (torch.ones(3, dtype=HALF),), WIDE),
        (torch.pow, (torch.ones(3, dtype=HALF), 2), WIDE),
        (torch.sum, (torch.ones(3, dtype=HALF),), WIDE),
        (torch.cumsum, (torch.ones(3, dtype=HALF), 0), WIDE),
        (torch.mv, (torch.ones(3, 3), torch.ones(3)), HALF),
        (torch.mm, (torch.ones(3, 3), torch.ones(3, 3)), HALF),
        (torch.nn.functional.rms_norm, (torch.ones(3, dtype=HALF), [3]), WIDE),
        (torch.atan2, (torch.ones(3, dtype=HALF), torch.ones(3)), WIDE),
        (torch.atan2, (torch.ones(3, dtype=HALF), torch.ones(3, dtype=HALF)), HALF),
        (torch.tanh, (torch.ones(3, dtype=HALF),), HALF),
        (torch.nn.functional.mse_loss, (torch.ones(3, dtype=HALF), torch.ones(3)), WIDE),
    ],
)
def test_formats_come_out_as_on_cuda(function: Any, args: tuple[Any, ...], dtype: Any) -> None:
    assert _cast(function, *args) is dtype


def test_a_format_asked_for_is_kept() -> None:
    with cuda_lists(), torch.autocast("cpu", dtype=HALF):
        assert torch.sum(torch.ones(3, dtype=HALF), 0, dtype=HALF).dtype is HALF
        assert torch.softmax(torch.ones(3, dtype=HALF), 0).dtype is WIDE
