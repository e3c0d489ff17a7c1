"""Names for people: of models and cards."""

from typing import Final

_PLAIN_PREFIXES: Final = ("GeForce ",)


def short_model_name(model_id: str) -> str:
    """The id without its owner."""
    return model_id.rpartition("/")[2]


def card_name(name: str) -> str:
    """A card's name without the brand line everyone leaves out."""
    for prefix in _PLAIN_PREFIXES:
        name = name.removeprefix(prefix)
    return name
