"""Model descriptions: from a Hugging Face config to shapes and parameter counts."""

from planner.model.from_config import model_from_config
from planner.model.spec import ModelSpec, UnknownArchitecture

__all__ = ["ModelSpec", "UnknownArchitecture", "model_from_config"]
