"""SGLang's command line: `python -m sglang.launch_server ...`.

Source: SGLang `srt/server_args.py`.
"""

from typing import Final

from planner.imports.command_line import CommandLine
from planner.imports.draft import Draft
from planner.imports.keys import Keys
from planner.imports.vllm import LONGEST_NAME, MOST_DRAFTED, put_formats, put_tokens

SPECULATIVE: Final = {"EAGLE3": "eagle3", "EAGLE": "mtp", "NEXTN": "mtp", "STANDALONE": "draft"}
"""EAGLE without a draft's path is the model's own prediction of further tokens."""
HARMLESS: Final = (
    "host", "port", "api_key", "served_model_name", "tokenizer*", "trust_remote_code", "revision", "random_seed",
    "download_dir", "load_format", "chat_template*", "log_*", "show_time_cost", "enable_metrics*", "schedule_*",
    "skip_*", "disable_custom_all_reduce", "reasoning_parser", "tool_call_parser", "grammar_backend", "watchdog_*",
    "dist_init_addr", "node_rank", "nnodes", "stream_*", "constrained_*", "attention_backend", "sampling_backend",
    "prefill_attention_backend", "decode_attention_backend", "base_gpu_id", "gpu_id_step", "warmups", "device",
    "enable_p2p_check", "enable_mixed_chunk", "completion_template", "load_balance_method", "max_queued_requests",
    "disable_overlap_schedule", "moe_runner_backend", "moe_a2a_backend", "preferred_sampling_params",
    "speculative_num_steps", "speculative_eagle_topk", "cuda_graph_bs", "decode_log_interval",
)  # fmt: skip
NOT_MODELLED: Final = (
    "enable_torch_compile", "enable_lora", "lora_paths", "max_loras_per_batch", "max_lora_rank", "cpu_offload_gb",
    "enable_hierarchical_cache", "hicache_ratio", "hicache_size", "max_prefill_tokens", "enable_memory_saver",
    "disaggregation_mode", "enable_two_batch_overlap", "enable_eplb", "ep_num_redundant_experts", "moe_dense_tp_size",
    "swa_full_tokens_ratio", "json_model_override_args", "enable_multimodal", "torchao_config", "enable_dp_lm_head",
)  # fmt: skip


def read(line: CommandLine, draft: Draft) -> None:
    """The whole command line."""
    keys = Keys(line.options, draft, "--")
    draft.serve("sglang")
    before = draft.get("model.id")
    draft.model(keys.raw("model_path", "model"))
    same_model = before in {None, draft.get("model.id")}
    _degrees(keys, draft)
    for field, option in (
        ("max_model_len", "context_length"),
        ("max_sequences", "max_running_requests"),
        ("max_total_tokens", "max_total_tokens"),
        ("block_size", "page_size"),
        ("cuda_graph_max_batch", "cuda_graph_max_bs"),
    ):
        put_tokens(keys, draft, field, option)
    chunk = keys.whole("", "chunked_prefill_size", least=-1)
    draft.put("serving.batched_tokens", chunk if chunk is not None and chunk > 0 else None)
    draft.put("serving.memory_utilization", keys.real("", "mem_fraction_static"))
    put_formats(keys, draft, same_model=same_model)
    draft.put("serving.cuda_graphs", False if keys.flag("", "disable_cuda_graph") else None)
    draft.put("serving.prefix_caching", False if keys.flag("", "disable_radix_cache") else None)
    _speculative(keys, draft)
    keys.not_modelled(*NOT_MODELLED)
    keys.finish(HARMLESS)


def _degrees(keys: Keys, draft: Draft) -> None:
    """Tensor parallelism is of all cards of a stage; with attention in data parallel its groups divide them."""
    tensor = keys.whole("", "tensor_parallel_size", "tp_size", default=1) or 1
    pipeline = keys.whole("parallel.pipeline", "pipeline_parallel_size", "pp_size", default=1) or 1
    data = keys.whole("", "data_parallel_size", "dp_size", default=1) or 1
    expert = keys.whole("", "expert_parallel_size", "ep_size", "ep") or 1
    divided = keys.flag("", "enable_dp_attention", default=False)
    each = max(1, tensor // data) if divided else tensor
    draft.put("parallel.tensor", each)
    draft.put("parallel.data", data if data > 1 else None)
    draft.put("parallel.expert", expert if expert > 1 else None)
    draft.cards(each * pipeline * data, "--tp-size")


def _speculative(keys: Keys, draft: Draft) -> None:
    method = keys.pick("", SPECULATIVE, "speculative_algorithm")
    name = keys.raw("speculative_draft_model_path", "speculative_draft_model")
    tokens = keys.whole("", "speculative_num_draft_tokens")
    for field in ("speculative", "draft_model", "draft_tokens"):
        draft.put(f"serving.{field}", None)
    if method is None:
        return
    is_named = isinstance(name, str) and 0 < len(name) <= LONGEST_NAME
    draft.put("serving.speculative", "eagle3" if method == "mtp" and is_named else method)
    if is_named:
        draft.put("serving.draft_model", {"id": name})
    if tokens is not None and tokens <= MOST_DRAFTED:
        draft.put("serving.draft_tokens", tokens)
