"""The speed of a plan in the words of measurements."""

from dataclasses import replace

import pytest

from planner.throughput.readings import speed_readings
from tests.planner.throughput.cases import TABLES, made, serving, training


def test_a_rate_is_slow_where_its_time_is_long() -> None:
    found = speed_readings(made(training()), TABLES)
    time, rate = found.figures["step_time_s"], found.figures["tokens_per_s_per_gpu"]
    low_s, high_s = found.bands["step_time_s"]
    low, high = found.bands["tokens_per_s_per_gpu"]
    assert low < rate < high
    assert low * high_s == pytest.approx(rate * time)
    assert high * low_s == pytest.approx(rate * time)


def test_a_server_has_four_figures() -> None:
    found = speed_readings(made(serving()), TABLES)
    assert set(found.figures) == {"tpot_s", "ttft_s", "request_latency_s", "output_tokens_per_s"}
    for name, value in found.figures.items():
        low, high = found.bands[name]
        assert low < value < high


def test_without_constants_or_figures_of_the_card_nothing_is_said() -> None:
    bare = replace(
        TABLES, constants={k: v for k, v in TABLES.constants.items() if not k.startswith("speed_")}
    )
    assert speed_readings(made(training()), bare).figures == {}
    assert speed_readings(made(serving(gpu="generic-80gb")), TABLES).figures == {}
