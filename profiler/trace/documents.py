"""What a trace is asked for."""

from typing import Annotated, Literal

from pydantic import Field

from profiler.documents import ShortText, Strict

Attention = Literal["auto", "flash", "efficient", "cudnn", "math"]


class Target(Strict):
    """The device whose step is followed.

    Attributes:
        device: `cuda`, or `cpu` where the trace is held against a real step.
        compute_capability: CUDA compute capability; decides kernels and workspaces.
        attention: Kernel behind scaled dot product attention; `auto`: as PyTorch would choose.
    """

    device: Literal["cuda", "cpu"] = "cuda"
    compute_capability: tuple[Annotated[int, Field(ge=1, le=99)], Annotated[int, Field(ge=0, le=99)]] = (9, 0)
    attention: Attention = "auto"


class TraceOptions(Strict):
    """How to trace.

    Attributes:
        target: The device whose step is followed.
        timeout_s: Wall clock for the whole job.
        memory_limit_bytes: Resident bytes of the child after which it is ended, None for no limit.
    """

    target: Target = Target()
    timeout_s: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)] = 600.0
    memory_limit_bytes: Annotated[int, Field(ge=1, le=2**60)] | None = None


class Versions(Strict):
    """Libraries the step ran with."""

    torch: ShortText
    transformers: ShortText
    peft: ShortText = ""
