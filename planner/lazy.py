"""What is worked out of an object when it is first asked for, and kept with the object."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Generic, Protocol, TypeVar, overload

Value = TypeVar("Value")


class Knowing(Protocol):
    """An object that keeps what functions of it have returned."""

    @property
    def known(self) -> dict[str, Any]:
        """Results by the function's name."""
        ...


Owner = TypeVar("Owner", bound=Knowing)


def once(work: Callable[[Owner], Value]) -> Callable[[Owner], Value]:
    """A function of one object that is worked out once for each."""
    name = f"{work.__module__}.{work.__qualname__}"

    @wraps(work)
    def kept(owner: Owner) -> Value:
        known = owner.known
        if name not in known:
            known[name] = work(owner)
        found: Value = known[name]
        return found

    return kept


class lazy(Generic[Value]):  # noqa: N801 - stands where `property` does
    """`functools.cached_property` without the lock that it takes before Python 3.12, which costs more than most sums.

    Two threads that ask at once may both work it out; they find the same.
    """

    def __init__(self, work: Callable[[Any], Value]) -> None:
        self.work, self.name, self.__doc__ = work, work.__name__, work.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> "lazy[Value]": ...
    @overload
    def __get__(self, owner: object, kind: type) -> Value: ...
    def __get__(self, owner: object | None, kind: type) -> "Value | lazy[Value]":
        """The value; the next time it is found in the object itself, without a call."""
        if owner is None:
            return self
        found = owner.__dict__[self.name] = self.work(owner)
        return found
