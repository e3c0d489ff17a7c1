"""Fixes in order: outside the plan, then by verdict, the same job before another, then by time."""

from planner.diagnose.fixes import Effect, Fix, ranked
from planner.plan_types import Verdict

FIXES = tuple(Fix(code=name, change=name) for name in ("lora", "offload", "adam_8bit", "checkpointing"))
OUTSIDE = Fix(code="expandable_segments")


def effect(
    verdict: Verdict, time: float | None, price: float | None = None, *, other: bool = False
) -> Effect:
    return Effect(verdict=verdict, delta_bytes=-1, time_frac=time, price_frac=price, other_job=other)


def order(effects: dict[str, Effect]) -> list[str]:
    return [fix.code for fix in ranked((*FIXES, OUTSIDE), effects)]


def test_the_same_job_comes_before_another_and_less_time_before_more() -> None:
    fits = {
        "lora": effect(Verdict.FITS, -0.3, other=True),
        "offload": effect(Verdict.FITS, 0.8),
        "adam_8bit": effect(Verdict.FITS, 0.0),
        "checkpointing": effect(Verdict.TIGHT, -0.9),
    }
    assert order(fits) == ["expandable_segments", "adam_8bit", "offload", "lora", "checkpointing"]


def test_what_is_not_enough_goes_by_time_for_each_gib() -> None:
    short = {
        "offload": effect(Verdict.DOES_NOT_FIT, 0.2, 0.1),
        "adam_8bit": effect(Verdict.DOES_NOT_FIT, 0.3, 0.01),
    }
    assert order(short) == ["expandable_segments", "adam_8bit", "offload"]


def test_without_times_the_order_is_that_of_the_point() -> None:
    unknown = {name: effect(Verdict.FITS, None) for name in ("offload", "adam_8bit")}
    assert order(unknown) == ["expandable_segments", "offload", "adam_8bit"]
