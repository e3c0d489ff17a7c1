"""PEFT and bitsandbytes settings as Python. Accepted by peft 0.21 and transformers 5.24 (run in the tests)."""

from planner.exports.facts import TORCH_NAMES, adapter_of, require, require_runtime, targets, whole
from planner.exports.types import Export, ExportRefusedError
from planner.plan_types import Plan
from planner.scenario import Adapter

RUNTIMES = ("hf_trainer", "generic", "deepspeed", "unsloth")


def peft(plan: Plan) -> Export:
    """`LoraConfig`, and `BitsAndBytesConfig` where the base is quantized.

    Raises:
        ExportRefusedError: The job has no adapter, or its runtime does not use PEFT.
    """
    adapter = adapter_of(plan)
    if adapter is None:
        raise ExportRefusedError("adapter", "task", plan.resolved.task, "lora, qlora")
    require_runtime(plan, *RUNTIMES)
    compute = plan.resolved.training.precision.compute or "bf16"
    lines = [*imports(adapter), "", *quantization_lines(adapter, compute), *lora_lines(adapter)]
    return Export(
        target="peft",
        file_name="peft_settings.py",
        text="\n".join(lines) + "\n",
        carries=("task", "adapter"),
    )


def imports(adapter: Adapter) -> list[str]:
    """Import lines, sorted."""
    if adapter.base in {"bf16", "fp16", "fp32", None}:
        return ["from peft import LoraConfig"]
    return ["import torch", "from peft import LoraConfig", "from transformers import BitsAndBytesConfig"]


def quantization_lines(adapter: Adapter, compute: str) -> list[str]:
    """`quantization = BitsAndBytesConfig(...)`; nothing for a 16-bit base.

    Raises:
        ExportRefusedError: bitsandbytes does not make the format (GPTQ is in the checkpoint).
    """
    if adapter.base in {"bf16", "fp16", "fp32", None}:
        return []
    require("adapter.base", adapter.base, "nf4", "nf4_dq", "int8")
    if adapter.base == "int8":
        return ["quantization = BitsAndBytesConfig(load_in_8bit=True)"]
    return [
        "quantization = BitsAndBytesConfig(",
        "    load_in_4bit=True,",
        '    bnb_4bit_quant_type="nf4",',
        f"    bnb_4bit_use_double_quant={adapter.base == 'nf4_dq'},",
        f"    bnb_4bit_compute_dtype=torch.{TORCH_NAMES[compute]},",
        ")",
    ]


def lora_lines(adapter: Adapter) -> list[str]:
    """`adapter = LoraConfig(...)`."""
    lines = [
        "adapter = LoraConfig(",
        '    task_type="CAUSAL_LM",',
        f"    r={adapter.rank},",
        f"    lora_alpha={whole(adapter.alpha)},",
        f"    lora_dropout={whole(adapter.dropout)},",
        f"    target_modules={quoted(targets(adapter))},",
    ]
    if adapter.modules_to_save:
        lines.append(f"    modules_to_save={quoted(list(adapter.modules_to_save))},")
    if adapter.method in {"dora", "rslora"}:
        lines.append(f"    use_{adapter.method}=True,")
    return [*lines, ")"]


def quoted(value: list[str] | str) -> str:
    """Text or a list of texts as Python source with double quotes."""
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return "[" + ", ".join(quoted(item) for item in value) + "]"
