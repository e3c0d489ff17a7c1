"""The table of traces beside real steps, from rows made by hand."""

import pytest

from benchmarks import traced_steps
from benchmarks.traced_steps import Compared, table

GOOD = Compared(name="good", real={"rest": 1000, "backward": 4000}, traced={"rest": 1000, "backward": 3999})
BAD = Compared(name="bad", real={"rest": 1000, "loss": 5000}, traced={"rest": 1002, "loss": 5000})


def test_a_row_says_its_peaks_and_its_worst_phase() -> None:
    lines = list(table([GOOD, BAD]))
    assert lines[2] == "| good | 4000 | 3999 | backward | -0.0250% |"
    assert lines[3] == "| bad | 5000 | 5000 | rest | +0.2000% |"
    assert lines[-1] == "2 settings; worst 0.2000%, median 0.1125%; 1 above 0.1 %."
    assert len(list(table([]))) == 2


@pytest.mark.parametrize(("rows", "code"), [([GOOD], 0), ([GOOD, BAD], 1)])
def test_a_phase_that_is_off_ends_with_one(
    rows: list[Compared], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traced_steps, "compared", lambda _: iter(rows))
    assert traced_steps.main([]) == code
