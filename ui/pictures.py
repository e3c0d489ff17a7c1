"""Diffusion pipelines: their labels, what choosing one changes, and sequences as pictures."""

import json
from functools import cache, lru_cache
from typing import Final

from planner.document import get, put
from planner.memory.adapters import DENOISER_TARGETS
from planner.model import UnknownArchitecture, model_from_config, model_from_row
from planner.model.diffusion_parts import CLASS_TYPES
from planner.model.native_size import native_tokens
from planner.model.spec import Latents
from ui.answers import tables
from ui.counts import short_count
from ui.document import Document
from ui.names import short_model_name
from ui.words import words_for

RUNTIMES: Final = ("generic", "transformers")
TARGETS: Final = list(DENOISER_TARGETS)
UNDIVIDED: Final = frozenset({"data", "data_parallel", "bucket_mb", "sharding", "sharding_degree", "offload"})
"""Of parallelism, what leaves every layer whole on each card."""
CLASS: Final = "_class_name"
TYPES: Final = frozenset(CLASS_TYPES.values())


@cache
def pipeline_labels(language: str) -> dict[str, str]:
    """`FLUX.1-dev, 16.87 B, diffusion` for every pipeline whose denoiser is described, by id."""
    words = words_for(language)
    found = {}
    for model_id in described():
        total = tables().pipelines[model_id]["params_total"]
        count = short_count(total, words) if isinstance(total, int) else ""
        found[model_id] = words(
            "model.label", name=short_model_name(model_id), count=count, kind=words("model.diffusion")
        )
    return found


@cache
def described() -> tuple[str, ...]:
    """Pipelines that can be planned."""
    return tuple(name for name in tables().pipelines if latents_of_id(name) is not None)


@cache
def latents_of_id(model_id: str) -> Latents | None:
    """What a pipeline's denoiser works on; None for other models and for those that are not described."""
    row = tables().pipelines.get(model_id)
    try:
        return None if row is None else model_from_row(row).latents
    except UnknownArchitecture:
        return None


def latents_of(document: Document) -> Latents | None:
    """Of the pipeline that a question names, or of the denoiser whose config it holds."""
    model_id, config = get(document, "model.id"), get(document, "model.config")
    if isinstance(model_id, str):
        return latents_of_id(model_id)
    if isinstance(config, dict) and (CLASS in config or config.get("model_type") in TYPES):
        return _latents_of_config(json.dumps(config, sort_keys=True, default=str))
    return None


@lru_cache(maxsize=32)
def _latents_of_config(text: str) -> Latents | None:
    try:
        return model_from_config(json.loads(text)).latents
    except UnknownArchitecture:
        return None


def fitted(document: Document, *, sized: bool = True) -> Document:
    """The question as a pipeline can be asked: a runtime that runs it, no division, targets that it has.

    Args:
        document: The question; one of another model is left as it is.
        sized: Whether the size of a picture is set as well.
    """
    latents = latents_of(document)
    if latents is None:
        return document
    serves = get(document, "task") == "serve"
    if get(document, "runtime.name", "generic") not in RUNTIMES:
        document = put(document, "runtime", {"name": "transformers" if serves else "generic"})
    given = get(document, "parallel")
    if isinstance(given, dict):
        kept = {name: value for name, value in given.items() if name in UNDIVIDED}
        document = put(document, "parallel", kept or None)
    for name in ("kernels", "packing"):
        document = put(document, f"training.{name}", None)
    if get(document, "adapter") and not _has_targets(document):
        document = put(document, "adapter.targets", TARGETS)
    return put(document, size_path(document), native_tokens(latents)) if sized else document


def _has_targets(document: Document) -> bool:
    targets = get(document, "adapter.targets")
    return targets == "all_linear" or (isinstance(targets, list) and bool(set(targets) & set(TARGETS)))


def size_path(document: Document) -> str:
    """The field that holds the tokens of a picture."""
    return "serving.max_model_len" if get(document, "task") == "serve" else "training.sequence_length"
