"""The band around a time: nine of ten runs of a source not seen, by published runs of sources left out."""

from planner.hardware import Tables
from planner.throughput.types import SpeedBand

PREFIX = "speed_band_"


def speed_band(time_s: float, kind: str, tables: Tables) -> SpeedBand | None:
    """The interval that nine of ten runs of a kind lie in, of a source that stands behind none of it.

    Args:
        time_s: The central answer.
        kind: `train_dense`, `train_moe`, `decode_full`, `decode_packed`, `served_batch`, `offline` or `prefill`.
        tables: Holds `speed_band_<kind>_low_frac` and `..._high_frac`.

    Returns:
        None where the tables have no such row.
    """
    low = tables.constants.get(f"{PREFIX}{kind}_low_frac")
    high = tables.constants.get(f"{PREFIX}{kind}_high_frac")
    if low is None or high is None:
        return None
    return SpeedBand(
        low_s=time_s * low.value,
        high_s=time_s * high.value,
        low_frac=low.value,
        high_frac=high.value,
        n_rows=low.n_rows or 0,
        kind=kind,
    )
