"""A question made ready for tracing, by its document. Pure, and remembered: every run of the page asks again."""

from dataclasses import dataclass
from functools import lru_cache
from json import loads

from planner.cards import gpu_at
from planner.plan_types import Plan
from profiler.documents import Remark
from profiler.trace.cache import key_of
from profiler.trace.request import Asked, Capability, ask
from ui.answers import answer, tables
from ui.document import Document, canonical

REMEMBERED = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a trace would be asked.

    Attributes:
        document: The question.
        plan: Its answer.
        asked: What the tracing process is told.
        key: Digest of everything that the trace depends on; another card of the same kind has the same.
        full_key: The same for a trace of every layer, which an extended one equals.
    """

    document: Document
    plan: Plan
    asked: Asked
    key: str
    full_key: str

    @property
    def refused(self) -> tuple[Remark, ...]:
        """Fields that a trace cannot follow; empty if it can."""
        return self.asked.refused


def question_of(document: Document) -> Question | None:
    """The question of a document, None where it has no plan or is not about training."""
    return _question(canonical(document))


@lru_cache(maxsize=REMEMBERED)
def _question(text: str) -> Question | None:
    document = loads(text)
    plan = answer(document).plan
    if plan is None or not plan.resolved.is_training:
        return None
    asked = ask(plan, capability_of(plan))
    key, full_key = (
        key_of(asked.scenario, asked.config, asked.options.target, instant=instant)
        for instant in (True, False)
    )
    return Question(document=document, plan=plan, asked=asked, key=key, full_key=full_key)


def capability_of(plan: Plan) -> Capability | None:
    """CUDA compute capability of the fullest card, None where it has none."""
    return gpu_at(plan.worst.indices[0], plan.resolved.hardware, tables()).compute_capability
