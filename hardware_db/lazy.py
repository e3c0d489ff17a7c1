"""A sequence that is read when first looked at."""

from collections.abc import Callable, Sequence
from typing import TypeVar, overload

Item = TypeVar("Item")


class LazySequence(Sequence[Item]):
    """A tuple that is made on first use.

    Two threads that come first together both make it; the result is the same.
    """

    def __init__(self, make: Callable[[], tuple[Item, ...]]) -> None:
        self._make = make
        self._items: tuple[Item, ...] | None = None

    def _all(self) -> tuple[Item, ...]:
        if self._items is None:
            self._items = self._make()
        return self._items

    @overload
    def __getitem__(self, index: int) -> Item: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Item, ...]: ...

    def __getitem__(self, index: int | slice) -> Item | tuple[Item, ...]:
        return self._all()[index]

    def __len__(self) -> int:
        return len(self._all())
