"""What is taken from each source, what is kept out and why."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from hardware_db import load_tables
from hardware_db.refresh import SOURCES, FetchError, Refresh, SourceReport, State, merged, refresh
from hardware_db.refresh import gpuhunt as gpuhunt_source
from hardware_db.refresh.run import Source
from tests.hardware_db.refresh.cases import EMPTY_AZURE, Answers, recorded

if TYPE_CHECKING:
    from planner.prices import Offer

NOW = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)
BY_ID = {source.id: source for source in SOURCES}
AZURE_PAGES = {
    "%27eastus2%27%20and%20contains%28armSkuName%2C%20%27Standard_ND": recorded("azure_1.json"),
    "$skip=3": recorded("azure_2.json"),
    "prices.azure.com": EMPTY_AZURE,
}


def asked(source_id: str, answers: Answers) -> tuple[SourceReport, tuple[Offer, ...]]:
    found = refresh([BY_ID[source_id]], load_tables().offers, get=answers, now=NOW)
    return found.reports[0], found.offers


def reasons(report: SourceReport) -> dict[str, int]:
    return {kept.code: kept.count for kept in report.kept_out}


def test_azure_takes_linux_machines_with_their_spot_price() -> None:
    report, offers = asked("azure", Answers(AZURE_PAGES))
    assert report.state is State.READ
    (offer,) = offers
    assert (offer.provider, offer.instance_type, offer.region) == (
        "Azure",
        "Standard_ND96isr_H200_v5",
        "eastus2",
    )
    assert (offer.usd_per_hour, offer.spot_usd_per_hour) == (81.5, 20.375)
    assert offer.usd_per_gpu_hour == pytest.approx(81.5 / 8)
    assert (offer.gpu_id, offer.gpu_count, offer.date) == ("h200-sxm-141gb", 8, "2026-11-30")
    assert "prices.azure.com" in offer.source


def test_azure_keeps_out_what_cannot_be_a_price() -> None:
    report, _ = asked("azure", Answers(AZURE_PAGES))
    assert reasons(report) == {
        "changed_row": 1,
        "not_above_zero": 1,
        "absurd": 1,
        "unit": 1,
        "currency": 1,
        "unknown_card": 1,
    }
    zero = next(kept for kept in report.kept_out if kept.code == "not_above_zero")
    assert zero.examples == (("Standard_NC24ads_A100_v4, eastus2", "0"),)
    assert report.passed_over == 1


def test_azure_asks_https_by_region_and_family_and_follows_the_pages() -> None:
    answers = Answers(AZURE_PAGES)
    asked("azure", answers)
    assert len(answers.asked) == 7
    assert all(url.startswith("https://prices.azure.com") for url in answers.asked)


def test_a_page_cut_short_keeps_the_pages_before() -> None:
    report, offers = asked("azure", Answers(AZURE_PAGES | {"$skip=3": recorded("azure_2.json")[:400]}))
    assert (report.state, report.problem) == (State.PARTIAL, "cut_short")
    assert [offer.instance_type for offer in offers] == ["Standard_ND96isr_H200_v5"]


@pytest.mark.parametrize("text", ["<html>moved</html>", '{"items": []}', "[]", '{"Items": {}}', ""])
def test_another_format_is_not_read(text: str) -> None:
    report, offers = asked("azure", Answers({"prices.azure.com": text}))
    assert (report.state, report.problem, offers) == (State.FAILED, "changed_format", ())


def test_aws_takes_plain_linux_machines_dated_by_the_file() -> None:
    report, offers = asked("aws", Answers({"AmazonEC2": recorded("aws.csv")}))
    (offer,) = offers
    assert (offer.instance_type, offer.usd_per_hour, offer.gpu_count) == ("p5.48xlarge", 50.12, 8)
    assert (offer.date, report.dated) == ("2026-11-20", "2026-11-20")
    assert reasons(report) == {"absurd": 1, "not_a_number": 1}
    assert report.passed_over == 4


def test_an_aws_file_from_before_capacity_blocks_is_read_too() -> None:
    lines = recorded("aws.csv").splitlines(keepends=True)
    older = [line.replace('"MarketOption",', "").replace('"OnDemand","NA"', '"NA"') for line in lines]
    text = "".join(line for line in older if "CapacityBlock" not in line)
    report, offers = asked("aws", Answers({"AmazonEC2": text}))
    assert [offer.usd_per_hour for offer in offers] == [50.12]
    assert report.passed_over == 3


def test_an_aws_line_cut_short_is_kept_out_and_said() -> None:
    text = recorded("aws.csv")
    cut = text[: text.index('"A3"') + 40]
    report, offers = asked("aws", Answers({"AmazonEC2": (cut, FetchError("cut_short", "3000 of 9000"))}))
    assert (report.state, report.problem, report.detail) == (State.PARTIAL, "cut_short", "3000 of 9000")
    assert [offer.instance_type for offer in offers] == ["p5.48xlarge"]


def test_a_renamed_aws_column_is_named_and_nothing_is_taken() -> None:
    text = recorded("aws.csv").replace('"PricePerUnit"', '"UnitPrice"')
    report, offers = asked("aws", Answers({"AmazonEC2": text}))
    assert (report.state, report.problem, report.detail, offers) == (
        State.FAILED,
        "changed_format",
        "PricePerUnit",
        (),
    )


def test_skypilot_lists_the_cheapest_region_and_knows_cards_by_name() -> None:
    report, offers = asked("skypilot_verda", Answers({"/verda/": recorded("verda.csv")}))
    found = {(o.instance_type, o.region): (o.usd_per_hour, o.spot_usd_per_hour, o.gpu_id) for o in offers}
    assert found == {
        ("2H200.141S.88V", "FIN-03"): (6.9, 2.4, "h200-sxm-141gb"),
        ("8H200.X", "FIN-02"): (26.4, None, "h200-sxm-141gb"),
    }
    assert reasons(report) == {"unknown_card": 1}
    assert report.passed_over == 3


def test_a_price_far_from_the_known_one_is_kept_out_with_both() -> None:
    text = recorded("verda.csv").replace(",6.90,", ",0.69,").replace(",7.10,", ",71.0,")
    report, offers = asked("skypilot_verda", Answers({"/verda/": text}))
    kept = next(one for one in report.kept_out if one.code == "far_from_known")
    assert [given for _, given in kept.examples] == ["71 / 6.78", "0.69 / 6.78"]
    assert [o.usd_per_hour for o in offers if o.instance_type == "2H200.141S.88V"] == [None]


def test_a_network_that_is_down_fails_every_source_and_raises_nothing() -> None:
    asked_for = [source for source in SOURCES if source.id != "gpuhunt"]
    found = refresh(asked_for, load_tables().offers, get=Answers({}), now=NOW)
    assert {report.problem for report in found.reports} == {"offline"}
    assert {report.state for report in found.reports} == {State.FAILED}
    assert found.offers == ()


def test_one_source_that_fails_leaves_the_others_alone() -> None:
    answers = Answers({"/verda/": recorded("verda.csv"), "/lambda/": FetchError("status", "404")})
    found = refresh(
        [BY_ID["skypilot_lambda"], BY_ID["skypilot_verda"]], load_tables().offers, get=answers, now=NOW
    )
    assert [(report.state, report.problem, report.detail) for report in found.reports] == [
        (State.FAILED, "status", "404"),
        (State.READ, "", ""),
    ]
    assert len(found.offers) == 2


def test_the_shipped_table_stays_as_it_is() -> None:
    before = tuple(load_tables().offers)
    asked("azure", Answers(AZURE_PAGES))
    assert tuple(load_tables().offers) == before


def machine(**other: object) -> SimpleNamespace:
    given = {
        "instance_name": "a2-ultragpu-8g",
        "location": "us-central1",
        "price": 40.0,
        "gpu_count": 8,
        "gpu_name": "A100",
        "spot": False,
        "provider": "gcp",
    }
    return SimpleNamespace(**(given | other))


def hunted(items: list[SimpleNamespace]) -> Refresh:
    source = Source(
        id="gpuhunt", url="", read=lambda _get, reading: gpuhunt_source.read(reading, lambda **_: items)
    )
    return refresh([source], load_tables().offers, get=Answers({}), now=NOW)


def test_gpuhunt_is_read_where_it_is_installed() -> None:
    found = hunted([machine(), machine(provider="datacrunch")])
    assert [(o.provider, o.gpu_id, o.usd_per_hour) for o in found.offers] == [("GCP", "a100-sxm-80gb", 40.0)]
    assert found.reports[0].passed_over == 1


def test_gpuhunt_of_another_shape_is_not_read() -> None:
    lacking = machine()
    del lacking.price
    found = hunted([lacking])
    assert (found.reports[0].problem, found.reports[0].detail) == ("changed_format", "price")


def test_gpuhunt_that_is_missing_or_fails_is_said() -> None:
    def failing(**_: object) -> list[object]:
        raise RuntimeError("down")

    missing = refresh([BY_ID["gpuhunt"]], (), get=Answers({}), now=NOW)
    assert missing.reports[0].problem == "not_installed"
    source = Source(id="gpuhunt", url="", read=lambda _get, reading: gpuhunt_source.read(reading, failing))
    found = refresh([source], (), get=Answers({}), now=NOW)
    assert (found.reports[0].problem, found.reports[0].detail) == ("package_failed", "RuntimeError")


def test_a_source_not_asked_or_not_read_keeps_what_it_brought_before() -> None:
    shipped = load_tables().offers
    sources = [BY_ID["skypilot_lambda"], BY_ID["skypilot_verda"]]
    before = refresh(sources, shipped, get=Answers({"/verda/": recorded("verda.csv")}), now=NOW)
    later = NOW.replace(month=12)
    down = merged(before, refresh([BY_ID["skypilot_verda"]], shipped, get=Answers({}), now=later))
    assert down.offers == before.offers
    assert [(report.source, report.older) for report in down.reports] == [
        ("skypilot_verda", 2),
        ("skypilot_lambda", 0),
    ]
    text = recorded("verda.csv").replace(",6.90,", ",6.50,")
    up = merged(down, refresh(sources, shipped, get=Answers({"/verda/": text}), now=later))
    assert {offer.date for offer in up.offers} == {"2026-12-30"}
    assert len(up.offers) == 2
