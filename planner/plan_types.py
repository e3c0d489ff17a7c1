"""The answer: what `planner.estimate.plan` returns. Everything is frozen and worked out once."""

from dataclasses import dataclass
from enum import StrEnum

from planner.issues import Issue
from planner.ledger import Ledger, Phase
from planner.model.spec import ModelSpec
from planner.scenario import Scenario


class Verdict(StrEnum):
    """Does it fit: see `verdict_for` in `planner.estimate` for the exact rule."""

    FITS = "fits"
    TIGHT = "tight"
    DOES_NOT_FIT = "does_not_fit"
    UNKNOWN = "unknown"


class Known(StrEnum):
    """How a code path is known to be right."""

    TRACE = "trace"
    PUBLISHED = "published"
    MEASURED = "measured"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class PeakBand:
    """The interval around a peak, from residuals on published measurements.

    Attributes:
        low_bytes: Lower end.
        high_bytes: Upper end.
        coverage_frac: Share of comparable measurements it holds (0.9).
        num_rows: Published rows behind it; 0 = none of this kind, the widest spread is used.
        basis: `runtime_task`, `task` or `all`: what the rows share with this plan.
    """

    low_bytes: int
    high_bytes: int
    coverage_frac: float
    num_rows: int
    basis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePlan:
    """One group of devices with the same card and the same share of the job.

    Attributes:
        indices: Positions in the job, list order of `hardware.devices`.
        gpu_id: Card id.
        gpu_name: Card name for display.
        stage: Pipeline stage, 0 where there is one.
        layers: Model layers held, as (first, one past last).
        usable_bytes: What the runtime can use on this card, None if not known.
        usable_source: `given`, `read`, `rule`, `free`, `unknown`, or `engine` where the engine's own rules allow
            less.
        ledger: Every entry on one device of the group.
        peak_phase: Fullest phase.
        peak_bytes: Bytes in it, all layers.
        band: Interval around the peak, None if there is no basis at all.
        headroom_bytes: usable - peak, None if usable is not known.
        verdict: For this group alone.
    """

    indices: tuple[int, ...]
    gpu_id: str
    gpu_name: str
    stage: int
    layers: tuple[int, int]
    usable_bytes: int | None
    usable_source: str
    ledger: Ledger
    peak_phase: Phase
    peak_bytes: int
    band: PeakBand | None
    headroom_bytes: int | None
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingHost:
    """What a server keeps in host memory: weights that stay there, caches, scratch buffers."""

    weights_bytes: int = 0
    kv_bytes: int = 0
    compute_buffer_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        """Everything together."""
        return self.weights_bytes + self.kv_bytes + self.compute_buffer_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingAnswer:
    """What a server can hold; sizes are of the fullest device unless said otherwise.

    Attributes:
        kv_bytes_per_token: The most that one more token takes of the KV cache on one device: every layer whose
            cache still grows, windows that are not full yet among them. 0 if none grows. Past a window a token
            costs less where the engine frees what left it, so `kv_pool_bytes / kv_tokens`, the mean over the
            pool, may be smaller. llama.cpp's capped windows are taken at the start and are no part of it.
        state_bytes_per_sequence: Cache of fixed size per sequence on one device (recurrent states).
        budget_bytes: What the engine may take in all (utilization x total), None where there is no budget.
        kv_pool_bytes: What is left for, or taken by, the KV cache on one device.
        kv_tokens: Tokens the pool holds.
        longest_context_tokens: Longest single sequence that fits, capped by `max_model_len` if given.
        concurrency: Sequences of `context_tokens` each that fit at once, as a ratio like the engines print.
        context_tokens: The context `concurrency` refers to.
        needs_bytes: Least bytes for the asked context and concurrency, all layers, on one device.
        reserves_bytes: What the engine will take regardless.
        device_pools_bytes: The KV pool of every group of devices, in order of `Plan.devices`.
        kv_blocks: Blocks of the pool, 0 where the engine has none.
        state_pool_bytes: Slots for recurrent states that the engine makes on the limiting device.
        state_slots: How many sequences those slots serve.
        host: What stays in host memory.
    """

    kv_bytes_per_token: int
    state_bytes_per_sequence: int
    budget_bytes: int | None
    kv_pool_bytes: int
    kv_tokens: int
    longest_context_tokens: int
    concurrency: float
    context_tokens: int
    needs_bytes: int
    reserves_bytes: int
    device_pools_bytes: tuple[int, ...] = ()
    kv_blocks: int = 0
    state_pool_bytes: int = 0
    state_slots: int = 0
    host: ServingHost = ServingHost()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostNeed:
    """Host memory and disk of one node, for offload and loading.

    Attributes:
        memory_bytes: Host memory.
        nvme_bytes: Disk.
        unified: The host memory is the cards' own, so it is taken from the same bytes.
    """

    memory_bytes: int = 0
    nvme_bytes: int = 0
    unified: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The whole answer.

    Attributes:
        scenario: The question as asked.
        resolved: The question with every default of the runtime filled in.
        model: What was planned.
        devices: One plan per group, in order of their first index.
        fullest: Position in `devices` of the group that limits (least headroom).
        verdict: Of the whole job: the worst of the groups.
        issues: Warnings and notes (errors never reach a plan).
        defaults: (field, value) pairs the runtime filled in.
        known: How this path is known.
        trainable_params: Parameters that receive gradients; 0 when serving.
        serving: Set when the task is `serve`.
        host: Host memory and disk needed per node.
    """

    scenario: Scenario
    resolved: Scenario
    model: ModelSpec
    devices: tuple[DevicePlan, ...]
    fullest: int
    verdict: Verdict
    issues: tuple[Issue, ...] = ()
    defaults: tuple[tuple[str, str], ...] = ()
    known: Known = Known.NONE
    trainable_params: int = 0
    serving: ServingAnswer | None = None
    host: HostNeed = HostNeed()

    @property
    def worst(self) -> DevicePlan:
        """The group that limits the job."""
        return self.devices[self.fullest]
