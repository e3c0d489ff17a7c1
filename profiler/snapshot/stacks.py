"""What a recorded stack tells of a block: the caller outside of libraries, the operator, and a certain category."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from planner.ledger import Category
from profiler.snapshot.document import Stack
from profiler.snapshot.view import UNKNOWN, Frame

MAX_FRAMES: Final = 40
"""Frames shown of one stack."""

MAX_READ: Final = 200
"""Frames of one stack that are looked at."""

_LIBRARY: Final = re.compile(
    r"site-packages|dist-packages|(^|/)torch/|/lib/python\d|^<frozen|^(\?\?)?$"
    r"|\.(c|cc|cpp|cu|cuh|h|hpp|so)(\.\d+)*$|\.pyx$",
)
_OPERATOR: Final = re.compile(r"at::_ops::(\w+)::")
_OPTIMIZER: Final = re.compile(r"(^|/)torch/optim/\w+\.py$")
_MODULE: Final = re.compile(r"(^|/)torch/nn/modules/module\.py$")
_PLUMBING: Final = frozenset({
    "__call__", "_call_impl", "_wrapped_call_impl", "wrapper", "wrapped", "inner", "decorate_context",
    "__torch_function__", "__torch_dispatch__", "apply",
})  # fmt: skip
_MAKERS: Final = ("empty", "resize_", "new_empty")
"""Operators that only get memory for the one that called them."""


@dataclass(frozen=True, slots=True)
class Owner:
    """What a stack tells.

    Attributes:
        frame: Innermost frame outside of libraries, None if there is none.
        op: Operator, or else innermost function of a library; empty without a stack.
        module: `file:line` of the innermost `forward`, empty if there is none.
    """

    frame: Frame | None
    op: str
    module: str


def frames(stack: Stack) -> Iterator[Frame]:
    """The frames of a stack that are what they should be, innermost first."""
    for value in islice(stack, MAX_READ):
        frame = _frame(value)
        if frame is not None:
            yield frame


def shown_frames(stack: Stack) -> tuple[Frame, ...]:
    """The innermost frames."""
    return tuple(islice(frames(stack), MAX_FRAMES))


def owner(stack: Stack) -> Owner:
    """Who asked for a block, as far as its stack tells."""
    known = list(frames(stack))
    user = next((frame for frame in known if not _LIBRARY.search(frame.filename)), None)
    inside = next((frame for frame in known if frame.name == "forward"), None)
    return Owner(frame=user, op=_op(known), module="" if inside is None else _place(inside))


def _op(known: list[Frame]) -> str:
    """The innermost operator that computes, else the innermost Python function that is no plumbing."""
    operators = [found[1] for frame in known if (found := _OPERATOR.search(frame.name))]
    if operators:
        return "aten::" + next((name for name in operators if not name.startswith(_MAKERS)), operators[0])
    python = [
        frame.name for frame in known if frame.filename.endswith(".py") or frame.filename.startswith("<")
    ]
    return next((name for name in python if name not in _PLUMBING), "")


def _place(frame: Frame) -> str:
    return f"{frame.filename.rpartition('/')[2]}:{frame.line}"


class Categories:
    """Tells the category of a block for certain or not at all; frames that stacks share are judged once.

    Optimizer states are made in an optimizer's `_init_group`, which makes nothing else. A module moved to the
    device makes its parameters and buffers in `Module._apply`. Everything else (gradients, activations,
    temporaries) comes from the same functions and can't be told apart by its stack.
    """

    def __init__(self) -> None:
        # With the stack or frame itself, so that its id stays its own.
        self._stacks: dict[int, tuple[Stack, str]] = {}
        self._frames: dict[int, tuple[Any, str]] = {}

    def of(self, stack: Stack) -> str:
        """The planner's category, or `UNKNOWN`."""
        known = self._stacks.get(id(stack))
        if known is None:
            known = self._stacks[id(stack)] = stack, self._judge(stack)
        return known[1]

    def _judge(self, stack: Stack) -> str:
        kinds = self._frames
        for value in islice(stack, MAX_READ):
            known = kinds.get(id(value))
            if known is None:
                known = kinds[id(value)] = value, _category(_frame(value))
            if known[1] != UNKNOWN:
                return known[1]
        return UNKNOWN


def _category(frame: Frame | None) -> str:
    if frame is None:
        return UNKNOWN
    if frame.name == "_init_group" and _OPTIMIZER.search(frame.filename):
        return Category.OPTIMIZER.value
    if frame.name == "_apply" and _MODULE.search(frame.filename):
        return Category.WEIGHTS.value
    return UNKNOWN


def _frame(value: Any) -> Frame | None:
    """A frame, None if it is not one."""
    if not isinstance(value, dict):
        return None
    filename, name, line = value.get("filename"), value.get("name"), value.get("line")
    if not isinstance(filename, str) or not isinstance(name, str):
        return None
    return Frame(
        filename=filename[-300:].replace("\\", "/"), line=line if type(line) is int else 0, name=name[:300]
    )
