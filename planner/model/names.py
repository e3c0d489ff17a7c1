"""Which model of the catalogue a name stands for: `Qwen2.5-7B-Instruct` is a `Qwen2.5-7B` trained further.

Copies that were tuned, converted or quantized carry what was done to them in their names and keep the shapes of the
model they were made from. A name stands for another only if all that is left of both, those words aside, is equal.
"""

import re
from functools import lru_cache
from typing import Final

MADE: Final = frozenset(
    {
        "instruct", "chat", "it", "pt", "base", "hf", "sft", "dpo", "preview", "thinking", "assistant",
        "awq", "gptq", "gguf", "exl2", "mlx", "bnb", "nf4", "fp8", "bf16", "fp16", "int4", "int8", "mxfp4", "nvfp4",
        "4bit", "8bit", "unsloth", "quantized", "dynamic", "w4a16", "w8a8", "w8a16", "g128", "gs128", "marlin",
    }
)  # fmt: skip
"""Words that say how a copy was made, and nothing of its shapes."""
MAKERS: Final = ("meta-", "hf-")
"""Makers that some copies name before the model."""
LONGEST: Final = 200
_BREAK: Final = re.compile(r"[-_. /]+")
_VERSION: Final = re.compile(r"(?<=\d)\.(?=\d)")
_SIZE: Final = re.compile(r"(?:\d+x)?\d+(?:p\d+)?[bmt]")


def catalog_name(given: str, known: tuple[str, ...]) -> str | None:
    """The one model of the catalogue that a copy of this name was made from; None if there is none, or several.

    Args:
        given: An id with or without its owner, such as `unsloth/Meta-Llama-3.1-8B-bnb-4bit`.
        known: Ids of the catalogue.
    """
    return _known(known).get(_left(given)) if len(given) <= LONGEST else None


def nearest_name(given: str, known: tuple[str, ...]) -> str | None:
    """The model most likely meant; None where none comes near.

    One of the size that is named, if there is any; else one that the name begins with, or all but equals.
    """
    if len(given) > LONGEST:
        return None
    asked, names = _left(given), {left: name for left, name in _known(known).items() if name}
    sizes = {word for word in asked if _SIZE.fullmatch(word)}
    of_size = {left: name for left, name in names.items() if sizes and sizes <= set(left)}
    begun = [left for left in names if left == asked[: len(left)]]
    return (
        _alike(asked, of_size, 0.6)
        or names.get(max(begun, key=len, default=()))
        or _alike(asked, names, 0.85)
    )


def named_in_part(given: str, known: tuple[str, ...]) -> str | None:
    """The shortest name with every word of the one given, as `stable-diffusion-xl` is one of a longer name.

    Args:
        given: An id with or without its owner.
        known: Ids of the catalogue; of names equally long the first counts.
    """
    asked = set(_left(given)) if len(given) <= LONGEST else set()
    found = [name for name in known if asked and asked <= set(_left(name))]
    return min(found, key=lambda name: len(_left(name)), default=None)


def _alike(asked: tuple[str, ...], names: dict[tuple[str, ...], str], cutoff: float) -> str | None:
    from difflib import get_close_matches  # noqa: PLC0415 - only a mistake needs it

    joined = {"-".join(left): name for left, name in names.items()}
    found = get_close_matches("-".join(asked), joined, n=1, cutoff=cutoff)
    return joined[found[0]] if found else None


@lru_cache(maxsize=4)
def _known(known: tuple[str, ...]) -> dict[tuple[str, ...], str | None]:
    """What is left of each name; None where several names leave the same."""
    found: dict[tuple[str, ...], str | None] = {}
    for name in known:
        left = _left(name)
        found[left] = None if left in found else name
    return found


def _left(name: str) -> tuple[str, ...]:
    """The words of a name that tell its shapes."""
    text = name.casefold().rpartition("/")[2]
    for maker in MAKERS:
        text = text.removeprefix(maker)
    words = _BREAK.split(_VERSION.sub("p", text))
    return tuple(word for word in words if word and word not in MADE)
