"""Questions that between them use every format's words; shared by the tests of exports and imports."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from typing import Any

from hardware_db import load_tables
from planner.estimate import plan
from planner.plan_types import Plan
from planner.validation import parse_scenario

Document = dict[str, Any]
LORA = {
    "method": "lora",
    "rank": 16,
    "alpha": 32,
    "dropout": 0.05,
    "targets": ["q_proj", "v_proj"],
    "base": "bf16",
}
PURE = {"parameters": "bf16", "compute": "bf16", "autocast": False}
MIXED = {"parameters": "bf16", "compute": "bf16", "autocast": True}


def question(
    task: str, runtime: str, *, cards: int = 8, gpu: str = "h100-sxm-80gb", **blocks: Any
) -> Document:
    """A question about Llama 3.1 8B; `blocks` are put in as they are."""
    return {
        "version": 1,
        "task": task,
        "model": {"id": "meta-llama/Llama-3.1-8B"},
        "hardware": {"devices": [{"gpu": gpu, "count": cards}]},
        "runtime": {"name": runtime},
        **deepcopy(blocks),
    }


def training(**more: Any) -> Document:
    return {"micro_batch": 2, "gradient_accumulation": 4, "sequence_length": 2048, **more}


def zero(stage: int, **offload: str) -> Document:
    return {"sharding": f"zero{stage}", **({"offload": offload} if offload else {})}


CASES: dict[str, Document] = {
    "hf_full_fsdp": question(
        "full", "hf_trainer", training=training(checkpointing="full"), parallel={"sharding": "fsdp"}
    ),
    "hf_fp16_full": question(
        "full", "hf_trainer", cards=1, training=training(precision={"parameters": "fp32", "compute": "fp16"})
    ),
    "hf_adafactor": question("full", "hf_trainer", training=training(optimizer={"name": "adafactor"})),
    "hf_full_keep": question(
        "full",
        "hf_trainer",
        training=training(checkpointing="none"),
        parallel={"sharding": "fsdp", "reshard_after_forward": False},
    ),
    "hf_full_offload": question(
        "full",
        "hf_trainer",
        training=training(checkpointing="full", checkpoint_reentrant=False),
        parallel={
            "sharding": "fsdp",
            "offload": {"parameters": "cpu", "gradients": "cpu", "optimizer": "cpu"},
        },
    ),
    "hf_full_bf16": question(
        "full",
        "hf_trainer",
        training=training(precision=PURE, packing="packed"),
        parallel={"sharding": "fsdp"},
    ),
    "hf_full_mixed": question(
        "full", "hf_trainer", cards=1, training=training(precision=MIXED, attention="flash")
    ),
    "hf_fp16": question(
        "lora",
        "hf_trainer",
        cards=1,
        training=training(
            precision={"parameters": "fp16", "compute": "fp16"}, optimizer={"name": "adamw_8bit"}
        ),
        adapter=LORA | {"base": "fp16"},
    ),
    "hf_fp32": question(
        "full",
        "hf_trainer",
        training=training(precision={"parameters": "fp32", "compute": "fp32", "autocast": False}),
    ),
    "hf_liger": question(
        "lora",
        "hf_trainer",
        cards=2,
        training=training(
            precision=MIXED, loss="fused_linear", kernels=["rms_norm", "rope", "swiglu"], checkpointing="full"
        ),
        adapter=LORA,
        parallel={"bucket_mb": 50},
    ),
    "hf_dora": question(
        "lora",
        "hf_trainer",
        cards=1,
        training=training(precision=MIXED, attention="eager"),
        adapter=LORA | {"method": "dora", "targets": "all_linear", "modules_to_save": ["lm_head"]},
    ),
    "hf_qlora": question(
        "qlora",
        "hf_trainer",
        cards=1,
        training=training(precision=MIXED, checkpointing="full", optimizer={"name": "adamw", "paged": True}),
        adapter=LORA | {"base": "nf4_dq", "targets": "all_linear"},
    ),
    "hf_qlora_default": question(
        "qlora",
        "hf_trainer",
        cards=1,
        training=training(checkpointing="full"),
        adapter=LORA | {"base": "nf4"},
    ),
    "hf_int8": question(
        "qlora",
        "hf_trainer",
        cards=1,
        training=training(precision={"parameters": "fp16", "compute": "fp16"}),
        adapter=LORA | {"base": "int8"},
    ),
    "generic_fsdp": question(
        "full", "generic", training=training(checkpointing="full"), parallel={"sharding": "fsdp"}
    ),
    "generic_backward": question(
        "full",
        "generic",
        cards=1,
        training=training(gradient_accumulation=1, optimizer={"name": "adamw", "in_backward": True}),
    ),
    "generic_every_k": question(
        "full", "generic", cards=2, training=training(checkpointing="every_k", checkpoint_every=2)
    ),
    "generic_qlora": question(
        "qlora", "generic", cards=1, training=training(checkpointing="full"), adapter=LORA | {"base": "nf4"}
    ),
    "unsloth": question("lora", "unsloth", cards=1, training=training(), adapter=LORA),
    "ds_zero1": question("full", "deepspeed", training=training(), parallel=zero(1)),
    "ds_zero2": question(
        "full", "deepspeed", training=training(), parallel=zero(2, optimizer="cpu", gradients="cpu")
    ),
    "ds_zero3": question(
        "full",
        "deepspeed",
        training=training(
            precision={"parameters": "fp16", "compute": "fp16"},
            checkpointing="full",
            activation_offload=True,
            optimizer={"name": "adam"},
        ),
        parallel=zero(3, optimizer="nvme", gradients="cpu", parameters="nvme"),
    ),
    "ds_lora": question(
        "lora", "deepspeed", training=training(checkpointing="full"), adapter=LORA, parallel=zero(3)
    ),
    "tune_full": question(
        "full", "torchtune", training=training(optimizer={"name": "adamw"}), parallel={"sharding": "fsdp"}
    ),
    "tune_single": question(
        "full",
        "torchtune",
        cards=1,
        training=training(
            gradient_accumulation=1,
            checkpointing="none",
            optimizer={"name": "adamw_8bit", "paged": True, "in_backward": True},
        ),
    ),
    "tune_lora": question(
        "lora",
        "torchtune",
        cards=2,
        training=training(packing="packed", checkpointing="full", activation_offload=True),
        adapter=LORA | {"targets": ["q_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]},
        parallel={"sharding": "fsdp", "reshard_after_forward": False},
    ),
    "tune_qlora": question(
        "qlora",
        "torchtune",
        cards=1,
        training=training(loss="standard"),
        adapter=LORA | {"base": "nf4_dq"},
    ),
    "megatron_llama": question(
        "pretrain",
        "megatron_lm",
        cards=16,
        training=training(dropout=0.0, checkpointing="selective_attention"),
        parallel={
            "tensor": 2,
            "pipeline": 2,
            "sharding": "zero1",
            "sequence": True,
            "data_parallel": "megatron",
        },
    ),
    "megatron_interleaved": question(
        "pretrain",
        "megatron_lm",
        cards=8,
        training=training(checkpointing="full", checkpoint_partitioned=True, dropout=0.0),
        parallel={"tensor": 2, "pipeline": 4, "pipeline_schedule": "interleaved", "virtual_stages": 2},
    ),
    "megatron_context": question(
        "pretrain",
        "megatron_lm",
        cards=8,
        training=training(
            checkpointing="every_k", checkpoint_every=2, dropout=0.0, precision={"gradients": "bf16"}
        ),
        parallel={"tensor": 2, "context": 2, "sharding": "zero1"},
    ),
    "vllm": question(
        "serve",
        "vllm",
        cards=2,
        serving={"max_model_len": 8192, "memory_utilization": 0.85, "kv_cache": "fp8", "max_sequences": 64},
        parallel={"tensor": 2},
        workload={"concurrency": 8, "prompt_tokens": 1024, "output_tokens": 256},
        batching={"max_delay_ms": 2.5, "preferred": [8, 16, 128]},
        autoscale={
            "gpu_utilisation_up": 0.7,
            "queue_ms_up": 200,
            "idle_s_down": 120,
            "step_up": 2,
            "step_down": 1,
        },
    ),
    "vllm_fp8": question(
        "serve",
        "vllm",
        cards=4,
        serving={"weights": "fp8", "cuda_graphs": False, "prefix_caching": False, "batched_tokens": 4096},
        parallel={"tensor": 2, "pipeline": 2},
    ),
    "vllm_awq": question(
        "serve",
        "vllm",
        cards=1,
        gpu="l40s-48gb",
        serving={"weights": "awq4", "kv_cache": "fp16", "block_size": 32},
    ),
    "sglang": question("serve", "sglang", cards=2, serving={"max_model_len": 8192}, parallel={"tensor": 2}),
    "llama_cpp": question(
        "serve", "llama_cpp", cards=1, serving={"weights": "q4_k_m", "max_model_len": 8192}
    ),
}


@cache
def planned(name: str) -> Plan:
    """The plan of a case."""
    return planned_document(CASES[name])


def planned_document(document: Document) -> Plan:
    scenario, issues = parse_scenario(document)
    assert scenario is not None, issues
    return plan(scenario, load_tables())
