"""Refuses numbers that no cost can be worked out from, naming the field, what was given and what is allowed."""


def at_least(field: str, value: float, low: float) -> None:
    """Refuses a number below a limit, or not a number.

    Raises:
        ValueError: It is.
    """
    if not value >= low:
        raise ValueError(f"{field}: {value}; allowed: {low:g} or more")


def above_zero(field: str, value: float) -> None:
    """Refuses zero and less, and what is not a number.

    Raises:
        ValueError: It is.
    """
    if not value > 0:
        raise ValueError(f"{field}: {value}; allowed: more than 0")


def share(field: str, value: float) -> None:
    """Refuses what is not between 0 and 1.

    Raises:
        ValueError: It is.
    """
    if not 0 <= value <= 1:
        raise ValueError(f"{field}: {value}; allowed: 0 to 1")
