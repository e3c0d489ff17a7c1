"""Megatron's selective recomputation: what each module's name leaves of a layer, by hand count."""

from typing import Any

import pytest

from planner.ledger import Phase
from planner.memory.megatron_selective import MODULES, weights_again
from planner.model.from_config import model_from_config
from planner.training.gaps import not_modelled
from tests.planner.training import cases

TOKENS = 512
H, Q, V, LATENT, EXPERT = 2048, 16 * 192, 16 * 128, 512, 1408
SHARED, DENSE = 2 * EXPERT, 10944
LATENT_MOE = {
    "model_type": "deepseek_v3",
    "hidden_size": H,
    "num_hidden_layers": 3,
    "first_k_dense_replace": 1,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "q_lora_rank": None,
    "kv_lora_rank": LATENT,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "intermediate_size": DENSE,
    "moe_intermediate_size": EXPERT,
    "n_routed_experts": 64,
    "num_experts_per_tok": 6,
    "n_shared_experts": 2,
    "n_group": 1,
    "topk_group": 1,
    "vocab_size": 4096,
    "tie_word_embeddings": False,
}


def kept(config: dict[str, Any], modules: list[str] | None, kind: str = "selective_op") -> int:
    """Bytes that all layers keep until their backward pass."""
    training = {"sequence_length": TOKENS, "checkpointing": kind, "checkpoint_modules": modules}
    entries = cases.ledger(config, runtime={"name": "megatron_lm"}, training=training).entries
    return sum(e.bytes for e in entries if e.name == "saved_activations" and Phase.FORWARD in e.phases)


UP_PROJECTED = 3 * 2 * (Q + Q + V + LATENT)
IN_EXPERTS = 2 * (8 * 64 + 8 * 6 + 6 * (4 * H + 6 * EXPERT))
IN_SHARED = 2 * 6 * SHARED


@pytest.mark.parametrize(
    ("modules", "less_per_token"),
    [
        (None, 3 * 4 * 16),
        (["core_attn"], 3 * 4 * 16),
        (["moe_act"], 2 * 6 * 2 * EXPERT),
        (["layernorm"], 3 * 2 * H + 2 * 2 * H),
        (["mla_up_proj"], UP_PROJECTED),
        (["mlp"], 2 * H + 4 + 6 * DENSE),
        (["moe"], IN_EXPERTS + IN_SHARED),
        (["moe", "moe_act", "shared_experts"], IN_EXPERTS + IN_SHARED),
        (["shared_experts"], IN_SHARED),
        (["moe_act", "mla_up_proj"], 2 * 6 * 2 * EXPERT + UP_PROJECTED),
    ],
)
def test_a_module_leaves_out_what_lies_inside_it(modules: list[str] | None, less_per_token: int) -> None:
    assert kept(LATENT_MOE, None, "none") - kept(LATENT_MOE, modules) == TOKENS * less_per_token


def test_a_module_that_a_model_lacks_changes_nothing() -> None:
    assert kept(cases.LLAMA_1B, ["moe", "moe_act", "mla_up_proj"]) == kept(cases.LLAMA_1B, None, "none")


@pytest.mark.parametrize("modules", [["moe"], ["mlp", "core_attn"], sorted(MODULES)])
def test_the_peak_lies_between_those_of_none_and_full(modules: list[str]) -> None:
    def peak(kind: str, names: list[str] | None = None) -> int:
        training = {"sequence_length": 4096, "checkpointing": kind, "checkpoint_modules": names}
        return cases.ledger(LATENT_MOE, runtime={"name": "megatron_lm"}, training=training).peak()[1]

    assert peak("selective_op", modules) < peak("none")
    assert kept(LATENT_MOE, modules) > kept(LATENT_MOE, None, "full")


def test_only_products_inside_a_checkpoint_are_done_again() -> None:
    layer = model_from_config(LATENT_MOE).layers[-1]
    expert = 3 * H * EXPERT
    assert weights_again(layer, frozenset({"moe_act", "layernorm", "core_attn"})) == (0, 0)
    assert weights_again(layer, frozenset({"moe"})) == (64 * H + 2 * expert, 6 * expert)
    assert weights_again(layer, frozenset({"mla_up_proj"})) == (LATENT * 16 * (128 + 128), 0)


@pytest.mark.parametrize(("modules", "said"), [(["moe_act"], False), (["moe_act", "attention"], True)])
def test_a_name_that_is_not_megatrons_is_said(modules: list[str], *, said: bool) -> None:
    training = {"checkpointing": "selective_op", "checkpoint_modules": modules}
    resolved, model, _ = cases.shares(LATENT_MOE, runtime={"name": "megatron_lm"}, training=training)
    assert (("training.checkpoint_modules", "ignored") in not_modelled(resolved, model)) is said
