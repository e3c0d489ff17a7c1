"""Offers put to a question: how many cards, planned once each, and why not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from planner.prices import Freshness
from tests.ui.cost_rows_made import TODAY, offer, planned, put_to, quote
from ui import answers
from ui.cost import choice
from ui.cost import replans as replans_module
from ui.cost import rows as rows_module
from ui.cost.layout import Layout, Rented, as_asked, layout_of, ways_to_rent
from ui.cost.quotes import Kind, quotes
from ui.cost.replans import Fit, Machines, Refusal, Replans, on_cards, replans
from ui.cost.rows import Reason, Status, row_of, table_rows
from ui.document import canonical, get, put, put_all
from ui.examples import STORIES, default_document, story_document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.plan_types import Plan

SERVED = "llama-70b-awq-two-l40s"


@pytest.fixture(autouse=True)
def _fresh_caches() -> Iterator[None]:
    for cached in (replans_module._replans, rows_module._table_rows):
        cached.cache_clear()
    yield
    for cached in (replans_module._replans, rows_module._table_rows):
        cached.cache_clear()


# Quotes


def test_an_offer_with_two_prices_is_two_quotes_of_two_kinds() -> None:
    on_demand, spot = quotes([offer()])
    assert (on_demand.kind, on_demand.usd_per_hour, on_demand.usd_per_gpu_hour) == (Kind.ON_DEMAND, 24, 3)
    assert (spot.kind, spot.usd_per_hour, spot.on_demand_usd_per_hour) == (Kind.SPOT, 12, 24)


def test_an_offer_with_a_spot_price_only_has_no_on_demand_quote() -> None:
    (only,) = quotes([offer(usd_per_hour=None)])
    assert only.kind is Kind.SPOT


def test_a_price_without_a_count_cannot_be_taken_apart() -> None:
    assert quote(cards=None).usd_per_gpu_hour is None


@pytest.mark.parametrize(
    ("day", "tier"),
    [
        ("2026-10-01", Freshness.RECENT),
        ("2026-08-31", Freshness.RECENT),
        ("2026-08-30", Freshness.YEAR),
        ("2026", Freshness.YEAR),
        ("2025-11-29", Freshness.YEAR),
        ("2025-11-28", Freshness.OLDER),
        ("2025", Freshness.OLDER),
        (None, None),
    ],
)
def test_age_is_counted_from_today_in_three_tiers(day: str | None, tier: Freshness | None) -> None:
    assert quote(date=day).age(TODAY) is tier


def test_every_offer_of_the_table_makes_its_quotes() -> None:
    listed = answers.tables().offers
    made = quotes(listed)
    prices = sum((o.usd_per_hour is not None) + (o.spot_usd_per_hour is not None) for o in listed)
    assert len(made) == prices > len(listed)
    assert {made_of.kind for made_of in made} == set(Kind) - {Kind.OWN}
    assert any(made_of.per_card for made_of in made)


# Cards


@pytest.mark.parametrize(
    ("layout", "cards", "ways"),
    [
        # One copy on one card: an instance holds as many copies as it has cards; or as many cards as asked.
        (Layout(copy=1, tensor=1, asked=8), 8, [Rented(instances=1, paid=8, used=8)]),
        (
            Layout(copy=1, tensor=1, asked=8),
            2,
            [Rented(instances=1, paid=2, used=2), Rented(instances=4, paid=8, used=8)],
        ),
        # Six stages: whole copies only, the rest is paid and idle.
        (Layout(copy=6, tensor=1, asked=6), 8, [Rented(instances=1, paid=8, used=6)]),
        (Layout(copy=6, tensor=1, asked=6), 16, [Rented(instances=1, paid=16, used=12)]),
        (Layout(copy=6, tensor=1, asked=6), 4, [Rented(instances=2, paid=8, used=6)]),
        (Layout(copy=6, tensor=1, asked=6), 1, [Rented(instances=6, paid=6, used=6)]),
        # Tensor-parallel groups stay in one machine.
        (Layout(copy=8, tensor=4, asked=8), 6, [Rented(instances=2, paid=12, used=8)]),
        (Layout(copy=4, tensor=4, asked=4), 2, []),
        # Stages laid out by hand: never a second copy.
        (Layout(copy=6, tensor=1, asked=6, fixed=True), 16, [Rented(instances=1, paid=16, used=6)]),
    ],
)
def test_cards_used_and_paid(layout: Layout, cards: int, ways: list[Rented]) -> None:
    assert list(ways_to_rent(layout, cards)) == ways


def test_a_price_per_card_is_taken_for_the_cards_of_the_question() -> None:
    (per_card,) = put_to(default_document(), quote(per_card=True, cards=1, usd_per_hour=3.0))
    assert per_card.rented == as_asked(layout_of(planned(default_document())))
    assert per_card.rented.used == 6
    assert per_card.usd_per_hour == pytest.approx(18)


def test_several_instances_are_paid_in_full() -> None:
    (found,) = put_to(default_document(), quote(cards=4, usd_per_hour=10.0))
    assert found.rented == Rented(instances=2, paid=8, used=6)
    assert found.usd_per_hour == 20


def test_where_one_instance_is_short_as_many_cards_as_asked_are_tried() -> None:
    document = put_all(
        story_document("llama-7b-full-four-3090"),
        {
            "hardware.devices": [{"gpu": "h100-sxm-80gb", "count": 8}],
            "parallel.data": None,
            "parallel.sharding_degree": None,
        },
    )
    (found,) = put_to(document, quote(gpu_id="l40s-48gb", cards=1, usd_per_hour=1.0))
    assert found.rented == Rented(instances=8, paid=8, used=8)
    assert found.status in {Status.FITS, Status.TIGHT}


# Planning again


def test_a_question_moves_to_other_cards_with_its_division() -> None:
    document = put_all(
        default_document(), {"hardware.margin_frac": 0.1, "hardware.devices_per_node": 2, "parallel.data": 1}
    )
    moved = on_cards(document, "h100-sxm-80gb", 12)
    assert moved["hardware"] == {"devices": [{"gpu": "h100-sxm-80gb", "count": 12}], "margin_frac": 0.1}
    assert get(moved, "parallel.pipeline") == 6
    assert get(moved, "parallel.data") is None
    assert moved["training"] == document["training"]


def test_machines_of_one_card_have_their_network_between_the_cards() -> None:
    document = put_all(
        story_document("llama-7b-full-four-3090"),
        {"hardware.devices": [{"gpu": "h100-sxm-80gb", "count": 8}], "parallel.data": None},
    )
    apart, together = put_to(
        document,
        quote(gpu_id="l40s-48gb", cards=1, usd_per_hour=1.0),
        quote(gpu_id="l40s-48gb", cards=8, usd_per_hour=8.0),
    )
    assert apart.fit is not None
    assert together.fit is not None
    assert apart.fit.rate is not None
    assert together.fit.rate is not None
    assert apart.fit.rate.tokens_per_s < together.fit.rate.tokens_per_s


def test_parts_of_servers_that_nothing_joins_have_no_speed() -> None:
    document = put_all(
        story_document("llama-7b-full-four-3090"),
        {"hardware.devices": [{"gpu": "h100-sxm-80gb", "count": 8}], "parallel.data": None},
    )
    planned_on = replans(document)
    alone = planned_on.on("h100-sxm-80gb", 4, Machines(devices=1, joined=False))
    whole = planned_on.on("h100-sxm-80gb", 4, Machines(devices=8))
    assert isinstance(alone, Fit)
    assert isinstance(whole, Fit)
    assert alone.rate is None
    assert not alone.joined
    assert whole.rate is not None
    assert alone.headroom_bytes == whole.headroom_bytes


def test_equal_cards_in_equal_number_are_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, int, int | None, float | None]] = []
    real = replans_module._plan

    def counted(scenario: object) -> Plan:
        hardware = scenario.hardware  # type: ignore[attr-defined]
        (device,) = hardware.devices
        seen.append((device.gpu, device.count, hardware.devices_per_node, hardware.links.inter_node_gbit))
        return real(scenario)  # type: ignore[arg-type]

    monkeypatch.setattr(replans_module, "_plan", counted)
    document = default_document()
    rows = table_rows(document, planned(document))
    assert len(rows) == len(quotes(answers.tables().offers))
    assert len(seen) == len(set(seen))
    assert len(seen) < len(rows) / 4
    table_rows(document, planned(document))
    assert len(seen) == len(set(seen))


def test_each_row_is_the_plan_of_its_own_cards() -> None:
    document = default_document()
    for found in table_rows(document, planned(document))[::40]:
        if found.fit is None or found.rented is None or found.gpu is None:
            continue
        again = planned(on_cards(document, found.gpu.id, found.rented.used))
        assert found.fit.headroom_bytes == again.worst.headroom_bytes
        assert found.fit.verdict is again.verdict


# Why not


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"gpu_id": None}, Reason.NO_CARD),
        ({"gpu_id": "no-such-card"}, Reason.NO_CARD),
        ({"cards": None}, Reason.NO_COUNT),
        ({"cards": 0.125}, Reason.SHARE),
    ],
)
def test_what_is_not_told_is_never_guessed(changes: dict[str, object], reason: Reason) -> None:
    (found,) = put_to(default_document(), quote(**changes))
    assert (found.status, found.reason) == (Status.NOT_COMPARABLE, reason)
    assert found.usd_per_hour is None
    assert found.headroom_bytes is None


def test_accelerators_with_software_of_their_own_are_refused() -> None:
    (found,) = put_to(default_document(), quote(gpu_id="trainium1-32gb", cards=16))
    assert (found.status, found.reason) == (Status.REFUSED, Reason.OWN_STACK)


def test_too_few_cards_for_tensor_parallel() -> None:
    (found,) = put_to(story_document(SERVED), quote(cards=1))
    assert (found.status, found.reason, found.needs) == (Status.REFUSED, Reason.TENSOR, 2)


def test_a_card_without_the_format_is_refused_with_the_planner_s_words() -> None:
    (found,) = put_to(default_document(), quote(gpu_id="v100-sxm-32gb", cards=8))
    assert (found.status, found.reason) == (Status.REFUSED, Reason.LACKS)
    assert found.issue is not None
    assert dict(found.issue.params)["needs"] == "8.0"


def test_a_division_that_the_count_does_not_take_is_refused() -> None:
    document = put_all(
        default_document(),
        {
            "hardware.devices": [{"gpu": "h100-sxm-80gb", "count": 8}],
            "parallel.pipeline": None,
            "parallel.pipeline_layers": None,
            "parallel.sharding": "fsdp",
            "parallel.sharding_degree": 8,
        },
    )
    (found,) = put_to(document, quote(cards=4))
    assert found.status in {Status.FITS, Status.TIGHT, Status.SHORT}
    assert found.rented is not None
    assert found.rented.used == 8
    (refused,) = put_to(document, quote(cards=12))
    assert (refused.status, refused.reason) == (Status.REFUSED, Reason.LAYOUT)
    assert refused.issue is not None
    assert refused.issue.code == "sharding_degree_splits_data"


def test_a_question_that_cannot_be_read_is_a_refusal() -> None:
    broken = put(default_document(), "training.micro_batch", 0)
    assert isinstance(Replans(canonical(broken)).on("h100-sxm-80gb", 6), Refusal)


def test_shortages_name_each_number_of_cards_once_nearest_first() -> None:
    document = default_document()
    rows = choice.of_kind(table_rows(document, planned(document)), Kind.ON_DEMAND)
    shorts = choice.shortages(rows)
    assert len(shorts) > 3
    assert len({(short.gpu_id, short.used) for short in shorts}) == len(shorts)
    missing = [short.short_bytes for short in shorts]
    assert missing == sorted(missing)
    assert missing[0] > 0
    assert sum(short.offers for short in shorts) == sum(r.status is Status.SHORT for r in rows)


@pytest.mark.parametrize("story", STORIES)
def test_every_row_has_a_verdict_or_a_reason(story: str) -> None:
    document = story_document(story)
    for found in table_rows(document, planned(document)):
        refused = found.status in {Status.REFUSED, Status.NOT_COMPARABLE}
        assert (found.reason is not None) == refused
        assert refused or (found.fit is not None and found.usd_per_hour is not None)


def test_a_card_of_two_devices_is_paid_once() -> None:
    gpu = next(g for g in answers.tables().gpus.values() if g.devices_per_card == 2 and g.usable_bytes)
    layout = Layout(copy=1, tensor=1, asked=8)
    document = put_all(default_document(), {"parallel.pipeline": None, "parallel.pipeline_layers": None})
    replans = Replans(canonical(document))
    per_card = row_of(quote(gpu_id=gpu.id, per_card=True, cards=1, usd_per_hour=2.0), gpu, layout, replans)
    assert per_card.rented is not None
    assert per_card.rented.used == 8
    assert per_card.usd_per_hour == 8
    instance = row_of(quote(gpu_id=gpu.id, cards=4, usd_per_hour=8.0), gpu, layout, replans)
    assert instance.rented == Rented(instances=1, paid=8, used=8)
