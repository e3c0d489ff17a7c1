"""What a server is asked to hold: how long a sequence, how many at once, how many tokens in one step."""

import re
from dataclasses import dataclass
from typing import Final

from planner.model.spec import ModelSpec
from planner.placement import Share
from planner.scenario import Scenario
from planner.units import ceil_div, gib

DEFAULT_CONTEXT: Final = 4096
LATEST: Final = (9999, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The load one replica must hold.

    Attributes:
        context_tokens: Tokens of one sequence at its end.
        sequences: Sequences at once on one replica.
        longest_tokens: The longest sequence the engine is told to accept.
        batched_tokens: Most tokens of one step.
        max_sequences: Most sequences of one step.
    """

    context_tokens: int
    sequences: int
    longest_tokens: int
    batched_tokens: int
    max_sequences: int

    @property
    def prefill_tokens(self) -> int:
        """Tokens of the fullest step that this load can make."""
        return min(self.batched_tokens, self.context_tokens * self.sequences)


def version_of(scenario: Scenario) -> tuple[int, ...]:
    """The runtime's version as numbers (`0.4.3.post4` -> 0, 4, 3, 4); an absent one counts as the latest."""
    if scenario.runtime.version is None:
        return LATEST
    numbers = tuple(int(digits) for digits in re.findall(r"\d+", scenario.runtime.version)[:4])
    return numbers or LATEST


def is_v0(scenario: Scenario) -> bool:
    """Whether the first engine generation runs."""
    return scenario.runtime.engine == "v0"


def longest_tokens(scenario: Scenario, model: ModelSpec) -> int:
    """`max_model_len`, else the longest sequence the model's config names, else a stated default."""
    return scenario.serving.max_model_len or model.max_position_embeddings or DEFAULT_CONTEXT


def workload_tokens(scenario: Scenario) -> int | None:
    """Prompt and answer together, None where the workload says neither."""
    workload = scenario.workload
    if workload is None or (workload.prompt_tokens is None and workload.output_tokens is None):
        return None
    return max(1, (workload.prompt_tokens or 0) + (workload.output_tokens or 0))


def shared_context(scenario: Scenario, default_tokens: int) -> int:
    """A context that holds every sequence of the workload, never less than the engine's default.

    The llama.cpp family divides one context among its sequences, so N of C tokens need N x C.
    """
    asked = (scenario.workload.concurrency if scenario.workload else None) or 1
    return max(default_tokens, asked * (workload_tokens(scenario) or 0))


def slots(scenario: Scenario, default: int) -> int:
    """As many slots as the workload has sequences at once, else the engine's default."""
    return (scenario.workload.concurrency if scenario.workload else None) or default


def demand(scenario: Scenario, model: ModelSpec, share: Share) -> Demand:
    """The load of one replica. Without a workload: one sequence of the longest length.

    A workload without `concurrency` queues every request, so one sequence at a time is the least that must
    fit.
    """
    longest = longest_tokens(scenario, model)
    context = min(workload_tokens(scenario) or longest, longest)
    asked = (scenario.workload.concurrency if scenario.workload else None) or 1
    beams = (scenario.workload.beam_width if scenario.workload else None) or 1
    return Demand(
        context_tokens=context,
        sequences=ceil_div(asked, share.data) * beams,
        longest_tokens=longest,
        batched_tokens=scenario.serving.batched_tokens or longest,
        max_sequences=scenario.serving.max_sequences or max(1, asked),
    )


def memory_gib(scenario: Scenario) -> float | None:
    """Size of the first card in GiB, given or read from its id; engines choose defaults by it."""
    row = scenario.hardware.devices[0]
    if row.memory_bytes is not None:
        return gib(row.memory_bytes)
    sizes = re.findall(r"(\d+)gb", row.gpu)
    return float(sizes[-1]) if sizes else None
