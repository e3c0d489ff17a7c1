"""Model and format from the name of a GGUF file, as the people who make them spell it."""

import re
from collections.abc import Iterable
from typing import Final

from planner.memory.serving_gguf import mixture

_SHARD: Final = re.compile(r"-\d{5}-of-\d{5}$")
_TAG: Final = re.compile(r"[-._](?:ud[-._])?(i?q\d\w*|bf16|f16|f32|fp16|mxfp4\w*)$", re.IGNORECASE)
_PLAIN: Final = {"f16": "fp16", "f32": "fp32", "mxfp4_moe": "mxfp4"}
_SIXTEEN: Final = frozenset({"fp32", "fp16", "bf16"})
_MAKERS: Final = ("meta-", "")
"""Put before a name or left out by those who convert a model."""
LONGEST: Final = 300


def split_name(given: str) -> tuple[str, str | None]:
    """Name and format: `Qwen3-30B-A3B-Q4_K_M.gguf`, `org/Qwen3-30B-A3B-GGUF:Q4_K_M`.

    Args:
        given: A path, a file name, or a repository with the tag after a colon.

    Returns:
        The bare name, and the id of the format; None where the name has none that is known.
    """
    path, _, tag = given[:LONGEST].replace("\\", "/").partition(":") if "/" in given else (given, "", "")
    stem = path[:LONGEST].rpartition("/")[2]
    stem = _SHARD.sub("", re.sub(r"\.gguf$", "", stem, flags=re.IGNORECASE))
    stem = re.sub(r"[-._]gguf$", "", stem, flags=re.IGNORECASE)
    found = _TAG.search(stem)
    if found:
        stem = stem[: found.start()]
    word = (tag or (found[1] if found else "")).casefold().removeprefix("ud-").replace("-", "_")
    word = _PLAIN.get(word, word)
    return stem, word if word in _SIXTEEN or mixture(word) is not None else None


def catalog_model(stem: str, models: Iterable[str]) -> str | None:
    """The one catalog model of that name, whoever published it; None where none or several have it."""
    wanted = {_folded(stem)} | {_folded(maker + stem) for maker in _MAKERS}
    wanted |= {name.removeprefix("meta-") for name in wanted}
    found = [model for model in models if _folded(model.rpartition("/")[2]) in wanted]
    return found[0] if len(found) == 1 else None


def _folded(name: str) -> str:
    return re.sub(r"[\s_.]+", "-", name.casefold()).strip("-")
