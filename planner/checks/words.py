"""Values and suggestions for messages: short, safe text whatever was given."""

import json
from collections.abc import Iterable

LONGEST_SHOWN = 80
SHORTEST_PART = 3


def shown(value: object) -> str:
    """A value as short JSON text, cut where it is long; never raises."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=lambda item: type(item).__name__)
    except (ValueError, RecursionError, TypeError):
        text = type(value).__name__
    text = text.encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 3] + "..."


def listed(values: Iterable[object], limit: int = 40) -> str:
    """Values with commas between, at most `limit` of them."""
    items = [str(value) for value in values]
    return ", ".join(items) if len(items) <= limit else ", ".join(items[:limit]) + ", ..."


def closest(given: object, known: Iterable[str]) -> str | None:
    """The known word nearest to what was given or the first that holds it, None where nothing comes near."""
    if not isinstance(given, str) or len(given) > 200:
        return None
    from difflib import get_close_matches  # noqa: PLC0415 - only a mistake needs it, and the command line starts without

    folded: dict[str, str] = {}
    for word in known:
        folded.setdefault(word.casefold(), word)
        folded.setdefault(word.casefold().rpartition("/")[2], word)
    asked = given.casefold()
    found = get_close_matches(asked, folded, n=1, cutoff=0.6)
    if found:
        return folded[found[0]]
    return next((word for key, word in folded.items() if len(asked) >= SHORTEST_PART and asked in key), None)


def divisors(number: int, limit: int = 65_536) -> str:
    """The divisors of a size, as text, up to `limit`."""
    return listed((d for d in range(1, min(number, limit) + 1) if number % d == 0), limit=24)
