"""Adapters: which matrices they find, and what they add."""

from typing import Any, Literal

import pytest

from planner.memory.adapters import head_is_target, layer_sites
from planner.memory.formats import nf4_double_scale_bytes, nf4_scale_bytes
from planner.model import ModelSpec, model_from_config
from planner.model.spec import Linear
from planner.scenario import Adapter
from planner.training.ledgers import trainable_params
from tests.planner.training import cases

NEOX = {
    "model_type": "gpt_neox",
    "hidden_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "intermediate_size": 2048,
    "vocab_size": 1000,
}


def spec(config: dict[str, Any]) -> ModelSpec:
    return model_from_config(config)


def adapted(config: dict[str, Any], targets: tuple[str, ...] | Literal["all_linear"]) -> list[Linear]:
    """Every matrix that gets an adapter, layer by layer, the head last."""
    model, adapter = spec(config), Adapter(targets=targets)
    found = [site for layer in model.layers for site in layer_sites(layer, adapter)]
    return [*found, model.head] if model.head is not None and head_is_target(model, adapter) else found


def names(config: dict[str, Any], *targets: str) -> set[str]:
    return {linear.name for linear in adapted(config, targets)}


def trained(config: dict[str, Any], **adapter: Any) -> int:
    resolved, model, _ = cases.shares(config, task="lora", adapter={"method": "lora", **adapter})
    return trainable_params(resolved, model)


def test_targets_by_name() -> None:
    assert names(cases.TINY, "q_proj", "down_proj") == {"q_proj", "down_proj"}
    assert names(cases.MIXTRAL, "w1") == {"experts.w1"}


def test_all_linear_is_every_matrix_but_the_head() -> None:
    found = adapted(cases.TINY, "all_linear")
    assert len(found) == 4 * 7
    assert "lm_head" not in {linear.name for linear in found}


def test_the_head_by_its_own_name() -> None:
    assert "lm_head" in names(cases.TINY, "q_proj", "lm_head")


def test_a_runtimes_own_names_find_the_models() -> None:
    assert names(cases.TINY, "c_attn") == {"qkv"}
    assert names(cases.TINY, "output_proj") == {"o_proj"}
    fused = adapted(NEOX, ("q_proj",))[0]
    assert (fused.in_features, fused.out_features) == (512, 512)


def test_qwens_first_names() -> None:
    assert names(cases.TINY, "c_attn", "c_proj", "w1", "w2") == {
        "qkv", "o_proj", "down_proj", "up_proj", "gate_proj",
    }  # fmt: skip


def test_lora_is_rank_times_both_sides() -> None:
    assert trained(cases.TINY, rank=4, targets=["q_proj"]) == 4 * 4 * (64 + 64)
    assert trained(cases.TINY, rank=4, targets=["k_proj"]) == 4 * 4 * (64 + 32)
    one = trained(cases.TINY, rank=4, targets=["c_attn"])
    assert one == 4 * 4 * (64 + 64 + 32 + 32)


def test_experts_each_get_an_adapter() -> None:
    assert trained(cases.MIXTRAL, rank=2, targets=["w1"]) == 32 * 8 * 2 * (4096 + 14336)


@pytest.mark.parametrize(
    ("method", "more"), [("lora", 0), ("rslora", 0), ("dora", 4 * 64), ("adalora", 4 * 4)]
)
def test_methods_beside_lora(method: str, more: int) -> None:
    plain = trained(cases.TINY, rank=4, targets=["q_proj"])
    assert trained(cases.TINY, method=method, rank=4, targets=["q_proj"]) == plain + more


def test_ia3_is_one_vector_a_matrix() -> None:
    assert trained(cases.TINY, method="ia3", targets=["k_proj"]) == 4 * 32


def test_prompt_methods() -> None:
    assert trained(cases.TINY, method="prefix", virtual_tokens=5) == 4 * 5 * (32 + 32)
    assert trained(cases.TINY, method="prompt", virtual_tokens=5) == 5 * 64
    assert trained(cases.TINY, method="adaption_prompt", virtual_tokens=10, layers=2) == 2 * (10 * 64 + 4)


def test_saved_modules_are_trained_whole() -> None:
    plain = trained(cases.TINY, rank=4, targets=["q_proj"])
    more = trained(cases.TINY, rank=4, targets=["q_proj"], modules_to_save=["embed_tokens", "lm_head"])
    assert more - plain == 2 * 512 * 64


def test_tensor_parallel_divides_the_side_that_is_cut() -> None:
    adapter = {"method": "lora", "rank": 4, "targets": ["q_proj", "o_proj"], "dtype": "bf16"}
    blocks = {"task": "lora", "adapter": adapter, "runtime": {"name": "torchtune"}}
    whole = cases.ledger(cases.TINY, **blocks).total("adapter_weights")
    cut = cases.ledger(cases.TINY, devices=2, parallel={"tensor": 2}, **blocks).total("adapter_weights")
    assert whole == 2 * 4 * 4 * (64 + 64) * 2
    assert cut == 2 * 4 * 4 * (64 + 32) * 2


def test_block_constants_are_whole_under_sharding() -> None:
    """They lie beside the packed weight, which alone is sharded."""
    blocks = {"task": "qlora", "adapter": {"method": "lora", "base": "nf4_dq"}}
    one = cases.ledger(cases.LLAMA_8B, **blocks)
    four = cases.ledger(cases.LLAMA_8B, devices=4, parallel={"sharding": "fsdp"}, **blocks)
    assert four.total("quantized_weights") == one.total("quantized_weights") / 4
    assert four.total("quantization_constants") == one.total("quantization_constants")


def test_bits_of_nf4() -> None:
    params = 64 * 256 * 1000
    assert nf4_scale_bytes(params) * 8 / params == 0.5
    assert nf4_double_scale_bytes(params) * 8 / params == pytest.approx(0.127, abs=0.0005)
