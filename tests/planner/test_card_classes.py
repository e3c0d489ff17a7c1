"""Classes of cards (SEEDS E1): consumer 24 GB, professional 40 to 80 GB, compute 80 to 141 GB and more."""

import pytest

from hardware_db import load_tables
from planner.card_classes import CardClass, class_facts, class_of, newest_price
from planner.units import GB


@pytest.mark.parametrize(
    ("gpu_id", "card_class"),
    [
        ("rtx-4090-24gb", CardClass.CONSUMER),
        ("titan-rtx-24gb", CardClass.CONSUMER),
        ("rtx-4080-laptop-12gb", CardClass.CONSUMER),
        ("radeon-rx-7900-xtx-24gb", CardClass.CONSUMER),
        ("rtx-6000-ada-48gb", CardClass.PROFESSIONAL),
        ("quadro-rtx-8000-48gb", CardClass.PROFESSIONAL),
        ("radeon-pro-w7900-48gb", CardClass.PROFESSIONAL),
        ("arc-pro-b60-24gb", CardClass.PROFESSIONAL),
        ("l40s-48gb", CardClass.PROFESSIONAL),
        ("a100-pcie-80gb", CardClass.PROFESSIONAL),
        ("a100-sxm-80gb", CardClass.COMPUTE),
        ("mi300x-192gb", CardClass.COMPUTE),
        ("gb300-nvl72-288gb", CardClass.COMPUTE),
        ("gh200-96gb", CardClass.COMPUTE),
        ("apple-m4-32gb", None),
        ("tpu-v5e-16gb", None),
    ],
)
def test_classes_of_known_cards(gpu_id: str, card_class: CardClass | None) -> None:
    assert class_of(load_tables().gpus[gpu_id]) is card_class


def test_the_classes_overlap_in_memory_and_differ_in_links() -> None:
    consumer, professional, compute = class_facts(load_tables().gpus.values())
    assert [one.card_class for one in (consumer, professional, compute)] == list(CardClass)
    # Said: 24 GB, 40-80 GB, 80-141+ GB. Found: wider on both ends, so that no class follows from a size.
    assert consumer.memory_gib.high == 48
    assert (professional.memory_gib.low, professional.memory_gib.high) == (16, 141)
    assert (compute.memory_gib.low, compute.memory_gib.high) == (16, 288)
    assert compute.link_bytes_per_s is not None
    assert consumer.link_bytes_per_s is not None
    assert compute.link_bytes_per_s.high == 1800 * GB
    assert consumer.link_bytes_per_s.high == 112.5 * GB
    assert consumer.linked < consumer.cards / 4
    assert compute.linked >= compute.cards - 1


def test_prices_of_a_class_are_dated_points() -> None:
    for facts in class_facts(load_tables().gpus.values()):
        assert facts.price_usd is not None
        assert facts.price_dates is not None
        assert 0 < facts.price_usd.low < facts.price_usd.high
        assert facts.price_dates[0] < facts.price_dates[1]
        assert 0 < facts.priced < facts.cards


def test_the_newest_price_wins() -> None:
    assert newest_price(load_tables().gpus["rtx-4090-24gb"]) == (2500, "2026-02")
    assert newest_price(load_tables().gpus["l4-24gb"]) is None
