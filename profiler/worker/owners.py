"""Whose operator the backward pass is differentiating.

Autograd numbers its nodes in the order of their making, one row of numbers a thread, and makes an operator's node
before the operator runs. So the number that is next, seen while an operator runs, names the node made last, and the
module that was running then owns what that node does in the backward pass.
"""

import torch


class Owners:
    """Modules by the number of the autograd node they made.

    An operator that needs no gradient makes no node and sees the one before it, which has its module already. On CUDA
    a layer that is computed again makes its nodes on autograd's own thread, whose numbers may meet those of the
    forward pass; such a node keeps the module that was seen first.
    """

    def __init__(self) -> None:
        self._modules: dict[int, str] = {}

    def note(self, module: str) -> None:
        """An operator runs in this module: the newest node is its, unless it was seen before."""
        newest = torch._C._autograd._get_sequence_nr() - 1  # noqa: SLF001  # it has no public name
        self._modules.setdefault(newest, module)

    def current(self) -> str:
        """The module whose operator is being differentiated, empty if none is or it is not known."""
        node = torch._C._current_autograd_node()  # noqa: SLF001
        return "" if node is None else self._modules.get(node._sequence_nr(), "")  # noqa: SLF001

    def forget(self) -> None:
        """A step is over: its nodes are gone."""
        self._modules.clear()
