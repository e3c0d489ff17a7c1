"""Hands exported files to the libraries they are for; run in a process of its own, since it loads PyTorch.

`python accept.py FILES.json`, where the file holds [target, text] pairs; prints one JSON line for each: what the
library made of the text, or why it refused.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any


def training_arguments(path: Path) -> dict[str, Any]:
    from transformers import HfArgumentParser, TrainingArguments  # noqa: PLC0415

    values = json.loads(path.read_text(encoding="utf-8")) | {"use_cpu": True}
    path.write_text(json.dumps(values), encoding="utf-8")  # there need not be a GPU where the tests run
    (read,) = HfArgumentParser(TrainingArguments).parse_json_file(str(path))
    return {
        "batch": read.per_device_train_batch_size,
        "steps": read.gradient_accumulation_steps,
        "optimizer": str(read.optim.value),
        "bf16": read.bf16,
        "fp16": read.fp16,
        "checkpointing": bool(read.activation_checkpointing or read.gradient_checkpointing),
        "fsdp": bool(read.fsdp),
        "offload": bool((read.fsdp_config or {}).get("cpu_offload")),
    }


def accelerate(path: Path) -> dict[str, Any]:
    from accelerate.commands.config.config_args import load_config_from_file  # noqa: PLC0415

    read = load_config_from_file(str(path))
    return {
        "kind": str(getattr(read.distributed_type, "value", read.distributed_type)),
        "precision": str(read.mixed_precision),
        "processes": read.num_processes,
        "fsdp": read.fsdp_config,
    }


def fsdp_plugin(path: Path) -> dict[str, Any]:
    """What `accelerate launch` makes of the section: its variables, read by the plugin that FSDP is set up from."""
    import os  # noqa: PLC0415

    import yaml  # noqa: PLC0415
    from accelerate import FullyShardedDataParallelPlugin  # noqa: PLC0415

    section = yaml.safe_load(path.read_text(encoding="utf-8")).get("fsdp_config") or {}
    if not section:
        return {}
    os.environ |= {
        name.upper(): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in section.items()
    }
    plugin = FullyShardedDataParallelPlugin()
    for name in section:
        del os.environ[name.upper()]
    return {
        "version": plugin.fsdp_version,
        "reshard": bool(plugin.reshard_after_forward),
        "checkpointing": bool(plugin.activation_checkpointing),
        "offload": type(plugin.cpu_offload).__name__ == "CPUOffloadPolicy",
    }


def peft(path: Path) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(path.read_text(encoding="utf-8"), path.name, "exec"), names)  # noqa: S102 - it is the thing tested
    adapter, quantization = names["adapter"], names.get("quantization")
    targets = adapter.target_modules
    return {
        "rank": adapter.r,
        "alpha": adapter.lora_alpha,
        "targets": sorted(targets) if isinstance(targets, set | list) else targets,
        "dora": adapter.use_dora,
        "quantized": None if quantization is None else quantization.to_diff_dict(),
    }


READERS = {
    "training_arguments": training_arguments,
    "accelerate": accelerate,
    "peft": peft,
    "fsdp": fsdp_plugin,
}
SUFFIXES = {"training_arguments": ".json", "accelerate": ".yaml", "fsdp": ".yaml", "peft": ".py"}


def main() -> None:
    pairs = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        for number, (target, text) in enumerate(pairs):
            path = Path(folder) / f"{number}{SUFFIXES[target]}"
            path.write_text(text, encoding="utf-8")
            try:
                print(json.dumps({"read": READERS[target](path)}, default=str))  # noqa: T201
            except Exception as problem:  # noqa: BLE001 - the answer is that it was refused, and why
                print(json.dumps({"refused": f"{type(problem).__name__}: {problem}"}))  # noqa: T201


if __name__ == "__main__":
    main()
