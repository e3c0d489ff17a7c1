"""The report file: what is written is read again, and nothing else is."""

import json
from typing import Any

import pytest

from planner.ledger import Category, Layer, Phase
from profiler.report import MAX_REPORT_BYTES, ReportError, dump_report, load_report
from tests.profiler.reports import LOGITS, SAVED, STATES, TWO_PHASES, WEIGHTS, phase, report


def test_a_report_survives_the_file() -> None:
    assert load_report(dump_report(TWO_PHASES).encode()) == TWO_PHASES


def test_a_report_is_a_ledger() -> None:
    ledger = TWO_PHASES.ledger()
    assert ledger.phases == (Phase.REST, Phase.FORWARD)
    for figures in TWO_PHASES.phases:
        assert ledger.phase_bytes(Phase(figures.phase), Layer.ALLOCATED) == figures.peak_allocated_bytes
    assert ledger.by_category(Phase.FORWARD) == {
        Category.WEIGHTS: 1000,
        Category.OPTIMIZER: 2000,
        Category.ACTIVATIONS: 500,
        Category.LOGITS: 300,
    }
    weights = next(entry for entry in ledger.entries if entry.name == "parameters")
    assert weights.phases == {Phase.REST, Phase.FORWARD}


def test_a_kind_that_changes_its_size_is_counted_right() -> None:
    small = SAVED.model_copy(update={"bytes": 5})
    ledger = report(phase("forward", SAVED), phase("loss", small)).ledger()
    assert (ledger.phase_bytes(Phase.FORWARD), ledger.phase_bytes(Phase.LOSS)) == (500, 5)


def test_the_peak_is_the_fullest_phase() -> None:
    peak = TWO_PHASES.peak()
    assert peak is not None
    assert peak.phase == "forward"
    assert TWO_PHASES.figures(Phase.BACKWARD) is None
    assert report().peak() is None


def _changed(*path: str | int, value: object) -> bytes:
    document = json.loads(dump_report(TWO_PHASES))
    node: Any = document
    for step in path[:-1]:
        node = node[step]
    node[path[-1]] = value
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("data", "code", "field"),
    [
        (b"", "not_json", ""),
        (b"{", "not_json", ""),
        (b"[" * 200_000, "not_json", ""),
        (b"[]", "wrong_kind", "kind"),
        (b"{}", "wrong_kind", "kind"),
        (b" " * (MAX_REPORT_BYTES + 1), "too_large", ""),
        (_changed("kind", value="plan"), "wrong_kind", "kind"),
        (_changed("version", value=3), "wrong_version", "version"),
        (_changed("params_total", value=-1), "bad_value", "params_total"),
        (_changed("params_total", value="7"), "bad_value", "params_total"),
        (_changed("surprise", value=1), "bad_value", "surprise"),
        (_changed("phases", 0, "phase", value="lunch"), "bad_value", "phases.0.phase"),
        (
            _changed("phases", 0, "groups", 0, "category", value="x"),
            "bad_value",
            "phases.0.groups.0.category",
        ),
        (
            _changed("phases", 1, "peak_allocated_bytes", value=1.5),
            "bad_value",
            "phases.1.peak_allocated_bytes",
        ),
        (_changed("phases", 0, "time_s", value=float("nan")), "bad_value", ""),
        (_changed("options", "device", value="tpu"), "bad_value", "options.device"),
    ],
)
def test_a_file_that_is_no_report_is_refused(data: bytes, code: str, field: str) -> None:
    with pytest.raises(ReportError) as caught:
        load_report(data)
    assert (caught.value.code, caught.value.field) == (code, field)


def test_the_parts_are_frozen() -> None:
    for part in (TWO_PHASES, TWO_PHASES.phases[0], WEIGHTS, STATES, LOGITS):
        with pytest.raises(ValueError, match="frozen"):
            part.bytes = 1  # type: ignore[union-attr, misc]
