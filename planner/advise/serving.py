"""Changes of a server: what saves memory, and what could use memory that is left."""

from collections.abc import Iterator
from math import floor
from typing import Final

from planner.advise.change import Change, change
from planner.advise.division import other_divisions
from planner.advise.training import SHORTEST_SEQUENCE
from planner.document import Document
from planner.memory.serving_demand import memory_gib
from planner.placement_llama_cpp import LLAMA_FAMILY
from planner.plan_types import Plan
from planner.scenario import Scenario

FULL_FORMATS: Final = frozenset({None, "bf16", "fp16", "fp32"})
MOST_CLAIMED: Final = {"vllm": 0.95}
"""Share of the card that an engine may be told to claim: the rest is for what it does not count."""
SGLANG_LEFT_GIB: Final = 5.0
"""What SGLang's guide leaves at the least beside its static share, for activations (`docs/advanced_features/
hyperparameter_tuning.md` of 2025: 5 to 8 GB are typically enough, of the log's GB, which are GiB)."""
LEAST_STEP_TOKENS: Final = {"vllm": 1024, "sglang": 2048}
"""Tokens of a step below which prompts would be read in very many: SGLang's guide goes down to 2,048, vLLM's published
recipe for gpt-oss-120b on one card of 80 GB to 1,024."""
LEAST_SHARE: Final = 0.01


def serving_changes(document: Document, plan: Plan) -> Iterator[Change]:
    """Every change of the list that applies, growth first.

    Args:
        document: The question.
        plan: Its answer.
    """
    yield from _growth(document, plan.resolved, plan.model.max_position_embeddings)
    yield from _narrower(document, plan.resolved)
    yield from _engine_settings(document, plan.resolved)
    yield from _savings(document, plan.resolved)
    yield from other_divisions(document, plan)
    yield from _wider(document, plan.resolved)


def _growth(document: Document, asked: Scenario, longest: int | None) -> Iterator[Change]:
    sequences = asked.workload.concurrency if asked.workload is not None else None
    context = asked.serving.max_model_len
    if sequences is not None:
        double = sequences * 2
        values = {"workload.concurrency": double}
        yield change(document, "double_concurrency", values, grows=True, size=double)
    if context is not None and (longest is None or context * 2 <= longest):
        longer = context * 2
        yield change(document, "double_context", {"serving.max_model_len": longer}, grows=True, size=longer)


def _narrower(document: Document, asked: Scenario) -> Iterator[Change]:
    """Half of the equal cards: half the tensor-parallel ranks, or half the devices that layers are split over."""
    rows, tensor = asked.hardware.devices, asked.parallel.tensor
    if len(rows) != 1 or rows[0].count % 2 or asked.serving.tensor_split or asked.serving.expert_layers:
        return
    half = rows[0].count // 2
    values: dict[str, int] = {"hardware.devices.0.count": half}
    if asked.runtime.name not in LLAMA_FAMILY:
        if tensor % 2:
            return
        values["parallel.tensor"] = tensor // 2
    yield change(document, "half_cards", values, grows=True, cards=half)


def _savings(document: Document, asked: Scenario) -> Iterator[Change]:
    serving = asked.serving
    sequences = asked.workload.concurrency if asked.workload is not None else None
    context = serving.max_model_len
    llama = asked.runtime.name in LLAMA_FAMILY
    if serving.kv_cache in FULL_FORMATS:
        name, value = ("kv_q8_0", "q8_0") if llama else ("kv_fp8", "fp8")
        yield change(document, name, {"serving.kv_cache": value})
    if serving.weights in FULL_FORMATS:
        for value in ("q8_0", "q4_k_m") if llama else ("fp8", "awq4"):
            yield change(document, f"weights_{value}", {"serving.weights": value})
    if sequences is not None and sequences > 1:
        half = sequences // 2
        yield change(document, "half_concurrency", {"workload.concurrency": half}, size=half)
    if context is not None and context >= 2 * SHORTEST_SEQUENCE:
        half = context // 2
        yield change(document, "half_context", {"serving.max_model_len": half}, size=half)


def _engine_settings(document: Document, asked: Scenario) -> Iterator[Change]:
    """More of the card for the engine, and fewer tokens in a step: what is tuned first in vLLM and SGLang."""
    serving = asked.serving
    share, most = serving.memory_utilization, _most_claimed(asked)
    if share is not None and most is not None and most >= share + LEAST_SHARE:
        values = {"serving.memory_utilization": most}
        yield change(document, "more_of_the_card", values, budget=True, percent=round(100 * most))
    fewest, tokens = LEAST_STEP_TOKENS.get(asked.runtime.name), serving.batched_tokens
    if fewest is None or tokens is None or serving.max_sequences is None:
        return
    fewer = max(fewest, serving.max_sequences)
    whole_prompts = asked.runtime.name == "vllm" and asked.runtime.engine == "v0"
    if fewer < tokens and not whole_prompts:
        yield change(document, "fewer_step_tokens", {"serving.batched_tokens": fewer}, size=fewer)


def _most_claimed(asked: Scenario) -> float | None:
    """The largest share of the card that the engine may be told to take; None where that is not known."""
    if asked.runtime.name == "sglang":
        size = memory_gib(asked)
        return None if size is None else floor(100 * (1 - SGLANG_LEFT_GIB / size)) / 100
    return MOST_CLAIMED.get(asked.runtime.name)


def _wider(document: Document, asked: Scenario) -> Iterator[Change]:
    """Twice as many equal cards: one tensor-parallel group, or layers split over them where the engine does that."""
    rows = asked.hardware.devices
    if len(rows) != 1:
        return
    cards = rows[0].count * 2
    if asked.runtime.name in LLAMA_FAMILY:
        yield change(document, "double_cards_split", {"hardware.devices.0.count": cards}, cards=cards)
    else:
        tensor = asked.parallel.tensor * 2
        values = {"hardware.devices.0.count": cards, "parallel.tensor": tensor}
        yield change(document, "double_cards", values, cards=cards, tensor=tensor)
