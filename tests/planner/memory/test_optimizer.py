"""Optimizer states by the shapes of the tensors they step."""

from typing import Any

import pytest

from planner.memory.inventory import Tensor
from planner.memory.optimizer import galore_projector, galore_states, is_small, state_8bit_bytes, takes_muon
from tests.planner.training import cases

PARAMS = 8_030_261_248
EMBEDDINGS = 2 * 128256 * 4096
NORMS = 65 * 4096
MATRICES = PARAMS - EMBEDDINGS - NORMS


def states(name: str, **optimizer: object) -> int:
    found = cases.ledger(cases.LLAMA_8B, training={"optimizer": {"name": name, **optimizer}})
    return found.total("optimizer_states", "projections")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("adamw", 2 * 2 * PARAMS),
        ("adam", 2 * 2 * PARAMS),
        ("sgd", 0),
        ("sgd_momentum", 2 * PARAMS),
        ("lion", 2 * PARAMS),
        ("muon", 2 * MATRICES + 2 * 2 * (EMBEDDINGS + NORMS)),
    ],
)
def test_states_in_the_format_of_the_parameters(name: str, expected: int) -> None:
    assert states(name) == expected


def test_states_follow_the_format_given() -> None:
    training = {"precision": {"optimizer": "fp32"}}
    assert cases.ledger(cases.LLAMA_8B, training=training).total("optimizer_states") == 8 * PARAMS


@pytest.mark.parametrize(("name", "moments"), [("adamw_8bit", 2), ("lion_8bit", 1)])
def test_8_bit_states_have_a_maximum_per_256_elements(name: str, moments: int) -> None:
    """Norms of 4096 elements are just large enough to be quantized."""
    assert states(name) == moments * (PARAMS + 4 * PARAMS // 256)


def test_8_bit_optimizers_leave_small_tensors_in_fp32() -> None:
    config = cases.llama(2048, 2, 16, 16, 4096, 1000)
    norms = 5 * 2048
    found = cases.ledger(config, training={"optimizer": {"name": "adamw_8bit"}})
    params = 2 * 1000 * 2048 + 2 * (4 * 2048**2 + 3 * 2048 * 4096)
    assert found.total("optimizer_states") == state_8bit_bytes(params, 2) + 8 * norms
    assert is_small(Tensor(4095, 1, 1, "layers"))
    assert not is_small(Tensor(64, 64, 1, "layers"))


def test_adafactor_keeps_a_row_and_a_column_of_every_matrix() -> None:
    layer = 2 * (4096 + 4096) + 2 * (4096 + 1024) + 3 * (4096 + 14336)
    factored = 32 * layer + 2 * (128256 + 4096)
    assert states("adafactor") == 2 * (factored + NORMS)


def test_galore_projects_the_shorter_side() -> None:
    assert galore_states(11008, 4096, 1024) == 2 * 11008 * 1024
    assert galore_states(4096, 11008, 1024) == 2 * 11008 * 1024
    assert galore_projector(4096, 11008, 1024) == 4096 * 1024
    assert galore_states(64, 64, 1024) == 2 * 64 * 64
    assert states("galore", rank=1024) < states("adamw")


def test_muon_takes_the_matrices_inside_the_layers() -> None:
    assert takes_muon(Tensor(8, 8, 1, "experts"))
    assert not takes_muon(Tensor(8, 8, 1, "embedding"))
    assert not takes_muon(Tensor(8, 1, 1, "layers"))


@pytest.mark.parametrize(
    ("optimizer", "expected"),
    [
        ({}, 2 * PARAMS),
        ({"implementation": "foreach"}, 2 * PARAMS),
        ({"implementation": "single"}, 2 * 2 * 128256 * 4096),
        ({"name": "adafactor", "implementation": "single"}, 2 * (128256 * 4096 + 4096 * 4096)),
        ({"implementation": "fused"}, 0),
        ({"in_backward": True}, 0),
    ],
)
def test_the_step_temporary(optimizer: dict[str, Any], expected: int) -> None:
    found = cases.ledger(cases.LLAMA_8B, training={"optimizer": optimizer})
    assert found.total("step_temporary") == expected


def test_states_are_divided_rounding_up() -> None:
    found = cases.ledger(cases.LLAMA_8B, devices=7, parallel={"sharding": "zero1"})
    assert found.total("optimizer_states") == 2 * 2 * -(-PARAMS // 7)


def test_paged_states_leave_the_device() -> None:
    assert states("adamw_8bit", paged=True) == 0


@pytest.mark.parametrize(("parameters", "made"), [("fp32", 2), ("bf16", 4)])
def test_the_trainers_own_adafactor_works_in_fp32(parameters: str, made: int) -> None:
    """States, the squared gradient and its sum, and of 16-bit parameters copies with the gradient's; of the largest."""
    found = cases.ledger(
        cases.LLAMA_8B,
        runtime={"name": "hf_trainer"},
        training={
            "optimizer": {"name": "adafactor"},
            "precision": {"parameters": parameters, "compute": "bf16", "autocast": True},
        },
    )
    layer = 2 * (4096 + 4096) + 2 * (4096 + 1024) + 3 * (4096 + 14336)
    assert found.total("optimizer_states") == 4 * (32 * layer + 2 * (128256 + 4096) + NORMS)
    assert found.total("step_temporary") == made * 4 * 128256 * 4096
