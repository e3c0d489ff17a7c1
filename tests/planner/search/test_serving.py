"""Which machine serves a load: the best of every plan, reasons, the articles' branches."""

from dataclasses import replace

import pytest

from planner.estimate import plan
from planner.plan_types import Verdict
from planner.scenario import Scenario
from planner.search.rigs import owned
from planner.search.serving import serving_search
from planner.search.types import Fails
from planner.throughput.serving_speed import serving_speed
from tests.planner.search.questions import LLAMA_8B, LLAMA_70B, TABLES, machine, question

L4 = machine("l4-24gb", 4, 3.0)
H100 = machine("h100-sxm-80gb", 8, 24.0)
LOAD = {"concurrency": 8, "prompt_tokens": 1024, "output_tokens": 256}


def served(model: str = LLAMA_8B, **more: object) -> Scenario:
    return question(model, "serve", "vllm", training=None, **({"workload": LOAD} | more))


def test_figures_are_those_of_the_plan_that_is_opened() -> None:
    result = serving_search(served(), (L4, H100), TABLES, weights=("fp8",))
    assert len(result.found) == 2
    for found in result.found:
        told = plan(found.choice.scenario, TABLES)
        speed = serving_speed(told, TABLES)
        assert told.verdict is Verdict.FITS
        assert told.worst.peak_bytes == found.peak_bytes
        assert speed.output_tokens_per_s == found.tokens_per_s
        assert found.concurrency >= LOAD["concurrency"]
    assert result.cheapest is result.found[0]
    assert result.cheapest.usd_per_hour == 3.0


def test_each_machine_has_the_number_of_cards_whose_tokens_are_cheapest() -> None:
    result = serving_search(served(), (H100,), TABLES)
    (found,) = result.found
    rates = []
    for devices in (1, 2, 4, 8):
        alone = serving_search(served(), (H100,), TABLES, most_cards=devices)
        rates.append(max((one.tokens_per_s or 0.0 for one in alone.found), default=0.0))
    assert found.tokens_per_s == max(rates)


def test_more_formats_never_make_it_dearer() -> None:
    plain = serving_search(served(LLAMA_70B), (L4, H100), TABLES)
    more = serving_search(served(LLAMA_70B), (L4, H100), TABLES, weights=("fp8", "awq4"))
    assert plain.cheapest is not None
    assert more.cheapest is not None
    assert (more.cheapest.usd_per_hour or 0) <= (plain.cheapest.usd_per_hour or 0)
    assert more.throughput is not None
    assert more.throughput.choice.scenario.serving.weights == "awq4"
    assert more.latency is not None
    assert more.latency.choice.scenario.serving.weights == "fp8"


def test_what_does_not_serve_says_why() -> None:
    small = machine("rtx-3060-12gb", 1, 0.2)
    old = machine("t4-16gb", 1, 0.3)
    result = serving_search(served(LLAMA_70B), (small, old), TABLES)
    reasons = {one.machine.gpu.id: one.reason for one in result.rejected}
    assert reasons == {"rtx-3060-12gb": Fails.MEMORY, "t4-16gb": Fails.LACKS}
    assert all(one.short_bytes for one in result.rejected if one.reason is Fails.MEMORY)


def test_a_load_that_the_cache_cannot_hold_is_refused() -> None:
    crowd = served(workload={"concurrency": 4000, "prompt_tokens": 4096, "output_tokens": 256})
    result = serving_search(crowd, (machine("l40s-48gb", 1, 0.7),), TABLES, accept_tight=True)
    few = serving_search(served(), (machine("l40s-48gb", 1, 0.7),), TABLES, accept_tight=True)
    assert [one.reason for one in result.rejected] == [Fails.MEMORY]
    assert few.found


def test_cards_that_are_there_have_no_price() -> None:
    result = serving_search(served(), owned(TABLES.gpus["l4-24gb"], 2), TABLES)
    assert result.cheapest is None
    assert result.fastest is not None
    assert all(one.usd_per_hour is None for one in result.found)


def test_llama_cpp_lays_layers_over_cards_and_has_no_branch() -> None:
    asked = on_llama_cpp()
    result = serving_search(asked, (machine("rtx-4090-24gb", 2, 1.0),), TABLES)
    assert result.latency is None
    assert all(one.choice.scenario.parallel.tensor == 1 for one in result.found)


def on_llama_cpp() -> Scenario:
    return question(
        LLAMA_8B, "serve", "llama_cpp", training=None, workload={"concurrency": 1},
        serving={"weights": "q4_k_m", "max_model_len": 4096},
    )  # fmt: skip


def test_a_job_that_trains_is_refused() -> None:
    with pytest.raises(ValueError, match="task: full"):
        serving_search(question(), (H100,), TABLES)


def test_prices_per_card_pay_for_the_cards_used() -> None:
    each = replace(H100, usd_per_hour=3.0, per_card=True)
    (found,) = serving_search(served(), (each,), TABLES).found
    assert found.usd_per_hour == 3.0 * found.devices
