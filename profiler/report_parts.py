"""Parts of a report beyond one step's phases: steps over time, ranks, cards, the program and what watching cost."""

from typing import Annotated, Final, Literal

from pydantic import Field

from profiler.documents import Bytes, Fraction, Seconds, ShortText, Strict

MAX_STEPS: Final = 2_000
MAX_RANKS: Final = 4_096
MAX_CARDS: Final = 256
MAX_READINGS: Final = 2_000
Count = Annotated[int, Field(ge=0)]
Watts = Annotated[float, Field(ge=0, le=1e5, allow_inf_nan=False)]


class Program(Strict):
    """What was watched.

    Attributes:
        way: `run` (a scenario's real model), `wrap` (a command), `hook` (a `with` block) or `watch` (the driver only).
        name: File name of the script, without its folder.
        exit_code: Of the command, None where it is not known or negative signals are not used.
        signal: Name of the signal that ended it, empty for none.
        snapshot: Where a memory snapshot was written, empty for none.
    """

    way: Literal["run", "wrap", "hook", "watch"] = "run"
    name: ShortText = ""
    exit_code: int | None = None
    signal: ShortText = ""
    snapshot: ShortText = ""


class StepMemory(Strict):
    """Memory of one sampled step; None = not known on this device.

    Attributes:
        step: Number, from 1.
        time_s: From the start of its forward pass to the end of its optimizer step.
        peak_allocated_bytes: Highest within the step.
        peak_reserved_bytes: Highest within the step.
        after_allocated_bytes: Still allocated when the next step begins.
        after_reserved_bytes: Still reserved then.
        resident_bytes: Resident host memory then.
    """

    step: Annotated[int, Field(ge=1)]
    time_s: Seconds
    peak_allocated_bytes: Bytes | None = None
    peak_reserved_bytes: Bytes | None = None
    after_allocated_bytes: Bytes | None = None
    after_reserved_bytes: Bytes | None = None
    resident_bytes: Bytes | None = None


class Overhead(Strict):
    """What the hook itself took.

    Attributes:
        hook_s: Seconds inside the hook, sampled steps only, the followed step left out.
        steps_s: Seconds of those steps.
        sampled: How many steps were sampled.
        seen: How many steps there were.
        every: Every which step is sampled at the end.
    """

    hook_s: Seconds
    steps_s: Seconds
    sampled: Count
    seen: Count
    every: Annotated[int, Field(ge=1)] = 1

    @property
    def frac(self) -> float | None:
        """Share of the time of the sampled steps; None before a step was sampled."""
        return self.hook_s / self.steps_s if self.steps_s > 0 else None


class Communication(Strict):
    """What ranks said to each other in one step.

    Attributes:
        time_s: Seconds in which a collective was under way, overlapping ones once.
        step_s: Seconds of that step.
        calls: Collectives by kind.
    """

    time_s: Seconds
    step_s: Seconds
    calls: dict[str, Count] = Field(default_factory=dict)

    @property
    def frac(self) -> float | None:
        """Share of the step, whether or not something was computed meanwhile."""
        return min(1.0, self.time_s / self.step_s) if self.step_s > 0 else None


class RankFigures(Strict):
    """One rank of a job.

    Attributes:
        rank: Number in the job.
        host: Name of its machine.
        device_name: Its card or processor.
        outcome: `missing`: it was never heard; `silent`: it was heard and then no more.
        detail: Text behind the outcome.
        peak_allocated_bytes: Highest over the measured steps.
        peak_reserved_bytes: The same for the allocator's segments.
        resident_peak_bytes: Highest resident host memory.
        device_peak_bytes: Highest reading of the whole card.
        step_s: Mean seconds of a step.
        communication: Of one step.
    """

    rank: Count
    host: ShortText = ""
    device_name: ShortText = ""
    outcome: Literal["completed", "out_of_memory", "failed", "silent", "missing"] = "completed"
    detail: ShortText = ""
    peak_allocated_bytes: Bytes | None = None
    peak_reserved_bytes: Bytes | None = None
    resident_peak_bytes: Bytes | None = None
    device_peak_bytes: Bytes | None = None
    step_s: Seconds | None = None
    communication: Communication | None = None


class CardReading(Strict):
    """One look at a card; None = the driver does not say.

    Attributes:
        at_s: Seconds since the start.
        used_bytes: In use by all processes.
        process_bytes: In use by the watched process.
        gpu_frac: Share of the time in which a kernel ran.
        memory_frac: Share of the time in which memory was read or written.
        power_w: Draw.
        sm_mhz: Clock of the multiprocessors.
        memory_mhz: Clock of the memory.
        pcie_sent_bytes_per_s: From the card.
        pcie_received_bytes_per_s: To the card.
        nvlink_sent_bytes_per_s: All links.
        nvlink_received_bytes_per_s: All links.
        stale: The card did not answer; the memory is that of the reading before.
    """

    at_s: Seconds
    used_bytes: Bytes | None = None
    process_bytes: Bytes | None = None
    gpu_frac: Fraction | None = None
    memory_frac: Fraction | None = None
    power_w: Watts | None = None
    sm_mhz: Count | None = None
    memory_mhz: Count | None = None
    pcie_sent_bytes_per_s: Count | None = None
    pcie_received_bytes_per_s: Count | None = None
    nvlink_sent_bytes_per_s: Count | None = None
    nvlink_received_bytes_per_s: Count | None = None
    stale: bool = False


class CardSeries(Strict):
    """A card over time.

    Attributes:
        index: The driver's number.
        uuid: The driver's id, empty where it does not say.
        name: The driver's name, empty where it does not say.
        total_bytes: What processes can have.
        reserved_bytes: What the driver keeps for itself, None where it does not say.
        mig: It is a MIG instance.
        lost_at_s: When it stopped to answer for good, None if it did not.
        readings: Oldest first, thinned evenly.
    """

    index: Count
    uuid: ShortText = ""
    name: ShortText = ""
    total_bytes: Bytes | None = None
    reserved_bytes: Bytes | None = None
    mig: bool = False
    lost_at_s: Seconds | None = None
    readings: Annotated[tuple[CardReading, ...], Field(max_length=MAX_READINGS)] = ()

    @property
    def peak_bytes(self) -> int | None:
        """Highest use that was read, None if none was."""
        read = (one.used_bytes for one in self.readings)
        return max((used for used in read if used is not None), default=None)
