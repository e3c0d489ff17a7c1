"""Text Generation Inference's command line: `text-generation-launcher ...`, or its image with the same options.

Source: Text Generation Inference 3.3 `launcher/src/main.rs`.
"""

from typing import Any, Final

from planner.imports.command_line import CommandLine
from planner.imports.draft import Draft
from planner.imports.keys import Keys
from planner.imports.vllm import put_tokens
from planner.yaml_text import number

PROGRAM: Final = "text-generation-launcher"
QUANTIZED: Final = {
    "awq": "awq4", "gptq": "gptq4", "marlin": "gptq4", "eetq": "int8", "bitsandbytes": "int8",
    "bitsandbytes-nf4": "nf4", "bitsandbytes-fp4": "nf4", "fp8": "fp8",
}  # fmt: skip
"""Both 4-bit types of bitsandbytes have one size."""
DTYPES: Final = {"float16": "fp16", "bfloat16": "bf16"}
CACHES: Final = {"fp8_e4m3fn": "fp8", "fp8_e5m2": "fp8"}
IN_THE_CHECKPOINT: Final = frozenset({"compressed-tensors"})
HARMLESS: Final = (
    "revision", "validation_workers", "trust_remote_code", "max_best_of", "max_stop_sequences", "max_top_n_tokens",
    "waiting_served_ratio", "max_waiting_tokens", "hostname", "port", "prometheus_port", "shard_uds_path",
    "master_*", "huggingface_hub_cache", "weights_cache_override", "disable_custom_kernels", "json_output", "otlp_*",
    "cors_*", "api_key", "watermark_*", "ngrok*", "tokenizer_config_path", "disable_grammar_support", "env",
    "max_client_batch_size", "usage_stats", "payload_limit", "enable_prefill_logprobs", "graceful_termination_timeout",
    "sharded",
)  # fmt: skip
NOT_MODELLED: Final = ("speculate", "rope_scaling", "rope_factor", "lora_adapters")


def read(line: CommandLine, draft: Draft) -> None:
    """The whole command line."""
    keys = Keys(line.options, draft, "--")
    draft.serve("tgi")
    before = draft.get("model.id")
    draft.model(keys.raw("model_id"))
    same_model = before in {None, draft.get("model.id")}
    shards = keys.whole("parallel.tensor", "num_shard", default=1) or 1
    for field in ("data", "pipeline", "expert"):
        draft.put(f"parallel.{field}", None)
    draft.cards(shards, "--num-shard")
    for field, option in (
        ("max_model_len", "max_total_tokens"),
        ("batched_tokens", "max_batch_prefill_tokens"),
        ("max_total_tokens", "max_batch_total_tokens"),
    ):
        put_tokens(keys, draft, field, option)
    requests = keys.whole("", "max_concurrent_requests")
    draft.put("serving.max_sequences", keys.whole("", "max_batch_size") or requests)
    keys.raw("max_input_tokens", "max_input_length")
    draft.put("serving.memory_utilization", keys.real("", "cuda_memory_fraction"))
    _formats(keys, draft, same_model=same_model)
    _graphs(keys, draft)
    keys.not_modelled(*NOT_MODELLED)
    keys.finish(HARMLESS)


def _formats(keys: Keys, draft: Draft, *, same_model: bool) -> None:
    """A format named by `--quantize` wins over a type; without either the checkpoint decides."""
    dtype = keys.pick("", DTYPES, "dtype")
    given = keys.values.get("quantize")
    quantized = None
    if given in IN_THE_CHECKPOINT:
        keys.raw("quantize")
    else:
        quantized = keys.pick("", QUANTIZED, "quantize")
    if quantized or dtype or not same_model:
        draft.put("serving.weights", quantized or dtype)
    cache = keys.pick("", CACHES, "kv_cache_dtype")
    if cache or not same_model or draft.get("serving.kv_cache") == "fp8":
        draft.put("serving.kv_cache", cache)


def _graphs(keys: Keys, draft: Draft) -> None:
    """Batch sizes that are captured, 0 for none."""
    given = keys.raw("cuda_graphs")
    draft.put("serving.cuda_graphs", None)
    draft.put("serving.cuda_graph_max_batch", None)
    if given is None:
        return
    sizes: list[Any] = [number(part.strip()) for part in str(given).split(",")]
    if not all(isinstance(size, int) and not isinstance(size, bool) and size >= 0 for size in sizes):
        keys.remark("cuda_graphs", given, "bad_value", allowed="1,2,4,8, 0")
        return
    largest = max(sizes)
    draft.put("serving.cuda_graphs", largest > 0)
    draft.put("serving.cuda_graph_max_batch", largest or None)
