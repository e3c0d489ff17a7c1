"""The lines that llama.cpp and its kin print at start-up."""

from planner.ledger import Category, Ledger
from planner.memory.serving_cache_entries import KV_NAMES, STATE_NAME
from planner.plan_types import ServingAnswer


def llama_readings(ledger: Ledger, answer: ServingAnswer) -> dict[str, float | int]:
    """Buffers of one device, and those of the host (which stand once, with the first device)."""
    cache, state = ledger.total(*KV_NAMES), ledger.total(STATE_NAME)
    weights = sum(e.bytes for e in ledger.entries if e.category is Category.WEIGHTS)
    compute = ledger.total("compute_buffer")
    return {
        "kv_bytes": cache,
        "kv_tokens": answer.kv_tokens,
        "state_bytes": state,
        "kv_and_state_bytes": cache + state,
        "compute_buffer_bytes": compute,
        "non_kv_bytes": weights + compute + ledger.total("cuda_context"),
        "host_weights_bytes": answer.host.weights_bytes,
        "host_kv_bytes": answer.host.kv_bytes,
        "host_compute_buffer_bytes": answer.host.compute_buffer_bytes,
    }
