"""Weights of a server that takes a checkpoint as it is stored: bytes from the checkpoint's own headers.

Which share of a part a device holds is still worked out from shapes; what the part weighs is read. So a device's
bytes are `n*F/N`: its own worked-out bytes, times the part's bytes in the file over those worked out for the whole.
"""

from collections.abc import Iterable
from typing import Final

from planner.ledger import Category, Entry
from planner.memory.serving_entry import LOADED, entry
from planner.memory.serving_weights import PART_NAMES, Elements, elements_bytes
from planner.memory.weight_formats import FORMATS, declared_format, served_format
from planner.model.spec import ModelSpec, Part
from planner.scenario import Scenario, StoredWeights

DRAFT: Final = "draft"
BODY: Final = frozenset({Part.ATTENTION, Part.MLP, Part.SHARED_EXPERTS, Part.ROUTER, Part.NORM})
"""Parts that checkpoints name in many ways; where their names match no shape they are taken together."""
GGUF_MIXED: Final = "mixed"


def stored_type(scenario: Scenario) -> str | None:
    """What a GGUF file calls its own mixture of types; None without such a file."""
    stored = scenario.model.stored
    return (stored.weights or GGUF_MIXED) if stored is not None and stored.container == "gguf" else None


def held_gguf(scenario: Scenario) -> StoredWeights | None:
    """The GGUF file that the llama.cpp family loads; None where another type or a file size was asked for."""
    own = stored_type(scenario)
    serving = scenario.serving
    if own is None or serving.weights_file_bytes is not None or serving.expert_weights is not None:
        return None
    return scenario.model.stored if serving.weights == own else None


def held_safetensors(scenario: Scenario, model: ModelSpec) -> StoredWeights | None:
    """The checkpoint that an engine loads as it is; None where another format was asked for."""
    stored, serving = scenario.model.stored, scenario.serving
    if stored is None or stored.container != "safetensors" or serving.expert_weights is not None:
        return None
    return stored if serving.weights in {None, served_format(model)} else None


def stored_bytes(stored: StoredWeights, parts: Iterable[str], *, halved: bool = False) -> int:
    """Bytes of some parts as loaded; `halved`: 32-bit tensors become 16-bit ones."""
    wanted = frozenset(parts)
    return sum(
        row.bytes // 2 if halved and row.format == "fp32" else row.bytes
        for row in stored.parts
        if row.part in wanted
    )


def casts_to_16_bit(scenario: Scenario, model: ModelSpec) -> bool:
    """Whether a 32-bit checkpoint is served in 16 bit."""
    return declared_format(model) == "fp32" and scenario.serving.weights != "fp32"


def stored_params(stored: StoredWeights) -> int | None:
    """Parameters of a checkpoint without its draft layers; None where some are packed, so that bytes don't tell."""
    total = 0
    for row in stored.parts:
        kind = FORMATS.get(row.format)
        if row.part == DRAFT or row.scales:
            continue
        if kind is None or not (kind.elements == 1 or kind.family == "gguf"):
            return None
        total += round(row.bytes * kind.elements / kind.bytes)
    return total


def stored_entries(
    device: Elements,
    whole: Elements,
    stored: StoredWeights,
    *,
    tied: bool,
    first: bool,
    halved: bool = False,
) -> list[Entry]:
    """Weights of one device by part.

    Args:
        device: What the device holds, by shapes.
        whole: The same for the whole model on one device, without any padding.
        stored: The checkpoint.
        tied: The output matrix is the embedding's, so a copy of it weighs what the embedding does.
        first: The device holds the embedding; parts that no shape is known for are counted there.
        halved: 32-bit tensors are cast to 16 bit.
    """
    names = {part: (part,) for part in Part} | (
        {} if _same_body(whole, stored) else dict.fromkeys(BODY, tuple(BODY))
    )
    found = []
    for part in Part:
        own = elements_bytes(device, frozenset({part}))
        source = (Part.EMBEDDING,) if part is Part.HEAD and tied else names[part]
        nominal = elements_bytes(whole, frozenset(source))
        size = stored_bytes(stored, source, halved=halved)
        if own and nominal:
            symbols = (("n", own), ("F", size), ("N", nominal))
            found.append(_weights(part, "n*F/N", symbols))
        elif size and first and not nominal and part not in BODY:
            found.append(_weights(part, "F", (("F", size),)))
    return found


def _same_body(whole: Elements, stored: StoredWeights) -> bool:
    """Whether the checkpoint has bytes for just those parts of a layer that shapes are known of."""
    return all(
        bool(elements_bytes(whole, frozenset({part}))) == bool(stored_bytes(stored, (part,))) for part in BODY
    )


def _weights(part: Part, formula: str, symbols: tuple[tuple[str, int], ...]) -> Entry:
    return entry(Category.WEIGHTS, PART_NAMES[part], formula, symbols, "checkpoint_headers", phases=LOADED)
