"""Which engine does what: entries of a device, what is left for its caches, what that holds."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from planner.hardware import Tables
from planner.ledger import Entry, Ledger
from planner.memory import serving_pooled
from planner.memory.serving_answer import DeviceAnswer
from planner.memory.serving_llama import llama_entries
from planner.memory.serving_llama_answer import llama_answer
from planner.memory.serving_plain import dynamic_answer, no_rule, plain_entries
from planner.memory.serving_vllm import refuses_at_start, vllm_entries
from planner.model.spec import ModelSpec
from planner.placement import Share
from planner.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The behaviour of an engine, device by device.

    Attributes:
        entries: Every term of one device for the asked load.
        available: Bytes the engine leaves for caches on a device; None where it has no rule or the size is
            unknown.
        answer: What one device holds.
        refuses: Whether the engine would not start whatever is asked.
    """

    entries: Callable[[Share, Scenario, ModelSpec, Tables], list[Entry]]
    available: Callable[[Share, Ledger, Scenario, Tables], int | None]
    answer: Callable[[Share, Ledger, Scenario, ModelSpec, Tables], DeviceAnswer]
    refuses: Callable[[Share, Scenario], bool]


def _never(_share: Share, _scenario: Scenario) -> bool:
    return False


VLLM = Engine(
    entries=vllm_entries,
    available=serving_pooled.vllm_available,
    answer=serving_pooled.vllm_answer,
    refuses=refuses_at_start,
)
SGLANG = Engine(
    entries=plain_entries,
    available=serving_pooled.sglang_available,
    answer=serving_pooled.sglang_answer,
    refuses=_never,
)
LEFT = Engine(
    entries=plain_entries,
    available=serving_pooled.left_available,
    answer=serving_pooled.left_answer,
    refuses=_never,
)
DYNAMIC = Engine(entries=plain_entries, available=no_rule, answer=dynamic_answer, refuses=_never)
LLAMA = Engine(entries=llama_entries, available=no_rule, answer=llama_answer, refuses=_never)

ENGINES: Final[dict[str, Engine]] = {
    "vllm": VLLM,
    "aphrodite": VLLM,
    "sglang": SGLANG,
    "sglang_omni": SGLANG,
    "pegainfer": VLLM,
    "tensorrt_llm": LEFT,
    "tgi": LEFT,
    "mlc_llm": LEFT,
    "llama_cpp": LLAMA,
    "ik_llama_cpp": LLAMA,
    "ollama": LLAMA,
}


def engine_for(name: str) -> Engine:
    """The engine of a runtime; one without a pool of its own grows its cache with the load."""
    return ENGINES.get(name, DYNAMIC)
