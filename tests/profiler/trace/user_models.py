"""Models of a user's own, as `package.module:factory`: what works, and each way it can be wrong."""

import sys
from typing import Any

import torch
from torch import nn


class Net(nn.Module):  # type: ignore[misc]  # torch is not followed by the type checker
    """Two layers around a norm, and a buffer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.norm = nn.LayerNorm(4 * width)
        self.down = nn.Linear(4 * width, width)
        self.register_buffer("scale", torch.ones(width))

    def forward(self, x: Any) -> Any:
        """The rows, as wide as they came."""
        return self.down(self.norm(torch.relu(self.up(x)))) * self.scale


class Scored(Net):
    """The same with its loss."""

    def forward(self, x: Any) -> Any:
        """A loss, as a dict."""
        return {"loss": super().forward(x).float().pow(2).mean()}


class Normed(Net):
    """The same with a norm that CUDA has a kernel for."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.norm = nn.RMSNorm(4 * width)


def by_inputs(width: int = 32, rows: int = 50) -> Any:
    """A model with a loss, and example inputs."""
    return Scored(width), (torch.randn(rows, width),)


def by_name(width: int = 32) -> Any:
    """The same inputs by name."""
    return Scored(width), {"x": torch.randn(50, width)}


def by_loss(width: int = 32) -> Any:
    """A model, and a function that gives its loss."""
    return Net(width), lambda model: model(torch.randn(60, width)).pow(2).mean()


def too_wide() -> Any:
    """Inputs that are wider than the model."""
    return Scored(32), torch.randn(50, 33)


def leaving() -> Any:
    """A factory that ends the process."""
    sys.exit(3)


def normed() -> Any:
    """A model with `nn.RMSNorm`."""
    return Normed(64), lambda model: model(torch.randn(100, 64)).pow(2).mean()


def by_values() -> Any:
    """A model whose step depends on a tensor's value."""
    return Net(32), lambda model: model(torch.randn(60, 32)).mean() * torch.randn(3).sum().item()


def by_number_of_values() -> Any:
    """A model whose sizes depend on values."""
    return Net(32), lambda model: model(torch.randn(60, 32)[torch.randn(60) > 0]).mean()


def without_loss() -> Any:
    """A model that answers with rows."""
    return Net(32), (torch.randn(60, 32),)


def alone() -> Any:
    """A model and nothing to give it."""
    return Net(32)


def no_module() -> Any:
    """A function in the model's place."""
    return torch.relu, (torch.randn(60, 32),)


def failing() -> Any:
    """Fails."""
    raise OSError("no such file")
