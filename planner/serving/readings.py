"""A plan in the words of engine logs: start-up figures by the names of measurement records."""

from planner.ledger import Category, Layer, Ledger, Phase
from planner.memory.serving_cache_entries import STATE_NAME
from planner.memory.serving_llama import copied_latent_params
from planner.memory.serving_llama_readings import llama_readings
from planner.memory.serving_vllm import counts_context
from planner.placement_llama_cpp import LLAMA_FAMILY
from planner.plan_types import Plan, ServingAnswer

Reading = float | int


def serving_readings(plan: Plan, device_index: int) -> dict[str, Reading]:
    """What the engine would print for one group of devices.

    Args:
        plan: A plan whose task is `serve`.
        device_index: Position in `plan.devices`.

    Returns:
        Value by metric, bytes unless the name says otherwise; only metrics that this engine has. `kv_bytes`,
        `kv_tokens` and `kv_blocks` are the pool that the engine makes, not the load that was asked for.
    """
    answer = plan.serving
    if answer is None:
        return {}
    ledger = plan.devices[device_index].ledger
    found: dict[str, Reading] = {
        "parameters": plan.model.params_total + copied_latent_params(plan.resolved, plan.model),
        "kv_bytes_per_token": answer.kv_bytes_per_token,
        "weights_bytes": sum(e.bytes for e in ledger.entries if e.category is Category.WEIGHTS),
    }
    if plan.resolved.runtime.name in LLAMA_FAMILY:
        return found | llama_readings(ledger, answer)
    return found | _pooled(plan, device_index, ledger, answer)


def _pooled(plan: Plan, device_index: int, ledger: Ledger, answer: ServingAnswer) -> dict[str, Reading]:
    pool = answer.device_pools_bytes[device_index] if answer.device_pools_bytes else answer.kv_pool_bytes
    weights = sum(e.bytes for e in ledger.entries if e.category is Category.WEIGHTS)
    activation, outside = ledger.total("activation_peak"), ledger.total("non_torch")
    if counts_context(plan.resolved):
        outside += ledger.total("cuda_context")
    found: dict[str, Reading] = {
        "kv_bytes": pool,
        "kv_tokens": answer.kv_tokens,
        "max_concurrency": answer.concurrency,
        "activation_peak_bytes": activation,
        "cuda_graph_bytes": ledger.total("cuda_graphs"),
        "cuda_context_bytes": ledger.total("cuda_context"),
    }
    if answer.kv_blocks:
        found["kv_blocks"] = answer.kv_blocks
    if ledger.total(STATE_NAME):
        found["state_bytes"] = answer.state_pool_bytes
        found["state_slots"] = answer.state_slots
    if plan.resolved.runtime.name in {"vllm", "aphrodite"}:
        found |= {
            "non_torch_bytes": outside,
            "non_kv_bytes": weights + activation + outside,
            "peak_allocated_bytes": weights + activation,
            "loading_peak_bytes": ledger.phase_bytes(Phase.LOAD, Layer.ALLOCATED),
            "device_used_bytes": answer.reserves_bytes,
        }
    return found
