"""U-Nets: whole steps and passes against traces of diffusers' class, and what a picture's size changes."""

import json
from pathlib import Path
from typing import Any

import pytest

from hardware_db import load_tables
from planner.diffusion.moments import upper_hull
from planner.diffusion.operations import Trains
from planner.diffusion.unet import amount, unet_passes
from planner.diffusion.unet_memory import worked_out
from planner.diffusion.unet_tape import Runs
from planner.estimate import plan
from planner.ledger import Layer, Ledger, Phase
from planner.memory.terms import Terms
from planner.model.from_config import model_from_config
from planner.model.spec import ModelSpec
from planner.plan_types import Plan
from planner.validation import parse_scenario

TRACED = json.loads((Path(__file__).parent / "unet_steps.json").read_text(encoding="utf-8"))
TEXT = 77
IN_CI = {
    "sd15-lora-kept-bf16-sdpa",
    "sd15-full-checkpointed-amp-sdpa",
    "sd15-lora-checkpointed-bf16-eager",
    "sd21-full-kept-bf16-sdpa",
    "sdxl-lora-checkpointed-bf16-sdpa",
    "tiny-full-checkpointed-bf16-sdpa",
}
SDXL = "stabilityai/stable-diffusion-xl-base-1.0"
TRAIN: dict[str, Any] = {
    "version": 1,
    "task": "lora",
    "model": {"id": SDXL},
    "hardware": {"devices": [{"gpu": "rtx-4090-24gb"}]},
    "runtime": {"name": "generic"},
    "training": {"micro_batch": 1, "sequence_length": 128 * 128, "checkpointing": "full"},
    "adapter": {"rank": 16, "targets": ["to_q", "to_k", "to_v", "to_out.0"]},
}
SERVE: dict[str, Any] = {
    "version": 1,
    "task": "serve",
    "model": {"id": SDXL},
    "hardware": {"devices": [{"gpu": "rtx-4090-24gb"}]},
    "runtime": {"name": "transformers"},
    "serving": {"max_model_len": 128 * 128},
    "workload": {"concurrency": 1},
}


def _planned(document: dict[str, Any]) -> Plan:
    scenario, issues = parse_scenario(document)
    assert scenario is not None, issues
    return plan(scenario, load_tables())


def _allocated(ledger: Ledger, phase: Phase) -> int:
    return sum(
        one.bytes
        for one in ledger.entries
        if phase in one.phases and one.layer is Layer.ALLOCATED and one.name != "cublas_workspaces"
    )


STEPS = [
    pytest.param(row, id=row["name"], marks=() if row["name"] in IN_CI else pytest.mark.long)
    for row in TRACED["rows"]
]


@pytest.mark.parametrize("row", STEPS)
def test_the_peak_of_a_step_is_the_traced_one(row: dict[str, Any]) -> None:
    ledger = _planned(row["scenario"]).worst.ledger
    ours = {
        "forward": _allocated(ledger, Phase.FORWARD),
        "backward": _allocated(ledger, Phase.BACKWARD),
        "step": _allocated(ledger, Phase.OPTIMIZER_STEP),
    }
    small = row["name"].startswith("tiny")
    for phase, found in ours.items():
        assert found / 1e9 == pytest.approx(row["phases_gb"][phase], rel=0.03 if small else 0.003)


def test_what_runs_in_ci_is_traced() -> None:
    assert {row["name"] for row in TRACED["rows"]} >= IN_CI


def _bytes(terms: Terms, cells: int, batch: int) -> float:
    return worked_out(terms, cells, TEXT, batch).bytes


@pytest.mark.parametrize("row", TRACED["plain"], ids=lambda row: row["name"])
def test_a_pass_without_gradients_is_the_traced_one(row: dict[str, Any]) -> None:
    model = model_from_config(row["config"])
    assert model.unet is not None
    runs = Runs(compute_bytes=2, given_bytes=2, eager=row["attention"] == "eager", upcasts=model.unet.upcasts)
    found = unet_passes(model.unet, model.layers, runs).plain
    most = max(_bytes(moment.terms, row["cells"], row["batch"]) for moment in found)
    assert most == pytest.approx(row["peak_bytes"], rel=0.001)


def _small(**changes: object) -> ModelSpec:
    config: dict[str, object] = {
        "_class_name": "UNet2DConditionModel",
        "block_out_channels": [32, 64],
        "cross_attention_dim": 48,
        "attention_head_dim": [2, 4],
        "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D"],
        "up_block_types": ["CrossAttnUpBlock2D", "UpBlock2D"],
        "layers_per_block": 1,
    }
    return model_from_config(config | changes)


FULL = Runs(compute_bytes=2, given_bytes=2, trains=Trains(full=True))


def test_gradients_of_all_but_the_time_embedding_come_with_the_operations() -> None:
    model = _small()
    assert model.unet is not None
    come = max(moment.come for moment in unet_passes(model.unet, model.layers, FULL).backward)
    time = next(block.params for block in model.blocks if block.name == "timestep_embedding")
    assert come == model.params_total - time


@pytest.mark.parametrize("eager", [False, True])
def test_what_comes_last_in_the_forward_pass_is_what_is_kept(*, eager: bool) -> None:
    model = _small()
    assert model.unet is not None
    runs = Runs(compute_bytes=2, given_bytes=2, eager=eager, trains=Trains(full=True))
    found = unet_passes(model.unet, model.layers, runs)
    for cells in (1, 16, 100, 256, 4_096, 10**6):
        kept = _bytes(found.kept, cells, 1)
        assert 0 < kept <= max(_bytes(moment.terms, cells, 1) for moment in found.forward)


def test_the_way_down_is_kept_for_the_way_up() -> None:
    """Without gradients too: at the turn, what every block on the way down left is still there."""
    model = _small(layers_per_block=3)
    assert model.unet is not None
    eager = Runs(compute_bytes=2, given_bytes=2, eager=True)
    plain = unet_passes(model.unet, model.layers, eager).plain
    at_scores = [moment.terms for moment in plain if "s1" in moment.terms]
    assert at_scores
    assert all(terms["0"] >= 2 * 32 * (1 + 3) for terms in at_scores)


def test_checkpointing_keeps_less_and_computes_again() -> None:
    model = _small()
    assert model.unet is not None
    again = Runs(compute_bytes=2, given_bytes=2, checkpointed=True, trains=Trains(full=True))
    whole, less = (unet_passes(model.unet, model.layers, runs) for runs in (FULL, again))
    assert _bytes(less.kept, 1_024, 1) < _bytes(whole.kept, 1_024, 1) / 2
    assert any(moment.again for moment in less.backward)
    assert not any(moment.again for moment in whole.backward)


def test_sides_that_are_odd_are_rounded_up() -> None:
    assert [amount(str(level), 25, TEXT) for level in range(3)] == [25, 9, 4]
    assert amount("1", 32, TEXT) == 8


def test_the_hull_has_the_fullest_moment_for_any_bytes_of_a_gradient() -> None:
    points = [(10.0, 0), (9.0, 1), (8.5, 2), (4.0, 4), (1.0, 5), (1.0, 1)]
    hull = upper_hull(points)
    for weight in (0, 0.3, 0.7, 1, 2, 2.9, 4, 100):
        best = max(range(len(points)), key=lambda index: points[index][0] + weight * points[index][1])
        value = points[best][0] + weight * points[best][1]
        assert value == max(points[index][0] + weight * points[index][1] for index in hull)
    assert 5 not in hull


def test_sdxl_is_planned_by_component() -> None:
    ledger = _planned(SERVE).worst.ledger
    weights = sum(one.bytes for one in ledger.entries if one.name.endswith("_weights"))
    assert weights == 2 * (123_060_480 + 694_659_840 + 83_653_863)
    assert ledger.total("image_decoding") == 3 * 256 * 1024 * 1024 * 2
    working = next(one for one in ledger.entries if one.name == "block_working")
    assert dict(working.symbols)["b"] == 2


def test_sdxls_vae_is_fp32_in_training_and_beside_fp16() -> None:
    """As diffusers' scripts and `StableDiffusionXLPipeline.upcast_vae` have it (`force_upcast`)."""
    half = _planned({**SERVE, "serving": {**SERVE["serving"], "weights": "fp16"}}).worst.ledger
    assert half.total("image_decoding") == 3 * 256 * 1024 * 1024 * 4
    assert half.total("vae_weights") == 4 * 83_653_863
    trained = _planned(TRAIN).worst.ledger
    assert trained.total("vae_weights") == 4 * 83_653_863
    other = _planned({**TRAIN, "model": {"id": "stabilityai/stable-diffusion-2-1"}}).worst.ledger
    assert other.total("vae_weights") == 2 * 83_653_863


def test_lora_on_attention_has_the_parameters_that_peft_counts() -> None:
    assert _planned(TRAIN).trainable_params == 23_224_320


def test_all_linear_leaves_convolutions_out() -> None:
    answer = _planned({**TRAIN, "adapter": {"rank": 4, "targets": "all_linear"}})
    names = {x.name for layer in answer.model.layers for x in layer.linears if not x.convolution}
    assert {"to_q", "proj_in", "time_emb_proj"} <= {name.rpartition(".")[2] for name in names}
    assert "conv1" not in names
    assert answer.trainable_params is not None
    assert answer.trainable_params < 50_000_000


def test_a_larger_picture_never_needs_less() -> None:
    sizes = [
        _planned(
            {**TRAIN, "training": {**TRAIN["training"], "sequence_length": side * side}}
        ).worst.peak_bytes
        for side in (32, 64, 65, 96, 128, 256)
    ]
    assert sizes == sorted(sizes)


@pytest.mark.parametrize(
    "change",
    [
        {"parallel": {"sharding": "fsdp"}},
        {"parallel": {"sharding": "zero2"}},
        {"parallel": {"sharding": "zero3", "offload": {"optimizer": "cpu"}}},
        {"training": {**TRAIN["training"], "gradient_accumulation": 4}},
        {"training": {**TRAIN["training"], "activation_offload": True}},
        {"adapter": {"method": "dora", "rank": 8, "targets": "all_linear"}},
        {"adapter": {"rank": 8, "dropout": 0.1, "targets": ["to_q"]}},
        {"task": "qlora", "adapter": {"rank": 8, "base": "nf4", "targets": ["to_q"]}},
        {"training": {**TRAIN["training"], "checkpointing": "selective_op"}},
    ],
)
def test_other_techniques_have_an_answer(change: dict[str, Any]) -> None:
    cards = {"devices": [{"gpu": "rtx-4090-24gb", "count": 2}]} if "parallel" in change else TRAIN["hardware"]
    answer = _planned({**TRAIN, "hardware": cards, **change})
    assert answer.worst.peak_bytes > 2 * 2_567_463_684 / (
        4 if "task" in change or "parallel" in change else 1
    )


@pytest.mark.parametrize("model_id", [SDXL, "black-forest-labs/FLUX.1-dev", "genmo/mochi-1-preview"])
def test_adapters_are_on_the_attention_unless_told_otherwise(model_id: str) -> None:
    asked = {**TRAIN, "model": {"id": model_id}}
    unsaid = _planned({**asked, "adapter": {"rank": 16}})
    assert unsaid.devices == _planned({**asked, "adapter": TRAIN["adapter"]}).devices
    assert unsaid.trainable_params > 0
