"""Requests that wait: dynamic batching with a delay, and continuous batching, against one at a time.

Times of a step come from the caller as a function of the sequences in it. Without one nothing is answered.
Arrivals are a seeded Poisson stream; each request wants the same number of answer tokens.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

import numpy as np

from planner.requests.errors import positive
from planner.requests.lengths import SEED

REFERENCE: Final = "triton_dynamic_batching"
StepTime = Callable[[int], float]
"""Seconds of one decoding step with so many sequences in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """What a stream of requests met.

    Attributes:
        throughput_per_s: Requests answered from the first arrival to the last answer.
        mean_wait_s: From arrival to the first step.
        p95_wait_s: The same, 95 of 100 wait less.
        mean_latency_s: From arrival to the last token.
        mean_batch: Sequences of a step, mean over steps.
        busy_frac: Share of the time in which a step runs.
    """

    throughput_per_s: float
    mean_wait_s: float
    p95_wait_s: float
    mean_latency_s: float
    mean_batch: float
    busy_frac: float


def arrivals(rate_per_s: float, number: int, seed: int = SEED) -> list[float]:
    """Arrival times of a Poisson stream, ascending, in seconds.

    Raises:
        RequestsInputError: The rate or the number is not above zero.
    """
    positive("workload.requests_per_s", rate_per_s)
    positive("number", number)
    gaps = np.random.default_rng(seed).exponential(1 / rate_per_s, number)
    return [float(time) for time in np.cumsum(gaps)]


def linear_step(alone_s: float, each_further_s: float) -> StepTime:
    """A step that takes `alone_s` for one sequence and `each_further_s` more for each further one.

    Raises:
        RequestsInputError: The first is not above zero, or the second is below it.
    """
    positive("alone_s", alone_s)
    if each_further_s < 0:
        positive("each_further_s", each_further_s)
    return lambda sequences: alone_s + each_further_s * (sequences - 1)


def capacity_per_s(step_s: StepTime, sequences: int, answer_tokens: int) -> float:
    """Requests a second when every step is full: sequences / (tokens x time of a step)."""
    return sequences / (answer_tokens * step_s(sequences))


def dynamic(
    times: Sequence[float],
    step_s: StepTime,
    *,
    answer_tokens: int,
    most: int,
    max_delay_s: float,
    preferred: Sequence[int] = (),
) -> Waited:
    """Whole batches: one of a preferred size as soon as there is one, else what waits when the delay is over.

    A batch is answered as a whole before the next begins. Reference: triton_dynamic_batching.

    Args:
        times: Arrivals, ascending.
        step_s: Time of a step.
        answer_tokens: Steps of a batch.
        most: Largest batch.
        max_delay_s: Longest that a request waits for others.
        preferred: Batch sizes to aim for; none = the largest.
    """
    _check(answer_tokens, most, max_delay_s)
    sizes = sorted({min(size, most) for size in preferred}) or [most]
    begins: list[float] = []
    ends: list[float] = []
    batches: list[int] = []
    free, first = 0.0, 0
    while first < len(times):
        start, size = _next_batch(times, first, free, sizes, most, max_delay_s)
        free = start + answer_tokens * step_s(size)
        begins += [start] * size
        ends += [free] * size
        batches.append(size)
        first += size
    busy = sum(answer_tokens * step_s(size) for size in batches)
    return _waited(times, begins, ends, fmean(batches), busy)


def _next_batch(
    times: Sequence[float], first: int, free: float, sizes: Sequence[int], most: int, delay: float
) -> tuple[float, int]:
    """When the next batch begins and how many are in it."""
    ready = max(free, times[first])
    waiting = _count_until(times, first, ready, most)
    reached = [size for size in sizes if size <= waiting]
    if reached:
        return ready, reached[-1]
    deadline = times[first] + delay
    last = first + next(size for size in sizes if size > waiting) - 1
    if last < len(times) and times[last] <= deadline:
        return times[last], last - first + 1
    start = max(ready, deadline)
    return start, _count_until(times, first, start, most)


def _count_until(times: Sequence[float], first: int, now: float, most: int) -> int:
    count = 1
    while count < most and first + count < len(times) and times[first + count] <= now:
        count += 1
    return count


def continuous(times: Sequence[float], step_s: StepTime, *, answer_tokens: int, most: int) -> Waited:
    """Requests join and leave between steps, at most `most` at once. Reference: orca, section 3.

    Args:
        times: Arrivals, ascending.
        step_s: Time of a step.
        answer_tokens: Steps of a request.
        most: Most sequences at once.
    """
    _check(answer_tokens, most, 0.0)
    begins, ends = [0.0] * len(times), [0.0] * len(times)
    left: dict[int, int] = {}
    now = busy = 0.0
    arrived = taken = tokens_out = 0
    while arrived < len(times) or left:
        if not left:
            now = max(now, times[arrived])
        while arrived < len(times) and len(left) < most and times[arrived] <= now:
            left[arrived], begins[arrived] = answer_tokens, now
            arrived += 1
        spent, steps = _run(left, step_s, now, _next_arrival(times, arrived, len(left), most))
        now, busy = now + spent, busy + spent
        taken, tokens_out = taken + steps, tokens_out + steps * len(left)
        for request in [each for each, tokens in left.items() if tokens == steps]:
            ends[request] = now
        left = {each: tokens - steps for each, tokens in left.items() if tokens > steps}
    return _waited(times, begins, ends, tokens_out / taken, busy)


def _next_arrival(times: Sequence[float], arrived: int, running: int, most: int) -> float | None:
    """When somebody may join; None while there is no room or nobody comes."""
    return times[arrived] if running < most and arrived < len(times) else None


def _run(left: dict[int, int], step_s: StepTime, now: float, until: float | None) -> tuple[float, int]:
    """Time and number of equal steps until one request ends or another may join."""
    each = step_s(len(left))
    steps = min(left.values())
    if until is not None:
        steps = min(steps, max(1, int((until - now) / each) + 1))
    return steps * each, steps


def _waited(
    times: Sequence[float],
    begins: Sequence[float],
    ends: Sequence[float],
    mean_batch: float,
    busy: float,
) -> Waited:
    waits = sorted(begin - time for begin, time in zip(begins, times, strict=True))
    span = max(ends) - times[0]
    return Waited(
        throughput_per_s=len(times) / span,
        mean_wait_s=fmean(waits),
        p95_wait_s=waits[min(len(waits) - 1, int(0.95 * len(waits)))],
        mean_latency_s=fmean(end - time for end, time in zip(ends, times, strict=True)),
        mean_batch=mean_batch,
        busy_frac=busy / span,
    )


def _check(answer_tokens: int, most: int, max_delay_s: float) -> None:
    positive("workload.output_tokens", answer_tokens)
    positive("serving.max_sequences", most)
    if max_delay_s < 0:
        positive("batching.max_delay_ms", max_delay_s)
