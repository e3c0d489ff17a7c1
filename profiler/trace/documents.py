"""What a trace is asked for."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from profiler.documents import ShortText, Strict
from profiler.trace.module_source import ModuleSource

Attention = Literal["auto", "flash", "efficient", "cudnn", "math"]


Degree = Annotated[int, Field(ge=1, le=65_536)]


class Part(Strict):
    """One rank's part of a job; every degree 1: the job is this rank's alone.

    Ranks count with tensor fastest, then shards, then copies, as PyTorch's device meshes do.

    Attributes:
        rank: Which rank is followed.
        copies: Data-parallel copies of the model, sharded or not.
        shards: Ranks that one copy is sharded over (FSDP2 `fully_shard`).
        tensor: Ranks that matrices are cut over (DTensor tensor parallelism).
        sequence: Norms and the residual stream are cut along the sequence.
        loss: The loss works on logits that stay cut along the vocabulary (`loss_parallel`).
        compute: Format that FSDP2 gathers parameters in, None: that of the shards.
        reduce: Format that FSDP2 reduces gradients in, None: that of the products.
        reshard: What becomes of a unit after its forward pass: freed, kept, or sharded over fewer ranks. The root
            is kept unless `reshard_root`.
        reshard_root: The root unit is freed too.
        forward_prefetch: Units gathered ahead of the running one in the forward pass, by request.
        backward_prefetch: The same in the backward pass, None: one, as PyTorch does unasked.
        bucket_mb: DDP's `bucket_cap_mb` in MiB, None: its own (1 MiB for the first, 25 for the others).
        bucket_views: DDP's `gradient_as_bucket_view`.
        finds_unused: DDP's `find_unused_parameters`.
    """

    rank: Annotated[int, Field(ge=0)] = 0
    copies: Degree = 1
    shards: Degree = 1
    tensor: Degree = 1
    sequence: bool = False
    loss: bool = False
    compute: Literal["fp32", "bf16", "fp16"] | None = None
    reduce: Literal["fp32", "bf16", "fp16"] | None = None
    reshard: bool | Degree = True
    reshard_root: bool = False
    forward_prefetch: Annotated[int, Field(ge=0, le=1000)] = 0
    backward_prefetch: Annotated[int, Field(ge=1, le=1000)] | None = None
    bucket_mb: Annotated[float, Field(gt=0, le=1e6)] | None = None
    bucket_views: bool = False
    finds_unused: bool = False

    @property
    def ranks(self) -> int:
        """Ranks in all."""
        return self.copies * self.shards * self.tensor

    @model_validator(mode="after")
    def _has_the_rank(self) -> "Part":
        if self.rank >= self.ranks:
            raise ValueError(f"rank {self.rank} of a job of {self.ranks}: 0 to {self.ranks - 1} asked for")
        return self


class Target(Strict):
    """The device whose step is followed.

    Attributes:
        device: `cuda`, or `cpu` where the trace is held against a real step.
        compute_capability: CUDA compute capability; decides kernels and workspaces.
        attention: Kernel behind scaled dot product attention; `auto`: as PyTorch would choose.
        part: Its part of a job of several devices.
    """

    device: Literal["cuda", "cpu"] = "cuda"
    compute_capability: tuple[Annotated[int, Field(ge=1, le=99)], Annotated[int, Field(ge=0, le=99)]] = (9, 0)
    attention: Attention = "auto"
    part: Part = Part()


class TraceOptions(Strict):
    """How to trace.

    Attributes:
        target: The device whose step is followed.
        module: A user's own model in place of the scenario's, None for none.
        instant: Run short models and extend, where that is exact.
        timeout_s: Wall clock for the whole job.
        memory_limit_bytes: Resident bytes of the child after which it is ended, None for no limit.
    """

    target: Target = Target()
    module: ModuleSource | None = None
    instant: bool = False
    timeout_s: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)] = 600.0
    memory_limit_bytes: Annotated[int, Field(ge=1, le=2**60)] | None = None


class Versions(Strict):
    """Libraries the step ran with."""

    torch: ShortText
    transformers: ShortText
    peft: ShortText = ""
