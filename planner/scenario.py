"""The question: one frozen document for file, link, form, command line and measurement.

An absent optional field means "the runtime's own default", never zero. `planner.validation.parse_scenario` turns a
plain dict into a `Scenario` or into issues by field; constructing the classes directly raises pydantic's own error.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from planner.scenario_values import (
    AdapterBase,
    AdapterMethod,
    Amount,
    Count,
    Degree,
    Dtype,
    FormatId,
    FrozenJson,
    KernelName,
    KvFormat,
    Name,
    NonNegative,
    OptimizerName,
    Positive,
    Rate,
    RuntimeName,
    Share,
    SizeBytes,
    Task,
    Tokens,
)

SCHEMA_VERSION: Final = 1


class Document(BaseModel):
    """Base of every block: frozen, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class StoredPart(Document):
    """Tensors of one part of a model in one number format; `scales`: those that undo a quantization."""

    part: Literal[
        "embedding", "attention", "mlp", "experts", "shared_experts", "router", "norm", "head", "other", "draft",
    ]  # fmt: skip
    format: FormatId
    scales: bool = False
    bytes: SizeBytes


class StoredWeights(Document):
    """What the headers of a checkpoint say: where and when they were read, and bytes by part and format.

    `draft` = layers for multi-token prediction; `weights` = the file type that a GGUF file names.
    """

    source: Name
    date: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]
    container: Literal["safetensors", "gguf"]
    weights: FormatId | None = None
    parts: Annotated[tuple[StoredPart, ...], Field(min_length=1, max_length=200)]


class ModelChoice(Document):
    """Which model: a catalog id, a Hugging Face config, or both (then the config decides).

    `stored` holds the sizes of a checkpoint of it; a server that takes its weights as they are stored has those.
    """

    id: Name | None = None
    config: FrozenJson | None = None
    stored: StoredWeights | None = None


class OwnCard(Document):
    """A card the table lacks. Absent = that of the card it is `like`, else unknown.

    `memory_gib` is the size on the box, which makers count in GiB; `link_gb_per_s` both directions together, as
    makers print it; `pcie_gb_per_s` one direction; rates are dense.
    """

    memory_gib: Annotated[float, Field(ge=1, le=100_000, allow_inf_nan=False)]
    like: Name | None = None
    vendor: Literal["NVIDIA", "AMD", "Intel"] | None = None
    memory_type: Name | None = None
    bandwidth_gb_per_s: Rate | None = None
    bf16_tflops: Rate | None = None
    fp16_tflops: Rate | None = None
    fp32_tflops: Rate | None = None
    fp8_tflops: Rate | None = None
    fp4_tflops: Rate | None = None
    link_gb_per_s: Rate | None = None
    pcie_gb_per_s: Rate | None = None
    power_w: Rate | None = None


class Device(Document):
    """A row of equal cards. `memory_bytes`: what the runtime can see in all; `free_bytes`: what others leave free.

    With `card` the row describes its card, and `gpu` is what the user calls it.
    """

    gpu: Name
    card: OwnCard | None = None
    count: Annotated[int, Field(ge=1, le=100_000, strict=True)] = 1
    memory_bytes: SizeBytes | None = None
    free_bytes: SizeBytes | None = None


class Links(Document):
    """How cards, nodes, host and disk are joined; absent = the card's and node's own."""

    intra_node: Name | None = None
    inter_node_gbit: Positive | None = None
    host: Name | None = None
    nvme_gb_per_s: Positive | None = None


class Hardware(Document):
    """The cards, in list order, and the machines around them."""

    devices: Annotated[tuple[Device, ...], Field(min_length=1, max_length=256)]
    devices_per_node: Count | None = None
    host_memory_gib: Positive | None = None
    nvme_gb: Amount | None = None
    driver_spill: bool = False
    margin_frac: Annotated[float, Field(ge=0, le=0.9, allow_inf_nan=False)] = 0.05
    links: Links = Links()

    @property
    def num_devices(self) -> int:
        """Cards in all."""
        return sum(device.count for device in self.devices)


class Runtime(Document):
    """The framework or engine, its version, and how PyTorch is set up in it."""

    name: RuntimeName = "generic"
    engine: Literal["v0", "v1"] | None = None
    version: Name | None = None
    torch: Name | None = None
    compile: bool | None = None
    allocator: Literal["default", "expandable_segments"] | None = None


class Precision(Document):
    """Number formats. Absent = the runtime's habit for the task; `master="none"`: parameters are the only copy."""

    parameters: Dtype | None = None
    compute: Dtype | None = None
    autocast: bool | None = None
    gradients: Dtype | None = None
    gradient_copy: Literal["fp32", "bf16", "fp16", "none"] | None = None
    master: Literal["fp32", "bf16", "none"] | None = None
    optimizer: Literal["fp32", "bf16", "fp16", "int8", "int4", "fp8"] | None = None
    fp8: Literal["tensorwise", "rowwise", "blockwise", "mxfp8"] | None = None
    fp4: Literal["nvfp4", "mxfp4"] | None = None


class Optimizer(Document):
    """The optimizer and how its step is carried out."""

    name: OptimizerName = "adamw"
    implementation: Literal["foreach", "fused", "single"] | None = None
    paged: bool = False
    in_backward: bool = False
    rank: Count | None = None


class Alignment(Document):
    """Training on preferences or rewards: the models beside the one that is trained, and what it writes itself.

    `micro_batch` counts pairs for dpo and orpo, completions else. Absent `reference`: as the method has it; `shared`:
    the base below the adapter. `generations`: completions written at once between steps, as long as the sequence.
    """

    method: Literal["dpo", "orpo", "kto", "grpo", "ppo"]
    reference: Literal["copy", "shared", "none"] | None = None
    generations: Count | None = None


class Training(Document):
    """One training step.

    `sequence_chunks`: pieces of the sequence that the feed-forward part runs on one after the other.
    `recompute_budget_frac`: share of the activations that a compiler may keep (`activation_memory_budget`).
    `images`: pictures in each sequence, absent = none; their tokens are part of `sequence_length`. `image_pixels`:
    width x height of one after resizing, absent = the tower's own size. `tower`: whether tower and projector learn,
    absent = as the language model in full training, frozen beside adapters.
    """

    micro_batch: Count = 1
    gradient_accumulation: Count = 1
    sequence_length: Tokens = 4096
    decoder_sequence_length: Tokens | None = None
    packing: Literal["none", "packed", "padding_free"] | None = None
    dropout: Share | None = None
    attention: Literal["eager", "sdpa", "flash", "flex", "transformer_engine_unfused"] | None = None
    loss: Literal["standard", "fused", "chunked", "fused_linear"] | None = None
    kernels: tuple[KernelName, ...] | None = None
    checkpointing: Literal["none", "selective_attention", "selective_op", "every_k", "full"] | None = None
    checkpoint_every: Count | None = None
    checkpoint_modules: tuple[Name, ...] | None = None
    checkpoint_partitioned: bool = False
    checkpoint_reentrant: bool | None = None
    activation_offload: bool = False
    sequence_chunks: Count | None = None
    recompute_budget_frac: Share | None = None
    alignment: Alignment | None = None
    images: Annotated[int, Field(ge=1, le=10_000, strict=True)] | None = None
    image_pixels: Annotated[int, Field(ge=1, le=100_000_000, strict=True)] | None = None
    tower: Literal["trained", "frozen"] | None = None
    precision: Precision = Precision()
    optimizer: Optimizer = Optimizer()


class Adapter(Document):
    """A parameter-efficient method on a frozen base."""

    method: AdapterMethod = "lora"
    rank: Count | None = None
    alpha: Positive | None = None
    dropout: Share | None = None
    dtype: Literal["fp32", "bf16", "fp16"] | None = None
    targets: Literal["all_linear"] | tuple[Name, ...] | None = None
    virtual_tokens: Count | None = None
    layers: Count | None = None
    base: AdapterBase | None = None
    modules_to_save: tuple[Name, ...] = ()


class LengthDistribution(Document):
    """Request lengths: a kind and its own parameters."""

    model_config = ConfigDict(frozen=True, extra="allow")
    kind: Literal["lognormal", "uniform", "list"]


class Workload(Document):
    """The load on a server, or the size of a training run. Absent concurrency = every request queued."""

    concurrency: Count | None = None
    prompt_tokens: NonNegative | None = None
    output_tokens: Tokens | None = None
    requests_per_s: Positive | None = None
    length_distribution: LengthDistribution | None = None
    beam_width: Count | None = None
    shared_prefix_tokens: NonNegative | None = None
    prefix_hit_frac: Share | None = None
    train_tokens: Positive | None = None
    epochs: Positive | None = None


class QuantizationAware(Document):
    """Formats simulated while training."""

    weights: FormatId | None = None
    activations: FormatId | None = None


class Loading(Document):
    """How weights come in and how often the state is saved."""

    method: Literal["full", "sharded", "device_map", "meta"] | None = None
    checkpoint_interval_steps: Count | None = None


class Elastic(Document):
    """Data-parallel workers that may join and leave."""

    min_data: Degree
    max_data: Degree


class Batching(Document):
    """A request queue in front of the model."""

    max_delay_ms: Amount
    preferred: tuple[Count, ...] = ()


class CacheTier(Document):
    """One tier of a KV cache that spans memories."""

    where: Literal["gpu", "host", "shared"]
    gib: Positive
    hit_frac: Share


class Autoscale(Document):
    """When replicas are added and taken away."""

    gpu_utilisation_up: Share | None = None
    queue_ms_up: Amount | None = None
    idle_s_down: Amount | None = None
    step_up: Count | None = None
    step_down: Count | None = None


class Economics(Document):
    """The user's own figures for buying and running."""

    purchase_usd: Amount | None = None
    power_usd_per_kwh: Amount | None = None
    utilisation_frac: Share | None = None
    resale_frac: Share | None = None
    hosting_usd_per_month: Amount | None = None
    interest_frac_per_year: Share | None = None
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] = "USD"


class Stage(Document):
    """A pipeline stage laid out by hand: which cards, how many layers, how wide."""

    devices: Annotated[tuple[NonNegative, ...], Field(min_length=1)]
    layers: Count
    tensor: Degree = 1


class Offload(Document):
    """What is kept off the cards."""

    parameters: Literal["none", "cpu", "nvme"] = "none"
    gradients: Literal["none", "cpu"] = "none"
    optimizer: Literal["none", "cpu", "nvme"] = "none"


class Parallel(Document):
    """How the job is divided: tensor x pipeline x context x data = number of cards; experts lie inside data."""

    data: Degree | None = None
    data_parallel: Literal["ddp", "dp", "megatron"] | None = None
    bucket_mb: Positive | None = None
    tensor: Degree = 1
    pipeline: Degree = 1
    context: Degree = 1
    expert: Degree = 1
    expert_tensor: Degree | None = None
    sequence: bool = False
    sharding: Literal["none", "zero1", "zero2", "zero3", "fsdp"] = "none"
    sharding_degree: Degree | None = None
    reshard_after_forward: bool | None = None
    pipeline_schedule: Literal["1f1b", "interleaved", "gpipe", "zero_bubble", "naive"] | None = None
    virtual_stages: Degree | None = None
    stages: tuple[Stage, ...] | None = None
    pipeline_layers: tuple[NonNegative, ...] | None = None
    offload: Offload = Offload()


class Serving(Document):
    """An inference engine's settings."""

    weights: FormatId | None = None
    expert_weights: FormatId | None = None
    weights_file_bytes: SizeBytes | None = None
    kv_cache: KvFormat | None = None
    kv_cache_v: KvFormat | None = None
    max_model_len: Tokens | None = None
    max_sequences: Count | None = None
    batched_tokens: Tokens | None = None
    memory_utilization: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = None
    max_total_tokens: Tokens | None = None
    block_size: Count | None = None
    cuda_graphs: bool | None = None
    cuda_graph_max_batch: Count | None = None
    prefix_caching: bool | None = None
    speculative: Literal["mtp", "eagle3", "draft"] | None = None
    draft_model: ModelChoice | None = None
    draft_tokens: Annotated[int, Field(ge=1, le=64, strict=True)] | None = None
    gpu_layers: NonNegative | None = None
    host_experts: bool | None = None
    expert_layers: tuple[NonNegative, ...] | None = None
    tensor_split: tuple[Amount, ...] | None = None
    split_mode: Literal["layer", "row", "none"] | None = None
    pipeline_copies: Count | None = None
    mla_mode: Annotated[int, Field(ge=0, le=3, strict=True)] | None = None
    attention_max_batch_mib: Count | None = None
    flash_attention: bool | None = None
    no_kv_offload: bool | None = None


class Scenario(Document):
    """One question. `name` is the user's own label and changes nothing."""

    version: Literal[1] = SCHEMA_VERSION
    name: Annotated[str, Field(max_length=200)] | None = None
    task: Task
    model: ModelChoice
    hardware: Hardware
    runtime: Runtime = Runtime()
    training: Training = Training()
    adapter: Adapter | None = None
    workload: Workload | None = None
    quantization_aware: QuantizationAware | None = None
    loading: Loading | None = None
    elastic: Elastic | None = None
    batching: Batching | None = None
    cache_tiers: tuple[CacheTier, ...] | None = None
    autoscale: Autoscale | None = None
    economics: Economics | None = None
    parallel: Parallel = Parallel()
    serving: Serving = Serving()

    @property
    def is_training(self) -> bool:
        """Whether the job trains (every task but `serve`)."""
        return self.task != "serve"


def to_document(scenario: Scenario) -> dict[str, Any]:
    """The scenario as plain JSON values, only what was given, so that defaults stay absent."""
    return scenario.model_dump(mode="json", exclude_unset=True)


def json_schema() -> dict[str, Any]:
    """The published JSON schema (draft 2020-12) of a scenario file."""
    schema = Scenario.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "Headroom scenario, version 1"
    return schema
