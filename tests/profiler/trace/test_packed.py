"""Packed weights and LitGPT's loop: what they keep, by version, and that published peaks come out."""

from typing import Any

import pytest
import torch
from transformers.pytorch_utils import Conv1D

from planner.scenario import Scenario
from profiler.allocator.settings import AllocatorSettings
from profiler.trace.answer import Answer, answer
from profiler.trace.child.quantized import EightBitLinear, FourBitLinear, GptqLinear, quantize
from profiler.trace.child.session import make_trace
from profiler.trace.documents import Target
from profiler.trace.litgpt_rules import habits_of, places_of, shape_of
from profiler.trace.quantized_rules import FourBit, four_bit
from tests.profiler.scenarios import LLAMA, scenario

KEEPS = four_bit("nf4", (0, 42, 0), weights="bfloat16", compute=None)
DROPS = four_bit("nf4_dq", (0, 43, 3), weights="bfloat16", compute=None)
BF16 = {"parameters": "bf16", "compute": "bf16", "autocast": False}
TINY_LLAMA = {
    "model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 22, "num_attention_heads": 32,
    "num_key_value_heads": 4, "head_dim": 64, "intermediate_size": 5632, "vocab_size": 32000,
    "max_position_embeddings": 2048, "tie_word_embeddings": False,
}  # fmt: skip


def four_bit_linear(rules: FourBit) -> FourBitLinear:
    return FourBitLinear(torch.nn.Linear(256, 128, bias=False, device="meta"), rules)


def litgpt(config: dict[str, Any], **changes: Any) -> Scenario:
    document = scenario(
        config,
        **{
            "runtime.name": "litgpt",
            "runtime.version": "2024-09",
            "training.precision": BF16,
            "training.attention": "sdpa",
            "training.loss": "chunked",
            **changes,
        },
    )
    return Scenario.model_validate(document)


def replayed(asked: Scenario, config: dict[str, Any]) -> Answer:
    trace = make_trace(asked, asked.model_dump(mode="json"), config, Target(compute_capability=(8, 6)))
    return answer(trace, AllocatorSettings())


def test_versions_of_bitsandbytes() -> None:
    assert KEEPS.keeps_input
    assert KEEPS.stored == "float16"
    assert four_bit("nf4", (0, 43, 1), weights="bfloat16", compute=None).keeps_input
    assert not DROPS.keeps_input
    assert DROPS.stored == "bfloat16"


def test_scales_beside_the_packed_weights() -> None:
    sizes = {"float32": 4, "uint8": 1}

    def kept(rules: FourBit) -> int:
        return sum(sizes[dtype] * (shape[0] if shape else 1) for _, shape, dtype in rules.state(4096 * 4096))

    blocks = 4096 * 4096 // 64
    assert kept(KEEPS) == 4 * blocks + 64
    assert kept(DROPS) == blocks + 64 + 4 * blocks // 256 + 1024 + 4


@pytest.mark.parametrize("rules", [KEEPS, DROPS])
def test_the_input_is_kept_on_the_context_until_the_graph_is_gone(rules: FourBit) -> None:
    linear = four_bit_linear(rules)
    x = torch.empty(4, 256, dtype=torch.bfloat16, device="meta", requires_grad=True)
    out = linear(x)
    node = out.grad_fn
    while not hasattr(node, "kept"):
        node = node.next_functions[0][0]
    assert (node.kept is not None) == rules.keeps_input
    out.sum().backward()
    assert (node.kept is not None) == rules.keeps_input
    assert x.grad is not None
    assert x.grad.shape == x.shape


@pytest.mark.parametrize("kind", [GptqLinear, EightBitLinear])
def test_other_packed_linears_give_gradients_in_the_inputs_format(kind: Any) -> None:
    linear = kind(torch.nn.Linear(256, 128, bias=False, device="meta"))
    x = torch.empty(2, 3, 256, dtype=torch.float16, device="meta", requires_grad=True)
    out = linear(x)
    assert out.shape == (2, 3, 128)
    out.sum().backward()
    assert x.grad is not None
    assert (x.grad.shape, x.grad.dtype) == (x.shape, x.dtype)
    stored = sum(t.numel() * t.dtype.itemsize for t in (*linear.parameters(), *linear.buffers()))
    assert stored < 256 * 128 * 2


def test_litgpt_reads_targets_as_its_switches() -> None:
    asked = litgpt(LLAMA, task="lora", adapter={"targets": ["q_proj", "v_proj", "lm_head"], "base": "bf16"})
    assert asked.adapter is not None
    places = places_of(asked.adapter)
    assert places.heads == (True, False, True)
    assert (places.out, places.mlp, places.head) == (False, False, True)
    assert habits_of(litgpt(LLAMA, **{"runtime.version": "2023-10"})).first_batch_longest
    assert not habits_of(asked).stable_embedding
    assert shape_of(LLAMA).fused == (4 + 2 * 2) * 24


@pytest.mark.parametrize(
    ("base", "published_gb"),
    [("bf16", 13.50), ("nf4", 16.24)],
)
def test_litgpts_published_tiny_llama(base: str, published_gb: float) -> None:
    """`config_hub/finetune/README.md`: LoRA 13.50 GB and QLoRA 16.24 GB, packed weights taking more."""
    everywhere = [*"qkvo", "gate", "up", "down"]
    asked = litgpt(
        TINY_LLAMA,
        task="lora" if base == "bf16" else "qlora",
        adapter={
            "method": "lora", "base": base, "rank": 32, "dtype": "bf16", "alpha": 16, "dropout": 0.05,
            "targets": [*(f"{name}_proj" for name in everywhere), "lm_head"],
        },
        **{
            "training.micro_batch": 8,
            "training.sequence_length": 512,
            "training.optimizer": {"name": "adamw", "paged": base == "nf4"},
        },
    )  # fmt: skip
    found = replayed(asked, TINY_LLAMA)
    assert found.peak_allocated_bytes / 1e9 == pytest.approx(published_gb, rel=0.005)
    assert found.phase in {"forward", "loss"}


@pytest.mark.parametrize("base", ["nf4_dq", "gptq4"])
def test_packed_weights_under_transformers(base: str) -> None:
    config = LLAMA | {"hidden_size": 128, "head_dim": 32, "intermediate_size": 256}
    document = scenario(
        config,
        task="qlora",
        adapter={"method": "lora", "base": base, "rank": 4, "dtype": "fp32", "targets": ["q_proj", "v_proj"]},
        **{"training.precision": BF16 | {"autocast": True}, "training.checkpointing": "full"},
    )
    asked = Scenario.model_validate(document)
    trace = make_trace(asked, document, config, Target())
    ops = set(trace.storages.words)
    assert ("uint8" if base == "nf4_dq" else "int32") in ops
    assert trace.params_trainable == 3 * 2 * 4 * 128 + 3 * 4 * (128 + 64)
    assert answer(trace, AllocatorSettings()).peak_allocated_bytes > 0


def test_the_transposed_linears_of_gpt2_are_packed_as_plain_ones() -> None:
    with torch.device("meta"):
        model = torch.nn.Sequential(Conv1D(384, 128), torch.nn.LayerNorm(384))
    bias = model[0].bias
    quantize(model, EightBitLinear, lambda _: True)
    packed = model[0]
    assert isinstance(packed, EightBitLinear)
    assert (packed.in_features, packed.out_features) == (128, 384)
    assert packed.bias is bias
    assert packed.weight.numel() == 128 * 384
    assert isinstance(model[1], torch.nn.LayerNorm)
