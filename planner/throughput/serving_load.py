"""The load of a server as its speed sees it: how many sequences run at once, how long they are."""

from dataclasses import dataclass
from typing import Final

from planner.plan_types import Plan

ASSUMED_PROMPT: Final = 1000
ASSUMED_OUTPUT: Final = 250
"""Tokens of a request where the workload says nothing."""
POOLED: Final = frozenset({"vllm", "sglang", "tensorrt_llm", "tgi", "aphrodite", "sglang_omni"})
"""Engines that admit no more sequences than their pool of blocks holds; the rest wait."""
MOST_AT_ONCE: Final = {"vllm": 256, "sglang": 256, "tensorrt_llm": 2048}
"""Sequences of a step where the settings don't say: vLLM's `max_num_seqs` and what the others run in practice."""
MANY: Final = 256
STEP_TOKENS: Final = 8192
"""Tokens of a step where the settings don't say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Requests of one replica.

    Attributes:
        prompt_tokens: Tokens of a prompt.
        output_tokens: Tokens of an answer.
        running: Sequences that run at once.
        waves: How often that many must run until every asked sequence has: 1 where all fit.
        together: Prompts of one prefill: every running sequence's where a batch starts at once, and as many as a
            step has room for where new ones join a queue's batch.
        is_offline: Every request is queued at the start.
        replicas: Copies of the model.
        is_assumed: The workload gives no lengths; `ASSUMED_PROMPT` and `ASSUMED_OUTPUT` stand in.
    """

    prompt_tokens: float
    output_tokens: float
    running: float
    waves: float
    together: float
    is_offline: bool
    replicas: int
    is_assumed: bool = False

    @property
    def context_tokens(self) -> float:
        """Tokens of a sequence, mean over its answer."""
        return self.prompt_tokens + self.output_tokens / 2


def load_of(plan: Plan, concurrency: int | None = None) -> Load:
    """The plan's workload, spread over its replicas.

    Args:
        plan: A plan of a server.
        concurrency: Another number of sequences than the workload's.
    """
    workload, parallel = plan.resolved.workload, plan.resolved.parallel
    prompt, output = (workload.prompt_tokens, workload.output_tokens) if workload else (None, None)
    is_assumed = prompt is None and output is None
    prompt = ASSUMED_PROMPT if is_assumed else prompt or 0
    output = ASSUMED_OUTPUT if is_assumed else output or 1
    asked = concurrency or (workload.concurrency if workload else 1)
    replicas = max(1, plan.resolved.hardware.num_devices // (parallel.tensor * parallel.pipeline))
    mean = prompt + output / 2
    if asked is None:
        running = _offline_batch(plan, mean)
        return Load(
            prompt_tokens=prompt, output_tokens=output, running=running, waves=1, is_offline=True, replicas=replicas,
            together=max(1.0, (plan.resolved.serving.batched_tokens or STEP_TOKENS) / max(prompt, 1)),
            is_assumed=is_assumed,
        )  # fmt: skip
    each = max(1.0, asked / replicas)
    running = min(each, _room(plan))
    return Load(
        prompt_tokens=prompt, output_tokens=output, running=running, waves=each / running, is_offline=False,
        together=running,
        replicas=replicas, is_assumed=is_assumed,
    )  # fmt: skip


def _room(plan: Plan) -> float:
    """Sequences of the workload's own length that the pool holds; no limit where the engine has no pool."""
    if plan.serving is None or plan.resolved.runtime.name not in POOLED:
        return float("inf")
    return max(1.0, plan.serving.concurrency)


def _offline_batch(plan: Plan, mean_tokens: float) -> float:
    """As many sequences of mean length as the pool holds, up to what the engine runs at once."""
    settings = plan.resolved.serving
    most = settings.max_sequences or MOST_AT_ONCE.get(plan.resolved.runtime.name, MANY)
    tokens = plan.serving.kv_tokens if plan.serving else 0
    return max(1.0, min(float(most), tokens / max(mean_tokens, 1.0)))
