"""What is not modelled is named by field, and still gets a plan."""

from dataclasses import replace
from typing import Any

import pytest

from planner.model.spec import Block
from planner.training.gaps import not_modelled
from tests.planner.training import cases

LORA = {"task": "lora"}


@pytest.mark.parametrize(
    ("blocks", "field"),
    [
        ({"runtime": {"name": "generic", "compile": True}}, "runtime.compile"),
        ({"training": {"precision": {"fp8": "rowwise"}}}, "training.precision.fp8"),
        (
            {"runtime": {"name": "litgpt"}, "training": {"checkpointing": "selective_op"}},
            "training.checkpointing",
        ),
        ({"training": {"attention": "transformer_engine_unfused"}}, "training.attention"),
        ({"training": {"alignment": {"method": "dpo"}}}, "training.alignment"),
        ({"training": {"sequence_chunks": 4}}, "training.sequence_chunks"),
        ({**LORA, "adapter": {"method": "prefix", "virtual_tokens": 20}}, "adapter.method"),
        ({**LORA, "adapter": {"method": "boft"}}, "adapter.method"),
    ],
)
def test_a_gap_is_named_and_still_planned(blocks: dict[str, Any], field: str) -> None:
    resolved, model, _ = cases.shares(cases.TINY, **blocks)
    assert field in {name for name, _ in not_modelled(resolved, model)}
    assert cases.ledger(cases.TINY, **blocks).peak()[1] > 0


def test_a_loss_taken_from_the_models_own_code_is_said() -> None:
    blocks: dict[str, Any] = {"devices": 8, "runtime": {"name": "generic"}, "parallel": {"sharding": "fsdp"}}
    for config, expected in ((cases.MPT_1B, True), (cases.LLAMA_1B, False)):
        resolved, model, _ = cases.shares(config, **blocks)
        assert (("training.loss", "loss_of_own_code") in not_modelled(resolved, model)) is expected


@pytest.mark.parametrize("training", [{}, {"checkpointing": "selective_op"}, {"checkpointing": "full"}])
def test_a_plain_job_has_no_gaps(training: dict[str, Any]) -> None:
    resolved, model, _ = cases.shares(cases.LLAMA_8B, training=training)
    assert not_modelled(resolved, model) == []


@pytest.mark.parametrize(
    ("version", "code"),
    [(None, "compile_as_eager"), ("2025-12", "compile_as_eager"), ("2026-03", "compiled_as_one_graph")],
)
def test_which_trainer_a_compiled_model_with_experts_is_counted_in(version: str | None, code: str) -> None:
    runtime = {"name": "torchtitan", "version": version, "compile": True}
    resolved, model, _ = cases.shares(cases.DEEPSEEK, runtime=runtime)
    assert ("runtime.compile", code) in not_modelled(resolved, model)


@pytest.mark.parametrize(
    ("training", "approximate"),
    [({}, False), ({"checkpointing": "full"}, False), ({"loss": "fused_linear"}, True)],
)
def test_an_encoder_is_approximate_only_where_it_is_not_followed(
    training: dict[str, Any], approximate: bool
) -> None:
    blocks = {"training": training, "runtime": {"name": "hf_trainer"}}
    resolved, model, _ = cases.shares(cases.BERT, **blocks)
    codes = {code for _, code in not_modelled(resolved, model)}
    assert ("encoder_activations_approximated" in codes) is approximate
    assert cases.ledger(cases.BERT, **blocks).peak()[1] > 0


@pytest.mark.parametrize(
    ("names", "approximate", "expected"),
    [
        (("pooler", "classifier", "patch_embedding", "audio_frontend"), (), set()),
        (("mtp",), (), {"mtp_not_trained"}),
        (("vision_tower", "projector"), (), {"block_activations_ignored"}),
        ((), ("audio_tower_not_counted",), {"block_activations_ignored"}),
        (("altup",), (), {"beside_activations_ignored"}),
    ],
)
def test_towers_are_said_to_be_left_out_only_where_there_are_some(
    names: tuple[str, ...], approximate: tuple[str, ...], expected: set[str]
) -> None:
    resolved, model, _ = cases.shares(cases.LLAMA_8B)
    blocks = tuple(Block(name=name, params=1) for name in names)
    codes = {
        code for _, code in not_modelled(resolved, replace(model, blocks=blocks, approximate=approximate))
    }
    assert codes - {"approximate_shapes"} == expected
