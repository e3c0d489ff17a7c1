"""Labels of models and cards, worked out once."""

from functools import cache

from pydantic import ValidationError

from planner.cards import gpu_of
from planner.hardware import Gpu
from planner.scenario import Device, OwnCard
from ui.answers import tables
from ui.counts import short_count
from ui.document import Document, get
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


def described_cards(document: Document) -> dict[str, Document]:
    """The descriptions of cards in a question, by the names the user gave them; what is no description is left out."""
    rows = get(document, "hardware.devices")
    found: dict[str, Document] = {}
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict) and isinstance(row.get("card"), dict) and isinstance(row.get("gpu"), str):
            found.setdefault(row["gpu"], row["card"])
    return found


def described_gpus(document: Document) -> dict[str, Gpu]:
    """Those cards as the planner takes them; ones that break the schema are left out."""
    found: dict[str, Gpu] = {}
    for name, card in described_cards(document).items():
        try:
            found[name] = gpu_of(Device(gpu=name, card=OwnCard.model_validate(card)), tables())
        except (ValidationError, LookupError):
            continue
    return found


def _model_label(model_id: str, words: Words) -> str:
    row = tables().models[model_id]
    total = row["params_total"]
    count = short_count(total, words) if isinstance(total, int) else ""
    kind = "moe" if row.get("num_experts") else "dense"
    return words("model.label", name=short_model_name(model_id), count=count, kind=words(f"model.{kind}"))
