"""`nn.DataParallel`: the first card is the fullest, the others are lent a copy (SEEDS G36)."""

from typing import Any

from hardware_db import load_tables
from planner.claims.types import planned
from planner.ledger import Category, Layer, Phase
from planner.plan_types import Plan

TABLES = load_tables()


def made(kind: str, cards: int = 4) -> Plan:
    job: dict[str, Any] = {
        "task": "full",
        "model": {"id": "Qwen/Qwen2.5-0.5B"},
        "hardware": {"devices": [{"gpu": "rtx-3090-24gb", "count": cards}]},
        "training": {"micro_batch": 2, "sequence_length": 1024},
        "parallel": {"data_parallel": kind},
    }
    return planned(job, TABLES)


def test_the_first_card_is_a_group_of_its_own_and_the_fullest() -> None:
    first, others = made("dp").devices
    assert first.indices == (0,)
    assert others.indices == (1, 2, 3)
    assert first.peak_bytes > others.peak_bytes
    assert made("dp").worst.indices == (0,)


def test_every_card_has_the_whole_model_in_the_forward_pass() -> None:
    first, others = (device.ledger for device in made("dp").devices)
    weights = first.by_category(Phase.FORWARD)[Category.WEIGHTS]
    assert others.by_category(Phase.FORWARD)[Category.WEIGHTS] == weights


def test_between_steps_the_others_hold_nothing() -> None:
    others = made("dp").devices[1].ledger
    held = others.by_category(Phase.REST, Layer.ALLOCATED)
    assert not held.keys() & {Category.WEIGHTS, Category.GRADIENTS, Category.OPTIMIZER}
    assert Category.OPTIMIZER not in others.by_category(Phase.OPTIMIZER_STEP)


def test_outputs_of_all_cards_come_to_the_first() -> None:
    alone = made("ddp").worst.ledger.by_category(Phase.LOSS)[Category.LOGITS]
    first = made("dp").devices[0].ledger.by_category(Phase.LOSS)[Category.LOGITS]
    compute_bytes = 2
    assert first - alone == 4 * 2 * 1024 * 151936 * compute_bytes
    assert made("dp").devices[0].ledger.total("ddp_buckets") == 0
    assert made("ddp").worst.ledger.total("ddp_buckets") > 0


def test_one_card_is_no_division() -> None:
    assert len(made("dp", cards=1).devices) == 1
    assert made("dp", cards=1).worst.ledger.total("gathered_outputs") == 0
