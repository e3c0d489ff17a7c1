"""TensorRT-LLM's command line: `trtllm-serve MODEL ...`.

Source: TensorRT-LLM 1.0 `commands/serve.py`.
"""

from typing import Final

from planner.imports.command_line import CommandLine
from planner.imports.draft import Draft
from planner.imports.keys import Keys
from planner.imports.vllm import put_tokens

PROGRAM: Final = "trtllm-serve"
VERBS: Final = frozenset({"serve"})
CACHES: Final = {"fp8": "fp8"}
HARMLESS: Final = (
    "host", "port", "backend", "tokenizer", "custom_tokenizer", "trust_remote_code", "revision", "log_level",
    "num_postprocess_workers", "gpus_per_node", "reasoning_parser", "tool_parser", "tool_call_parser",
    "metadata_server_config_file", "fail_fast_on_attention_window_too_large", "otlp_*", "media_*", "chat_template",
    "served_model_name", "enable_chunked_prefill", "grpc",
)  # fmt: skip
NOT_MODELLED: Final = (
    "max_beam_width", "context_parallel_size", "cp_size", "moe_cluster_parallel_size", "cluster_size", "server_role",
    "disagg_cluster_uri",
)  # fmt: skip
FILES: Final = ("extra_llm_api_options", "config")


def read(line: CommandLine, draft: Draft) -> None:
    """The whole command line."""
    keys = Keys(line.options, draft, "--")
    draft.serve("tensorrt_llm")
    before = draft.get("model.id")
    words = [word for word in line.program[1:] if word not in VERBS]
    draft.model(next(iter(words), None) or keys.raw("model"))
    if before not in {None, draft.get("model.id")}:
        for field in ("weights", "kv_cache"):
            draft.put(f"serving.{field}", None)
    _degrees(keys, draft)
    for field, option in (
        ("max_model_len", "max_seq_len"),
        ("max_sequences", "max_batch_size"),
        ("batched_tokens", "max_num_tokens"),
    ):
        put_tokens(keys, draft, field, option)
    share = keys.real("", "kv_cache_free_gpu_memory_fraction", "free_gpu_memory_fraction")
    draft.put("serving.memory_utilization", share)
    cache = None if keys.is_auto("kv_cache_dtype") else keys.pick("", CACHES, "kv_cache_dtype")
    keys.raw("kv_cache_dtype")
    if cache or draft.get("serving.kv_cache") == "fp8":
        draft.put("serving.kv_cache", cache)
    for name in FILES:
        file = keys.raw(name)
        if file is not None:
            keys.remark(name, file, "elsewhere")
    keys.not_modelled(*NOT_MODELLED)
    keys.finish(HARMLESS)


def _degrees(keys: Keys, draft: Draft) -> None:
    tensor = keys.whole("parallel.tensor", "tensor_parallel_size", "tp_size", default=1) or 1
    pipeline = keys.whole("parallel.pipeline", "pipeline_parallel_size", "pp_size", default=1) or 1
    expert = keys.whole("", "moe_expert_parallel_size", "ep_size")
    draft.put("parallel.expert", expert if expert is not None and expert > 1 else None)
    draft.put("parallel.data", None)
    draft.cards(tensor * pipeline, "--tp_size")
