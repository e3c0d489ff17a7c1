"""What the planner knows about hardware: cards, nodes, fitted constants, and the tables of them.

Only types and pure helpers; `hardware_db` reads the files and hands a `Tables` in. A `Gpu` is one device as
the runtime counts it: a card with two dies is two of them, and its figures are per die.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from planner.prices import Offer, Price
from planner.units import gib_bytes

UsableSource = Literal["read", "rule", "given"]
ModelRow = Mapping[str, object]

UNKNOWN_GPU = "unknown"
_GENERIC = re.compile(r"generic-([1-9]\d{0,3})gb")


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakFlops:
    """Dense peak rates in operations per second; None where a type is unsupported or not known.

    GeForce fp16 and bf16 are with fp32 accumulation. `fp32` is the plain rate, `tf32` the tensor-core one.
    """

    fp32: float | None = None
    tf32: float | None = None
    fp16: float | None = None
    bf16: float | None = None
    fp8: float | None = None
    int8: float | None = None
    fp4: float | None = None

    def of(self, dtype: str) -> float | None:
        """The rate of a type by name; None for a type that has no column."""
        return getattr(self, dtype) if dtype in PEAK_DTYPES else None


PEAK_DTYPES = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One device as the runtime counts it. None means unknown throughout.

    Attributes:
        id: Stable id, such as `h100-sxm-80gb`, `generic-24gb` or `unknown`.
        name: Name for people.
        vendor: Maker.
        arch: Architecture name (`Hopper`, `CDNA3`, ...).
        form_factor: Board or module type; part of what is bought (SXM and PCIe differ in price and links).
        memory_nominal_gb: The number on the box.
        memory_nominal_bytes: That number in GiB: makers count device memory in powers of two.
        usable_bytes: What a process sees in all on an idle device.
        usable_source: `read` from a runtime, worked out by a `rule`, or `given` by the user.
        usable_rule: Which reading or rule; a code for the user interface.
        usable_recalled: The reading or the figure that the rule starts from was written from memory.
        bandwidth_bytes_per_s: Memory bandwidth.
        flops: Dense peak rates.
        compute_capability: CUDA compute capability; None off NVIDIA.
        interconnect: Name of the link between devices, PCIe aside.
        interconnect_bidir_bytes_per_s: Both directions together, all links of one device.
        pcie: Generation and width.
        pcie_bytes_per_s: One direction.
        tdp_w: Power limit.
        unified_memory: Memory is shared with the host, so usable is a limit, not a reservation.
        devices_per_card: Devices on one card; prices are per card, everything else per device.
        list_price: The maker's price at a date.
        street_price: A seller's price at a date.
        sources: Where the figures were read.
        recalled: Groups of figures written from memory: `specs` (some or all of them), `memory`, `flops`,
            `interconnect`, `memory_cuda`, `memory_smi`, `list_price`, `street_price`.
        notes: Remarks from the data file.
    """

    id: str
    name: str
    vendor: str | None = None
    arch: str | None = None
    form_factor: str | None = None
    launch_date: str | None = None
    memory_type: str | None = None
    memory_nominal_gb: float | None = None
    memory_nominal_bytes: int | None = None
    usable_bytes: int | None = None
    usable_source: UsableSource = "given"
    usable_rule: str = "given"
    usable_recalled: bool = False
    bandwidth_bytes_per_s: float | None = None
    flops: PeakFlops = field(default_factory=PeakFlops)
    compute_capability: tuple[int, int] | None = None
    interconnect: str | None = None
    interconnect_bidir_bytes_per_s: float | None = None
    pcie: str | None = None
    pcie_bytes_per_s: float | None = None
    tdp_w: float | None = None
    unified_memory: bool = False
    devices_per_card: int = 1
    list_price: Price | None = None
    street_price: Price | None = None
    sources: tuple[str, ...] = ()
    recalled: tuple[str, ...] = ()
    notes: str | None = None

    @property
    def interconnect_bytes_per_s(self) -> float | None:
        """One direction: half of the total that makers print."""
        total = self.interconnect_bidir_bytes_per_s
        return None if total is None else total / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A server: how many devices, how they are joined, what it draws and costs.

    Rates are one direction and, unless named otherwise, per device.

    Attributes:
        gpu_id: Its card in the table.
        gpus_per_node: Devices in one chassis.
        scale_up_gpus: Devices that reach each other over the fast fabric; more than a chassis in a rack.
        fabric, nic: Kind of link inside, and of the network cards, as their maker calls them.
        nic_bytes_per_s_per_node: Of all its network cards together.
        power_w: Of the whole system, None where its maker does not say.
        memory_nominal_gb: Device memory of the whole system, as the makers count it.
        price: For the whole system (for a rack, the rack).
    """

    id: str
    name: str
    gpu_id: str
    gpus_per_node: int
    scale_up_gpus: int
    fabric: str
    fabric_bytes_per_s: float
    nic: str
    nic_bytes_per_s: float
    nic_bytes_per_s_per_node: float
    power_w: float | None
    memory_nominal_gb: float
    price: Price | None
    source: str
    recalled: bool
    notes: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A number that was measured or fitted, with what is needed to judge it.

    Attributes:
        how: How it was obtained.
        versions: Software it holds for.
        date: When it was made.
        source: Where the readings are.
        residual: What is left unexplained, in words.
        n_rows: Readings behind it.
        residual_median_frac: Median |error| of what the rule predicts, each row left out in turn.
        residual_max_frac: The worst of those.
        recalled: Rests on figures written from memory.
    """

    name: str
    value: float
    unit: str
    how: str
    versions: str
    date: str
    source: str
    residual: str | None = None
    n_rows: int | None = None
    residual_median_frac: float | None = None
    residual_max_frac: float | None = None
    recalled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Quantiles of observed / predicted for a runtime, a task and a layer of memory; `*` stands for all.

    Attributes:
        n_rows: Runs behind it.
        low_frac, high_frac: The quantiles: what a prediction is multiplied by.
        made_on: ISO date.
        source: How it was made.
    """

    runtime: str
    task: str
    layer: str
    n_rows: int
    low_frac: float
    high_frac: float
    made_on: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tables:
    """Everything a plan may look up. Compared and hashed by identity, so it can key a cache.

    Attributes:
        gpus: By id.
        models: Raw rows by model id, in the columns of the catalogue.
        pipelines: Diffusion pipelines by id; known, not modelled.
        constants: By name.
        bands: Spread on published measurements.
        nodes: Servers.
        offers: Prices per hour.
    """

    gpus: Mapping[str, Gpu]
    models: Mapping[str, ModelRow] = field(default_factory=dict)
    pipelines: Mapping[str, ModelRow] = field(default_factory=dict)
    constants: Mapping[str, Constant] = field(default_factory=dict)
    bands: tuple[Band, ...] = ()
    nodes: Sequence[Node] = ()
    offers: Sequence[Offer] = ()

    def value(self, name: str) -> float:
        """The value of a constant.

        Raises:
            LookupError: There is no constant of that name.
        """
        constant = self.constants.get(name)
        if constant is None:
            raise LookupError(f"no constant {name!r}; known: {', '.join(sorted(self.constants))}")
        return constant.value


class UnknownGpuError(LookupError):
    """A card id that is neither in the table nor of the form `generic-24gb` or `unknown`.

    Attributes:
        gpu_id: What was asked for.
    """

    def __init__(self, gpu_id: str) -> None:
        super().__init__(f"unknown GPU {gpu_id!r}; allowed: an id of the table, 'generic-24gb' or 'unknown'")
        self.gpu_id = gpu_id


def gpu_for(gpu_id: str, tables: Tables, memory_bytes: int | None = None) -> Gpu:
    """The device of an id; `generic-24gb` is a device of 24 GiB, `unknown` one of no known size.

    Args:
        gpu_id: Id in a scenario.
        tables: The hardware tables.
        memory_bytes: What the runtime can see in all, where the user tells it; overrides every other figure.

    Raises:
        UnknownGpuError: The id is neither in the table nor one of the two special forms.
    """
    gpu = tables.gpus.get(gpu_id) or _special_gpu(gpu_id)
    if memory_bytes is None:
        return gpu
    return replace(
        gpu, usable_bytes=memory_bytes, usable_source="given", usable_rule="given", usable_recalled=False
    )


def has_gpu(gpu_id: str, tables: Tables) -> bool:
    """Whether `gpu_for` knows an id."""
    return gpu_id in tables.gpus or gpu_id == UNKNOWN_GPU or _GENERIC.fullmatch(gpu_id) is not None


def _special_gpu(gpu_id: str) -> Gpu:
    if gpu_id == UNKNOWN_GPU:
        return Gpu(id=gpu_id, name=gpu_id)
    match = _GENERIC.fullmatch(gpu_id)
    if match is None:
        raise UnknownGpuError(gpu_id)
    size_gib = int(match[1])
    size_bytes = gib_bytes(size_gib)
    return Gpu(
        id=gpu_id,
        name=gpu_id,
        memory_nominal_gb=size_gib,
        memory_nominal_bytes=size_bytes,
        usable_bytes=size_bytes,
    )


def usable_bytes_rule(total_bytes: int, *, base_bytes: float, reserve_frac: float) -> int:
    """What a process sees of a device: the total less what the driver keeps, a base and a share of the total.

    usable = total - base - share x total. Fitted on cards with a torch `total_memory` reading (constants
    `usable_*`); holds for NVIDIA drivers of 2020-2026 on Linux. Windows shows nearly all of it.

    Args:
        total_bytes: Device memory: the maker's GiB less what inline ECC takes, or the total of nvidia-smi.
        base_bytes: Kept whatever the size.
        reserve_frac: Share of the total kept on top.
    """
    return int(total_bytes - base_bytes - reserve_frac * total_bytes)


def cuda_context_bytes(gpu: Gpu, tables: Tables, *, lazy_loading: bool = True) -> int | None:
    """Device memory a process holds before its first tensor: driver state and loaded kernels.

    Args:
        gpu: The device; a generic one counts as NVIDIA.
        tables: Holds `cuda_context_*` constants, one for each architecture that has readings.
        lazy_loading: Kernels are loaded on first use (CUDA 11.7 and PyTorch 1.13 on); before, all at once.

    Returns:
        Bytes; None off CUDA, where no reading is known.
    """
    if gpu.vendor not in (None, "NVIDIA"):
        return None
    if not lazy_loading:
        return round(tables.value("cuda_context_eager_bytes"))
    own = tables.constants.get(f"cuda_context_{(gpu.arch or '').lower().replace(' ', '_')}_bytes")
    return round(own.value if own else tables.value("cuda_context_default_bytes"))
