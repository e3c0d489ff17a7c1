"""Sums of a ledger: kept when an entry is added, and never of something else."""

from planner.lazy import lazy
from planner.ledger import ALWAYS, Category, Entry, Layer, Ledger, Phase, make_ledger
from planner.memory.terms import item

PHASES = (Phase.REST, Phase.BACKWARD)
WEIGHTS = item(Category.WEIGHTS, "weights", 700, "P*e", {"P": 350, "e": 2}, "number_formats")
SAVED = item(Category.ACTIVATIONS, "saved", 90, "t", {"t": 90}, "activations_eager", phases={Phase.BACKWARD})
ROOM = item(
    Category.ALLOCATOR, "cache", 30, "c", {"c": 30}, "allocator_slack",
    phases={Phase.REST}, layer=Layer.RESERVED, estimate=True,
)  # fmt: skip


def test_an_added_entry_is_in_every_sum_as_if_it_had_been_there() -> None:
    before = make_ledger([WEIGHTS, SAVED], PHASES)
    assert before.peak(Layer.RESERVED) == (Phase.BACKWARD, 790)
    added, whole = before.with_entry(ROOM), Ledger((WEIGHTS, SAVED, ROOM), PHASES)
    assert added == whole
    sums = [(phase, layer) for phase in PHASES for layer in Layer]
    assert [added.phase_bytes(*one) for one in sums] == [whole.phase_bytes(*one) for one in sums]
    assert [added.phase_bytes(Phase.REST, layer) for layer in Layer] == [700, 730, 730, 730]
    assert [before.phase_bytes(Phase.REST, layer) for layer in Layer] == [700, 700, 700, 700]


def test_an_empty_entry_is_not_added() -> None:
    before = make_ledger([WEIGHTS], PHASES)
    assert before.with_entry(ROOM._replace(bytes=0)) is before


def test_bytes_of_a_category_are_the_live_ones_of_a_phase() -> None:
    held = WEIGHTS._replace(name="held", bytes=5, phases=frozenset({Phase.BACKWARD}))
    other = WEIGHTS._replace(name="context", bytes=11, layer=Layer.PROCESS)
    ledger = make_ledger([WEIGHTS, held, other], PHASES)
    assert ledger.category_bytes(Phase.BACKWARD, Category.WEIGHTS) == 705
    assert ledger.category_bytes(Phase.BACKWARD, Category.WEIGHTS, but=Phase.REST) == 5
    assert ledger.category_bytes(Phase.BACKWARD, Category.LOGITS) == 0


def test_an_item_has_every_field_of_an_entry_in_its_place() -> None:
    named = Entry(
        category=Category.ALLOCATOR, name="cache", bytes=30, phases=frozenset({Phase.REST}), formula="c",
        symbols=(("c", 30),), reference="allocator_slack", layer=Layer.RESERVED, estimate=True, moment=(),
    )  # fmt: skip
    assert named == ROOM
    assert WEIGHTS.phases is ALWAYS
    assert Entry(*WEIGHTS) == WEIGHTS


def test_a_lazy_value_is_worked_out_once_for_each_object() -> None:
    calls = []

    class One:
        @lazy
        def value(self) -> int:
            """A number."""
            calls.append(self)
            return len(calls)

    first, second = One(), One()
    assert (first.value, first.value, second.value) == (1, 1, 2)
    assert calls == [first, second]
    assert isinstance(One.value, lazy)
    assert One.value.__doc__ == "A number."
