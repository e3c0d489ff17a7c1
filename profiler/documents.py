"""The base of every document the profiler reads and writes: frozen, strict, no unknown keys."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from planner.ledger import Phase

Text = Annotated[str, Field(max_length=4000)]
ShortText = Annotated[str, Field(max_length=300)]
Bytes = Annotated[int, Field(ge=0, le=2**62)]
Seconds = Annotated[float, Field(ge=0, le=1e8, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Param = str | int | float | bool | None
DeviceKind = Literal["cpu", "cuda"]
MeasuredPhase = Literal["load", "rest", "forward", "loss", "backward", "optimizer_step"]


class Strict(BaseModel):
    """Base of every block: frozen, no unknown keys, no conversions."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Remark(Strict):
    """A code with parameters, worded by the page.

    Attributes:
        code: Stable lowercase id.
        field: Dotted path in the scenario it belongs to, empty for none.
        params: Named values for the sentence.
    """

    code: ShortText
    field: ShortText = ""
    params: dict[str, Param] = Field(default_factory=dict)


class Options(Strict):
    """How to measure.

    Attributes:
        device: Where the step runs.
        warmup_steps: Steps before the measured ones; at least one, so that optimizer states exist.
        steps: Measured steps.
        timeout_s: Wall clock for the whole job.
        memory_limit_bytes: Resident bytes of the child after which it is ended, None for no limit.
        threads: CPU threads PyTorch may use, None for its own choice.
        insist: Run although the plan says it won't fit.
        seed: Of the random weights and tokens.
    """

    device: DeviceKind = "cpu"
    warmup_steps: Annotated[int, Field(ge=1, le=100)] = 1
    steps: Annotated[int, Field(ge=1, le=1000)] = 2
    timeout_s: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)] = 900.0
    memory_limit_bytes: Annotated[int, Field(ge=1, le=2**60)] | None = None
    threads: Annotated[int, Field(ge=1, le=4096)] | None = None
    insist: bool = False
    seed: Annotated[int, Field(ge=0, le=2**31)] = 0


def phase_of(name: str) -> Phase:
    """The planner's phase of a measured one."""
    return Phase(name)
