"""Claims on formats, serving, the allocator, settings, stages (SEEDS G8, G11, G15-17, G20, G23, G26, G28-32, G35)."""

import pytest

from planner.claims import Outcome
from planner.units import GB, GIB, MIB
from tests.planner.claims.test_claims import answered


def test_g8_five_gib_not_forty_eight_gb_and_an_eighth_with_shared_heads() -> None:
    claim, found = answered("g8")
    assert claim.outcome is Outcome.WRONG
    assert found["one_request"].found == 5 * GIB
    assert found["four_requests"].found == 20 * GIB
    assert found["with_its_kv_heads"].found == 0.625 * GIB
    assert found["one_request"].error_frac == pytest.approx(7.94, abs=0.01)


def test_g11_utilisation_follows_lengths_and_block() -> None:
    claim, found = answered("g11")
    assert claim.outcome is Outcome.DEPENDS
    assert found["paged_16_chats"].found > 0.96 > found["paged_256_chats"].found
    assert found["reserved_chats"].found < 0.4
    assert found["reserved_full"].found > 0.9


def test_g15_awq_keeps_activations_in_16_bit_and_gguf_is_no_format_of_numbers() -> None:
    claim, found = answered("g15")
    assert claim.outcome is Outcome.WRONG
    assert found["awq_activation_bits"].found == 16
    assert 4 < found["awq_weight_bits"].found < 4.2
    assert found["gguf_least_bits"].found < 2
    assert found["gguf_most_bits"].found == 32


def test_g16_smallest_normal_and_smallest_subnormal() -> None:
    _, found = answered("g16")
    assert found["normal_fp16"].found == pytest.approx(6.1035e-5, rel=1e-4)
    assert found["subnormal_fp16"].found == pytest.approx(5.9605e-8, rel=1e-4)


def test_g17_bf16_reaches_as_low_as_fp32_and_no_scaler_is_exported() -> None:
    claim, found = answered("g17")
    assert claim.outcome is Outcome.WRONG
    assert found["normal_bf16"].found == found["normal_fp32"].found < 1e-37
    assert (found["scaler_in_bf16_export"].found, found["scaler_in_fp16_export"].found) == (0, 1)


def test_g20_a_saved_state_takes_disk_and_frees_nothing() -> None:
    claim, found = answered("g20")
    assert claim.outcome is Outcome.WRONG
    assert found["saved_state_on_disk"].found == pytest.approx(10 * 6.738e9, rel=0.001)
    assert found["activations_computed_again"].found > 20 * GB


def test_g23_the_first_stage_keeps_more_micro_batches_of_the_same_size() -> None:
    _, found = answered("g23")
    assert (found["in_flight_first"].found, found["in_flight_last"].found) == (4, 1)
    assert found["activations_first"].found > 1.5 * found["activations_last"].found


def test_g26_ada_has_fp8_tensor_cores() -> None:
    claim, found = answered("g26")
    assert claim.outcome is Outcome.WRONG
    assert found["least_capability"].found == 8.9
    assert found["ada_cards"].found >= 5
    assert (found["warned_on_ada"].found, found["warned_on_ampere"].found) == (0, 1)


def test_g28_the_search_can_take_nine_times_what_it_writes() -> None:
    _, found = answered("g28")
    assert found["workspace"].found == 9 * found["output"].found
    assert found["workspace"].reference


def test_g29_the_context_stays() -> None:
    claim, found = answered("g29")
    assert claim.outcome is Outcome.WRONG
    assert found["context_stays"].found > 300 * MIB
    assert found["live_stays"].found > 10 * 6.7e9
    assert found["goes_back"].found > GB


def test_g30_inactive_blocks_are_those_that_cannot_go_back() -> None:
    _, found = answered("g30")
    assert [found[name].found / MIB for name in ("cached_and_free", "inactive_split", "goes_back")] == [
        32,
        12,
        20,
    ]


def test_g31_every_key_without_effect_is_named_with_the_real_one() -> None:
    claim, found = answered("g31")
    assert claim.outcome is Outcome.WRONG
    keys = {name: figure.detail for name, figure in found.items() if figure.detail}
    assert keys.keys() == {
        *("offload_params_path", "offload_buffer_size", "offload_optimizer_threads", "micro_batch_size"),
        *("load_sharded_model", "enable_kv_cache_sharing", "stage3_max_live_parameters"),
    }
    assert found["keys_without_effect"].found == len(keys)
    assert keys["offload_params_path"].endswith("→ zero_optimization.offload_param.nvme_path")
    assert keys["stage3_max_live_parameters"].endswith("stage 3")


def test_g32_follows_the_hit_rate() -> None:
    claim, found = answered("g32")
    assert claim.outcome is Outcome.DEPENDS
    less = [found[f"first_token_{hits}_percent"].found for hits in (10, 40, 70)]
    assert less[0] < 0.1 < less[1] < 0.4 < less[2]
    assert 0.38 < found["hits_for_38"].found < 0.5
    assert found["prefix_128_of_1024"].found < 0.2
    assert found["prefix_900_of_1024"].found > 0.8


def test_g35_published_loss_is_small_at_four_bits_and_speed_follows_the_card() -> None:
    claim, found = answered("g35")
    assert claim.outcome is Outcome.DEPENDS
    assert found["perplexity_fp16"].found == 5.47
    assert found["worse_int4_awq"].found == pytest.approx(0.0238, abs=1e-4)
    assert found["worse_int3_nearest"].found > 0.2
    assert all(figure.reference for name, figure in found.items() if name.startswith("perplexity"))
    assert found["speed_consumer_bf16"].found < 65 < found["speed_consumer_awq4"].found
    assert found["speed_data_centre_awq4"].found > 2 * 65


def test_f1_fp8_is_first_with_the_first_token_and_four_bits_with_the_next() -> None:
    claim, found = answered("f1")
    assert claim.outcome is Outcome.DEPENDS
    first, following, together = (
        {weights: found[f"{name}_{weights}"].found for weights in ("bf16", "fp8", "awq4")}
        for name in ("first_token", "next_token", "together")
    )
    assert min(first, key=lambda weights: first[weights]) == "fp8"
    assert min(following, key=lambda weights: following[weights]) == "awq4"
    assert max(together, key=lambda weights: together[weights]) == "fp8"
