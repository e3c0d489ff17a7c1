"""Who asked for a block, as its stack tells."""

from typing import Any

import pytest

from profiler.snapshot.stacks import MAX_FRAMES, Categories, owner, shown_frames

SITE = "/opt/venv/lib/python3.11/site-packages"


def stack(*frames: str) -> list[dict[str, Any]]:
    """Frames from `file:line name`."""
    made = []
    for frame in frames:
        place, name = frame.split(" ", 1)
        filename, _, line = place.rpartition(":")
        made.append({"filename": filename, "line": int(line), "name": name})
    return made


PYTHON = stack(
    f"{SITE}/torch/nn/functional.py:2100 softmax",
    f"{SITE}/torch/nn/modules/module.py:1751 _call_impl",
    f"{SITE}/transformers/models/llama/modeling_llama.py:271 forward",
    f"{SITE}/torch/nn/modules/module.py:1751 _call_impl",
    "/home/user/train.py:20 main",
)
CPP = stack(
    "??:0 torch::unwind::unwind()",
    "??:0 torch::CapturedTraceback::gather(bool, bool, bool)",
    "/build/aten/src/ATen/Functions.h:3 at::_ops::empty_memory_format::call(c10::ArrayRef<c10::SymInt>)",
    "/build/aten/src/ATen/Operators.cpp:9 at::_ops::mm::call(at::Tensor const&, at::Tensor const&)",
    f"{SITE}/torch/nn/modules/linear.py:125 forward",
    "C:\\Users\\me\\train.py:20 main",
)


def test_a_python_stack() -> None:
    seen = owner(PYTHON)
    assert seen.frame is not None
    assert (seen.frame.filename, seen.frame.line, seen.frame.name) == ("/home/user/train.py", 20, "main")
    assert (seen.op, seen.module) == ("softmax", "modeling_llama.py:271")


def test_a_stack_with_frames_of_cpp() -> None:
    seen = owner(CPP)
    assert seen.op == "aten::mm"
    assert seen.frame is not None
    assert seen.frame.filename == "C:/Users/me/train.py"


def test_memory_alone_is_its_own_operator() -> None:
    assert owner(CPP[:3]).op == "aten::empty_memory_format"


@pytest.mark.parametrize("filename", ["<string>", "<ipython-input-3-1f>", "/content/notebook.py", "train.py"])
def test_what_is_not_a_library_is_the_users(filename: str) -> None:
    seen = owner(stack(f"{SITE}/torch/functional.py:1 einsum", f"{filename}:3 step"))
    assert seen.frame is not None
    assert seen.frame.filename == filename


def test_a_stack_of_libraries_alone_has_no_user() -> None:
    assert owner(PYTHON[:4]).frame is None
    assert owner([]) == owner([None, 3, {}])


def test_categories_are_told_for_certain_or_not_at_all() -> None:
    of = Categories().of
    assert of(PYTHON) == of(CPP) == of([]) == "unknown"
    assert of(stack(f"{SITE}/torch/optim/adam.py:150 _init_group")) == "optimizer_states"
    assert of(stack(f"{SITE}/torch/optim/adam.py:450 _multi_tensor_adam")) == "unknown"
    assert of(stack("/home/user/my_optim/adam.py:150 _init_group")) == "unknown"
    assert (
        of(stack(f"{SITE}/torch/nn/modules/module.py:950 _apply", f"{SITE}/torch/nn/modules/module.py:1 to"))
        == "weights"
    )


def test_long_stacks_are_cut() -> None:
    assert len(shown_frames(PYTHON * 1000)) == MAX_FRAMES
