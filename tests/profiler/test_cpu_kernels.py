"""What CPU kernels keep otherwise than CUDA's."""

import copy
from typing import Any

import pytest

from planner.estimate import plan
from planner.ledger import Entry, Phase
from planner.scenario import Scenario
from profiler.compare import as_on_cpu, compare
from profiler.cpu_kernels import ADJUSTMENTS, adjustments, cpu_kernels, on_cpu
from tests.planner.training.cases import TABLES
from tests.profiler.reports import WEIGHTS, phase, report
from tests.profiler.scenarios import GPT2, LLAMA, scenario

BF16 = {"training.precision.parameters": "bf16", "training.precision.compute": "bf16"}
AUTOCAST = {"training.precision.compute": "bf16", "training.precision.autocast": True}
SDPA = {"training.attention": "sdpa"}
LAYERS, TOKENS = 2, 2 * 40


def explained(config: dict[str, Any], **changes: Any) -> dict[tuple[str, str], int]:
    """Bytes of every adjustment of the forward pass, by entry and reason."""
    answer = plan(Scenario.model_validate(scenario(config, **changes)), TABLES)
    kernels = cpu_kernels(answer.resolved, answer.model)
    found: dict[tuple[str, str], int] = {}
    for entry in answer.worst.ledger.alive(Phase.FORWARD):
        for reason, size in adjustments(entry, kernels).items():
            key = entry.name, reason
            found[key] = found.get(key, 0) + size
    return found


def test_a_plain_step_needs_none() -> None:
    assert explained(LLAMA) == explained(GPT2) == explained(LLAMA, **BF16) == {}


def test_masks_are_as_wide_as_what_is_dropped() -> None:
    tensors = TOKENS * 96 * (1 + 2 * LAYERS)
    scores = LAYERS * 2 * 4 * 40**2
    found = explained(GPT2, **{"training.dropout": 0.1})
    assert found == {("dropout_masks", "masks_as_wide_as_tensors"): 3 * (tensors + scores)}


def test_layer_norms_in_16_bit_keep_their_statistics_in_16_bit() -> None:
    assert explained(GPT2, **BF16) == {
        ("saved_activations", "statistics_in_16_bit"): -2 * 4 * LAYERS * TOKENS,
        ("final_norm", "statistics_in_16_bit"): -4 * TOKENS,
    }


def test_autocast_leaves_the_composed_gelu_in_16_bit() -> None:
    found = explained(GPT2, **AUTOCAST)
    assert found == {("saved_activations", "gelu_not_widened"): -6 * LAYERS * TOKENS * 4 * 96}
    assert explained(LLAMA, **AUTOCAST) == {}


def test_the_flash_kernel_takes_fp32_and_grouped_queries() -> None:
    found = explained(LLAMA, **SDPA)
    assert found["attention_scores", "scores_never_made"] == -3 * 2 * 4 * 40**2 * 4
    assert found["saved_activations", "keys_not_repeated"] == 3 * TOKENS * 4 * (4 + 2 * 48 - 2 * 96)
    assert explained(LLAMA | {"num_key_value_heads": 4}, **SDPA) == {}
    assert explained(LLAMA, **SDPA, **BF16) == {}


def test_the_comparison_lists_them_and_has_them_in() -> None:
    asked = scenario(GPT2, **BF16)
    answer = plan(Scenario.model_validate(asked), TABLES)
    measured = report(phase("forward", WEIGHTS)).model_copy(
        update={"scenario": asked, "config": copy.deepcopy(GPT2)}
    )
    part = compare(answer.worst.ledger, measured).phases[0]
    assert {reason for _, _, reason in part.adjusted} == {"statistics_in_16_bit"}
    cpu = as_on_cpu(answer.worst.ledger, cpu_kernels(answer.resolved, answer.model))
    workspaces = answer.worst.ledger.total("cublas_workspaces")
    allocated = sum(e.bytes for e in cpu.alive(Phase.FORWARD) if e.layer == "allocated")
    assert part.total.predicted_bytes == allocated - workspaces


def test_a_report_that_does_not_tell_its_job_is_compared_as_it_is() -> None:
    answer = plan(Scenario.model_validate(scenario(GPT2, **BF16)), TABLES)
    measured = report(phase("forward", WEIGHTS)).model_copy(update={"scenario": {}, "config": {}})
    assert compare(answer.worst.ledger, measured).phases[0].adjusted == ()


@pytest.mark.parametrize("reason", ADJUSTMENTS)
def test_an_entry_of_another_kind_is_left_alone(reason: str) -> None:
    answer = plan(Scenario.model_validate(scenario(GPT2, **BF16)), TABLES)
    kernels = cpu_kernels(answer.resolved, answer.model)
    weights: tuple[Entry, ...] = tuple(e for e in answer.worst.ledger.entries if e.category == "weights")
    assert on_cpu(weights, kernels) == weights
    assert all(reason not in adjustments(entry, kernels) for entry in weights)
