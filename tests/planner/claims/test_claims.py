"""Claims about memory, each with its right value (SEEDS G1-G7, G9, G10, G12-G14, G22, G24, G25, G27, G36)."""

import pytest

from hardware_db import load_tables
from planner.claims import CLAIMS, Claim, Figure, Outcome
from planner.units import GB

TABLES = load_tables()


def answered(name: str) -> tuple[Claim, dict[str, Figure]]:
    claim = CLAIMS[name](TABLES)
    return claim, {figure.name: figure for figure in claim.figures}


@pytest.mark.parametrize("name", CLAIMS)
def test_every_claim_has_figures_and_its_own_id(name: str) -> None:
    claim, figures = answered(name)
    assert claim.id == name
    assert len(figures) == len(claim.figures) > 0
    for figure in claim.figures:
        assert set(dict(figure.symbols)) <= set(
            figure.formula.replace("(", " ").replace(")", " ").replace("*", " ").replace("/", " ").split()
        ) | {"U"}


def test_g1_states_are_right_and_activations_do_not_follow_parameters() -> None:
    claim, found = answered("g1")
    assert claim.outcome is Outcome.DEPENDS
    assert [found[name].found / GB for name in ("weights", "gradients", "adam")] == [400, 400, 800]
    assert (
        found["activations_per_parameter_large"].found > 50 * found["activations_per_parameter_small"].found
    )


@pytest.mark.parametrize(("size", "plain", "with_master"), [(7, 84, 112), (13, 156, 208), (70, 840, 1120)])
def test_g2_states_with_and_without_a_master_copy(size: int, plain: int, with_master: int) -> None:
    claim, found = answered("g2")
    assert claim.outcome is Outcome.RIGHT
    assert found[f"without_master_{size}b"].found == plain * GB
    assert found[f"without_master_{size}b"].said == plain * GB
    assert found[f"with_master_{size}b"].found == with_master * GB


def test_g3_formats_of_seven_billion_parameters_and_of_a_real_checkpoint() -> None:
    _, found = answered("g3")
    assert [found[name].found / GB for name in ("fp32", "fp16", "int8", "int4")] == [28, 14, 7, 3.5]
    assert found["real_gptq4"].found > 3.5 * GB


def test_g4_plain_sgd_has_no_state_and_eight_bits_are_two_bytes() -> None:
    claim, found = answered("g4")
    assert claim.outcome is Outcome.WRONG
    assert found["adamw"].found == 56 * GB
    assert found["sgd"].found == 0
    assert found["adamw_8bit"].found == pytest.approx(14.2 * GB, rel=0.01)
    assert found["formula"].found == 42 * GB


def test_g5_activations_are_linear_in_the_batch() -> None:
    _, found = answered("g5")
    assert [figure.found for figure in found.values()] == pytest.approx([2, 2, 2], rel=1e-3)


def test_g6_only_materialised_scores_grow_with_the_square() -> None:
    _, found = answered("g6")
    assert found["flash_doubled"].found == pytest.approx(2, rel=1e-3)
    assert found["eager_scores_doubled"].found == pytest.approx(4)
    assert found["flash_scores"].found == 0


def test_g7_the_rule_of_thumb_is_off_either_way() -> None:
    _, found = answered("g7")
    assert (found["short_checkpointed"].error_frac or 0) > 1
    assert (found["long"].error_frac or 0) < -0.9


def test_g9_checkpointing_saves_more_than_the_articles_say_on_a_gated_model() -> None:
    _, found = answered("g9")
    assert 0.8 < found["full_4096"].found < 0.95
    assert found["selective_4096"].found < found["full_4096"].found


def test_g10_zero_2_depends_on_cards_and_load() -> None:
    claim, found = answered("g10")
    assert claim.outcome is Outcome.DEPENDS
    shares = [figure.found for figure in found.values()]
    assert min(shares) < 0.5
    assert max(shares) > 0.6


def test_g12_13b_with_qlora_fits_a_24_gb_card_and_full_training_is_no_78_gb() -> None:
    _, found = answered("g12")
    assert found["full"].found > 13 * 12 * GB
    assert found["qlora"].found < 22 * GB < found["usable_24gb_card"].found


def test_g13_the_layout_takes_16_cards() -> None:
    claim, found = answered("g13")
    assert [issue.code for issue in claim.issues] == ["parallel_product"]
    assert (found["cards"].found, found["on_16"].found, found["on_8"].found) == (16, 52.5 * GB, 105 * GB)


def test_g14_more_than_one_card() -> None:
    _, found = answered("g14")
    assert found["weights"].found == pytest.approx(138 * GB, rel=0.002)
    assert 1 < found["cards"].found < 2


def test_g22_states_alone_overfill_the_cards() -> None:
    _, found = answered("g22")
    assert found["with_master"].found == 87.5 * GB
    assert found["without_master"].found == 65.625 * GB
    assert found["distributed_optimizer"].found == 65.625 * GB


def test_g24_against_what() -> None:
    _, found = answered("g24")
    assert [figure.found for figure in found.values()] == [0.75, 0.875, 0.8125]


def test_g25_four_bits_alone_are_more() -> None:
    _, found = answered("g25")
    assert found["four_bits"].found == 3.5 * GB
    assert found["real_gptq4"].found == pytest.approx(3.9 * GB, rel=0.01)


def test_g27_live_parameters_and_buffers_come_on_top() -> None:
    _, found = answered("g27")
    assert found["live_and_buffers"].found > 0.5 * GB
    assert found["states_per_card"].found > (found["states_per_card"].said or 0)


def test_g36_each_card_a_copy_and_the_first_more() -> None:
    claim, found = answered("g36")
    assert claim.outcome is Outcome.RIGHT
    assert found["copy_on_each"].found == found["copy_on_each"].said
    assert found["first_card_more"].found > 6 * GB
