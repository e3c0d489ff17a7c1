"""How the job is divided: degrees against cards, heads, layers and experts."""

from collections.abc import Iterator
from math import gcd

from planner.checks.codes import make
from planner.checks.question import Question
from planner.checks.words import divisors, listed
from planner.issues import Issue
from planner.memory.megatron_selective import MODULES
from planner.model.spec import Attention, AttentionKind, MlpKind, ModelSpec
from planner.placement import expand_devices
from planner.scenario import Stage

ENDS = 2
"""Embedding and loss may take the place of a layer in a chunk of their own (Megatron's pipeline split)."""
GRADIENT_SHARDING = ("zero2", "zero3")
PARTIAL_ATTENTION = (AttentionKind.CONVOLUTION, AttentionKind.STATE_SPACE, AttentionKind.NONE)


def check_product(question: Question) -> Iterator[Issue]:
    """Tensor x pipeline x context x data has to be the number of cards; data left out takes what remains."""
    parallel, devices = question.parallel, question.num_devices
    if parallel.stages:
        return
    data = parallel.data or 1
    product = parallel.tensor * parallel.pipeline * parallel.context * data
    wrong = devices % product != 0 if parallel.data is None else product != devices
    if not wrong:
        return
    sizes = {
        "tensor": parallel.tensor,
        "pipeline": parallel.pipeline,
        "context": parallel.context,
        "data": data,
    }
    last = next((name for name in ("data", "pipeline", "context", "tensor") if sizes[name] > 1), "data")
    yield make("parallel_product", f"parallel.{last}", product=product, devices=devices, **sizes)


def check_tensor(question: Question) -> Iterator[Issue]:
    """Tensor parallelism divides heads, key-value heads and the width of the feed-forward part."""
    if question.parallel.stages:
        degrees = {
            f"parallel.stages.{i}.tensor": stage.tensor for i, stage in enumerate(question.parallel.stages)
        }
    else:
        degrees = {"parallel.tensor": question.parallel.tensor}
    for field, degree in degrees.items():
        if degree > 1:
            yield from _tensor_issues(question, field, degree)


def _tensor_issues(question: Question, field: str, degree: int) -> Iterator[Issue]:
    heads = head_counts(question.model)
    if any(count % degree for count in heads):
        common = gcd(*heads)
        yield make("tensor_splits_heads", field, given=degree, heads=common, allowed=divisors(common))
        return
    kv_heads = kv_head_counts(question.model)
    if any(not _kv_divides(count, degree, trains=question.trains) for count in kv_heads):
        common = gcd(*kv_heads)
        yield make("tensor_splits_kv_heads", field, given=degree, heads=common, allowed=divisors(common))
        return
    for width in sorted(dense_widths(question.model)):
        if width % degree:
            yield make("tensor_splits_width", field, given=degree, width=width)
            return


def _kv_divides(kv_heads: int, degree: int, *, trains: bool) -> bool:
    """Whether key-value heads can be dealt out over the tensor ranks.

    Serving engines copy heads where there are more ranks than heads; training frameworks copy only one head.
    """
    if kv_heads % degree == 0 or kv_heads == 1:
        return True
    return not trains and degree % kv_heads == 0


def _attentions(model: ModelSpec) -> Iterator[Attention]:
    for layer, _ in model.distinct_layers():
        if layer.attention.kind not in PARTIAL_ATTENTION:
            yield layer.attention


def head_counts(model: ModelSpec) -> list[int]:
    """The different numbers of query heads in the model."""
    return sorted({attention.num_heads for attention in _attentions(model) if attention.num_heads})


def kv_head_counts(model: ModelSpec) -> list[int]:
    """The different numbers of key-value heads of layers that cache keys and values by head."""
    kinds = (AttentionKind.FULL, AttentionKind.SLIDING, AttentionKind.CHUNKED)
    return sorted({a.num_kv_heads for a in _attentions(model) if a.kind in kinds and a.num_kv_heads})


def dense_widths(model: ModelSpec) -> set[int]:
    """The different widths of the feed-forward parts that every token visits."""
    dense = (MlpKind.GATED, MlpKind.PLAIN)
    return {
        layer.mlp.intermediate_size for layer, _ in model.distinct_layers() if layer.mlp.kind in dense
    } - {0}


def check_pipeline(question: Question) -> Iterator[Issue]:
    """A stage, and every chunk of one, holds at least one layer unless the layers are dealt out by hand."""
    parallel, layers = question.parallel, question.model.num_layers + len(question.model.encoder_layers)
    chunks = parallel.virtual_stages or 1
    if not parallel.pipeline_layers and not parallel.stages:
        if parallel.pipeline > layers:
            yield make("pipeline_above_layers", "parallel.pipeline", given=parallel.pipeline, layers=layers)
        elif parallel.pipeline * chunks > layers + ENDS:
            given = parallel.pipeline * chunks
            yield make("pipeline_above_layers", "parallel.virtual_stages", given=given, layers=layers)
    if chunks > 1:
        yield from _virtual(question, chunks)
    if parallel.pipeline_layers:
        yield from _pipeline_layers(question, parallel.pipeline_layers, chunks)
    if (
        question.resolved.runtime.name == "deepspeed"
        and parallel.pipeline > 1
        and parallel.sharding in GRADIENT_SHARDING
    ):
        field = "parallel.sharding"
        yield make("zero_with_pipeline", field, given=parallel.sharding, pipeline=parallel.pipeline)


def _virtual(question: Question, chunks: int) -> Iterator[Issue]:
    parallel = question.parallel
    field = "parallel.virtual_stages"
    if parallel.pipeline == 1:
        yield make("virtual_without_pipeline", field, given=chunks)
        return
    if parallel.pipeline_schedule not in (None, "interleaved", "zero_bubble"):
        yield make("virtual_needs_interleaved", field, given=chunks, schedule=parallel.pipeline_schedule)
    accumulation = question.training.gradient_accumulation
    if question.trains and accumulation % parallel.pipeline:
        field = "training.gradient_accumulation"
        yield make("interleaved_accumulation", field, given=accumulation, pipeline=parallel.pipeline)


def _pipeline_layers(question: Question, counts: tuple[int, ...], chunks: int) -> Iterator[Issue]:
    stages, layers, field = question.parallel.pipeline, question.model.num_layers, "parallel.pipeline_layers"
    lengths = {stages, stages * chunks}
    if len(counts) not in lengths:
        yield make("pipeline_layers_count", field, given=len(counts), allowed=listed(sorted(lengths)))
    elif sum(counts) != layers:
        yield make("pipeline_layers_sum", field, given=sum(counts), layers=layers)


def check_stages(question: Question) -> Iterator[Issue]:
    """Stages laid out by hand hold every card once and every layer once."""
    stages = question.parallel.stages
    if not stages:
        return
    yield from _stage_devices(question, stages)
    seen = {device for stage in stages for device in stage.devices}
    missing = sorted(set(range(min(question.num_devices, 4096))) - seen)
    if missing:
        yield make(
            "stages_devices_missing",
            "parallel.stages",
            given=listed(missing, 12),
            devices=question.num_devices,
        )
    total, layers = sum(stage.layers for stage in stages), question.model.num_layers
    if total != layers:
        yield make("stages_layers_sum", "parallel.stages", given=total, layers=layers)
    asked = question.asked.parallel.pipeline
    if question.given("parallel.pipeline") and asked != len(stages):
        yield make("stages_pipeline", "parallel.pipeline", given=asked, stages=len(stages))
    if not missing and len(seen) == sum(len(stage.devices) for stage in stages):
        yield from _stage_copies(question, stages)


def _stage_devices(question: Question, stages: tuple[Stage, ...]) -> Iterator[Issue]:
    seen: set[int] = set()
    for i, stage in enumerate(stages):
        for device in stage.devices:
            field = f"parallel.stages.{i}.devices"
            if device >= question.num_devices:
                yield make("stages_device_outside", field, given=device, devices=question.num_devices)
            elif device in seen:
                yield make("stages_device_twice", field, given=device)
            seen.add(device)
        if len(stage.devices) % stage.tensor:
            field = f"parallel.stages.{i}.tensor"
            yield make("stage_tensor_splits_devices", field, given=stage.tensor, devices=len(stage.devices))


def _stage_copies(question: Question, stages: tuple[Stage, ...]) -> Iterator[Issue]:
    """Every stage is held as often as every other, and the ranks that divide its matrices are equal cards."""
    context, copies = question.parallel.context, question.parallel.data
    rows = expand_devices(question.resolved)
    for i, stage in enumerate(stages):
        width = stage.tensor * context
        if len(stage.devices) % stage.tensor or max(stage.devices) >= len(rows):
            continue
        if len(stage.devices) != width * (copies or 1):
            field = f"parallel.stages.{i}.devices"
            given = len(stage.devices)
            yield make("stage_copies", field, given=given, tensor=stage.tensor, data=copies, context=context)
        groups = [stage.devices[n : n + stage.tensor] for n in range(0, len(stage.devices), stage.tensor)]
        mixed = [kinds for group in groups if len(kinds := {rows[device].gpu for device in group}) > 1]
        if mixed:
            field = f"parallel.stages.{i}.devices"
            yield make("stage_tensor_mixes_cards", field, given=listed(sorted(mixed[0])))


def check_experts(question: Question) -> Iterator[Issue]:
    """Expert parallelism deals out whole experts, to groups that lie inside the ranks of one stage."""
    parallel, degree = question.parallel, question.parallel.expert
    counts = {
        layer.mlp.num_experts
        for layer, _ in question.model.distinct_layers()
        if layer.mlp.kind is MlpKind.MOE
    }
    if (degree == 1 and parallel.expert_tensor in {None, 1}) or not counts:
        return
    field, common = "parallel.expert", gcd(*counts)
    if common % degree:
        yield make("expert_splits_experts", field, given=degree, experts=common, allowed=divisors(common))
    if parallel.stages:
        return
    ranks = max(1, question.num_devices // parallel.pipeline)
    width = degree * (parallel.expert_tensor or 1)
    if ranks % width:
        yield make("expert_outside_data", field, given=width, ranks=ranks)


def check_sharding(question: Question) -> Iterator[Issue]:
    """ZeRO and FSDP divide the states over ranks that hold the same weights, and so does offload."""
    parallel, ranks = question.parallel, question.data_ranks
    degree = parallel.sharding_degree
    if parallel.sharding != "none" and degree is not None and ranks % degree and not parallel.stages:
        field = "parallel.sharding_degree"
        yield make("sharding_degree_splits_data", field, given=degree, ranks=ranks, allowed=divisors(ranks))
    if question.resolved.runtime.name != "deepspeed":
        return
    if parallel.offload.parameters != "none" and parallel.sharding != "zero3":
        field = "parallel.offload.parameters"
        yield make("offload_needs_sharding", field, given=parallel.sharding, allowed="zero3")
    if parallel.offload.optimizer != "none" and parallel.sharding == "none":
        field = "parallel.offload.optimizer"
        yield make("offload_needs_sharding", field, given=parallel.sharding, allowed="zero1, zero2, zero3")


def check_modules(question: Question) -> Iterator[Issue]:
    """Megatron computes modules of its own names again, and refuses others (`TransformerConfig.__post_init__`)."""
    if question.resolved.runtime.name != "megatron_lm":
        return
    for name in question.training.checkpoint_modules or ():
        if name not in MODULES:
            allowed = ", ".join(sorted(MODULES))
            yield make("module_unknown", "training.checkpoint_modules", given=name, allowed=allowed)


def check_copies(question: Question) -> Iterator[Issue]:
    """`nn.DataParallel` copies a whole model from the first card, so nothing else may divide it."""
    parallel = question.parallel
    if not question.trains or parallel.data_parallel != "dp":
        return
    for name in ("tensor", "pipeline", "context", "expert"):
        degree = getattr(parallel, name)
        if degree > 1:
            yield make("copies_divided", f"parallel.{name}", given=degree, allowed="1")
    if parallel.stages:
        yield make("copies_divided", "parallel.stages", given=len(parallel.stages), allowed="none")
    if parallel.sharding != "none":
        yield make("copies_divided", "parallel.sharding", given=parallel.sharding, allowed="none")


def check_sequence_split(question: Question) -> Iterator[Issue]:
    """Sequence and context parallelism cut the sequence into equal parts."""
    parallel = question.parallel
    parts = parallel.context * (parallel.tensor if parallel.sequence else 1)
    length = question.training.sequence_length
    if question.trains and length % parts:
        yield make("sequence_not_divisible", "training.sequence_length", given=length, parts=parts)


CHECKS = (
    check_product,
    check_tensor,
    check_pipeline,
    check_stages,
    check_experts,
    check_sharding,
    check_modules,
    check_copies,
    check_sequence_split,
)
