"""Labels of models and cards, worked out once."""

from functools import cache

from planner.hardware import Gpu
from ui.answers import tables
from ui.counts import short_count
from ui.names import card_name, short_model_name
from ui.words import Words, words_for


@cache
def model_labels(language: str) -> dict[str, str]:
    """`Llama-3.1-8B, 8.03 B, dense` for every model of the catalogue, by id."""
    words = words_for(language)
    return {model_id: _model_label(model_id, words) for model_id in tables().models}


@cache
def gpu_labels() -> dict[str, str]:
    """Name of every card, by id."""
    return {gpu_id: card_name(gpu.name) for gpu_id, gpu in tables().gpus.items()}


def gpu(gpu_id: str) -> Gpu | None:
    """A card of the table."""
    return tables().gpus.get(gpu_id)


def _model_label(model_id: str, words: Words) -> str:
    row = tables().models[model_id]
    total = row["params_total"]
    count = short_count(total, words) if isinstance(total, int) else ""
    kind = "moe" if row.get("num_experts") else "dense"
    return words("model.label", name=short_model_name(model_id), count=count, kind=words(f"model.{kind}"))
