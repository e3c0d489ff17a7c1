"""What llama.cpp and its kin keep on the host: weights, caches of host layers, scratch."""

from planner.ledger import Category, Ledger
from planner.memory.serving_llama import files_of, model_elements
from planner.memory.serving_llama_buffers import host_compute_bytes
from planner.memory.serving_llama_cache import cache_entries
from planner.memory.serving_stored import held_gguf
from planner.memory.serving_weights import elements_bytes
from planner.model.spec import ModelSpec
from planner.placement import Share
from planner.placement_llama_cpp import offloaded_from
from planner.plan_types import ServingHost
from planner.resolve import apply
from planner.scenario import Scenario


def host_side(
    shares: tuple[Share, ...], ledgers: tuple[Ledger, ...], scenario: Scenario, model: ModelSpec
) -> ServingHost:
    """Host memory of the whole server."""
    return ServingHost(
        weights_bytes=_weights(ledgers, scenario, model),
        kv_bytes=_caches(shares, scenario, model),
        compute_buffer_bytes=host_compute_bytes(
            scenario, model, offloaded_from(model.num_layers, scenario) if shares else 0
        ),
    )


def _weights(ledgers: tuple[Ledger, ...], scenario: Scenario, model: ModelSpec) -> int:
    """The file less what is on devices; a tied output matrix there is a copy, so its source stays."""
    whole = model_elements(model, scenario, files_of(scenario, model))
    stored = held_gguf(scenario)
    total = (
        sum(row.bytes for row in stored.parts)
        if stored is not None
        else scenario.serving.weights_file_bytes or elements_bytes(whole)
    )
    on_devices = sum(e.bytes for led in ledgers for e in led.entries if e.category is Category.WEIGHTS)
    copied = sum(led.total("weights_head") for led in ledgers) if model.tie_word_embeddings else 0
    return max(0, total - on_devices + copied)


def _caches(shares: tuple[Share, ...], scenario: Scenario, model: ModelSpec) -> int:
    """Caches of layers that stay on the host, or of all layers with `no_kv_offload`."""
    held = [share.layer_range[0] for share in shares if share.layers]
    last = model.num_layers if scenario.serving.no_kv_offload or not held else min(held)
    layers = model.layers[0:last]
    if not layers or not shares:
        return 0
    host = Share(
        indices=(0,), gpu=shares[0].gpu, device=shares[0].device, layer_range=(0, last), layers=layers
    )
    entries = cache_entries(host, apply(scenario, {"serving.no_kv_offload": False}), model)
    return sum(e.bytes for e in entries)
