"""Times that the topics start from: the planner's own estimate of a server's speed, for the user to change."""

from dataclasses import dataclass

from planner.throughput.serving_speed import ServingSpeed, speed_by_concurrency
from ui import answers
from ui.requests.question import Question


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Estimated times; None where the tables lack a figure of the card.

    Attributes:
        step_ms: A decoding step of one sequence.
        further_ms: What each further sequence adds to a step, the mean up to those of the question.
        first_ms: First token of one request that waits for nobody.
        capacity_per_s: Requests a second of one replica at the sequences of the question.
    """

    step_ms: float | None
    further_ms: float | None
    first_ms: float | None
    capacity_per_s: float | None


def speeds(question: Question, numbers: tuple[int, ...]) -> tuple[ServingSpeed, ...]:
    """The estimated speed at each number of sequences."""
    return speed_by_concurrency(question.plan, answers.tables(), numbers)


def estimate(question: Question) -> Estimate:
    """The times that the fields show until somebody gives others, rounded as they are shown."""
    replicas = speeds(question, (1,))[0].load.replicas
    one, many = speeds(question, (replicas, max(2, question.sequences) * replicas))
    return Estimate(
        step_ms=None if one.tpot_s is None else round(1000 * one.tpot_s, 1),
        further_ms=_further_ms(one, many),
        first_ms=None if one.ttft_s is None else float(round(1000 * one.ttft_s)),
        capacity_per_s=_capacity(many),
    )


def _further_ms(one: ServingSpeed, many: ServingSpeed) -> float | None:
    more = many.load.running - one.load.running
    if one.tpot_s is None or many.tpot_s is None or more <= 0:
        return None
    return max(0.0, round(1000 * (many.tpot_s - one.tpot_s) / more, 2))


def _capacity(many: ServingSpeed) -> float | None:
    if many.output_tokens_per_s is None:
        return None
    return round(many.output_tokens_per_s / many.load.output_tokens / many.load.replicas, 2) or None
