"""English for the command line: one sentence for every issue code, and the words of a plan and a score.

The one place in the planner with text for people; the page has its own locale files.
"""

from string import Formatter
from typing import Final

from planner.issues import Issue

SENTENCES: Final = {
    "unknown_field": "unknown field {given}|did you mean {closest}?|allowed: {allowed}",
    "missing_field": "missing|allowed: {allowed}",
    "wrong_type": "{given} is of the wrong type|allowed: {allowed}",
    "out_of_range": "{given} is out of range|allowed: {allowed}",
    "not_one_of": "{given} is not one of the choices|did you mean {closest}?|allowed: {allowed}",
    "bad_text": "{given} is not allowed|it has to match {allowed}",
    "bad_length": "length {given}|allowed: {allowed}",
    "not_finite": "{given} is not a number that can be used|allowed: {allowed}",
    "too_deep": "nested {given} levels|allowed: {allowed}",
    "too_large": "{given} values|allowed: {allowed}",
    "newer_version": "version {given} is newer than this Headroom, which reads up to version {allowed}",
    "text_too_long": "{given} characters|allowed: {allowed}",
    "not_json": "not JSON|line {line}, column {column}",
    "model_not_given": "no model; give one of: {allowed}",
    "model_id_unknown": "the catalog has no {given}|did you mean {closest}?",
    "model_type_unknown": (
        "model type {given} is not modelled|did you mean {closest}?|at least {lower_bound_params} parameters"
    ),
    "config_key_missing": "{key} is missing|a {model_type} config needs it",
    "config_value_bad": "{key} = {given} can't be used for {model_type}|allowed: {allowed}",
    "config_feature_unsupported": (
        "{key} = {given} of {model_type} is not modelled|at least {lower_bound_params} parameters"
    ),
    "head_masked_lm": "pretraining counts the head of a masked language model, with logits of {vocabulary} entries",
    "head_classifier": "training counts a classifier on the encoder; a head over the vocabulary is pretraining's",
    "model_made_from": (
        "{given} is not in the catalog; by its name it is made from {taken}, whose shapes are taken. "
        "Number format and context are as asked, not as in its files"
    ),
    "config_completed": "{key} is not in the config; taken from the catalog's row of the same model",
    "draft_not_described": "no closed form for the draft: {given}",
    "draft_vocabulary": "the draft has {given} tokens in its vocabulary, the model {allowed}",
    "stored_not_loaded": "sizes of the checkpoint ({given}) are left aside; they count for: {allowed}",
    "stored_differs": "the checkpoint holds {given} parameters, the config makes {allowed}",
    "model_approximate": "the parameter count is approximate: {reason}",
    "sequence_beyond_model": "{given} tokens; the model was made for {allowed}",
    "sequence_beyond_positions": "{given} tokens; the model has learned {allowed} positions and no more",
    "denoiser_not_modelled": "the denoiser {given} is not modelled|at least {lower_bound_params} parameters",
    "denoiser_runtime": "{given} does not run diffusion pipelines|those that do: {allowed}",
    "denoiser_parallel": "{given} is not modelled for a diffusion pipeline|allowed: {allowed}",
    "model_cannot_generate": "{given} is an encoder and generates no text|allowed: {allowed}",
    "encoder_decoder_unserved": "{given} does not serve encoder-decoder models|those that do: {allowed}",
    "card_name_taken": "{given} is a card of the table|give the card you describe a name of its own",
    "gpu_unknown": "unknown GPU {given}|generic-24gb or unknown stand for others|did you mean {closest}?",
    "free_above_memory": "{given} bytes free of {allowed}",
    "memory_above_card": "{given} bytes are more than a {gpu} has ({allowed})",
    "memory_far_above_card": "{given} bytes can't be right for a {gpu}|allowed: about {allowed}",
    "memory_far_below_card": "{given} bytes can't be right for a {gpu}|allowed: bytes, about {allowed}",
    "runtime_not_on_this_card": "{given} has no release for {vendor} cards|it runs on: {allowed}",
    "vendors_mixed": "cards of {given} and {allowed} can't work on one job",
    "dtype_unsupported": "{gpu} has compute capability {has}; {given} needs {needs}",
    "attention_unsupported": "{gpu} has compute capability {has}; {given} attention needs {needs}",
    "tensor_spans_nodes": "tensor parallelism of {given} spans machines of {allowed} GPUs",
    "parallel_product": (
        "tensor {tensor} x pipeline {pipeline} x context {context} x data {data} = {product}, "
        "but there are {devices} GPUs"
    ),
    "tensor_splits_heads": "{given} does not divide {heads} attention heads|allowed: {allowed}",
    "tensor_splits_kv_heads": "{given} does not divide {heads} key-value heads|allowed: {allowed}",
    "tensor_splits_width": "{given} does not divide the feed-forward width {width}",
    "pipeline_above_layers": "{given} stages or chunks for {layers} layers",
    "expert_splits_experts": "{given} does not divide {experts} experts|allowed: {allowed}",
    "expert_outside_data": "expert groups of {given} don't fit into the {ranks} ranks of a stage",
    "sharding_degree_splits_data": "{given} does not divide {ranks} data-parallel ranks|allowed: {allowed}",
    "sequence_not_divisible": "{given} tokens can't be cut into {parts} equal parts",
    "virtual_without_pipeline": "{given} chunks a device need a pipeline",
    "virtual_needs_interleaved": "{given} chunks a device need the interleaved schedule, not {schedule}",
    "interleaved_accumulation": (
        "{given} micro-batches are no multiple of the {pipeline} stages, as interleaving asks"
    ),
    "pipeline_layers_count": "{given} figures|allowed: {allowed}",
    "pipeline_layers_sum": "the figures add up to {given}; the model has {layers} layers",
    "stages_devices_missing": "no stage holds device {given} of {devices}",
    "stages_device_twice": "device {given} is in two stages",
    "stages_device_outside": "there is no device {given}; there are {devices}, counted from 0",
    "stages_layers_sum": "the stages hold {given} layers; the model has {layers}",
    "stages_pipeline": "pipeline is {given}, but {stages} stages are laid out",
    "stage_tensor_splits_devices": "{given} does not divide the {devices} cards of the stage",
    "stage_copies": "{given} cards|every stage takes tensor {tensor} x context {context} x data {data} of them",
    "stage_tensor_mixes_cards": "a tensor-parallel group of {given}|each holds the same, at the slowest's pace",
    "copies_divided": "nn.DataParallel copies the whole model to each card; {given} can't divide it|allowed: {allowed}",
    "zero_with_pipeline": "DeepSpeed can't divide gradients ({given}) with {pipeline} pipeline stages",
    "module_unknown": "{given} is no module that Megatron computes again; allowed: {allowed}",
    "offload_needs_sharding": "DeepSpeed offloads this under {allowed} only, not {given}",
    "runtime_cannot_train": "{given} does not train|allowed: {allowed}",
    "runtime_cannot_serve": "{given} does not serve|allowed: {allowed}",
    "format_not_in_runtime": "{runtime} has no {given}|allowed: {allowed}",
    "adapter_missing": "the task {task} needs an adapter block",
    "adapter_base_quantized": "{given} is quantized, which the task qlora is for|allowed: {allowed}",
    "adapter_base_not_quantized": "{given} is not quantized, as qlora asks|allowed: {allowed}",
    "adapter_target_unknown": "the model has no {given}|did you mean {closest}?",
    "adapter_targets_none": "none of {given} is in the model|allowed: {allowed}",
    "adapter_targets_empty": "no targets|allowed: all_linear, or some of {allowed}",
    "adapter_layers_above": "{given} layers; the model has {layers}",
    "in_backward_accumulation": (
        "an optimizer step inside the backward pass can't accumulate over {given} micro-batches"
    ),
    "images_without_tower": (
        "{given} given, but this model does not look at pictures|leave it out, or take a model that sees"
    ),
    "image_pixels_missing": (
        "{model_type} takes pictures of any size; give width x height of one after resizing, such as 589824"
    ),
    "images_beyond_sequence": (
        "{given} pictures are {tokens} tokens, which leaves no room for text in a sequence of {allowed}|"
        "give fewer or smaller pictures, or a longer sequence"
    ),
    "tensor_split_count": "{given} shares for {devices} devices",
    "tensor_split_zero": "all shares are zero: {given}",
    "expert_layers_count": "{given} figures for {devices} devices",
    "expert_layers_above": "the figures add up to {given}; the model has {layers} layers",
    "workload_beyond_context": "a request takes {given} tokens; the context is {allowed}",
    "shared_prefix_beyond_prompt": "{given} shared tokens in a prompt of {allowed}",
    "elastic_range": "at least {given}|allowed: {allowed}",
    "no_effect": "has no effect here ({because})",
    "not_modelled": "not modelled yet ({reason})",
    "time_and_cost_only": "matters for time and cost, not for memory; not modelled yet",
    "requests_only": "read by the simulations of requests; the peak is that of the load without it",
    "link_broken": "the link can't be read ({reason})",
    "link_too_long": "{given} characters|allowed: {allowed}",
    "link_newer": "the link has version {given}; this Headroom reads up to {allowed}",
    "host_memory_short": "each machine needs {needs} GiB of host memory, it has {given}",
    "nvme_short": "each machine needs {needs} GB of disk, it has {given}",
    "link_fields_dropped": "left out because they can't be read here: {fields}",
}
"""Code -> clauses with `|` between; `{name}` is a parameter of the issue."""

CATEGORIES: Final = {
    "weights": "weights",
    "gradients": "gradients",
    "optimizer_states": "optimizer",
    "activations": "activations",
    "logits_and_loss": "logits",
    "kv_cache": "KV cache",
    "communication": "comm.",
    "cuda_context": "CUDA",
    "allocator_cache": "allocator",
}

PHASES: Final = {
    "load": "while loading",
    "rest": "between steps",
    "forward": "in the forward pass",
    "loss": "at the loss",
    "backward": "in the backward pass",
    "optimizer_step": "in the optimizer step",
    "prefill": "in prefill",
    "decode": "in decode",
}

VERDICTS: Final = {
    "fits": "Fits",
    "tight": "Tight",
    "does_not_fit": "Does not fit",
    "unknown": "No verdict",
}

BASES: Final = {
    "runtime_task": "published runs of this runtime and task",
    "task": "published runs of this task, other runtimes",
    "all": "published runs of any task",
}


def sentence(issue: Issue) -> str:
    """What an issue says, without its field. A clause about a parameter that is not known is left out."""
    params = {name: value for name, value in issue.params if value is not None and value != ""}
    words = {name: _worded(value) for name, value in params.items()}
    if "reason" in words:
        words["reason"] = words["reason"].replace("_", " ")
    clauses = SENTENCES.get(issue.code, issue.code).split("|")
    said = [clause for clause in clauses if all(name in words for name in names_in(clause))]
    return "; ".join(said).replace("?; ", "? ").format(**words) if said else issue.code


def names_in(template: str) -> list[str]:
    """The parameters a template asks for."""
    return [name for _, name, _, _ in Formatter().parse(template) if name]


def _worded(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 100_000:
        return f"{value:,}"
    return str(value)


def line(issue: Issue) -> str:
    """Severity, field and sentence on one line."""
    return f"{issue.severity}: {issue.field or 'scenario'}: {sentence(issue)}"
