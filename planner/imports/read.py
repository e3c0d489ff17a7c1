"""Which program a text is for, and the question it makes."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from planner.imports import (
    accelerate,
    axolotl,
    deepspeed,
    llama_factory,
    megatron,
    peft,
    torchtune,
    training_arguments,
    vllm,
)
from planner.imports.command_line import CommandLine, read_command_line
from planner.imports.draft import Draft
from planner.imports.keys import Keys
from planner.imports.python_text import read_python
from planner.imports.types import Imported, ImportRefusedError
from planner.yaml_text import TextError, read_json, read_yaml

Reader = Callable[[Keys, Draft], None]

MAPPINGS: Final[dict[str, Reader]] = {
    "deepspeed": deepspeed.read,
    "accelerate": accelerate.read,
    "torchtune": torchtune.read,
    "axolotl": axolotl.read,
    "llama_factory": llama_factory.read,
    "training_arguments": training_arguments.read,
    "peft": peft.read,
}

LINES: Final[dict[str, Callable[[CommandLine, Draft], None]]] = {"vllm": vllm.read, "megatron": megatron.read}
FORMATS: Final = (*MAPPINGS, *LINES)

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


PROGRAM: Final = re.compile(r"\bvllm serve\b|/vllm-openai\b|\bvllm\.entrypoints\b|\btorchrun\b")


def import_text(text: str, base: Mapping[str, Any], source: str | None = None) -> Imported:
    """Read a file or a command line onto a question.

    Args:
        text: JSON, YAML, Python keywords, or a command line.
        base: A scenario document: model, cards and whatever the file does not say stay as they are here.
        source: One of `FORMATS`; found out from the text where left out.

    Raises:
        ImportRefusedError: The text is too large, no text of any format, or not recognised.
    """
    draft = Draft(dict(base))
    if not text.strip():
        raise ImportRefusedError("format_unknown", allowed=", ".join(FORMATS))
    if source in LINES or (source is None and is_command_line(text)):
        return _line(read_command_line(text), draft, source)
    if source is not None and source in MAPPINGS and is_command_line(text):
        return _mapping(_all_options(read_command_line(text)), draft, source)
    return _mapping(_values(text), draft, source)


def is_command_line(text: str) -> bool:
    """Whether a text reads like words for a shell: options, and no mapping before them."""
    first = next(
        (line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")), ""
    )
    if first.startswith(("{", "---")) or first.endswith(":") or ": " in first.partition("--")[0]:
        return False
    return " --" in f" {text}" or "\n--" in text or bool(PROGRAM.search(first))


def _line(line: CommandLine, draft: Draft, source: str | None) -> Imported:
    found = source or _program(line)
    if found in LINES:
        LINES[found](line, draft)
        return draft.finished(found)
    return _mapping(_all_options(line), draft, "training_arguments" if found is None else found)


def _program(line: CommandLine) -> str | None:
    words = " ".join(line.program)
    if "vllm" in words or {"gpu_memory_utilization", "max_num_seqs"} & line.options.keys():
        return "vllm"
    if {"tensor_model_parallel_size", "micro_batch_size", "num_attention_heads"} & line.options.keys():
        return "megatron"
    return None


def _all_options(line: CommandLine) -> dict[str, Any]:
    """Options of the program, and how many processes its launcher starts."""
    told: dict[str, Any] = {
        name: line.launcher[name]
        for name in ("nproc_per_node", "nnodes", "num_processes")
        if name in line.launcher
    }
    return {**line.options, **told}


def _values(text: str) -> Mapping[str, Any]:
    values = _structured(text)
    if not isinstance(values, Mapping):
        raise ImportRefusedError("not_a_mapping", given=type(values).__name__)
    return values


def _structured(text: str) -> Any:
    """JSON where it begins like it, else Python keywords where they are some, else YAML."""
    start = text.lstrip()[:1]
    try:
        if start == "{":
            try:
                return read_json(text)
            except TextError as problem:
                if problem.code != "not_json":
                    raise
                literal = read_python(text)
                if literal is None:
                    raise
                return literal
        if "(" in text and (found := read_python(text)) is not None:
            return found
        return read_yaml(text)
    except TextError as problem:
        raise ImportRefusedError(problem.code, **problem.params) from problem


def _mapping(values: Mapping[str, Any], draft: Draft, source: str | None) -> Imported:
    found = source or detected(values)
    MAPPINGS[found](Keys({str(key): value for key, value in values.items()}, draft), draft)
    return draft.finished(found)


def detected(values: Mapping[str, Any]) -> str:
    """The format of a mapping by its keys.

    Raises:
        ImportRefusedError: No format has any of the keys.
    """
    model = values.get("model")
    if isinstance(model, Mapping) and "_component_" in model:
        return "torchtune"
    if {"task", "model", "hardware"} <= values.keys():
        raise ImportRefusedError("format_scenario")
    counts = {name: sum(key in values for key in keys) for name, keys in SIGNS.items()}
    best = max(counts, key=lambda name: counts[name])
    if not counts[best]:
        raise ImportRefusedError("format_unknown", allowed=", ".join(FORMATS))
    return best
