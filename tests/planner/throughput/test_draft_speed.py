"""What a draft brings."""

import pytest

from planner.plan_types import Plan
from planner.throughput.draft_speed import ACCEPTED, draft_speeds
from planner.throughput.serving_speed import serving_speed
from tests.planner.throughput.cases import TABLES, made, serving

SMALL = {"speculative": "draft", "draft_model": {"id": "meta-llama/Llama-3.2-1B"}}


def served(drafted: int, concurrency: int = 1) -> Plan:
    load = {"concurrency": concurrency, "prompt_tokens": 1024, "output_tokens": 256}
    return made(serving("meta-llama/Llama-3.1-70B", cards=4, load=load, **SMALL, draft_tokens=drafted))  # type: ignore[arg-type]


def test_more_accepted_is_faster_and_one_answer_gains() -> None:
    rows = draft_speeds(served(4), TABLES)
    assert [row.accepted_frac for row in rows] == list(ACCEPTED)
    gains = [row.gain for row in rows]
    assert gains == sorted(gains)
    assert 1 < gains[0] < gains[-1] < 5
    assert rows[-1].tokens == pytest.approx(1 + 0.9 + 0.81 + 0.729 + 0.6561)


def test_a_full_batch_gains_less() -> None:
    one, many = (draft_speeds(served(4, n), TABLES)[2].gain for n in (1, 128))
    assert many < one


def test_the_models_own_step_does_not_read_the_draft() -> None:
    with_draft = serving_speed(served(4), TABLES)
    without = serving_speed(made(serving("meta-llama/Llama-3.1-70B", cards=4)), TABLES)
    assert with_draft.tpot_s == pytest.approx(without.tpot_s, rel=0.02)
    assert with_draft.speculative_left_out


def test_prediction_layers_draft_and_read_the_experts_they_visit() -> None:
    plan = made(
        serving(
            "deepseek-ai/DeepSeek-V3", cards=8, gpu="h200-sxm-141gb", weights="fp8", speculative="mtp", draft_tokens=1,
            load={"concurrency": 1, "prompt_tokens": 1024, "output_tokens": 256},
        )
    )  # fmt: skip
    rows = draft_speeds(plan, TABLES)
    assert 1.3 < rows[-1].gain < 1.9


def test_no_draft_no_rows() -> None:
    assert draft_speeds(made(serving()), TABLES) == ()
    undescribed = made(serving(speculative="eagle3"))
    assert draft_speeds(undescribed, TABLES) == ()
