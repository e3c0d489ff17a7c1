"""Who holds what: cards to pipeline stages, layers to stages, micro-batches that each stage keeps in flight.

Ranks follow list order with tensor fastest, then context, then data, and pipeline slowest (Megatron's default
order), so the first cards form the first stage. Equal cards with an equal share form one group.
"""

from dataclasses import dataclass
from itertools import accumulate, chain, repeat

from planner.cards import gpu_of
from planner.hardware import Gpu, Tables
from planner.lazy import lazy
from planner.model.distinct import distinct
from planner.model.spec import Layer, ModelSpec
from planner.scenario import Device, OwnCard, Parallel, Scenario
from planner.units import ceil_div


@dataclass(frozen=True, kw_only=True)
class Share:
    """One group of devices and the part of the job each of them carries.

    Attributes:
        indices: Positions in the job, in list order of `hardware.devices`.
        gpu: The card.
        device: The scenario's row it came from (its own memory and free bytes).
        stage: Pipeline stage, from 0.
        num_stages: Pipeline depth.
        layer_range: Layers held, as (first, one past last); with virtual stages the first chunk's start and a
            count.
        layers: Those layers (every chunk of them).
        encoder_layers: Encoder layers held (encoder-decoder models).
        holds_embedding: Whether the token embedding is here.
        holds_head: Whether the output matrix and the loss are here.
        in_flight: Micro-batches whose activations are kept at once (1F1B: stages after this one + 1), a float
            where interleaving keeps a fraction of a chunk more.
        tensor: Tensor-parallel degree.
        data: Data-parallel degree, context left out.
        context: Context-parallel degree.
        shard: Devices one copy of the sharded states is divided over (ZeRO or FSDP), 1 if none.
        replica: A card of `nn.DataParallel` that is lent a copy for each step; the first card owns the model.
    """

    indices: tuple[int, ...]
    gpu: Gpu
    device: Device
    stage: int = 0
    num_stages: int = 1
    layer_range: tuple[int, int]
    layers: tuple[Layer, ...]
    encoder_layers: tuple[Layer, ...] = ()
    holds_embedding: bool = True
    holds_head: bool = True
    in_flight: float = 1
    tensor: int = 1
    data: int = 1
    context: int = 1
    shard: int = 1
    replica: bool = False

    @lazy
    def distinct_layers(self) -> list[tuple[Layer, int]]:
        """Each layer object once, and how often it occurs."""
        return distinct(self.layers)

    @lazy
    def distinct_encoder_layers(self) -> list[tuple[Layer, int]]:
        """The same of the encoder's."""
        return distinct(self.encoder_layers)


def usable_bytes(share: Share) -> tuple[int | None, str]:
    """What the job may use on a card, and where the figure comes from."""
    if share.device.free_bytes is not None:
        return share.device.free_bytes, "free"
    if share.device.memory_bytes is not None:
        return share.device.memory_bytes, "given"
    return share.gpu.usable_bytes, share.gpu.usable_source


def data_degree(scenario: Scenario) -> int:
    """Data-parallel degree: as given, else what is left of the cards."""
    parallel = scenario.parallel
    if parallel.data is not None:
        return parallel.data
    return max(1, scenario.hardware.num_devices // (parallel.tensor * parallel.pipeline * parallel.context))


def stage_layers(num_layers: int, parallel: Parallel) -> tuple[int, ...]:
    """Layers of every stage over all its chunks; uneven counts as given, a remainder to the first stages."""
    stages, chunks = parallel.pipeline, parallel.virtual_stages or 1
    if parallel.stages:
        return tuple(stage.layers for stage in parallel.stages)
    if parallel.pipeline_layers and len(parallel.pipeline_layers) == stages * chunks:
        return tuple(sum(parallel.pipeline_layers[s::stages]) for s in range(stages))
    if parallel.pipeline_layers and len(parallel.pipeline_layers) == stages:
        return tuple(parallel.pipeline_layers)
    base, extra = divmod(num_layers, stages)
    return tuple(base + (1 if s < extra else 0) for s in range(stages))


def chunk_sizes(num_layers: int, parallel: Parallel) -> tuple[int, ...]:
    """Layers of every model chunk in model order; chunk c of stage s is number c * stages + s."""
    stages, chunks = parallel.pipeline, parallel.virtual_stages or 1
    if parallel.pipeline_layers and len(parallel.pipeline_layers) == stages * chunks:
        return tuple(parallel.pipeline_layers)
    base, extra = divmod(num_layers, stages * chunks)
    return tuple(base + (1 if i < extra else 0) for i in range(stages * chunks))


def micro_batches_in_flight(stage: int, parallel: Parallel, accumulation: int, num_layers: int) -> float:
    """Micro-batches whose activations a stage keeps at once, in units of the stage's own layers.

    GPipe keeps all; 1F1B keeps p - stage, never more than there are. Interleaved 1F1B runs
    2 * (p - stage - 1) + (v - 1) * p chunk passes before its first backward pass and one more (Megatron-LM
    `get_num_warmup_microbatches`): p for every chunk but the last, which has the rest. Narayanan et al. 2021
    (arXiv 2104.04473), section 2.2.
    """
    stages, chunks = parallel.pipeline, parallel.virtual_stages or 1
    schedule = parallel.pipeline_schedule or ("interleaved" if chunks > 1 else "1f1b")
    if stages == 1 or schedule == "naive":
        return 1
    if schedule == "gpipe":
        return accumulation
    if schedule == "interleaved" and chunks > 1:
        return _interleaved_in_flight(stage, stages, chunks, accumulation, chunk_sizes(num_layers, parallel))
    return min(stages - stage, accumulation)


def _interleaved_in_flight(
    stage: int, stages: int, chunks: int, accumulation: int, sizes: tuple[int, ...]
) -> float:
    held = min((stages - stage - 1) * 2 + (chunks - 1) * stages + 1, accumulation * chunks)
    last = min(stages, accumulation, max(0, held - (chunks - 1) * min(stages, accumulation)))
    first = held - last
    own = sizes[stage::stages]
    total = sum(own)
    if not total or chunks == 1:
        return held / chunks
    return (first / (chunks - 1) * sum(own[:-1]) + last * own[-1]) / total


def expand_devices(scenario: Scenario) -> tuple[Device, ...]:
    """The device row of every position in the job."""
    return tuple(chain.from_iterable(repeat(row, row.count) for row in scenario.hardware.devices))


def place(scenario: Scenario, model: ModelSpec, tables: Tables) -> tuple[Share, ...]:
    """Every group of devices with its share, for a validated scenario with its defaults filled in."""
    parallel = scenario.parallel
    counts = stage_layers(model.num_layers, parallel)
    starts = (0, *accumulate(counts))
    rows = expand_devices(scenario)
    per_stage = _devices_of_stages(parallel, len(rows))
    return tuple(
        _share(scenario, model, tables, stage, (starts[stage], starts[stage + 1]), indices, rows[indices[0]])
        for stage, members in enumerate(per_stage)
        for indices in _groups(scenario, members, rows)
    )


def _devices_of_stages(parallel: Parallel, num_devices: int) -> tuple[tuple[int, ...], ...]:
    if parallel.stages:
        return tuple(stage.devices for stage in parallel.stages)
    width = ceil_div(num_devices, parallel.pipeline)
    return tuple(tuple(range(s * width, min((s + 1) * width, num_devices))) for s in range(parallel.pipeline))


def lends_copies(scenario: Scenario) -> bool:
    """Whether one process drives all cards and copies the model to them for each step (`nn.DataParallel`)."""
    return scenario.parallel.data_parallel == "dp" and data_degree(scenario) > 1


def _groups(
    scenario: Scenario, members: tuple[int, ...], rows: tuple[Device, ...]
) -> tuple[tuple[int, ...], ...]:
    if not lends_copies(scenario):
        return _equal_cards(members, rows)
    return (members[:1], *_equal_cards(members[1:], rows))


def _equal_cards(members: tuple[int, ...], rows: tuple[Device, ...]) -> tuple[tuple[int, ...], ...]:
    if len(set(map(id, map(rows.__getitem__, members)))) == 1:
        return (members,)
    groups: dict[tuple[str, OwnCard | None, int | None, int | None], list[int]] = {}
    for index in members:
        row = rows[index]
        groups.setdefault((row.gpu, row.card, row.memory_bytes, row.free_bytes), []).append(index)
    return tuple(tuple(group) for group in groups.values())


def _share(
    scenario: Scenario,
    model: ModelSpec,
    tables: Tables,
    stage: int,
    layer_range: tuple[int, int],
    indices: tuple[int, ...],
    row: Device,
) -> Share:
    parallel = scenario.parallel
    stages = len(parallel.stages) if parallel.stages else parallel.pipeline
    data = data_degree(scenario)
    sharded = parallel.sharding != "none"
    tensor = parallel.stages[stage].tensor if parallel.stages else parallel.tensor
    return Share(
        indices=indices,
        gpu=gpu_of(row, tables),
        device=row,
        stage=stage,
        num_stages=stages,
        layer_range=layer_range,
        layers=_stage_slice(model, parallel, stage, layer_range),
        encoder_layers=model.encoder_layers if stage == 0 else (),
        holds_embedding=stage == 0,
        holds_head=stage == stages - 1,
        in_flight=micro_batches_in_flight(
            stage, parallel, scenario.training.gradient_accumulation, model.num_layers
        ),
        tensor=tensor,
        data=data,
        context=parallel.context,
        shard=(parallel.sharding_degree or data * parallel.context) if sharded else 1,
        replica=lends_copies(scenario) and 0 not in indices,
    )


def _stage_slice(
    model: ModelSpec, parallel: Parallel, stage: int, layer_range: tuple[int, int]
) -> tuple[Layer, ...]:
    chunks = parallel.virtual_stages or 1
    if chunks == 1 or parallel.stages:
        return model.layers[layer_range[0] : layer_range[1]]
    stages, sizes = parallel.pipeline, chunk_sizes(model.num_layers, parallel)
    starts = (0, *accumulate(sizes))
    picked = range(stage, stages * chunks, stages)
    return tuple(layer for i in picked for layer in model.layers[starts[i] : starts[i + 1]])
