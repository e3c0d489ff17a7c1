"""Number formats against the runtime: what an engine has no kernels or no files for is refused by name."""

from collections.abc import Iterator
from typing import Final

from planner.checks.codes import make
from planner.checks.job import LLAMA_FAMILY
from planner.checks.question import Question
from planner.checks.words import listed
from planner.issues import Issue
from planner.memory.serving_gguf import MIXTURES, PLAIN_GGUF, mixture
from planner.memory.weight_formats import FORMATS, weight_format

_GGML_KV: Final = ("fp32", "fp16", "bf16", "q8_0", "q5_0", "q5_1", "q4_0", "q4_1", "iq4_nl")
_TORCH_KV: Final = ("bf16", "fp16", "fp32")
KV_FORMATS: Final[dict[str, tuple[str, ...]]] = {
    "llama_cpp": _GGML_KV,
    "ik_llama_cpp": (*_GGML_KV, "q6_0"),
    "ollama": ("fp16", "q8_0", "q4_0"),
    "transformers": _TORCH_KV,
}
"""What a cache can be stored in, by runtime; the engines that are not named have `ENGINE_KV`."""
ENGINE_KV: Final = (*_TORCH_KV, "fp8")
GGUF_READERS: Final = ("vllm", "aphrodite", "sglang", "sglang_omni")
"""Engines that read GGUF files beside their own formats."""
ENGINE_WEIGHTS: Final = tuple(f.id for f in FORMATS.values() if f.family != "gguf")
_COMMON_GGUF: Final = (*PLAIN_GGUF, *MIXTURES)


def check_runtime_formats(question: Question) -> Iterator[Issue]:
    """A cache or weight format, where one is given, is one that the runtime has."""
    name = question.resolved.runtime.name
    if question.trains or name == "generic":
        return
    serving, kv = question.asked.serving, KV_FORMATS.get(name, ENGINE_KV)
    found = (
        ("serving.kv_cache", serving.kv_cache, () if serving.kv_cache in kv else kv),
        ("serving.kv_cache_v", serving.kv_cache_v, () if serving.kv_cache_v in kv else kv),
        ("serving.weights", serving.weights, _weights_instead(serving.weights, name)),
        ("serving.expert_weights", serving.expert_weights, _weights_instead(serving.expert_weights, name)),
    )
    for field, given, allowed in found:
        if given is not None and allowed:
            yield make("format_not_in_runtime", field, given=given, runtime=name, allowed=listed(allowed))


def _weights_instead(given: str | None, runtime: str) -> tuple[str, ...]:
    """The formats to choose from where the runtime lacks the given one, else none.

    An id that no table knows is left to the "not modelled" warning: it may be a published mixture's own name.
    """
    if given is None:
        return ()
    found = weight_format(given)
    if runtime in LLAMA_FAMILY:
        foreign = found is not None and found.family != "gguf" and given not in _COMMON_GGUF
        return _COMMON_GGUF if foreign else ()
    of_gguf = found is None or found.family == "gguf"
    known_gguf = of_gguf and mixture(given) is not None
    return ENGINE_WEIGHTS if known_gguf and runtime not in GGUF_READERS else ()


CHECKS = (check_runtime_formats,)
