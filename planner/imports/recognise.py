"""Which program a text is for: the words of a command line, the keys of a mapping, and when neither is clear."""

import re
from collections.abc import Mapping
from typing import Any, Final

from planner.imports.command_line import LLAMA_PROGRAMS, OTHER_PROGRAMS, CommandLine, file_name
from planner.imports.draft import Draft
from planner.imports.types import ImportRefusedError

SIGNS: Final[dict[str, tuple[str, ...]]] = {
    "deepspeed": (
        "zero_optimization",
        "train_micro_batch_size_per_gpu",
        "train_batch_size",
        "offload_params_path",
    ),
    "accelerate": (
        "compute_environment",
        "distributed_type",
        "mixed_precision",
        "fsdp_config",
        "num_processes",
    ),
    "axolotl": ("base_model", "sequence_len", "sample_packing", "micro_batch_size", "lora_target_linear"),
    "llama_factory": (
        "finetuning_type",
        "cutoff_len",
        "quantization_bit",
        "stage",
        "template",
        "pure_bf16",
        "lora_rank",
        "lora_target",
        "flash_attn",
        "disable_gradient_checkpointing",
    ),
    "training_arguments": (
        "per_device_train_batch_size",
        "gradient_checkpointing",
        "optim",
        "bf16",
        "fp16",
        "use_peft",
    ),
    "peft": ("r", "lora_alpha", "target_modules", "peft_type", "lora_dropout", "bnb_4bit_quant_type"),
}
"""Keys that tell a format; the one with most of them is taken, the first where two have as many."""
OF_A_TRAINER: Final = frozenset(
    {
        *SIGNS["training_arguments"],
        *("per_gpu_train_batch_size", "gradient_accumulation_steps", "num_train_epochs", "learning_rate"),
        *(
            "output_dir",
            "max_seq_length",
            "lora_r",
            "deepspeed",
            "fsdp",
            "load_in_4bit",
            "attn_implementation",
        ),
    }
)
"""A command line of an unknown program with none of these is no training script's."""
OPTIONS: Final[tuple[tuple[str, frozenset[str]], ...]] = (
    ("vllm", frozenset({"gpu_memory_utilization", "max_num_seqs"})),
    ("sglang", frozenset({"mem_fraction_static", "max_running_requests"})),
    ("tensorrt_llm", frozenset({"kv_cache_free_gpu_memory_fraction", "extra_llm_api_options"})),
    ("tgi", frozenset({"max_batch_prefill_tokens", "max_batch_total_tokens", "num_shard"})),
    ("llama_cpp", frozenset({"ngl", "n_gpu_layers", "cache_type_k", "ctk", "n_cpu_moe", "ncmoe"})),
    ("megatron", frozenset({"tensor_model_parallel_size", "micro_batch_size", "num_attention_heads"})),
)
"""Options that only one program has."""
PROGRAM: Final = re.compile(
    r"\bvllm serve\b|/vllm-openai\b|\bvllm\.entrypoints\b|\btorchrun\b|\bllama-(?:server|cli)\b|\bsglang\b"
    r"|\btrtllm-serve\b|\btext-generation-(?:launcher\b|inference:)"
)
UNKNOWN_FACTOR: Final = 3
"""With more unknown keys for each known one than this, the text is of another program."""


def is_command_line(text: str) -> bool:
    """Whether a text reads like words for a shell: options, and no mapping before them."""
    first = first_line(text)
    if not first.startswith("{") and PROGRAM.search(first.partition(": ")[0]):
        return True
    if first.startswith(("{", "---")) or first.endswith(":") or ": " in first.partition("--")[0]:
        return False
    return " --" in f" {text}" or "\n--" in text


def first_line(text: str) -> str:
    """The first line that is neither empty nor a comment."""
    lines = (line.strip() for line in text.splitlines() if not line.startswith("#"))
    return next((line for line in lines if line), "")


def named_program(line: CommandLine) -> str | None:
    """The program that the words before the options name; None where it is none that is read."""
    words = line.program
    for word, following in zip(words, (*words[1:], ""), strict=False):
        if word.startswith("vllm.entrypoints") or (file_name(word) == "vllm" and following in {"", "serve"}):
            return "vllm"
        if word == "sglang.launch_server" or (file_name(word) == "sglang" and following == "serve"):
            return "sglang"
        if file_name(word) in LLAMA_PROGRAMS:
            return "llama_cpp"
        if file_name(word) in OTHER_PROGRAMS:
            return OTHER_PROGRAMS[file_name(word)]
    return None


def program_of(line: CommandLine) -> str:
    """The format of a command line.

    Raises:
        ImportRefusedError: Neither its program nor any of its options is known.
    """
    named = named_program(line)
    if named is not None:
        return named
    for program, own in OPTIONS:
        if own & line.options.keys():
            return program
    if OF_A_TRAINER & line.options.keys():
        return "training_arguments"
    raise ImportRefusedError("format_unsure")


def detected(values: Mapping[str, Any]) -> str | None:
    """The format of a mapping by its keys, None where no format has any of them.

    Raises:
        ImportRefusedError: It is a scenario.
    """
    model = values.get("model")
    if isinstance(model, Mapping) and "_component_" in model:
        return "torchtune"
    if {"task", "model", "hardware"} <= values.keys():
        raise ImportRefusedError("format_scenario")
    counts = {name: sum(key in values for key in keys) for name, keys in SIGNS.items()}
    best = max(counts, key=lambda name: counts[name])
    return best if counts[best] else None


def check_known(draft: Draft, *, named: bool) -> None:
    """That a text is what it was read as.

    Args:
        draft: After reading.
        named: Whether the text names the program, so that it may well have no option at all.

    Raises:
        ImportRefusedError: Hardly a key of it was known.
    """
    unknown = sum(remark.reason == "unknown" for remark in draft.remarks)
    if unknown > UNKNOWN_FACTOR * max(draft.known, 1 if named else 0) or not (named or draft.known):
        raise ImportRefusedError("format_unsure")
