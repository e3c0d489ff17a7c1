"""Fields that change nothing for the chosen job, and fields that nothing here models yet."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from planner.checks.codes import make
from planner.checks.job import LLAMA_FAMILY
from planner.checks.pictures import sees
from planner.checks.question import Question
from planner.issues import Issue
from planner.memory.serving_draft import DRAFTS
from planner.memory.serving_sharing import shares_prefix
from planner.model.spec import Structure

PROMPT_METHODS: Final = frozenset({"prefix", "prompt", "p_tuning", "adaption_prompt", "adaption_prompt_v2"})
DISCRETE_METHODS: Final = PROMPT_METHODS | {"ia3"}


@dataclass(frozen=True, slots=True)
class Rule:
    """Fields that matter only where a condition holds.

    Attributes:
        fields: Dotted paths.
        because: Code of the reason.
        matters: Whether the fields matter to the question.
    """

    fields: tuple[str, ...]
    because: str
    matters: Callable[[Question], bool]


def _runtime(*names: str) -> Callable[[Question], bool]:
    return lambda q: q.resolved.runtime.name in names


def _not_runtime(*names: str) -> Callable[[Question], bool]:
    return lambda q: q.resolved.runtime.name not in names


def _method(question: Question) -> str:
    adapter = question.resolved.adapter
    return "" if adapter is None else adapter.method


def _writes(question: Question) -> bool:
    alignment = question.training.alignment
    return alignment is not None and alignment.method in {"grpo", "ppo"}


def _offloads(question: Question) -> bool:
    offload = question.parallel.offload
    return any(where != "none" for where in (offload.parameters, offload.gradients, offload.optimizer))


JOB_RULES: Final = (
    Rule(("training",), "job_serves", lambda q: q.trains),
    Rule(("serving",), "job_trains", lambda q: not q.trains),
    Rule(("adapter",), "task_has_no_adapter", lambda q: q.resolved.task in ("lora", "qlora", "serve")),
    Rule(
        (
            "workload.concurrency",
            "workload.prompt_tokens",
            "workload.output_tokens",
            "workload.requests_per_s",
            "workload.length_distribution",
            "workload.beam_width",
            "workload.shared_prefix_tokens",
            "workload.prefix_hit_frac",
            "batching",
            "cache_tiers",
            "autoscale",
        ),
        "job_trains",
        lambda q: not q.trains,
    ),
    Rule(("workload.train_tokens", "workload.epochs", "elastic"), "job_serves", lambda q: q.trains),
    Rule(("runtime.engine",), "not_this_runtime", _runtime("vllm")),
    Rule(
        ("runtime.allocator", "runtime.torch", "runtime.compile"),
        "not_this_runtime",
        _not_runtime(*LLAMA_FAMILY),
    ),
)

TRAINING_RULES: Final = (
    Rule(("training.checkpoint_every",), "checkpointing", lambda q: q.training.checkpointing == "every_k"),
    Rule(
        ("training.checkpoint_modules",),
        "checkpointing",
        lambda q: q.training.checkpointing == "selective_op",
    ),
    Rule(
        ("training.checkpoint_reentrant",),
        "checkpointing",
        lambda q: q.training.checkpointing in {"every_k", "full"},
    ),
    Rule(("training.checkpoint_partitioned",), "tensor_is_one", lambda q: q.parallel.tensor > 1),
    Rule(("training.sequence_chunks",), "not_this_runtime", _not_runtime("megatron_lm", "litgpt")),
    Rule(("training.recompute_budget_frac",), "not_compiled", lambda q: bool(q.resolved.runtime.compile)),
    Rule(
        ("training.recompute_budget_frac",),
        "checkpointing",
        lambda q: q.training.checkpointing not in {"every_k", "full"},
    ),
    Rule(("training.image_pixels",), "no_images", lambda q: bool(q.training.images)),
    Rule(
        ("training.image_pixels",),
        "own_picture_size",
        lambda q: q.model.tower is None or not q.model.tower.fixed,
    ),
    Rule(("training.tower",), "no_tower", lambda q: sees(q.model)),
    Rule(("training.alignment.generations",), "alignment_method", _writes),
    Rule(("training.optimizer.rank",), "optimizer", lambda q: q.training.optimizer.name == "galore"),
    Rule(
        ("training.decoder_sequence_length",),
        "not_encoder_decoder",
        lambda q: q.model.structure is Structure.ENCODER_DECODER,
    ),
    Rule(("adapter.virtual_tokens",), "adapter_method", lambda q: _method(q) in PROMPT_METHODS),
    Rule(
        ("adapter.rank", "adapter.alpha"),
        "adapter_method",
        lambda q: q.resolved.adapter is None or _method(q) not in DISCRETE_METHODS,
    ),
    Rule(
        ("adapter.targets",),
        "adapter_method",
        lambda q: q.resolved.adapter is None or _method(q) not in PROMPT_METHODS,
    ),
)

PARALLEL_RULES: Final = (
    Rule(("parallel.sequence",), "tensor_is_one", lambda q: q.parallel.tensor > 1 or not q.parallel.sequence),
    Rule(
        ("parallel.sharding_degree",),
        "no_sharding",
        lambda q: q.parallel.sharding != "none" or q.parallel.sharding_degree == 1,
    ),
    Rule(
        ("parallel.reshard_after_forward",),
        "no_sharding",
        lambda q: q.parallel.sharding in ("zero3", "fsdp"),
    ),
    Rule(
        ("parallel.pipeline_schedule",),
        "pipeline_is_one",
        lambda q: q.parallel.pipeline > 1 or bool(q.parallel.stages),
    ),
    Rule(
        ("parallel.expert", "parallel.expert_tensor"),
        "no_experts",
        lambda q: q.model.has_experts or (q.parallel.expert == 1 and q.parallel.expert_tensor in (None, 1)),
    ),
    Rule(("parallel.bucket_mb",), "data_is_one", lambda q: q.trains and q.data_ranks > 1),
    Rule(("parallel.pipeline_layers",), "stages_given", lambda q: not q.parallel.stages),
    Rule(
        ("parallel.tensor",),
        "splits_layers",
        lambda q: q.parallel.tensor == 1 or q.trains or q.resolved.runtime.name not in LLAMA_FAMILY,
    ),
    Rule(("parallel.tensor",), "stages_given", lambda q: not q.parallel.stages),
    Rule(
        ("parallel.sharding",),
        "data_is_one",
        lambda q: q.parallel.sharding != "fsdp" or not q.trains or q.data_ranks > 1 or _offloads(q),
    ),
    Rule(("parallel.sharding",), "job_serves", lambda q: q.trains or q.parallel.sharding == "none"),
    Rule(("parallel.offload",), "job_serves", lambda q: q.trains or q.model.latents is not None),
)

SERVING_RULES: Final = (
    Rule(("serving.draft_model",), "no_draft", lambda q: q.serving.speculative in DRAFTS),
    Rule(("serving.draft_tokens",), "no_draft", lambda q: q.serving.speculative is not None),
    Rule(
        (
            "serving.gpu_layers",
            "serving.host_experts",
            "serving.expert_layers",
            "serving.tensor_split",
            "serving.split_mode",
            "serving.pipeline_copies",
            "serving.no_kv_offload",
        ),
        "not_this_runtime",
        _runtime(*LLAMA_FAMILY),
    ),
    Rule(
        ("serving.mla_mode", "serving.attention_max_batch_mib"), "not_this_runtime", _runtime("ik_llama_cpp")
    ),
    Rule(
        ("serving.memory_utilization", "serving.block_size", "serving.max_total_tokens"),
        "not_this_runtime",
        _not_runtime(*LLAMA_FAMILY, "transformers"),
    ),
    Rule(
        ("serving.cuda_graph_max_batch",),
        "cuda_graphs_off",
        lambda q: q.serving.cuda_graphs is not False,
    ),
    Rule(("serving.expert_weights", "serving.host_experts"), "no_experts", lambda q: q.model.has_experts),
)

RESERVED: Final = (
    ("quantization_aware", "quantization_aware"),
    ("loading", "loading"),
)
"""Blocks that validate and that no formula reads yet."""

TIME_AND_COST: Final = (
    "hardware.links",
    "workload.train_tokens",
    "workload.epochs",
    "economics",
)
"""Fields that decide time and cost, not memory."""

REQUESTS: Final = (
    "workload.requests_per_s",
    "workload.length_distribution",
    "workload.shared_prefix_tokens",
    "workload.prefix_hit_frac",
    "batching",
    "cache_tiers",
    "autoscale",
)
"""Fields that `planner.requests` reads; the peak is that of the load without them."""


IN_COMMON: Final = frozenset({"workload.shared_prefix_tokens", "workload.prefix_hit_frac"})
"""Those of them that the caches of some engines depend on."""


def check_effects(question: Question) -> Iterator[Issue]:
    """Every field that was set and changes nothing; a whole block is named once."""
    named: list[str] = []
    for rule in _rules(question):
        if rule.matters(question):
            continue
        for field in rule.fields:
            if question.given(field) and not any(field.startswith(f"{block}.") for block in named):
                named.append(field)
                yield make("no_effect", field, because=rule.because)


def _rules(question: Question) -> tuple[Rule, ...]:
    own = TRAINING_RULES if question.trains else SERVING_RULES
    return (*JOB_RULES, *own, *PARALLEL_RULES)


def check_reserved(question: Question) -> Iterator[Issue]:
    """Blocks that no formula reads yet, and fields that the peak does not depend on."""
    for field, reason in RESERVED:
        if question.given(field):
            yield make("not_modelled", field, reason=reason)
    if question.given("adapter") and not question.trains:
        yield make("not_modelled", "adapter", reason="serving_adapters")
    if question.asked.hardware.driver_spill:
        yield make("not_modelled", "hardware.driver_spill", reason="driver_spill")
    for field in TIME_AND_COST:
        if question.given(field):
            yield make("time_and_cost_only", field)
    if not question.trains:
        for field in REQUESTS:
            if question.given(field) and not (field in IN_COMMON and shares_prefix(question.resolved)):
                yield make("requests_only", field)


CHECKS = (check_effects, check_reserved)
