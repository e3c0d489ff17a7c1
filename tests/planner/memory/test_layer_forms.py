"""Bytes that one layer keeps, against the closed forms read off traces of the Hugging Face classes."""

from typing import Any

import pytest

from planner.ledger import Entry, Phase
from tests.planner.training import cases


def saved(ledger_entries: tuple[Entry, ...], name: str = "saved_activations") -> int:
    return sum(e.bytes for e in ledger_entries if e.name == name and Phase.FORWARD in e.phases)


def kept(config: dict[str, Any], **blocks: Any) -> int:
    return saved(cases.ledger(config, **blocks).entries)


LAYER_NAMES = ("saved_activations", "attention_scores", "dropout_masks", "adapter_dropout_masks")


def kept_by_a_layer(config: dict[str, Any], layers: str = "num_hidden_layers", **blocks: Any) -> int:
    """What the last of three layers keeps, masks and scores included."""
    two, three = (cases.ledger({**config, layers: number}, **blocks).entries for number in (2, 3))
    return sum(saved(three, name) - saved(two, name) for name in LAYER_NAMES)


SHAPES = (
    (cases.LLAMA_1B, 16, 2048, 2048, 512, 8192, 32),
    (cases.LLAMA_8B, 32, 4096, 4096, 1024, 14336, 32),
    (cases.LLAMA_70B, 80, 8192, 8192, 1024, 28672, 64),
)


@pytest.mark.parametrize(("config", "layers", "h", "q", "k", "i", "n"), SHAPES)
@pytest.mark.parametrize("batch", [1, 3])
def test_llama_bf16_with_flash_attention(
    config: dict[str, Any], layers: int, h: int, q: int, k: int, i: int, n: int, batch: int
) -> None:
    t = batch * 512
    got = kept(config, training={"micro_batch": batch, "sequence_length": 512})
    assert got == layers * t * (16 * h + 4 * q + 4 * k + 8 * i + 4 * n + 8)


@pytest.mark.parametrize(("config", "layers", "h", "q", "k", "i", "n"), SHAPES)
def test_llama_fp32_under_autocast(
    config: dict[str, Any], layers: int, h: int, q: int, k: int, i: int, n: int
) -> None:
    precision = {"parameters": "fp32", "compute": "bf16", "autocast": True}
    found = cases.ledger(config, training={"sequence_length": 512, "precision": precision})
    assert saved(found.entries) == layers * 512 * (26 * h + 8 * i + 4 * q + 8 * k + 4 * n + 8)
    casts = saved(found.entries, "autocast_weights")
    assert casts == layers * 2 * (2 * h * q + 2 * h * k + 3 * h * i)


FP32 = {"precision": {"parameters": "fp32", "compute": "fp32"}}


def test_llama_pure_fp32_in_units_of_the_stream() -> None:
    """Up to transformers 4.53 keys and values are repeated, and the memory-efficient kernel runs."""
    old = {"name": "generic", "version": "4.53.0"}
    got = kept(cases.LLAMA_8B, runtime=old, training={"sequence_length": 1024, **FP32})
    assert got / (32 * 1024 * 4096) == pytest.approx(98.03, abs=0.005)


def test_llama_pure_fp32_has_no_fused_kernel_for_grouped_queries() -> None:
    """Since 4.54 sdpa groups them, which in fp32 only its composed form can: as much as eager attention."""
    fused, eager = (
        kept_by_a_layer(cases.LLAMA_8B, training={"sequence_length": 1024, "attention": name, **FP32})
        for name in ("sdpa", "eager")
    )
    assert fused == eager
    assert (
        kept_by_a_layer(cases.LLAMA_8B, training={"sequence_length": 1024, "attention": "sdpa"}) < eager / 2
    )


def test_llama_eager_attention_in_units_of_the_stream() -> None:
    training = {"sequence_length": 1024, "attention": "eager"}
    found = cases.ledger(cases.LLAMA_8B, training=training).entries
    total = saved(found) + saved(found, "attention_scores")
    assert total / (32 * 1024 * 4096) == pytest.approx(101.0, abs=0.01)


def test_full_checkpointing_stores_one_input_a_layer() -> None:
    plain = cases.ledger(cases.LLAMA_8B, training={"sequence_length": 512, "checkpointing": "full"})
    assert saved(plain.entries, "checkpointed_inputs") == 32 * 2 * 512 * 4096
    precision = {"parameters": "fp32", "compute": "bf16", "autocast": True}
    cast = cases.ledger(
        cases.LLAMA_8B, training={"sequence_length": 512, "checkpointing": "full", "precision": precision}
    )
    assert saved(cast.entries, "checkpointed_inputs") == 32 * 4 * 512 * 4096


def test_every_kth_layer_stores_fewer_inputs_and_computes_more_again() -> None:
    found = cases.ledger(
        cases.LLAMA_8B, training={"sequence_length": 512, "checkpointing": "every_k", "checkpoint_every": 5}
    )
    assert saved(found.entries, "checkpointed_inputs") == 7 * 2 * 512 * 4096


def test_lora_on_every_matrix_keeps_an_fp32_copy_of_each_input() -> None:
    adapter = {"method": "lora", "rank": 16, "targets": "all_linear", "dtype": "fp32", "dropout": 0.0}
    got = kept_by_a_layer(cases.LLAMA_8B, task="lora", adapter=adapter, training={"sequence_length": 1024})
    assert got / (1024 * 4096) == pytest.approx(72.14, abs=0.005)


def test_lora_dropout_on_a_gpu_keeps_its_output_and_a_byte_of_mask() -> None:
    """A trace without storage has a four-byte mask (50.05 units); CUDA's dropout makes a one-byte one."""
    adapter = {"method": "lora", "rank": 8, "targets": ["q_proj", "v_proj"], "dtype": "fp32", "dropout": 0.05}
    got = kept_by_a_layer(cases.LLAMA_8B, task="lora", adapter=adapter, training={"sequence_length": 1024})
    assert got / (1024 * 4096) == pytest.approx(50.05 - 2 * 3, abs=0.005)


def test_gpt2_bf16_with_flash_attention() -> None:
    got = kept_by_a_layer(cases.GPT2, "n_layer", training={"sequence_length": 512})
    assert got == 512 * (62 * 768 + 4 * 12 + 16)


def test_gpt2_fp32_under_autocast() -> None:
    precision = {"parameters": "fp32", "compute": "bf16", "autocast": True}
    training = {"sequence_length": 512, "precision": precision}
    found = cases.ledger(cases.GPT2, training=training).entries
    assert kept_by_a_layer(cases.GPT2, "n_layer", training=training) == 512 * (90 * 768 + 4 * 12 + 16)
    assert saved(found, "autocast_weights") == 12 * 24 * 768**2


def test_gpt2_fp32_with_eager_attention_and_dropout() -> None:
    """One sequence: query, key and value are views of the fused output, and the cache copies two of them."""
    training = {
        "sequence_length": 256,
        "attention": "eager",
        "precision": {"parameters": "fp32", "compute": "fp32"},
    }
    got = kept_by_a_layer(cases.GPT2, "n_layer", training=training)
    assert got == 256 * (122 * 768 + 9 * 12 * 256 + 16)
    two = {**training, "micro_batch": 2}
    assert kept_by_a_layer(cases.GPT2, "n_layer", training=two) == 512 * (114 * 768 + 9 * 12 * 256 + 16)


def test_a_dropped_output_costs_less_than_a_kept_one() -> None:
    """Kept outputs add the 16-bit logits: 14 bytes a token and entry, 12 without (from transformers 4.50)."""
    tokens_times_vocab = 512 * 128256
    chain = {"log_softmax", "loss_gradients", "logits", "logits_fp32"}
    for runtime, size in (({"name": "generic"}, 14), ({"name": "hf_trainer", "version": "4.56.0"}, 12)):
        training = {
            "sequence_length": 512,
            "precision": {"parameters": "bf16", "autocast": False},
            "checkpointing": "full",
        }
        found = cases.ledger(cases.LLAMA_8B, runtime=runtime, training=training)
        assert sum(e.bytes for e in found.alive(Phase.LOSS) if e.name in chain) == size * tokens_times_vocab


@pytest.mark.parametrize(("version", "size"), [("4.45.2", 12), ("4.48.1", 14), ("4.50.0", 12)])
def test_the_loss_chain_of_each_transformers_generation(version: str, size: int) -> None:
    chain = {"log_softmax", "loss_gradients", "logits", "logits_fp32"}
    runtime = {"name": "hf_trainer", "version": version}
    found = cases.ledger(cases.LLAMA_8B, runtime=runtime, training={"sequence_length": 512})
    assert sum(e.bytes for e in found.alive(Phase.LOSS) if e.name in chain) == size * 512 * 128256


def test_korthikanti_constants_come_out_of_the_megatron_form() -> None:
    """Multi-head attention, a plain MLP of width 4h, layer norm, dropout: 34*s*b*h and 5*a*s*s*b a layer."""
    config = {
        "model_type": "megatron_gpt",
        "hidden_size": 1024,
        "num_hidden_layers": 4,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "intermediate_size": 4096,
        "vocab_size": 4096,
        "norm": "layer_norm",
        "gated_mlp": False,
        "add_bias_linear": True,
        "hidden_act": "gelu",
        "position_embedding": "learned",
        "max_position_embeddings": 1024,
        "tie_word_embeddings": True,
    }
    training = {"sequence_length": 256, "micro_batch": 2, "attention": "eager", "dropout": 0.1}
    t = 512
    for tensor, sequence, expected in (
        (1, False, 34 * 1024),
        (4, False, (10 + 24 / 4) * 1024),
        (4, True, 34 / 4 * 1024),
    ):
        found = cases.ledger(
            config,
            devices=tensor,
            runtime={"name": "megatron_lm"},
            training=training,
            parallel={"tensor": tensor, "sequence": sequence},
        ).entries
        statistics = 2 * 8
        assert saved(found) == 4 * t * (expected + statistics)
        assert saved(found, "attention_scores") == 4 * 5 * 2 * (16 // tensor) * 256**2
    full = {**training, "checkpointing": "full"}
    found = cases.ledger(config, runtime={"name": "megatron_lm"}, training=full).entries
    assert saved(found, "checkpointed_inputs") == 4 * 2 * t * 1024


MEGATRON_T5 = {
    "model_type": "megatron_t5",
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_decoder_layers": 12,
    "num_attention_heads": 12,
    "head_dim": 64,
    "intermediate_size": 3072,
    "vocab_size": 29184,
    "max_position_embeddings": 512,
    "position_embedding": "learned",
    "norm": "layer_norm",
    "gated_mlp": False,
    "add_bias_linear": True,
    "tie_word_embeddings": True,
}


def test_cross_attention_scores_every_target_token_against_every_source_token() -> None:
    training = {
        "micro_batch": 4,
        "sequence_length": 512,
        "decoder_sequence_length": 128,
        "attention": "eager",
    }
    runtime = {"name": "megatron_lm"}
    found = cases.ledger(MEGATRON_T5, runtime=runtime, training=training)
    scores = 12 * 5 * 4 * 12 * (512 * 512 + 128 * 128 + 128 * 512)
    assert saved(found.entries, "attention_scores") == scores


@pytest.mark.parametrize(("autocast", "adapter_bytes"), [(False, 4), (True, 2)])
def test_dora_keeps_both_outputs_that_its_scale_multiplies(autocast: bool, adapter_bytes: int) -> None:
    training = {"sequence_length": 512, "precision": {"parameters": "bf16", "autocast": autocast}}

    def of(method: str) -> int:
        adapter = {"method": method, "targets": ["q_proj", "v_proj", "down_proj"]}
        return kept_by_a_layer(cases.LLAMA_8B, task="lora", adapter=adapter, training=training)

    assert of("dora") - of("lora") == 512 * (4096 + 1024 + 4096) * (2 + adapter_bytes)
