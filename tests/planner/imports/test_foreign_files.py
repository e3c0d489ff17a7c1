"""Files as people write them: what becomes of them, and what is said of every key that is not taken over."""

from __future__ import annotations

from typing import Any

import pytest

from planner.imports import REASONS, Imported, import_text
from planner.validation import parse_scenario

BASE = {
    "version": 1,
    "task": "full",
    "model": {"id": "meta-llama/Llama-3.1-8B"},
    "hardware": {"devices": [{"gpu": "h100-sxm-80gb", "count": 8}]},
    "training": {"micro_batch": 3, "sequence_length": 1024},
}

DEEPSPEED_AUTO = """{
  "bf16": {"enabled": "auto"},
  "optimizer": {"type": "AdamW", "params": {"lr": "auto"}},
  "zero_optimization": {
    "stage": 3,
    "offload_optimizer": {"device": "cpu", "pin_memory": true},
    "stage3_prefetch_bucket_size": "auto",
    "reduce_bucket_size": "auto"
  },
  "gradient_accumulation_steps": "auto",
  "train_batch_size": "auto",
  "train_micro_batch_size_per_gpu": "auto"
}"""
AXOLOTL = """
base_model: mistralai/Mistral-7B-v0.1
load_in_4bit: true
adapter: qlora
lora_r: 32
lora_alpha: 16
lora_target_linear: true
sequence_len: 8192
sample_packing: true
micro_batch_size: 2
gradient_accumulation_steps: 4
optimizer: adamw_bnb_8bit
learning_rate: 2e-4
bf16: auto
gradient_checkpointing: true
flash_attention: true
datasets:
  - path: mhenrichsen/alpaca_2k_test
    type: alpaca
"""
LLAMA_FACTORY = """
model_name_or_path: Qwen/Qwen2.5-7B
stage: sft
do_train: true
finetuning_type: lora
lora_rank: 8
lora_target: all
template: qwen
cutoff_len: 2048
per_device_train_batch_size: 1
gradient_accumulation_steps: 8
learning_rate: 1.0e-4
bf16: true
"""
TORCHTUNE = """
model:
  _component_: torchtune.models.llama3_1.lora_llama3_1_8b
  lora_attn_modules: ['q_proj', 'v_proj', 'output_proj']
  apply_lora_to_mlp: True
  lora_rank: 8
  lora_alpha: 16
tokenizer:
  _component_: torchtune.models.llama3.llama3_tokenizer
  path: /tmp/x
  max_seq_len: 4096
dataset: {_component_: torchtune.datasets.alpaca_cleaned_dataset, packed: False}
batch_size: 2
gradient_accumulation_steps: 8
optimizer: {_component_: torch.optim.AdamW, fused: True, lr: 3e-4}
loss: {_component_: torchtune.modules.loss.LinearCrossEntropyLoss}
dtype: bf16
enable_activation_checkpointing: True
"""
MEGATRON = """
GPT_ARGS=(
    --num-layers 24
    --hidden-size 2048
    --num-attention-heads 16
    --seq-length 2048
    --max-position-embeddings 2048
    --vocab-size 50257
)
GPT_ARGS+=(--swiglu --disable-bias-linear)
PARALLEL="--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel"
GPUS=8
torchrun --nproc_per_node $GPUS pretrain_gpt.py \\
    ${GPT_ARGS[@]} $PARALLEL --micro-batch-size 4 --global-batch-size 32 --bf16 \\
    --recompute-activations --use-distributed-optimizer --lr 1e-4
"""
ACCELERATE = """
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
fsdp_config:
  fsdp_sharding_strategy: SHARD_GRAD_OP
  fsdp_offload_params: false
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
mixed_precision: bf16
num_machines: 1
num_processes: 4
"""


def document(text: str, source: str | None = None) -> tuple[dict[str, Any], Imported]:
    """The document, valid, with what was found."""
    found = import_text(text, BASE, source)
    scenario, issues = parse_scenario(found.document)
    assert scenario is not None, issues
    return found.document, found


def reasons(found: Imported) -> dict[str, str]:
    return {remark.key: remark.reason for remark in found.remarks}


def test_deepspeed_with_auto_keeps_what_the_question_has() -> None:
    made, found = document(DEEPSPEED_AUTO)
    assert found.source == "deepspeed"
    assert made["training"]["micro_batch"] == 3
    assert made["parallel"] == {"sharding": "zero3", "offload": {"optimizer": "cpu", "gradients": "cpu"}}
    auto = {remark.key: dict(remark.params)["kept"] for remark in found.remarks if remark.reason == "auto"}
    assert auto["train_micro_batch_size_per_gpu"] == 3
    assert set(auto) == {
        "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "train_batch_size", "bf16.enabled",
    }  # fmt: skip


def test_axolotl() -> None:
    made, found = document(AXOLOTL)
    assert found.source == "axolotl"
    assert (made["task"], made["model"]) == ("qlora", {"id": "mistralai/Mistral-7B-v0.1"})
    assert made["adapter"] == {
        "method": "lora", "base": "nf4_dq", "rank": 32, "alpha": 16, "dropout": 0.0, "targets": "all_linear",
    }  # fmt: skip
    training = made["training"]
    assert (training["micro_batch"], training["gradient_accumulation"]) == (2, 4)
    assert (training["sequence_length"], training["packing"], training["attention"]) == (
        8192,
        "packed",
        "flash",
    )
    assert training["optimizer"] == {"name": "adamw_8bit"}
    assert training["precision"] == {"parameters": "bf16", "compute": "bf16", "autocast": True}
    assert found.trouble == ()


def test_llama_factory_checkpoints_unless_told_not_to() -> None:
    made, found = document(LLAMA_FACTORY)
    assert found.source == "llama_factory"
    assert made["training"]["checkpointing"] == "full"
    assert made["adapter"]["alpha"] == 16
    assert reasons(found)["lora_alpha"] == "default"
    assert found.trouble == ()


def test_torchtune() -> None:
    made, found = document(TORCHTUNE)
    assert found.source == "torchtune"
    assert made["adapter"]["targets"] == ["q_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    assert made["parallel"] == {
        "tensor": 1, "context": 1, "sharding": "fsdp", "reshard_after_forward": True,
    }  # fmt: skip
    assert made["training"]["optimizer"] == {"name": "adamw", "implementation": "fused"}
    assert found.trouble == ()


def test_megatron_with_the_shells_own_variables() -> None:
    made, found = document(MEGATRON)
    assert found.source == "megatron"
    config = made["model"]["config"]
    assert (config["num_hidden_layers"], config["hidden_size"], config["intermediate_size"]) == (
        24,
        2048,
        8192,
    )
    assert (config["gated_mlp"], config["add_bias_linear"]) == (True, False)
    assert config["vocab_size"] == 50432  # a multiple of 128 x 2
    assert made["parallel"]["tensor"] == 2
    assert made["parallel"]["sharding"] == "zero1"
    assert made["training"]["gradient_accumulation"] == 4
    assert made["training"]["checkpointing"] == "selective_attention"
    assert [remark.key for remark in found.trouble] == []


def test_accelerate_counts_its_processes_as_cards() -> None:
    made, found = document(ACCELERATE)
    assert found.source == "accelerate"
    assert made["hardware"]["devices"][0]["count"] == 4
    assert made["parallel"] == {"sharding": "fsdp", "reshard_after_forward": False}
    assert made["model"] == BASE["model"]


@pytest.mark.parametrize(
    "text",
    [
        "TrainingArguments(per_device_train_batch_size=4, bf16=True, optim='paged_adamw_8bit', output_dir=args.out)",
        "args = dict(per_device_train_batch_size=4, bf16=True, optim='paged_adamw_8bit')",
        "{'per_device_train_batch_size': 4, 'bf16': True, 'optim': 'paged_adamw_8bit'}",
        '{"per_device_train_batch_size": 4, "bf16": true, "optim": "paged_adamw_8bit"}',
        "per_device_train_batch_size: 4\nbf16: true\noptim: paged_adamw_8bit\n",
        "torchrun --nproc_per_node 8 train.py --per_device_train_batch_size 4 --bf16 True --optim paged_adamw_8bit",
        "python train.py --per_device_train_batch_size=4 --bf16 --optim=paged_adamw_8bit",
        "accelerate launch --num_processes 8 train.py --per_device_train_batch_size 4 --bf16 --optim paged_adamw_8bit",
    ],
)
def test_training_arguments_in_every_spelling(text: str) -> None:
    made, found = document(text)
    assert found.source == "training_arguments"
    assert made["training"]["micro_batch"] == 4
    assert made["training"]["optimizer"] == {"name": "adamw_8bit", "paged": True}
    assert made["training"]["precision"] == {"compute": "bf16", "autocast": True}
    assert made["hardware"]["devices"][0]["count"] == 8
    assert found.trouble == ()


def test_the_trainers_own_batch_is_said_where_a_file_has_none() -> None:
    made, found = document('{"bf16": true, "gradient_checkpointing": true}')
    assert made["training"]["micro_batch"] == 8
    assert reasons(found)["per_device_train_batch_size"] == "default"


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("vllm serve m/x -tp 4 -pp 2", "hardware.devices.0.count", 8),
        ("vllm serve m/x --max-model-len 32k", "serving.max_model_len", 32_000),
        ("vllm serve m/x --max-model-len 32K", "serving.max_model_len", 32_768),
        (
            "python -m vllm.entrypoints.openai.api_server --model m/x --enforce-eager",
            "serving.cuda_graphs",
            False,
        ),
        ("vllm serve m/x --no-enable-prefix-caching", "serving.prefix_caching", False),
        ("vllm serve m/x --quantization awq_marlin --dtype half", "serving.weights", "awq4"),
        ("vllm serve m/x --dtype auto --kv-cache-dtype auto", "serving.kv_cache", None),
        ('vllm serve m/x --speculative-config \'{"method": "eagle3"}\'', "serving.speculative", "eagle3"),
        (
            "docker run --gpus all --ipc=host vllm/vllm-openai:latest --model m/x --block-size 32",
            "serving.block_size",
            32,
        ),
        ("docker run x vllm serve m/x --data-parallel-size 2 --enable-expert-parallel", "parallel.expert", 2),
    ],
)
def test_vllm(text: str, field: str, value: object) -> None:
    made, found = document(text)
    assert found.source == "vllm"
    assert (made["task"], made["model"]) == ("serve", {"id": "m/x"})
    node: Any = made
    for part in field.split("."):
        node = node[int(part)] if isinstance(node, list) else node.get(part)
    assert node == value


G31 = [
    ('{"zero_optimization": {"stage": 3, "offload_params_path": "/nvme"}}', "nvme_path"),
    ('{"zero_optimization": {"stage": 3}, "offload_params_path": "/nvme"}', "nvme_path"),
    (
        '{"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "offload_buffer_size": 1}}}',
        "buffer_size",
    ),
    ('{"zero_optimization": {"stage": 2, "offload_optimizer_threads": 4}}', "aio.thread_count"),
    (
        '{"zero_optimization": {"stage": 1}, "pipeline": {"micro_batch_size": 4}}',
        "train_micro_batch_size_per_gpu",
    ),
    ('{"zero_optimization": {"stage": 3}, "load_sharded_model": true}', "from_pretrained"),
    ("distributed_type: FSDP\nfsdp_config: {load_sharded_model: true}", "fsdp_cpu_ram_efficient_loading"),
    ("vllm serve m/x --enable-kv-cache-sharing", "--enable-prefix-caching"),
    ("vllm serve m/x --enable_kv_cache_sharing true", "--enable-prefix-caching"),
]


@pytest.mark.parametrize(("text", "real"), G31)
def test_a_key_that_does_nothing_is_named_with_the_real_one(text: str, real: str) -> None:
    """Seed G31."""
    _, found = document(text)
    (remark,) = [remark for remark in found.trouble if remark.reason == "inert"]
    assert real in str(dict(remark.params)["real"])


def test_a_stage_3_key_in_a_stage_2_file_is_named_and_not_followed() -> None:
    """Seed G31."""
    made, found = document(
        '{"zero_optimization": {"stage": 2, "stage3_max_live_parameters": 1e9, "offload_param": {"device": "cpu"}}}'
    )
    named = {remark.key: dict(remark.params) for remark in found.trouble if remark.reason == "stage"}
    assert set(named) == {"zero_optimization.stage3_max_live_parameters", "zero_optimization.offload_param"}
    assert all(params == {"needs": 3, "given": 2} for params in named.values())
    assert "offload" not in made["parallel"]


def test_the_same_keys_in_a_stage_3_file_are_right() -> None:
    made, found = document(
        '{"zero_optimization": {"stage": 3, "stage3_max_live_parameters": 1e9, "offload_param": {"device": "cpu"}}}'
    )
    assert found.trouble == ()
    assert made["parallel"]["offload"] == {"parameters": "cpu"}


@pytest.mark.parametrize(
    ("text", "key", "reason", "params"),
    [
        ('{"zero_optimization": {"stage": 4}}', "zero_optimization.stage", "bad_value", {"allowed": "0, 1, 2, 3"}),
        ('{"zero_optimization": {"stge": 2}}', "zero_optimization.stge", "unknown", {"closest": "stage"}),
        (
            '{"train_batch_size": 100, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4}',
            "train_batch_size", "differs", {"found": 64},
        ),
        ("base_model: m/x\nsequence_len: long", "sequence_len", "bad_value", {"allowed": "integer >= 1"}),
        ("base_model: m/x\nrelora: true", "relora", "not_modelled", {}),
        ("base_model: m/x\ndeepspeed: zero3.json", "deepspeed", "elsewhere", {}),
        ("base_model: m/x\noptimizer: lomo", "optimizer", "bad_value", None),
        ("finetuning_type: full\nbf16: true\nfoo_bar: 1", "foo_bar", "unknown", {"closest": None}),
        ("vllm serve m/x --cpu-offload-gb 10", "--cpu_offload_gb", "not_modelled", {}),
    ],
)  # fmt: skip
def test_what_is_not_taken_over_is_said(
    text: str, key: str, reason: str, params: dict[str, object] | None
) -> None:
    found = import_text(text, BASE)
    (remark,) = [remark for remark in found.trouble if remark.key == key]
    assert remark.reason == reason
    assert tuple(sorted(name for name, _ in remark.params)) == tuple(sorted(REASONS[reason]))
    if params is not None:
        assert dict(remark.params) == params


def test_mixed_cards_keep_their_number() -> None:
    mixed = {
        **BASE,
        "hardware": {"devices": [{"gpu": "a100-sxm-80gb", "count": 2}, {"gpu": "l4-24gb", "count": 1}]},
    }
    found = import_text(ACCELERATE, mixed)
    assert found.document["hardware"] == mixed["hardware"]
    assert [remark.reason for remark in found.trouble] == ["mixed_cards"]


def test_the_question_it_is_read_onto_is_not_changed() -> None:
    before = repr(BASE)
    import_text(AXOLOTL, BASE)
    assert repr(BASE) == before


def test_another_model_takes_its_formats_along() -> None:
    base = {**BASE, "task": "serve", "serving": {"weights": "awq4", "kv_cache": "fp16"}}
    same = import_text("vllm serve meta-llama/Llama-3.1-8B", base).document
    other = import_text("vllm serve m/x", base).document
    assert same["serving"]["weights"] == "awq4"
    assert "weights" not in other["serving"]
