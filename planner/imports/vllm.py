"""vLLM's command line: `vllm serve MODEL ...` or the server module.

Source: vLLM 0.19 `engine/arg_utils.py`.
"""

import json
import re
from typing import Any, Final

from planner.imports.command_line import CommandLine
from planner.imports.draft import Draft
from planner.imports.keys import Keys
from planner.units import GB, GIB, KIB, MIB

SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)([kKmMgG])")
STEPS: Final = {"k": 10**3, "m": 10**6, "g": GB, "K": KIB, "M": MIB, "G": GIB}
"""Small letters count in tens, capital letters in twos, as vLLM reads them."""
DTYPES: Final = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "float": "fp32"}
QUANTIZED: Final = {
    "fp8": "fp8", "awq": "awq4", "awq_marlin": "awq4", "gptq": "gptq4", "gptq_marlin": "gptq4",
    "bitsandbytes": "nf4", "mxfp4": "mxfp4", "modelopt_fp4": "nvfp4", "modelopt": "fp8",
}  # fmt: skip
CACHES: Final = {
    "fp8": "fp8",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "bf16": "bf16",
    "bfloat16": "bf16",
    "float16": "fp16",
}
LONGEST_NAME: Final = 200
MOST_DRAFTED: Final = 64
SPECULATIVE: Final = {
    "eagle3": "eagle3",
    "eagle": "eagle3",
    "mtp": "mtp",
    "deepseek_mtp": "mtp",
    "draft_model": "draft",
}

INERT: Final = {
    "enable_kv_cache_sharing": "--enable-prefix-caching",
    "load_sharded_model": "--load-format sharded_state",
    "kv_cache_sharing_fast_prefill": "--enable-prefix-caching",
}

HARMLESS: Final = (
    "host", "port", "api_key", "served_model_name", "tokenizer*", "trust_remote_code", "revision",
    "code_revision", "seed", "download_dir", "load_format", "chat_template*", "disable_log_*",
    "enable_log_*", "uvicorn_*", "ssl_*", "allowed_*", "root_path", "middleware", "response_role",
    "tool_call_parser", "enable_auto_tool_choice", "reasoning_parser", "guided_*", "max_logprobs",
    "distributed_executor_backend", "scheduling_policy", "generation_config", "override_*", "otlp_*",
    "collect_*", "structured_*", "enable_chunked_prefill", "no_enable_chunked_prefill",
    "max_parallel_loading_workers", "disable_custom_all_reduce", "model", "node_rank", "nnodes", "master_*",
    "data_parallel_*", "api_server_count", "hf_token", "hf_config_path", "config_format", "task", "runner",
    "async_scheduling", "long_prefill*", "max_long*", "show_hidden*", "prefix_caching_hash_algo",
    "safetensors*", "stream_interval",
)  # fmt: skip
NOT_MODELLED: Final = (
    "cpu_offload_gb", "swap_space", "enable_lora", "max_loras", "max_lora_rank",
    "decode_context_parallel_size", "kv_cache_memory_bytes", "prefill_context_parallel_size",
    "kv_transfer_config", "compilation_config", "limit_mm_per_prompt", "num_gpu_blocks_override",
    "enable_dbo", "mamba_ssm_cache_dtype", "kv_sharing_fast_prefill", "enable_eplb", "hf_overrides",
    "skip_mm_profiling",
)  # fmt: skip


def read(line: CommandLine, draft: Draft) -> None:
    """The whole command line."""
    keys = Keys(line.options, draft, "--")
    draft.serve("vllm")
    serve = line.program.index("serve") if "serve" in line.program else None
    before = draft.get("model.id")
    named = line.program[serve + 1 : serve + 2] if serve is not None else ()
    draft.model(next(iter(named), None) or keys.raw("model"))
    same_model = before in {None, draft.get("model.id")}
    keys.inert(INERT)
    for field, option in (("tensor", "tensor_parallel_size"), ("pipeline", "pipeline_parallel_size")):
        keys.whole(f"parallel.{field}", option, default=1)
    data = keys.whole("", "data_parallel_size", default=1) or 1
    draft.put("parallel.data", data if data > 1 else None)
    tensor, pipeline = draft.get("parallel.tensor") or 1, draft.get("parallel.pipeline") or 1
    draft.put(
        "parallel.expert", tensor * data if keys.flag("", "enable_expert_parallel", default=False) else None
    )
    draft.cards(tensor * pipeline * data, "--tensor-parallel-size")
    _engine(keys, draft, same_model=same_model)
    keys.not_modelled(*NOT_MODELLED)
    keys.finish(HARMLESS)


def _engine(keys: Keys, draft: Draft, *, same_model: bool) -> None:
    for field, option in (
        ("max_model_len", "max_model_len"),
        ("max_sequences", "max_num_seqs"),
        ("batched_tokens", "max_num_batched_tokens"),
        ("block_size", "block_size"),
        ("cuda_graph_max_batch", "max_cudagraph_capture_size"),
    ):
        put_tokens(keys, draft, field, option)
    share = keys.real("", "gpu_memory_utilization", default=0.9)
    draft.put("serving.memory_utilization", share)
    put_formats(keys, draft, same_model=same_model)
    eager = keys.flag("", "enforce_eager", default=False)
    draft.put("serving.cuda_graphs", False if eager else None)
    cached = keys.flag("", "enable_prefix_caching")
    without = keys.flag("", "no_enable_prefix_caching", default=False)
    draft.put("serving.prefix_caching", False if without else cached)
    _speculative(keys, draft)


def put_formats(keys: Keys, draft: Draft, *, same_model: bool) -> None:
    """A format made on loading or named by `--quantization` wins over a type.

    Without either the checkpoint decides: what the question says of the same model stays.
    """
    dtype = None if keys.is_auto("dtype") else keys.pick("", DTYPES, "dtype")
    keys.raw("dtype")
    quantized = keys.pick("", QUANTIZED, "quantization")
    if quantized or dtype or not same_model:
        draft.put("serving.weights", quantized or dtype)
    cache = None if keys.is_auto("kv_cache_dtype") else keys.pick("", CACHES, "kv_cache_dtype")
    keys.raw("kv_cache_dtype")
    if cache or not same_model or draft.get("serving.kv_cache") == "fp8":
        draft.put("serving.kv_cache", cache)


def put_tokens(keys: Keys, draft: Draft, field: str, option: str) -> None:
    """A count, `8k` and `8K` understood; left out, the engine's own."""
    value: Any = keys.raw(option)
    sized = SIZE.fullmatch(value) if isinstance(value, str) else None
    if sized:
        value = int(float(sized[1]) * STEPS[sized[2]])
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        keys.remark(option, value, "bad_value", allowed="integer >= 1")
        value = None
    draft.put(f"serving.{field}", value)


def _speculative(keys: Keys, draft: Draft) -> None:
    value = keys.raw("speculative_config")
    draft.put("serving.speculative", None)
    if value is None:
        return
    try:
        config = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        config = None
    method = SPECULATIVE.get(str(config.get("method", "draft_model"))) if isinstance(config, dict) else None
    if method is None:
        keys.remark("speculative_config", value, "bad_value", allowed=", ".join(SPECULATIVE))
    draft.put("serving.speculative", method)
    for field in ("draft_model", "draft_tokens"):
        draft.put(f"serving.{field}", None)
    if method is None or not isinstance(config, dict):
        return
    name, tokens = config.get("model"), config.get("num_speculative_tokens")
    if isinstance(name, str) and 0 < len(name) <= LONGEST_NAME and method != "mtp":
        draft.put("serving.draft_model", {"id": name})
    if isinstance(tokens, int) and not isinstance(tokens, bool) and 1 <= tokens <= MOST_DRAFTED:
        draft.put("serving.draft_tokens", tokens)
