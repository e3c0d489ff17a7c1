"""llama.cpp, ik_llama.cpp and Ollama: weights from a GGUF file, and the rest of a device.

Nothing is claimed in advance: the cache is allocated for the whole context at the start, and the compute
buffer for the largest graph. Token embedding, layers and experts that don't go to a device stay on the host.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from planner.hardware import Tables, cuda_context_bytes
from planner.ledger import Category, Entry, Layer
from planner.memory.serving_entry import entry
from planner.memory.serving_gguf import (
    OLLAMA_DELTA,
    OLLAMA_DELTA_MIXTURE,
    OLLAMA_DELTA_TYPES,
    Mixture,
    by_place,
    embedding_type,
    linear_type,
    mixture,
    output_type,
    zones,
)
from planner.memory.serving_llama_buffers import compute_entries, conversion_entries
from planner.memory.serving_llama_cache import cache_entries
from planner.memory.serving_stored import held_gguf, stored_entries
from planner.memory.serving_weights import Elements, add, elements_bytes, part_entries
from planner.memory.weight_formats import FORMATS, IK_TYPES, base_type
from planner.model.spec import Layer as ModelLayer
from planner.model.spec import ModelSpec, Part
from planner.placement import Share
from planner.scenario import Scenario

F32: Final = FORMATS["f32"]
MXFP4: Final = "mxfp4"
BESIDE_MXFP4: Final = {"ollama": "bf16"}
"""What everything but routed experts has in such files: llama.cpp's quantizer makes it Q8_0 (`MXFP4_MOE`), the
files of Ollama's library leave it in 16 bit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The model file as the quantizer would write it.

    Attributes:
        base: Types of everything but routed experts.
        experts: Types of routed experts.
        known: Whether both have documented sizes; if not, only the file's own size tells.
    """

    base: Mixture
    experts: Mixture
    known: bool


def files_of(scenario: Scenario, model: ModelSpec) -> Files:
    """The mixtures named; an undocumented type counts as Q4_K_M until a file size rescales it."""
    base = mixture(scenario.serving.weights or "q4_k_m")
    experts = mixture(scenario.serving.expert_weights) if scenario.serving.expert_weights else base
    if scenario.serving.weights == MXFP4:
        base = mixture(BESIDE_MXFP4.get(scenario.runtime.name, "q8_0"))
    of_ollama = scenario.runtime.name == "ollama" and model.model_type in OLLAMA_DELTA
    if of_ollama and (scenario.serving.weights or "q4_k_m") in OLLAMA_DELTA_TYPES:
        base = experts = OLLAMA_DELTA_MIXTURE
    fallback = mixture("q4_k_m") or Mixture(base="q4_k")
    return Files(
        base=base or fallback, experts=experts or fallback, known=base is not None and experts is not None
    )


def llama_entries(share: Share, scenario: Scenario, model: ModelSpec, tables: Tables) -> list[Entry]:
    """Every term of one device."""
    return [
        *weight_entries(share, scenario, model),
        *cache_entries(share, scenario, model),
        *compute_entries(share, scenario, model),
        *conversion_entries(share, scenario, model),
        *_context(share, tables),
    ]


def _context(share: Share, tables: Tables) -> list[Entry]:
    base = cuda_context_bytes(share.gpu, tables)
    if base is None or not (share.layers or share.holds_head):
        return []
    found = [
        entry(
            Category.CONTEXT,
            "cuda_context",
            "c",
            (("c", base),),
            "cuda_context",
            layer=Layer.PROCESS,
            estimate=True,
        )
    ]
    if drives_a_display(share):
        held = tables.value("llama_display_card_bytes")
        found.append(
            entry(
                Category.CONTEXT,
                "display_and_libraries",
                "max(d - c, 0)",
                (("d", held), ("c", base)),
                "llama_memory_breakdown",
                layer=Layer.PROCESS,
                estimate=True,
            )
        )
    return found


def drives_a_display(share: Share) -> bool:
    """Whether the card is a consumer's (GeForce) and what is free on it was not told.

    Logs of such cards show more beside the printed buffers than a process's context.
    """
    return share.gpu.name.startswith("GeForce") and share.device.free_bytes is None


# --- weights


def weight_entries(share: Share, scenario: Scenario, model: ModelSpec) -> list[Entry]:
    """Weights of one device, rescaled to the file's own size where that is given."""
    files = files_of(scenario, model)
    device = device_elements(share, scenario, model, files)
    stored = held_gguf(scenario)
    if stored is not None:
        whole = model_elements(model, scenario, files)
        # The embedding stays on the host, and with it what no shape is known for.
        return stored_entries(device, whole, stored, tied=model.tie_word_embeddings, first=False)
    if scenario.serving.weights_file_bytes is None:
        return part_entries(device, estimate=not files.known)
    whole = model_elements(model, scenario, files)
    experts = frozenset({Part.EXPERTS})
    if elements_bytes(whole, experts):
        return [
            *part_entries(without(device, experts)),
            *scaled_entries(
                only(device, experts), elements_bytes(whole, experts), _left_for_experts(scenario, whole)
            ),
        ]
    return scaled_entries(device, elements_bytes(whole), scenario.serving.weights_file_bytes)


def _left_for_experts(scenario: Scenario, whole: Elements) -> int:
    """What the file holds beside everything whose type is told."""
    rest = elements_bytes(whole) - elements_bytes(whole, frozenset({Part.EXPERTS}))
    return max(0, (scenario.serving.weights_file_bytes or 0) - rest)


def without(elements: Elements, parts: frozenset[Part]) -> Elements:
    """A count without some parts."""
    return {key: count for key, count in elements.items() if key[0] not in parts}


def only(elements: Elements, parts: frozenset[Part]) -> Elements:
    """Some parts of a count."""
    return {key: count for key, count in elements.items() if key[0] in parts}


def scaled_entries(elements: Elements, nominal_bytes: int, file_bytes: int) -> list[Entry]:
    """Weights by part, each its share of the file: nominal size x file / nominal size of the whole."""
    entries = []
    for part in Part:
        size = elements_bytes(elements, frozenset({part}))
        if size:
            entries.append(
                entry(
                    Category.WEIGHTS,
                    f"weights_{part.value}",
                    "n*F/N",
                    (("n", size), ("F", file_bytes), ("N", nominal_bytes)),
                    "gguf_file_size",
                )
            )
    return entries


def device_elements(share: Share, scenario: Scenario, model: ModelSpec, files: Files) -> Elements:
    """Elements on one device: its layers, and the output layer where it holds it."""
    elements: Elements = {}
    start = share.layer_range[0]
    on_host = bool(scenario.serving.host_experts)
    _add_layers(elements, share.layers, start, model, files, scenario, skip_experts=on_host)
    _add_layers(elements, share.encoder_layers, 0, model, files, scenario, skip_experts=False)
    if on_host:
        _add_expert_layers(elements, share, scenario, model, files)
    if share.holds_head:
        _add_output(elements, model, files)
    return elements


def model_elements(model: ModelSpec, scenario: Scenario, files: Files) -> Elements:
    """Elements of the whole file, the tied output matrix once."""
    elements: Elements = {}
    for layers in (model.layers, model.encoder_layers):
        _add_layers(elements, layers, 0, model, files, scenario, skip_experts=False)
    add(elements, Part.EMBEDDING, embedding_type(model, files.base), model.embedding_params)
    add(elements, Part.NORM, F32, model.final_norm_params)
    if model.head is not None and not model.tie_word_embeddings:
        add(elements, Part.HEAD, output_type(model, files.base), model.head.weight_params)
    return elements


def _add_output(elements: Elements, model: ModelSpec, files: Files) -> None:
    """The last norm and the output matrix; a tied one is a copy of the token embedding."""
    add(elements, Part.NORM, F32, model.final_norm_params)
    if model.head is not None:
        add(elements, Part.HEAD, output_type(model, files.base), model.head.weight_params)
        add(elements, Part.HEAD, F32, model.head.bias_features)


def _add_layers(
    elements: Elements,
    layers: tuple[ModelLayer, ...],
    start: int,
    model: ModelSpec,
    files: Files,
    scenario: Scenario,
    *,
    skip_experts: bool,
) -> None:
    """Layers grouped by what the type rules can tell apart, so that equal ones are counted once."""
    end = start + len(layers)
    differ = by_place(files.base) or by_place(files.experts)
    places = zones(start, end, model.num_layers) if differ else [0] * len(layers)
    keys = list(zip(map(id, layers), places, strict=True))
    first = dict(zip(reversed(keys), range(len(layers) - 1, -1, -1), strict=True))
    for key, times in Counter(keys).items():
        offset = first[key]
        _add_layer(
            elements, layers[offset], start + offset, times, model, files, scenario, skip_experts=skip_experts
        )


def _add_layer(
    elements: Elements,
    layer: ModelLayer,
    index: int,
    times: int,
    model: ModelSpec,
    files: Files,
    scenario: Scenario,
    *,
    skip_experts: bool,
) -> None:
    for linear in layer.linears:
        if linear.part is Part.EXPERTS and skip_experts:
            continue
        mix = files.experts if linear.part is Part.EXPERTS else files.base
        kind = linear_type(linear, layer, index, model, mix)
        add(elements, linear.part, kind, linear.weight_params * times)
        add(elements, linear.part, F32, linear.bias_features * linear.copies * times)
        if linear.name == "kv_b_proj" and keeps_latent_copies(scenario):
            add(elements, linear.part, kind, linear.weight_params * times)
    add(elements, Part.NORM, F32, layer.norm_params * times)
    add(elements, Part.ATTENTION, F32, layer.vector_params * times)


def keeps_latent_copies(scenario: Scenario) -> bool:
    """Whether the file holds the decompression matrix a second time, split and transposed.

    Files quantized by ik_llama.cpp do: those that give experts a type of its own, plain or interleaved. Others,
    repacked ones among them, don't, and the copies made from them at load are not in the weights it prints.
    """
    own = base_type(scenario.serving.expert_weights or "")
    made = scenario.serving.weights == "mixed" or own in IK_TYPES
    return scenario.runtime.name == "ik_llama_cpp" and made


def copied_latent_params(scenario: Scenario, model: ModelSpec) -> int:
    """Elements of those copies."""
    if not keeps_latent_copies(scenario):
        return 0
    linears = (linear for layer in model.layers for linear in layer.linears)
    return sum(linear.weight_params for linear in linears if linear.name == "kv_b_proj")


def _add_expert_layers(
    elements: Elements, share: Share, scenario: Scenario, model: ModelSpec, files: Files
) -> None:
    """Routed experts of the layers that were sent to this device by hand."""
    given = scenario.serving.expert_layers or ()
    index = share.indices[0]
    count = given[index] if index < len(given) else 0
    layer = next((layer for layer in reversed(model.layers) if layer.mlp.num_experts), None)
    if not count or layer is None:
        return
    for linear in layer.linears:
        if linear.part is Part.EXPERTS:
            kind = linear_type(linear, layer, model.num_layers // 2, model, files.experts)
            add(elements, linear.part, kind, linear.weight_params * count)
