"""Usable memory: readings, rules, and the residuals that are claimed for the rules."""

import pytest

import hardware_db
from hardware_db.refit import fit_reserve, refit
from hardware_db.usable import Memory, usable
from planner.units import MIB, gib, gib_bytes, mib_bytes

TABLES = hardware_db.load_tables()


def memory(
    nominal_gib: float,
    *,
    vendor: str = "NVIDIA",
    unified: bool = False,
    inline_ecc: bool = False,
    cuda_mib: float | None = None,
    smi_mib: float | None = None,
) -> Memory:
    return Memory(
        vendor=vendor,
        nominal_bytes=gib_bytes(nominal_gib),
        unified=unified,
        inline_ecc=inline_ecc,
        cuda_mib=cuda_mib,
        smi_mib=smi_mib,
    )


@pytest.mark.parametrize("rule", ["usable_nominal", "usable_smi"])
def test_the_constants_and_their_residuals_come_out_of_the_data_again(rule: str) -> None:
    fit = refit()[rule]
    base, share = TABLES.constants[f"{rule}_base_mib"], TABLES.constants[f"{rule}_frac"]
    assert base.value == pytest.approx(fit.base_mib, abs=0.5)
    assert share.value == pytest.approx(fit.frac, abs=0.00005)
    for constant in (base, share):
        assert constant.n_rows == fit.n_rows
        assert constant.residual_median_frac == pytest.approx(fit.median_frac, abs=0.00005)
        assert constant.residual_max_frac == pytest.approx(fit.max_frac, abs=0.00005)


def test_each_card_is_predicted_from_the_others() -> None:
    """By hand: the line through two of three cards misses the third's reserve by 5, 3.33 and 10 MiB."""
    fit = fit_reserve([1000, 2000, 4000], [980, 1970, 3940])
    assert fit.n_rows == 3
    assert fit.max_frac == pytest.approx(5 / 980)
    assert fit.median_frac == pytest.approx(10 / 3940)


def test_a_reading_goes_before_every_rule() -> None:
    seen = usable(memory(80, cuda_mib=81089, smi_mib=81559), TABLES.constants)
    assert (seen.usable_bytes, seen.source, seen.rule) == (81089 * MIB, "read", "runtime_total")


def test_nvidia_smi_goes_before_the_nominal_size() -> None:
    seen = usable(memory(288, smi_mib=284208), TABLES.constants)
    assert (seen.source, seen.rule) == ("rule", "usable_smi")
    assert seen.usable_bytes == pytest.approx(mib_bytes(284208 * (1 - 0.0026) - 330), abs=1)


def test_inline_ecc_takes_a_sixteenth_first() -> None:
    plain = usable(memory(48), TABLES.constants)
    ecc = usable(memory(48, inline_ecc=True), TABLES.constants)
    assert plain.rule == ecc.rule == "usable_nominal"
    assert gib(plain.usable_bytes) == pytest.approx(48 * (1 - 0.0079) - 195 / 1024, abs=0.001)
    assert gib(ecc.usable_bytes) == pytest.approx(45 * (1 - 0.0079) - 195 / 1024, abs=0.001)


def test_amd_keeps_sixteen_mib() -> None:
    seen = usable(memory(192, vendor="AMD"), TABLES.constants)
    assert (seen.usable_bytes, seen.rule) == (mib_bytes(192 * 1024 - 16), "usable_amd")


@pytest.mark.parametrize(
    ("size_gib", "limit_gib", "rule"),
    [
        pytest.param(16, 10922.67 / 1024, "usable_apple_small_frac", id="16 GB, llama-cpp-python#687"),
        pytest.param(32, 21845.34 / 1024, "usable_apple_small_frac", id="32 GB, ollama#434"),
        pytest.param(48, 36, "usable_apple_large_frac", id="48 GB, osaurus#1958"),
        pytest.param(64, 48, "usable_apple_large_frac", id="64 GB, llama.cpp#1870"),
    ],
)
def test_apple_limits_as_published(size_gib: float, limit_gib: float, rule: str) -> None:
    seen = usable(memory(size_gib, vendor="Apple", unified=True), TABLES.constants)
    assert seen.rule == rule
    assert gib(seen.usable_bytes) == pytest.approx(limit_gib, rel=0.03)


def test_other_shared_memory_uses_its_own_share() -> None:
    seen = usable(memory(64, unified=True), TABLES.constants)
    assert seen.rule == "usable_unified_frac"
    assert gib(seen.usable_bytes) == pytest.approx(60.8)


def test_the_rule_predicts_readings_it_was_not_fitted_on() -> None:
    """Recalled torch totals of cards that take no part in the fit: within 1.5 %."""
    for gpu_id in ("v100-sxm-32gb", "rtx-2080-ti-11gb", "p100-pcie-16gb", "a100-sxm-80gb"):
        gpu = TABLES.gpus[gpu_id]
        assert gpu.memory_nominal_gb is not None
        ruled = usable(memory(gpu.memory_nominal_gb), TABLES.constants)
        assert gpu.usable_bytes == pytest.approx(ruled.usable_bytes, rel=0.015), gpu_id
