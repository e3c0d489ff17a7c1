"""What is not modelled: fields that are approximated or passed over, and what is refused outright."""

from collections.abc import Mapping
from typing import Final

from planner.issues import Issue
from planner.model.registry import MODEL_TYPES
from planner.plan_types import Plan

Gap = tuple[str, str]

TRAINING: Final[tuple[Gap, ...]] = (
    ("runtime.compile", "compile_as_eager"),
    ("runtime.compile", "compiled_as_one_graph"),
    ("training.loss", "loss_of_own_code"),
    ("training.precision.fp8", "fp8_as_compute_dtype"),
    ("training.precision.fp4", "fp4_as_compute_dtype"),
    ("training.attention", "unfused_as_eager"),
    ("training.checkpointing", "selective_op_as_none"),
    ("training.checkpoint_modules", "ignored"),
    ("training.alignment", "time_of_one_model"),
    ("training.sequence_chunks", "time_without_it"),
    ("training.recompute_budget_frac", "time_without_it"),
    ("adapter.method", "prompt_activations_ignored"),
    ("adapter.method", "activations_as_lora"),
    ("parallel.offload.parameters", "buffers_ignored"),
    ("model", "recurrent_layers_approximated"),
    ("model", "encoder_activations_approximated"),
    ("model", "block_activations_ignored"),
    ("model", "beside_activations_ignored"),
    ("model", "mtp_not_trained"),
    ("model", "pictures_not_counted"),
    ("training.tower", "tower_as_frozen"),
    ("runtime.name", "tower_as_transformers"),
    ("model", "approximate_shapes"),
    ("model", "text_encoder_activations"),
    ("model.id", "clip_encoder"),
    ("training.precision.autocast", "denoiser_autocast"),
    ("training.attention", "denoiser_fused_attention"),
    ("training.kernels", "ignored"),
)
SERVING: Final[tuple[Gap, ...]] = (
    ("serving.speculative", "draft_model"),
    ("serving.split_mode", "row_split"),
    ("parallel.context", "context_parallel_serving"),
    ("serving.weights", "weight_format_size"),
    ("serving.expert_weights", "weight_format_size"),
    ("runtime.name", "engine_like_another"),
    ("adapter", "serving_adapters"),
    ("model", "text_encoder_activations"),
    ("model.id", "clip_decoder"),
)
ANY_TASK: Final[tuple[Gap, ...]] = (("hardware.driver_spill", "driver_spill"),)
BY_TASK: Final[Mapping[str, tuple[Gap, ...]]] = {
    "training": TRAINING,
    "serving": SERVING,
    "any": ANY_TASK,
}
"""(field, reason code) of everything that earns a "not modelled" warning."""

REFUSED_KEYS: Final = (
    "add_adapter",
    "attention_types",
    "index_topk_pattern",
    "indexer_types",
    "kv_source_layers",
    "per_layer_config",
    "qk_ln",
    "use_bias",
)
"""Keys of a config.json whose unusual values are refused, since no closed form covers them."""

NUM_MODEL_TYPES: Final = len(MODEL_TYPES)


def of_plan(plan: Plan) -> tuple[Issue, ...]:
    """What the open question has of this: warnings of things that are left out or approximate."""
    return tuple(issue for issue in plan.issues if issue.code in {"not_modelled", "model_approximate"})
