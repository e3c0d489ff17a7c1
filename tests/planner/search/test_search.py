"""What a search answers: constraints, reasons, numbers of machines, the space, prices, the decision tree."""

from dataclasses import replace
from datetime import date

import pytest

from planner.estimate import plan
from planner.prices import Offer
from planner.search.find import frontier, search
from planner.search.offers import PER_GPU, left_out, machine_of, machines_of
from planner.search.rigs import IN_ONE_MACHINE, owned, rents
from planner.search.space import variants
from planner.search.types import SAME_RESULT, Fails, Found, Limits, Technique
from planner.throughput.training_speed import training_speed
from planner.validation import model_for
from tests.planner.search.questions import LLAMA_8B, LLAMA_70B, TABLES, machine, question

H100 = machine("h100-sxm-80gb", 8, 24.0)
L40S = machine("l40s-48gb", 4, 4.0)
FEW = Limits(most_cards=8, sequences=16)
TODAY = date(2026, 11, 30)


def offer(**more: object) -> Offer:
    plain = {
        "provider": "Somebody", "instance_type": "x8", "gpu_name": "H100", "gpu_id": "h100-sxm-80gb",
        "gpu_count": 8.0, "gpu_memory_gib": 80.0, "gpu_frac": None, "vcpus": None, "ram_gib": 1024.0,
        "region": "here", "price_kind": "on_demand", "usd_per_hour": 24.0, "spot_usd_per_hour": None,
        "usd_per_gpu_hour": 3.0, "date": "2026-11-01", "source": "a test",
    }  # fmt: skip
    return Offer(**(plain | more))  # type: ignore[arg-type]


def test_the_best_of_each_kind_is_among_the_found_and_has_a_band() -> None:
    result = search(question(), (H100, L40S), TABLES, FEW)
    assert result.cheapest in result.found
    assert result.fastest in result.found
    assert result.fewest in result.found
    for found in result.found:
        assert found.cost is not None
        assert found.cost.low_days is not None
        assert found.cost.low_days < found.cost.days < (found.cost.high_days or 0)
        assert found.peak_bytes < found.usable_bytes


def test_no_point_of_the_line_is_beaten() -> None:
    result = search(question(), (H100, L40S), TABLES, FEW)
    line = result.frontier
    assert line[0] == result.cheapest
    assert line[-1].days == (result.fastest.days if result.fastest else None)
    for one in line:
        assert not any(beats(other, one) for other in result.found)


def beats(one: Found, other: Found) -> bool:
    return (one.usd or 0) < (other.usd or 0) and (one.days or 0) < (other.days or 0)


def test_a_deadline_leaves_the_fast_and_a_budget_the_cheap() -> None:
    free = search(question(), (H100, L40S), TABLES, FEW)
    assert free.fastest is not None
    assert free.cheapest is not None
    days, usd = free.fastest.days or 0.0, free.cheapest.usd or 0.0
    quick = search(question(), (H100, L40S), TABLES, replace(FEW, deadline_days=days * 1.01))
    assert quick.fastest is not None
    assert {one.devices for one in quick.found} == {free.fastest.devices}
    cheap = search(question(), (H100, L40S), TABLES, replace(FEW, budget_usd=usd * 1.01))
    assert cheap.cheapest is not None
    assert all((one.usd or 0) <= usd * 1.01 for one in cheap.found)
    none = search(question(), (H100, L40S), TABLES, replace(FEW, deadline_days=days * 0.5))
    assert not none.found
    assert {one.reason for one in none.rejected} == {Fails.DEADLINE}
    poor = search(question(), (H100, L40S), TABLES, replace(FEW, budget_usd=usd * 0.5))
    assert {one.reason for one in poor.rejected} == {Fails.BUDGET}
    assert min(one.value or 0 for one in poor.rejected) == pytest.approx(usd)


def test_what_is_short_says_by_how_much_and_with_which_plan() -> None:
    result = search(question(LLAMA_70B), (machine("l40s-48gb", 4, 4.0),), TABLES, FEW)
    (rejected,) = result.rejected
    assert rejected.reason is Fails.MEMORY
    assert rejected.short_bytes is not None
    assert rejected.short_bytes > 0
    assert rejected.nearest is not None
    assert rejected.nearest.settings["checkpointing"] == "full"


def test_a_card_without_the_format_is_refused_with_the_planners_reason() -> None:
    result = search(question(), (machine("v100-sxm-32gb", 8),), TABLES, FEW)
    (rejected,) = result.rejected
    assert rejected.reason is Fails.LACKS
    assert rejected.issue is not None
    assert rejected.issue.code == "dtype_unsupported"


def test_fp16_stands_in_where_a_card_has_no_bf16_and_nowhere_else() -> None:
    limits = replace(FEW, techniques=SAME_RESULT | {Technique.FP16})
    result = search(question(), (machine("v100-sxm-32gb", 8), H100), TABLES, limits)
    computes = {one.machine.gpu.id: one.choice.settings["compute"] for one in result.found}
    assert computes == {"v100-sxm-32gb": "fp16", "h100-sxm-80gb": "own"}
    old = next(one for one in result.found if one.machine.gpu.id == "v100-sxm-32gb")
    assert old.choice.scenario.training.precision.compute == "fp16"


def test_a_step_inside_the_backward_pass_leaves_plans_without_accumulation() -> None:
    asked = question(runtime="torchtune", training={"optimizer": {"name": "adamw", "in_backward": True}})
    result = search(asked, (H100, L40S), TABLES, FEW)
    assert result.found
    assert {one.choice.settings["accumulation"] for one in result.found} == {1}


def test_a_machine_with_more_cards_than_allowed_is_refused() -> None:
    result = search(question(), (H100,), TABLES, replace(FEW, most_cards=4))
    assert [one.reason for one in result.rejected] == [Fails.MOST_CARDS]


def test_owned_cards_have_no_price_and_the_line_goes_by_their_number() -> None:
    result = search(question(), owned(TABLES.gpus["h100-sxm-80gb"], 8), TABLES, FEW)
    assert result.cheapest is None
    assert result.best is result.fastest
    assert all(one.usd is None for one in result.found)
    assert [one.devices for one in result.frontier] == sorted({one.devices for one in result.frontier})


def test_unknown_speed_ranks_by_cards_alone() -> None:
    silent = replace(TABLES.gpus["h100-sxm-80gb"], tdp_w=None)
    tables = replace(TABLES, gpus={**TABLES.gpus, silent.id: silent})
    result = search(question(), owned(silent, 8), tables, FEW)
    assert not result.found
    assert [one.devices for one in result.unknown] == sorted(one.devices for one in result.unknown)
    assert {item.code for one in result.unknown for item in one.missing} == {"no_power_limit"}


def test_tight_plans_count_where_they_are_accepted() -> None:
    sure = search(question(LLAMA_70B), (H100,), TABLES, Limits(most_cards=32))
    tight = search(question(LLAMA_70B), (H100,), TABLES, Limits(most_cards=32, accept_tight=True))
    assert sure.fewest is None or (tight.fewest and tight.fewest.devices <= sure.fewest.devices)
    assert tight.fewest is not None


def test_spot_machines_lose_time_to_interruptions() -> None:
    calm = search(question(), (H100,), TABLES, FEW).cheapest
    spot = search(question(), (replace(H100, spot=True),), TABLES, FEW).cheapest
    assert calm is not None
    assert spot is not None
    assert (spot.days or 0) > (calm.days or 0)
    assert spot.step_time_s == calm.step_time_s


def test_host_memory_bounds_offload() -> None:
    asked = question(LLAMA_70B, runtime="deepspeed")
    limits = Limits(most_cards=8)
    roomy = search(asked, (machine("h200-sxm-141gb", 8, ram_bytes=4 * 10**12),), TABLES, limits)
    narrow = search(asked, (machine("h200-sxm-141gb", 8, ram_bytes=10**11),), TABLES, limits)
    assert any(one.choice.settings["offload"] == "optimizer" for one in roomy.found)
    assert not any(one.choice.settings["offload"] == "optimizer" for one in narrow.found)


def test_the_best_plans_machines_tell_what_each_technique_brings() -> None:
    result = search(question(), (H100,), TABLES, FEW)
    assert {one.dimension for one in result.others} >= {"checkpointing", "sharding", "tensor", "pipeline"}
    for one in result.others:
        assert (one.slower_frac is None) is (one.reason is not None)
        assert one.slower_frac is None or one.slower_frac > -1e-9


def test_the_tree_goes_on_until_it_fits() -> None:
    result = search(question(LLAMA_8B), (H100, machine("h200-sxm-141gb", 8, 30.0)), TABLES, FEW)
    assert result.tree is not None
    assert result.tree.found is not None
    assert result.tree.step in ("zero2", "checkpointing", "offload")
    assert result.tree.found.choice.settings["sharding"] == "zero2"
    assert result.cheapest is not None
    large = search(question(LLAMA_70B), (H100,), TABLES, FEW)
    assert large.tree is not None
    assert large.tree.found is None
    assert large.tree.step == "nothing"


def test_the_tree_names_a_framework_that_the_search_may_not_turn_to() -> None:
    asked = question(runtime="hf_trainer")
    kept = search(asked, (H100,), TABLES, FEW).tree
    assert kept is not None
    assert kept.framework == "deepspeed"
    free = replace(FEW, techniques=SAME_RESULT | {Technique.FRAMEWORKS})
    for result in (
        search(asked, (H100,), TABLES, free),
        search(question(runtime="deepspeed"), (H100,), TABLES, FEW),
    ):
        assert result.tree is not None
        assert result.tree.found is not None
        assert result.tree.framework is None


def test_the_tree_gives_a_small_model_one_card() -> None:
    result = search(question("Qwen/Qwen2.5-0.5B"), (machine("h100-sxm-80gb", 1, 3.0),), TABLES, FEW)
    assert result.tree is not None
    assert result.tree.step == "one_card"


def test_serving_and_bad_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="task: serve"):
        search(question(task="serve", runtime="vllm"), (H100,), TABLES, FEW)
    for name in ("most_cards", "tokens", "sequences", "deadline_days", "budget_usd"):
        with pytest.raises(ValueError, match=f"{name}: 0; allowed: more than 0"):
            Limits(**{name: 0})  # type: ignore[arg-type]


def test_without_techniques_one_plan_is_left() -> None:
    asked = question()
    found = variants(asked, model_for(asked, TABLES), Limits(techniques=frozenset()))
    assert [one.settings["sharding"] for one in found] == ["none"]
    assert found[0].copy == 1


def test_what_may_not_be_changed_stays_as_the_question_has_it() -> None:
    asked = question(
        runtime="deepspeed", training={"sequence_length": 4096, "checkpointing": "full"},
        parallel={"sharding": "zero2", "offload": {"optimizer": "cpu"}},
    )  # fmt: skip
    model, own = (
        model_for(asked, TABLES),
        {"checkpointing": "full", "sharding": "zero2", "offload": "optimizer"},
    )
    techniques = (Technique.CHECKPOINTING, Technique.SHARDING, Technique.OFFLOAD)
    for free in (None, *techniques):
        limits = Limits(techniques=frozenset() if free is None else frozenset({free}))
        found = variants(asked, model, limits)
        for name, value in own.items():
            values = {one.settings[name] for one in found}
            assert value in values
            assert (values == {value}) is (name != free)
        if free is None:
            (one,) = found
            assert one.resolved.training.checkpointing == "full"
            assert one.resolved.parallel.sharding == "zero2"
            assert one.resolved.parallel.offload.optimizer == "cpu"


def test_checkpointing_that_is_not_told_stays_the_frameworks_own() -> None:
    asked = question(runtime="torchtune")
    (one,) = variants(asked, model_for(asked, TABLES), Limits(techniques=frozenset()))
    assert one.settings["checkpointing"] == one.resolved.training.checkpointing == "full"


def test_methods_and_frameworks_come_with_their_own_settings() -> None:
    asked = question(runtime="hf_trainer")
    limits = Limits(techniques=SAME_RESULT | {Technique.QLORA, Technique.FRAMEWORKS})
    found = variants(asked, model_for(asked, TABLES), limits)
    methods = {str(one.settings["method"]) for one in found}
    assert methods == {"full", "qlora nf4", "qlora nf4_dq", "qlora int8"}
    assert {one.settings["framework"] for one in found if one.settings["method"] == "full"} == {
        "hf_trainer", "deepspeed", "torchtitan", "megatron_lm",
    }  # fmt: skip
    for one in found:
        assert one.settings["offload"] == "none" or one.settings["framework"] == "deepspeed"
        assert one.tensor == 1 or one.settings["framework"] in ("torchtitan", "megatron_lm")


def test_parts_of_a_server_and_cards_without_a_network_are_not_joined() -> None:
    links = question().hardware.links
    half = rents(machine("h100-sxm-80gb", 4), 64, links, TABLES)
    assert [one.count for one in half] == [1]
    lone = rents(machine("a10g-24gb", 4), 64, links, TABLES)
    assert [one.count for one in lone] == [1]
    whole = rents(H100, 64, links, TABLES)
    assert [one.count for one in whole] == [1, 2, 4, 8]
    assert [one.usd_per_hour for one in whole] == [24.0, 48.0, 96.0, 192.0]


def test_a_machine_of_the_table_brings_its_own_network_into_the_plan() -> None:
    listed = machine("a100-sxm-40gb", 8, network_gbit=400.0)
    links = question().hardware.links
    (one, two) = rents(listed, 16, links, TABLES)
    assert one.rig.network_gbit is None
    assert two.rig.network_gbit == 400
    assert two.rig.links.network == pytest.approx(400e9 / 8 / 8)
    found = search(question(), [listed], TABLES, Limits(most_cards=16)).found
    assert {plan.devices: plan.choice.scenario.hardware.links.inter_node_gbit for plan in found} == {
        8: None,
        16: 400,
    }
    for plan_found in found:
        again = training_speed(plan(plan_found.choice.scenario, TABLES), TABLES)
        assert again.step_time_s == pytest.approx(plan_found.step_time_s)


def test_cards_at_a_price_each_sit_in_eights() -> None:
    links = question().hardware.links
    found = rents(machine("h100-sxm-80gb", IN_ONE_MACHINE, 3.0, per_card=True), 16, links, TABLES)
    assert [(one.count, one.rig.devices, one.usd_per_hour) for one in found] == [
        (1, 1, 3.0), (2, 2, 6.0), (4, 4, 12.0), (8, 8, 24.0), (16, 16, 48.0),
    ]  # fmt: skip


def test_a_number_that_is_no_power_of_two_may_leave_cards_idle() -> None:
    found = rents(machine("a10g-24gb", 6), 64, question().hardware.links, TABLES)
    assert [one.rig.devices for one in found] == [6, 4]


def test_offers_become_machines_of_one_kind() -> None:
    offers = (
        offer(),
        offer(instance_type=f"{PER_GPU}H100", gpu_count=1.0, usd_per_hour=3.0),
        offer(spot_usd_per_hour=9.0),
        offer(price_kind="index"),
        offer(gpu_id=None),
        offer(gpu_count=None),
        offer(gpu_count=0.5),
        offer(date="2024"),
        offer(gpu_id="trainium1-32gb"),
        offer(provider="Other"),
    )
    machines, left = machines_of(offers, TABLES, "on_demand", today=TODAY, providers=frozenset({"Somebody"}))
    assert [(one.devices, one.per_card) for one in machines] == [(8, False), (8, True), (8, False)]
    assert [left_out(one, TABLES) for one in left] == [
        Fails.NO_CARD, Fails.NO_COUNT, Fails.SHARE, Fails.OLD, Fails.OWN_STACK,
    ]  # fmt: skip
    (spot,), _ = machines_of(offers, TABLES, "spot", today=TODAY)
    assert spot.usd_per_hour == 9.0
    assert spot.spot
    assert machine_of(offers[0], TABLES, "spot") is None


def test_the_line_of_nothing_is_empty() -> None:
    assert frontier(()) == ()
