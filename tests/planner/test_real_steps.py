"""The training formulas beside steps that were really taken: recorded ones, and one taken now."""

import pytest

from benchmarks.real_steps import NAMES, Recorded, predicted, recorded, run, scenario_of
from hardware_db import load_tables
from planner.estimate import plan
from planner.ledger import TRAINING_PHASES, Phase
from planner.scenario import Scenario
from tests.profiler.scenarios import LLAMA, scenario

CLOSE_FRAC = 0.01
"""What the project promises of every phase."""
EXACT_FRAC = 0.0005
"""What the recorded steps have: what is left are labels, scalars, and the first layer of an adapter's model."""

STEPS = {step.name: step for step in recorded()}
TABLES = load_tables()


def shares(step: Recorded) -> dict[Phase, float]:
    expected = predicted(step.scenario, TABLES)
    return {phase: step.phase_bytes(phase) / expected[phase] - 1 for phase in TRAINING_PHASES}


def test_every_step_of_the_matrix_is_recorded_as_it_would_be_asked_today() -> None:
    assert set(STEPS) == set(NAMES)
    for name, step in STEPS.items():
        assert step.scenario == scenario_of(name)
        assert step.measured_at
        assert all(step.versions[library] for library in ("torch", "transformers"))


@pytest.mark.parametrize("name", NAMES)
def test_every_phase_of_a_recorded_step_equals_the_formulas(name: str) -> None:
    for phase, share in shares(STEPS[name]).items():
        assert abs(share) <= EXACT_FRAC, (phase, share)


@pytest.mark.parametrize("name", NAMES)
def test_the_kinds_of_a_recorded_phase_add_up(name: str) -> None:
    for phase, figures in STEPS[name].phases.items():
        assert sum(figures["kinds"].values()) == figures["bytes"], phase


def test_the_formulas_tell_the_recorded_steps_apart() -> None:
    """A step's figures would not do for another's: each is nearest to its own."""
    expected = {name: predicted(step.scenario, TABLES) for name, step in STEPS.items()}
    for name, step in STEPS.items():
        distances = {
            other: max(abs(step.phase_bytes(p) / found[p] - 1) for p in TRAINING_PHASES)
            for other, found in expected.items()
        }
        assert distances[name] <= min(distances.values()) + EXACT_FRAC


def test_a_step_taken_now_equals_the_formulas() -> None:
    """A small Llama in a child process with PyTorch; its vocabulary is wide, so that the forward pass ends fullest."""
    changes = {"training.checkpointing": "full", "training.attention": "sdpa"}
    asked = scenario(
        LLAMA | {"vocab_size": 4001},
        **changes,
        **{f"training.precision.{name}": "bf16" for name in ("parameters", "compute")},
    )
    answer = plan(Scenario.model_validate(asked), TABLES)
    expected = predicted(asked, TABLES)
    measured: dict[str, int] = {figures.phase: figures.peak_allocated_bytes for figures in run(answer).phases}
    for phase in TRAINING_PHASES:
        assert measured[phase.value] == pytest.approx(expected[phase], rel=CLOSE_FRAC), phase
