"""What the section works on: the planned question and the figures of it that the topics share."""

from dataclasses import dataclass
from typing import Final

from planner.cards import gpu_of
from planner.hardware import Gpu
from planner.plan_types import Plan, ServingAnswer
from ui import answers

PROMPT_TOKENS: Final = 512
ANSWER_TOKENS: Final = 256
"""Where the scenario names neither; shown in the fields, so that they can be changed."""
BLOCK_TOKENS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A served plan.

    Attributes:
        plan: The plan.
        served: Its serving part.
    """

    plan: Plan
    served: ServingAnswer

    @property
    def longest(self) -> int:
        """Longest sequence that the server accepts."""
        held = self.plan.resolved.serving.max_model_len
        return held or self.served.longest_context_tokens or self.served.context_tokens

    @property
    def block_tokens(self) -> int:
        """Tokens of a block; 16 where the engine has none."""
        return self.plan.resolved.serving.block_size or BLOCK_TOKENS

    @property
    def prompt_tokens(self) -> int:
        """Prompt of a request, cut to the longest sequence."""
        load = self.plan.scenario.workload
        given = load.prompt_tokens if load is not None else None
        return min(PROMPT_TOKENS if given is None else given, self.longest - 1)

    @property
    def answer_tokens(self) -> int:
        """Answer of a request, cut to what the prompt leaves of the longest sequence."""
        load = self.plan.scenario.workload
        given = load.output_tokens if load is not None else None
        return max(1, min(given or ANSWER_TOKENS, self.longest - self.prompt_tokens))

    @property
    def sequences(self) -> int:
        """Sequences at once: as asked, else what fits."""
        load = self.plan.scenario.workload
        asked = load.concurrency if load is not None else None
        return asked or max(1, int(self.served.concurrency))

    @property
    def gpu(self) -> Gpu:
        """The card that limits."""
        row = next(
            (each for each in self.plan.resolved.hardware.devices if each.gpu == self.plan.worst.gpu_id),
            self.plan.resolved.hardware.devices[0],
        )
        return gpu_of(row, answers.tables())

    @property
    def cards(self) -> int:
        """Cards of one replica."""
        return self.plan.resolved.hardware.num_devices
