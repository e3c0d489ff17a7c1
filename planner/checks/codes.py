"""Every issue the planner can raise: its severity and the parameters its sentence may use.

The one list of codes. A locale file holds a sentence for each of them; `make` refuses a code or a parameter
that is not in the table, so the sentence, the table and the check can't drift apart.
"""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from planner.issues import Issue, Param, Severity

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE


@dataclass(frozen=True, slots=True)
class Code:
    """What belongs to one issue code.

    Attributes:
        severity: The severity of every issue with this code.
        params: Names of its parameters, sorted. Every issue carries all of them; None stands for "not known".
    """

    severity: Severity
    params: tuple[str, ...]


def _code(severity: Severity, *params: str) -> Code:
    return Code(severity, tuple(sorted(params)))


_DOCUMENT = {
    "unknown_field": _code(ERROR, "given", "closest", "allowed"),
    "missing_field": _code(ERROR, "allowed"),
    "wrong_type": _code(ERROR, "given", "allowed"),
    "out_of_range": _code(ERROR, "given", "allowed"),
    "not_one_of": _code(ERROR, "given", "allowed", "closest"),
    "bad_text": _code(ERROR, "given", "allowed"),
    "bad_length": _code(ERROR, "given", "allowed"),
    "not_finite": _code(ERROR, "given", "allowed"),
    "too_deep": _code(ERROR, "given", "allowed"),
    "too_large": _code(ERROR, "given", "allowed"),
    "newer_version": _code(ERROR, "given", "allowed"),
    "text_too_long": _code(ERROR, "given", "allowed"),
    "not_json": _code(ERROR, "line", "column"),
}

_MODEL = {
    "model_not_given": _code(ERROR, "allowed"),
    "model_id_unknown": _code(ERROR, "given", "closest"),
    "model_type_unknown": _code(ERROR, "given", "closest", "lower_bound_params"),
    "config_key_missing": _code(ERROR, "key", "model_type"),
    "config_value_bad": _code(ERROR, "key", "model_type", "given", "allowed"),
    "config_feature_unsupported": _code(ERROR, "key", "model_type", "given", "lower_bound_params"),
    "config_completed": _code(NOTE, "key"),
    "model_made_from": _code(NOTE, "given", "taken"),
    "head_masked_lm": _code(NOTE, "vocabulary"),
    "head_classifier": _code(NOTE),
    "draft_not_described": _code(ERROR, "given"),
    "draft_vocabulary": _code(WARNING, "given", "allowed"),
    "stored_not_loaded": _code(WARNING, "given", "allowed"),
    "stored_differs": _code(WARNING, "given", "allowed"),
    "model_approximate": _code(WARNING, "reason"),
    "sequence_beyond_model": _code(WARNING, "given", "allowed"),
    "sequence_beyond_positions": _code(ERROR, "given", "allowed"),
    "model_cannot_generate": _code(ERROR, "given", "allowed"),
    "denoiser_not_modelled": _code(ERROR, "given", "lower_bound_params"),
    "denoiser_runtime": _code(ERROR, "given", "allowed"),
    "denoiser_parallel": _code(ERROR, "given", "allowed"),
    "encoder_decoder_unserved": _code(WARNING, "given", "allowed"),
}

_HARDWARE = {
    "gpu_unknown": _code(ERROR, "given", "closest"),
    "card_name_taken": _code(ERROR, "given"),
    "free_above_memory": _code(ERROR, "given", "allowed"),
    "memory_above_card": _code(WARNING, "given", "allowed", "gpu"),
    "memory_far_above_card": _code(ERROR, "given", "allowed", "gpu"),
    "memory_far_below_card": _code(ERROR, "given", "allowed", "gpu"),
    "runtime_not_on_this_card": _code(WARNING, "given", "vendor", "allowed"),
    "vendors_mixed": _code(ERROR, "given", "allowed"),
    "dtype_unsupported": _code(WARNING, "given", "gpu", "has", "needs"),
    "attention_unsupported": _code(WARNING, "given", "gpu", "has", "needs"),
    "tensor_spans_nodes": _code(WARNING, "given", "allowed"),
}

_PARALLEL = {
    "parallel_product": _code(ERROR, "tensor", "pipeline", "context", "data", "product", "devices"),
    "tensor_splits_heads": _code(ERROR, "given", "heads", "allowed"),
    "tensor_splits_kv_heads": _code(ERROR, "given", "heads", "allowed"),
    "tensor_splits_width": _code(ERROR, "given", "width"),
    "pipeline_above_layers": _code(ERROR, "given", "layers"),
    "expert_splits_experts": _code(ERROR, "given", "experts", "allowed"),
    "expert_outside_data": _code(ERROR, "given", "ranks"),
    "sharding_degree_splits_data": _code(ERROR, "given", "ranks", "allowed"),
    "sequence_not_divisible": _code(ERROR, "given", "parts"),
    "virtual_without_pipeline": _code(ERROR, "given"),
    "virtual_needs_interleaved": _code(ERROR, "given", "schedule"),
    "interleaved_accumulation": _code(WARNING, "given", "pipeline"),
    "pipeline_layers_count": _code(ERROR, "given", "allowed"),
    "pipeline_layers_sum": _code(ERROR, "given", "layers"),
    "stages_devices_missing": _code(ERROR, "given", "devices"),
    "stages_device_twice": _code(ERROR, "given"),
    "stages_device_outside": _code(ERROR, "given", "devices"),
    "stages_layers_sum": _code(ERROR, "given", "layers"),
    "stages_pipeline": _code(ERROR, "given", "stages"),
    "stage_tensor_splits_devices": _code(ERROR, "given", "devices"),
    "stage_copies": _code(ERROR, "given", "tensor", "data", "context"),
    "stage_tensor_mixes_cards": _code(WARNING, "given"),
    "zero_with_pipeline": _code(ERROR, "given", "pipeline"),
    "copies_divided": _code(ERROR, "given", "allowed"),
    "module_unknown": _code(ERROR, "given", "allowed"),
    "offload_needs_sharding": _code(ERROR, "given", "allowed"),
}

_JOB = {
    "runtime_cannot_train": _code(ERROR, "given", "allowed"),
    "runtime_cannot_serve": _code(ERROR, "given", "allowed"),
    "format_not_in_runtime": _code(ERROR, "given", "runtime", "allowed"),
    "adapter_missing": _code(ERROR, "task"),
    "adapter_base_quantized": _code(ERROR, "given", "allowed"),
    "adapter_base_not_quantized": _code(ERROR, "given", "allowed"),
    "adapter_target_unknown": _code(WARNING, "given", "closest"),
    "adapter_targets_none": _code(ERROR, "given", "allowed"),
    "adapter_targets_empty": _code(ERROR, "allowed"),
    "adapter_layers_above": _code(ERROR, "given", "layers"),
    "in_backward_accumulation": _code(ERROR, "given"),
    "images_without_tower": _code(ERROR, "given"),
    "image_pixels_missing": _code(ERROR, "model_type"),
    "images_beyond_sequence": _code(ERROR, "given", "tokens", "allowed"),
    "tensor_split_count": _code(ERROR, "given", "devices"),
    "tensor_split_zero": _code(ERROR, "given"),
    "expert_layers_count": _code(ERROR, "given", "devices"),
    "expert_layers_above": _code(ERROR, "given", "layers"),
    "workload_beyond_context": _code(WARNING, "given", "allowed"),
    "shared_prefix_beyond_prompt": _code(ERROR, "given", "allowed"),
    "elastic_range": _code(ERROR, "given", "allowed"),
    "no_effect": _code(WARNING, "because"),
    "not_modelled": _code(WARNING, "reason"),
    "time_and_cost_only": _code(NOTE),
    "requests_only": _code(NOTE),
    "host_memory_short": _code(WARNING, "given", "needs"),
    "nvme_short": _code(WARNING, "given", "needs"),
}

_LINK = {
    "link_broken": _code(ERROR, "reason"),
    "link_too_long": _code(ERROR, "given", "allowed"),
    "link_newer": _code(ERROR, "given", "allowed"),
    "link_fields_dropped": _code(WARNING, "fields"),
}

CODES: Final = MappingProxyType({**_DOCUMENT, **_MODEL, **_HARDWARE, **_PARALLEL, **_JOB, **_LINK})
"""Code -> severity and parameters."""


def make(code: str, field: str, **params: Param) -> Issue:
    """An issue with the severity of its code.

    Raises:
        KeyError: The code is not in the table, or the parameters are not exactly the ones listed there.
    """
    entry = CODES[code]
    given = tuple(sorted(params.items()))
    if tuple(name for name, _ in given) != entry.params:
        raise KeyError(f"{code} takes {entry.params}, not {tuple(params)}")
    return Issue(code, field, entry.severity, given)
