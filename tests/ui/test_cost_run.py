"""What tokens and whole runs cost on the Cost page."""

from dataclasses import replace
from datetime import date

import pytest

from planner.ledger import Category
from planner.plan_types import Verdict
from planner.units import gib_bytes
from tests.ui.cost_rows_made import put_to, quote, row
from ui.answers import answer
from ui.cost import choice, wording
from ui.cost.listing import price_csv
from ui.cost.money import usd_small
from ui.cost.quotes import Kind
from ui.cost.replans import Fit, Rate, rate_of
from ui.cost.rows import Row
from ui.examples import default_document, story_document
from ui.words import words_for

TODAY = date(2026, 11, 29)
WORDS = words_for("en")


def fast(usd: float, tokens_per_s: float, name: str = "one") -> Row:
    fit = Fit(
        verdict=Verdict.FITS,
        peak_bytes=1,
        headroom_bytes=gib_bytes(10),
        largest=Category.LOGITS,
        rate=Rate(tokens_per_s=tokens_per_s, low_frac=0.8, high_frac=1.5),
    )
    return replace(row(usd=usd, name=name), fit=fit)


def test_a_million_tokens_by_hand() -> None:
    assert fast(3.6, 1000).usd_per_million_tokens == pytest.approx(1.0)
    assert row().usd_per_million_tokens is None


def test_the_cheapest_hour_need_not_be_the_cheapest_run() -> None:
    slow, quick = fast(1.0, 100, "slow"), fast(3.0, 1000, "quick")
    assert choice.cheapest([slow, quick], TODAY) is slow
    assert choice.cheapest_tokens([slow, quick, row(name="unknown")], TODAY) is quick


def test_the_run_is_told_with_its_band() -> None:
    said = wording.run([fast(3.6, 1000)], 864e6, TODAY, WORDS)
    assert "$1.00 at 1,000 tokens a second" in said
    assert "between $0.800 and $1.50" in said
    assert "864,000,000 tokens takes 10.0 days there and costs $864 ($691 to $1,296)" in said
    assert "takes" not in wording.run([fast(3.6, 1000)], None, TODAY, WORDS)
    assert "12.0 hours" in wording.run([fast(3.6, 1000)], 43.2e6, TODAY, WORDS)


def test_where_no_speed_is_known_that_is_said() -> None:
    assert "not known" in wording.run([row()], 1e9, TODAY, WORDS)
    assert wording.run([], 1e9, TODAY, WORDS) == ""


def test_training_and_serving_have_a_rate_with_its_band() -> None:
    plan = answer(default_document()).plan
    assert plan is not None
    found = rate_of(plan)
    assert found is not None
    assert found.low_frac < 1 < found.high_frac
    served = answer(story_document("llama-70b-awq-two-l40s")).plan
    assert served is not None
    assert (rate_of(served) or found).tokens_per_s > 1


def test_an_offer_of_the_table_has_both_prices_in_the_file() -> None:
    (found,) = put_to(default_document(), quote())
    if found.usd_per_million_tokens is not None:
        assert f"{found.usd_per_million_tokens}" in price_csv([found])
    assert price_csv([found]).splitlines()[0].endswith("tokens_per_s,usd_per_million_tokens")


def test_small_prices_keep_their_digits() -> None:
    assert [usd_small(amount) for amount in (0.0123, 1.5, 1234)] == ["$0.012", "$1.50", "$1,234"]


def test_spot_machines_are_allowed_to_be_taken_away() -> None:
    plain, spot = fast(3.6, 1000), fast(3.6, 1000)
    spot = replace(spot, quote=replace(spot.quote, kind=Kind.SPOT))
    said = wording.run([spot], 864e6, TODAY, WORDS)
    assert "2 interruptions a day that lose 40 minutes each" in said
    assert "10.6 days" in said  # 10 / (1 - 2 x 40 / 1440)
    assert "interruptions" not in wording.run([plain], 864e6, TODAY, WORDS)
