"""Model descriptions: from a Hugging Face config or a catalog row to shapes and parameter counts."""

from planner.model.errors import UnknownArchitecture
from planner.model.from_config import model_from_config
from planner.model.from_row import Pipeline, model_from_row, pipeline_from_row
from planner.model.registry import MODEL_TYPES
from planner.model.spec import ModelSpec, linears

__all__ = [
    "MODEL_TYPES",
    "ModelSpec",
    "Pipeline",
    "UnknownArchitecture",
    "linears",
    "model_from_config",
    "model_from_row",
    "pipeline_from_row",
]
