"""FLUX.2's transformer against the parameter counts of published fine-tunes."""

from collections.abc import Mapping

import pytest

from planner.memory.inventory import Division
from planner.memory.trainable import adapter_tensors
from planner.model import UnknownArchitecture, linears, model_from_config
from planner.scenario import Adapter
from tests.planner.training import cases

KLEIN: Mapping[str, object] = {
    "model_type": "flux2",
    "hidden_size": 3072,
    "num_layers": 5,
    "num_single_layers": 20,
    "num_attention_heads": 24,
    "attention_head_dim": 128,
    "joint_attention_dim": 7680,
    "in_channels": 128,
    "mlp_ratio": 3.0,
    "timestep_guidance_channels": 256,
    "guidance_embeds": False,
}
TARGETS = (
    *("add_k_proj", "add_q_proj", "add_v_proj", "linear_in", "linear_out", "to_add_out"),
    *("to_k", "to_out.0", "to_q", "to_qkv_mlp_proj", "to_v"),
)


def test_klein_has_as_many_parameters_as_a_full_fine_tune_trains() -> None:
    spec = model_from_config(KLEIN)
    assert spec.params_total == 3_875_544_576
    assert spec.num_layers == 25


def test_the_larger_one_has_as_many_as_its_class() -> None:
    """FLUX.2-dev in the catalogue, counted from the class on the meta device."""
    dev = {
        **KLEIN, "num_layers": 8, "num_single_layers": 48, "num_attention_heads": 48, "joint_attention_dim": 15360,
        "guidance_embeds": True,
    }  # fmt: skip
    assert model_from_config(dev).params_total == 32_223_281_152


@pytest.mark.parametrize(
    ("method", "rank", "trained"),
    [("lora", 32, 38_338_560), ("lora", 64, 76_677_120), ("dora", 64, 77_568_000)],
)
def test_adapters_of_the_published_runs(method: str, rank: int, trained: int) -> None:
    adapter = Adapter.model_validate({"method": method, "rank": rank, "targets": TARGETS})
    _, model, shares = cases.shares(KLEIN, task="lora", adapter={"method": method})
    assert sum(t.params for t in adapter_tensors(shares[0], model, adapter, Division())) == trained


def test_text_and_image_have_matrices_of_their_own() -> None:
    names = [linear.name for index, linear in linears(model_from_config(KLEIN)) if index == 0]
    assert {"attn.to_q", "attn.add_q_proj", "ff.linear_in", "ff_context.linear_in"} <= set(names)


@pytest.mark.parametrize(
    "key", ["num_attention_heads", "num_single_layers", "in_channels", "joint_attention_dim"]
)
def test_a_missing_size_is_named(key: str) -> None:
    with pytest.raises(UnknownArchitecture) as refusal:
        model_from_config({name: value for name, value in KLEIN.items() if name != key})
    assert refusal.value.key == key
