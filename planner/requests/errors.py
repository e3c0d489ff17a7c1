"""Input that a simulation can't use."""


class RequestsInputError(ValueError):
    """A value outside what is allowed.

    Attributes:
        field: Where it stands, as a dotted path of a scenario where it has one.
        given: What was given.
        allowed: What may stand there, as a code: `positive`, `share`, `tokens_list`, `ordered`, `number`.
    """

    def __init__(self, field: str, given: object, allowed: str) -> None:
        super().__init__(f"{field}: {given!r} given; allowed: {allowed}")
        self.field = field
        self.given = given
        self.allowed = allowed


def positive(field: str, value: float) -> None:
    """Raise unless a value is above zero.

    Raises:
        RequestsInputError: It is not.
    """
    if not value > 0:
        raise RequestsInputError(field, value, "positive")


def share(field: str, value: float) -> None:
    """Raise unless a value lies between 0 and 1.

    Raises:
        RequestsInputError: It does not.
    """
    if not 0 <= value <= 1:
        raise RequestsInputError(field, value, "share")
