"""DDP's buckets: flat buffers that gradients are copied into and reduced in, laid beside the step by its own rules.

The reducer itself is C++ and asks the process group for results, which one that moves nothing does not have. Its
storages follow from few rules (`torch/nn/parallel/distributed.py`, `torch/csrc/distributed/c10d/reducer.cpp`, PyTorch
2.13): buckets are as `_compute_bucket_assignment_by_size` says, stay from one step to the next, and are made anew at
the second forward pass in the order in which gradients came, unless unused parameters are looked for.
"""

import sys
from typing import Any, Final

import torch
import torch.distributed as dist

from planner.units import MIB
from profiler.trace.documents import Part

CAP_MB: Final = 25
"""`_DEFAULT_BUCKET_CAP_MB`"""


class Buckets:
    """Buckets of a model's trained parameters.

    Args:
        parameters: In the model's order.
        part: Sizes and habits.
    """

    def __init__(self, parameters: list[Any], part: Part) -> None:
        self._parameters = [parameter for parameter in parameters if parameter.requires_grad]
        self._views_are_gradients = part.bucket_views
        self._rebuilds = not part.finds_unused
        cap = int((part.bucket_mb or CAP_MB) * MIB)
        first = dist._DEFAULT_FIRST_BUCKET_BYTES if part.bucket_mb is None else cap  # noqa: SLF001
        self._caps = [first, cap] if first < cap else [cap]
        self._arrived: list[int] = []
        self._views: dict[int, Any] = {}
        self.flat: list[Any] = []
        self._handles: list[Any] = []

    def open(self) -> None:
        """Make the first buckets and listen to gradients."""
        first = [sys.maxsize] if self._rebuilds else self._caps
        groups = _assignment(self._parameters, first)
        self._make([self._parameters[i] for i in group] for group in reversed(groups))
        self._handles = [p.register_post_accumulate_grad_hook(self._came) for p in self._parameters]

    def close(self) -> None:
        """Stop to listen."""
        for handle in self._handles:
            handle.remove()

    def next_step(self) -> None:
        """At the second forward pass buckets are made anew, the old ones gone first."""
        if not self._rebuilds or not self._arrived:
            return
        self._rebuilds = False
        came = [self._parameters[i] for i in self._arrived]
        groups = _assignment(came, self._caps, list(range(len(came))))
        self._make([came[i] for i in group] for group in groups)

    def _make(self, groups: Any) -> None:
        self.flat, self._views = [], {}
        for group in groups:
            like = _local(group[0])
            flat = torch.empty(sum(_local(p).numel() for p in group), dtype=like.dtype, device=like.device)
            self.flat.append(flat)
            start = 0
            for parameter in group:
                inside = _local(parameter)
                self._views[id(parameter)] = flat[start : start + inside.numel()].view(inside.shape)
                start += inside.numel()

    def _came(self, parameter: Any) -> None:
        """A gradient is there: it is copied into its bucket, and may become a part of it."""
        if self._rebuilds and len(self._arrived) < len(self._parameters):
            place = next(i for i, one in enumerate(self._parameters) if one is parameter)
            if place not in self._arrived:
                self._arrived.append(place)
        if self._views_are_gradients:
            parameter.grad = self._views[id(parameter)]


def _assignment(parameters: list[Any], caps: list[int], order: list[int] | None = None) -> list[list[int]]:
    """PyTorch's own division of parameters into buckets, as places in `parameters`."""
    flat = [_local(parameter) for parameter in parameters]
    groups, _ = dist._compute_bucket_assignment_by_size(  # noqa: SLF001  # it has no public name
        flat, caps, [False] * len(flat), order or []
    )
    return [list(group) for group in groups]


def _local(parameter: Any) -> Any:
    return getattr(parameter, "_local_tensor", parameter)
