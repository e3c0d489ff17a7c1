"""What a speed is made of."""

from dataclasses import dataclass
from typing import Literal

PartName = Literal[
    "matrix_products", "attention", "memory_traffic", "recompute", "launches", "optimizer_step",
    "tensor_parallel", "context_parallel", "expert_parallel", "stage_transfers", "data_parallel",
    "pipeline_bubble", "host_transfers",
    "weights_read", "kv_read", "compute", "prefill", "draft_model", "engine",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One stretch of a step that nothing else hides.

    Attributes:
        name: Stable id; locale files word it.
        time_s: Seconds of the whole step.
        reference: Key into `planner.references`.
    """

    name: PartName
    time_s: float
    reference: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedBand:
    """An interval around a time.

    Attributes:
        low_s: Lower end.
        high_s: Upper end.
        low_frac: Lower end over the central time.
        high_frac: Upper end over it.
        n_rows: Published rows behind it.
        kind: Which runs those are.
    """

    low_s: float
    high_s: float
    low_frac: float
    high_frac: float
    n_rows: int
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """A figure the tables lack, so that no time can be told.

    Attributes:
        code: `no_peak_rate`, `no_power_limit`, `no_bandwidth`, `no_peer_link`, `no_network_rate`, `no_host_link`,
            `no_disk_rate`, `no_host_memory_rate`, `makes_pictures`.
        gpu_id: Whose.
        params: Values for the wording (the number format asked for, ...).
    """

    code: str
    gpu_id: str
    params: tuple[tuple[str, str], ...] = ()
