"""torchtune's recipe configuration; torchtune 0.6.1 has its components with these arguments, see docs/exports.md."""

from typing import Any, Final

from planner.exports.facts import adapter_of, cards, offloaded, refuse, require, require_runtime, whole
from planner.exports.types import Export, ExportRefusedError
from planner.imports.torchtune import BUILDERS, LOSSES, MLP_TARGETS
from planner.plan_types import Plan
from planner.scenario import Adapter
from planner.yaml_text import write_yaml

OPTIMIZERS: Final = {
    ("adamw", False): "torch.optim.AdamW",
    ("adam", False): "torch.optim.Adam",
    ("sgd", False): "torch.optim.SGD",
    ("adamw_8bit", False): "bitsandbytes.optim.AdamW8bit",
    ("adamw_8bit", True): "bitsandbytes.optim.PagedAdamW8bit",
    ("adamw", True): "bitsandbytes.optim.PagedAdamW",
}
TOKENIZERS: Final = {
    "llama2": "llama2.llama2_tokenizer", "llama3": "llama3.llama3_tokenizer",
    "llama3_1": "llama3.llama3_tokenizer", "llama3_2": "llama3.llama3_tokenizer",
    "llama3_3": "llama3.llama3_tokenizer", "mistral": "mistral.mistral_tokenizer",
    "gemma": "gemma.gemma_tokenizer", "gemma2": "gemma.gemma_tokenizer", "phi3": "phi3.phi3_mini_tokenizer",
    "phi4": "phi4.phi4_tokenizer", "qwen2": "qwen2.qwen2_tokenizer", "qwen2_5": "qwen2_5.qwen2_5_tokenizer",
}  # fmt: skip
ATTENTION_TARGETS: Final = {
    "q_proj": "q_proj",
    "k_proj": "k_proj",
    "v_proj": "v_proj",
    "o_proj": "output_proj",
}

CARRIES: Final = (
    "task", "model", "adapter", "runtime.name", "runtime.compile", "training.micro_batch",
    "training.gradient_accumulation", "training.sequence_length", "training.packing", "training.loss",
    "training.checkpointing", "training.activation_offload", "training.optimizer",
    "training.precision.parameters", "training.precision.compute", "parallel.sharding",
    "parallel.reshard_after_forward", "parallel.offload", "parallel.tensor", "parallel.context",
)  # fmt: skip


def torchtune(plan: Plan) -> Export:
    """The file for `tune run`; paths and the data set are examples to replace.

    Raises:
        ExportRefusedError: Another runtime, a model without a builder there, or a setting that the file cannot say.
    """
    require_runtime(plan, "torchtune")
    held, training = plan.resolved, plan.resolved.training
    builder = BUILDERS.get(plan.scenario.model.id or "")
    if builder is None:
        raise ExportRefusedError("model", "model.id", plan.scenario.model.id, ", ".join(BUILDERS))
    family, _, name = builder.partition(".")
    adapter = adapter_of(plan)
    require("training.checkpointing", training.checkpointing, "none", "full")
    require("training.precision.parameters", training.precision.parameters, "bf16", "fp32")
    require("training.precision.compute", training.precision.compute, training.precision.parameters)
    folder = f"/tmp/{name}"  # noqa: S108 - torchtune's own examples keep models there
    values: dict[str, Any] = {
        "output_dir": f"{folder}/output",
        "model": _model(family, name, adapter, quantized=held.task == "qlora"),
        "tokenizer": {
            "_component_": f"torchtune.models.{TOKENIZERS[family]}",
            "path": f"{folder}/tokenizer.model",
            "max_seq_len": training.sequence_length,
        },
        "dataset": {
            "_component_": "torchtune.datasets.alpaca_dataset",
            "packed": training.packing not in {None, "none"},
        },
        "seed": None,
        "shuffle": True,
        "batch_size": training.micro_batch,
        "gradient_accumulation_steps": training.gradient_accumulation,
        "epochs": 1,
        "max_steps_per_epoch": None,
        "optimizer": _optimizer(plan),
        **_in_backward(plan, adapter),
        "loss": {"_component_": _loss(training.loss)},
        "device": "cuda",
        "dtype": training.precision.parameters,
        "compile": bool(held.runtime.compile),
        "enable_activation_checkpointing": training.checkpointing == "full",
        "enable_activation_offloading": training.activation_offload,
        **_parallel(plan),
    }
    return Export(
        target="torchtune",
        file_name="torchtune.yaml",
        text=write_yaml(values),
        carries=CARRIES,
        remarks=(("data_set", "dataset"), ("paths", folder)),
    )


def _model(family: str, name: str, adapter: Adapter | None, *, quantized: bool) -> dict[str, Any]:
    if adapter is None:
        return {"_component_": f"torchtune.models.{family}.{name}"}
    require("adapter.method", adapter.method, "lora", "dora")
    if quantized:
        require("adapter.base", adapter.base, "nf4_dq")
    chosen = (
        list(adapter.targets or ()) if adapter.targets != "all_linear" else [*ATTENTION_TARGETS, *MLP_TARGETS]
    )
    perceptron = set(chosen) & set(MLP_TARGETS)
    if perceptron and perceptron != set(MLP_TARGETS):
        raise refuse("adapter.targets", ", ".join(sorted(perceptron)), ", ".join(MLP_TARGETS))
    unknown = set(chosen) - set(MLP_TARGETS) - set(ATTENTION_TARGETS) - {"lm_head"}
    if unknown or adapter.modules_to_save:
        raise refuse(
            "adapter.targets", ", ".join(sorted(unknown)), ", ".join((*ATTENTION_TARGETS, *MLP_TARGETS))
        )
    values = {
        "_component_": f"torchtune.models.{family}.lora_{name}",
        "lora_attn_modules": [word for target, word in ATTENTION_TARGETS.items() if target in chosen],
        "apply_lora_to_mlp": bool(perceptron),
        "lora_rank": adapter.rank,
        "lora_alpha": whole(adapter.alpha),
        "lora_dropout": whole(adapter.dropout),
        "quantize_base": quantized,
    }
    if "lm_head" in chosen:
        values["apply_lora_to_output"] = True
    return values | ({"use_dora": True} if adapter.method == "dora" else {})


def _optimizer(plan: Plan) -> dict[str, Any]:
    optimizer = plan.resolved.training.optimizer
    name = OPTIMIZERS.get((optimizer.name, optimizer.paged))
    if name is None:
        raise refuse("training.optimizer.name", optimizer.name, ", ".join(key for key, _ in OPTIMIZERS))
    fused = {"fused": optimizer.implementation == "fused"} if name.startswith("torch.") else {}
    return {"_component_": name, "lr": 2e-5, **fused}


def _in_backward(plan: Plan, adapter: Adapter | None) -> dict[str, bool]:
    """Only the full recipes know the key."""
    wanted = plan.resolved.training.optimizer.in_backward
    return {} if adapter is not None and not wanted else {"optimizer_in_bwd": wanted}


def _loss(name: str | None) -> str:
    found = {meaning: component for component, meaning in LOSSES.items()}
    if name not in found:
        raise refuse("training.loss", name, ", ".join(found))
    return found[name]


def _parallel(plan: Plan) -> dict[str, Any]:
    """The distributed recipes shard over all cards; one card has the single-device recipe."""
    held = plan.resolved.parallel
    if cards(plan) == 1:
        return {}
    require("parallel.sharding", held.sharding, "fsdp")
    values = {
        "fsdp_reshard_after_forward": held.reshard_after_forward is not False,
        "fsdp_cpu_offload": offloaded(plan),
    }
    degrees = {"tensor_parallel_dim": held.tensor, "context_parallel_dim": held.context}
    return values | {name: degree for name, degree in degrees.items() if degree > 1}
