"""Which published steps are held against traces, and what is left out by rule."""

import dataclasses

from benchmarks.records import load
from benchmarks.trace_published import CAUSES, METRIC, impossible, wanted
from hardware_db import load_tables
from planner.estimate import plan


def test_every_named_cause_is_of_a_record_that_is_traced() -> None:
    chosen = {record.id for record in wanted(load(("training.jsonl",)))}
    assert CAUSES.keys() <= chosen
    assert sum(name.startswith("litgpt-") for name in chosen) >= 30


def test_less_than_weights_gradients_and_moments_is_impossible() -> None:
    record = next(r for r in load(("training.jsonl",)) if r.id == "litgpt-hub-tiny-llama-full-1gpu")
    assert record.scenario is not None
    answer = plan(record.scenario, load_tables())
    assert not impossible(record, answer)
    assert impossible(dataclasses.replace(record, observed={METRIC: 8_000_000_000}), answer)
