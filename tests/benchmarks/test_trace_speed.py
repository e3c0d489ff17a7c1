"""What the trace benchmark complains about."""

import pytest

from benchmarks.trace_speed import LIMIT_RESIDENT_BYTES, LIMITS_S, Run, question, remarks

GOOD = Run(peak_bytes=100, wall_s=9.0, cpu_s=1.0, resident_bytes=LIMIT_RESIDENT_BYTES)


@pytest.mark.parametrize(
    ("tool", "seen", "words"),
    [
        ("full", GOOD, []),
        (
            "full",
            Run(peak_bytes=100, wall_s=9.0, cpu_s=3.1, resident_bytes=None),
            ["more than 3 CPU seconds"],
        ),
        (
            "instant",
            Run(peak_bytes=101, wall_s=1.0, cpu_s=1.0, resident_bytes=1),
            ["peak differs by 1 bytes"],
        ),
        (
            "instant",
            Run(peak_bytes=100, wall_s=1.0, cpu_s=4.0, resident_bytes=LIMIT_RESIDENT_BYTES + 1),
            ["more than 0.6 GiB resident"],
        ),
        ("mem_tracker", Run(peak_bytes=100, wall_s=1.0, cpu_s=40.0, resident_bytes=10**10), []),
    ],
)
def test_complaints(tool: str, seen: Run, words: list[str]) -> None:
    assert remarks(tool, seen, GOOD, 3.0) == words


@pytest.mark.parametrize("model", LIMITS_S)
def test_every_model_can_be_asked_for(model: str) -> None:
    asked = question(model)
    assert asked["scenario"]["training"]["sequence_length"] in {1024, 4096}
    assert asked["config"]["num_hidden_layers"] >= 12
