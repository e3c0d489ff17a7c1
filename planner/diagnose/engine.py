"""Which server a message is of, and the fixes that only another server knows."""

import re
from typing import Final, Literal

from planner.diagnose.record import Record
from planner.imports.gguf_names import split_name
from planner.placement_llama_cpp import LLAMA_FAMILY
from planner.plan_types import Plan

Engine = Literal["llama", "pool"]
"""llama.cpp and what is built on it; or one that fills a share of the card with its KV pool, as vLLM and SGLang."""

SERVERS: Final = ("vllm", "sglang", "triton", "trtllm", "llama_cpp", "ollama", "ggml", "host_ollama")
"""How the forms of a server's messages begin."""
_LLAMA_FORMS: Final = ("llama_cpp", "ollama", "ggml", "host_ollama")
_OWN: Final[dict[Engine, frozenset[str]]] = {
    "llama": frozenset(
        {
            *("kv_q8_0", "weights_q8_0", "weights_q4_k_m", "double_cards_split"),
            *("kv_cache_q8_0", "fewer_gpu_layers", "experts_on_host", "smaller_weights"),
        }
    ),
    "pool": frozenset(
        {"kv_fp8", "weights_fp8", "weights_awq4", "double_cards", "raise_utilization", "quantized_weights"}
    ),
}


def is_of_server(record: Record | None) -> bool:
    """Whether a server wrote the message."""
    return record is not None and record.form.startswith(SERVERS)


def engine_of(record: Record | None, plan: Plan | None) -> Engine | None:
    """The server of the message; of a message that any program writes, the one of the plan; None where it trains."""
    if record is not None and is_of_server(record):
        return "llama" if record.form.startswith(_LLAMA_FORMS) else "pool"
    if plan is None or plan.resolved.is_training:
        return None
    return "llama" if plan.resolved.runtime.name in LLAMA_FAMILY else "pool"


def is_of_other_run(record: Record | None, plan: Plan) -> bool:
    """Whether a server's message is not of what is planned: a plan that trains, another engine, another model."""
    if record is None or not is_of_server(record):
        return False
    if plan.resolved.is_training or engine_of(record, None) != engine_of(None, plan):
        return True
    stem, _ = split_name(str(record.fact("file") or ""))
    model = (plan.scenario.model.id or "").rpartition("/")[2]
    names = [re.sub(r"[^a-z0-9]", "", name.casefold()) for name in (stem, model)]
    return all(names) and names[0] not in names[1] and names[1] not in names[0]


def file_bits(record: Record | None) -> int | None:
    """Bits of the weights by the name of the file; None where the text names none that is known."""
    _, kind = split_name(str(record.fact("file") or "")) if record is not None else ("", None)
    found = re.search(r"\d+", kind or "")
    return int(found[0]) if found else None


def knows(engine: Engine | None, code: str) -> bool:
    """Whether a fix is none that only another server has."""
    return engine is None or not any(code in own for other, own in _OWN.items() if other != engine)
