"""The list of answers that are far off, held against the score."""

from functools import cache

from benchmarks.records import load
from benchmarks.serving_misses import FAR_OFF, FIGURES, METRIC, Errors, errors, lines, reasons

MEDIAN = 0.03
MOST_WITHOUT_ANSWER = 0.03
MOST_OF_A_FAMILY = 0.10


@cache
def found() -> Errors:
    return errors()


def test_tokens_from_our_own_budget() -> None:
    median, p90 = found().spread()
    assert median <= MEDIAN
    assert p90 <= FAR_OFF


def test_every_far_answer_is_named_and_no_other() -> None:
    assert found().far_off.keys() == reasons()[METRIC].keys()
    assert found().others.keys() == reasons()[FIGURES].keys()
    assert found().unsupported.keys() == reasons()["unsupported"].keys()


def test_few_records_have_no_answer() -> None:
    records = load(("serving.jsonl", "serving_fits.jsonl"))
    missing = found().unsupported.keys()
    assert len(missing) <= MOST_WITHOUT_ANSWER * len(records)
    for family in {record.family for record in records}:
        ids = [record.id for record in records if record.family == family]
        assert sum(name in missing for name in ids) <= MOST_OF_A_FAMILY * len(ids)


def test_the_table_has_a_reason_for_each() -> None:
    text = "\n".join(lines(found(), reasons()))
    assert "?" not in text
    assert f"{len(found().far_off)} below" in text
