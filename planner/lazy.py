"""A value of an object that is worked out when it is first asked for, and kept with the object."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value")


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
