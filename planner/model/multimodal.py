"""Configs with a language model inside: the text part is described layer by layer, the rest as blocks.

A tower that has no closed form here leaves its parameters out and says so in `ModelSpec.approximate`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from planner.model import vision
from planner.model.errors import UnknownArchitecture
from planner.model.fields import Fields
from planner.model.registry import builder_of
from planner.model.spec import Block, ModelSpec
from planner.model.tower import tower_of

Projector = Callable[[Fields, int, int], int]

NOT_COUNTED = "{}_not_counted"
_TEXT_KEYS = ("text_config", "llm_config", "language_config")
_OTHER_TOWERS = ("audio_config", "speech_config")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapper:
    """How a class joins a tower to a language model.

    Attributes:
        text: `model_type` of the language model where the nested config names none; None if it must.
        tower: `model_type` of the tower.
        any_tower: The nested config's own `model_type` decides instead; `tower` is its default.
        projector: Parameters between the two, from config, tower width and text width; None if part of
            the tower.
        flat: Older configs hold the language model's keys at the top.
        tie: `tie_word_embeddings` where neither the top nor the nested config has it.
    """

    text: str | None = None
    tower: str = ""
    any_tower: bool = False
    projector: Projector | None = None
    flat: bool = False
    tie: bool = False


WRAPPERS: dict[str, Wrapper] = {
    "llava": Wrapper(tower="clip_vision_model", any_tower=True, projector=vision.two_linears),
    "llava_next": Wrapper(tower="clip_vision_model", any_tower=True, projector=vision.two_linears_newline),
    "mistral3": Wrapper(
        text="mistral", tower="pixtral", any_tower=True, projector=vision.patch_merger, tie=True
    ),
    "mistral_large4": Wrapper(
        text="mistral_large4_text", tower="pixtral", any_tower=True, projector=vision.patch_merger
    ),
    "gemma3": Wrapper(
        text="gemma3_text",
        tower="siglip_vision_model",
        any_tower=True,
        projector=vision.norm_and_linear,
        tie=True,
    ),
    "paligemma": Wrapper(
        text="gemma", tower="siglip_vision_model", any_tower=True, projector=vision.linear_with_bias, tie=True
    ),
    "idefics3": Wrapper(text="llama", tower="idefics3_vision", projector=vision.shuffled_linear),
    "smolvlm": Wrapper(text="llama", tower="idefics3_vision", projector=vision.shuffled_linear),
    "llava_onevision": Wrapper(
        text="qwen2", tower="siglip_vision_model", any_tower=True, projector=vision.two_linears_newline
    ),
    "glm4v": Wrapper(text="glm4v_text", tower="glm4v_vision"),
    "gemma4": Wrapper(text="gemma4_text", tower="gemma4_vision", projector=vision.one_linear, tie=True),
    "llama4": Wrapper(text="llama4_text", tower="llama4_vision_model", projector=vision.llama4_linear),
    "qwen2_vl": Wrapper(text="qwen2_vl_text", tower="qwen2_vl", flat=True),
    "qwen2_5_vl": Wrapper(text="qwen2_5_vl_text", tower="qwen2_5_vl", flat=True),
    "qwen3_vl": Wrapper(text="qwen3_vl_text", tower="qwen3_vl"),
    "qwen3_vl_moe": Wrapper(text="qwen3_vl_moe_text", tower="qwen3_vl_moe"),
    "qwen3_5": Wrapper(text="qwen3_5_text", tower="qwen3_5"),
    "qwen3_5_moe": Wrapper(text="qwen3_5_moe_text", tower="qwen3_5_moe"),
    "kimi_vl": Wrapper(text="deepseek_v3", tower="moonvit", projector=vision.kimi_vl_projector),
    "glm5_next": Wrapper(text="glm5_next_text", tower="glm5_next_vision"),
    "deepseek_v41": Wrapper(text="deepseek_v41_text", tower="deepseek_v41_vision"),
    "kimi_k25": Wrapper(tower="kimi_k25_vision", projector=vision.kimi_k25_projector),
    "kimi_k3": Wrapper(text="kimi_linear", tower="kimi_k25_vision", projector=vision.kimi_k25_projector),
    "step3p7": Wrapper(text="step3p5", tower="step3p5_vision", projector=vision.step_linear, flat=True),
    "minimax_m3_vl": Wrapper(
        text="minimax_m3_vl_text", tower="minimax_m3_vl_vision", projector=vision.minimax_m3_projector
    ),
    "moondream1": Wrapper(text="phi"),
}


def text_fields(f: Fields, wrapper: Wrapper) -> Fields:
    """The language model's config; `tie_word_embeddings` at the top beats the nested one."""
    if wrapper.flat and not f.has(*_TEXT_KEYS):
        return f
    nested = f.nested(*_TEXT_KEYS)
    tie = f.raw("tie_word_embeddings")[1]
    if tie is None:
        tie = nested.raw("tie_word_embeddings")[1]
    joined: Mapping[str, object] = {
        **nested.config,
        "tie_word_embeddings": wrapper.tie if tie is None else tie,
    }
    return Fields(joined, f.model_type, nested.prefix)


def build(f: Fields) -> ModelSpec:
    """A language model with what is around it."""
    wrapper = WRAPPERS[f.model_type]
    text = text_fields(f, wrapper)
    name = text.text("model_type", default=wrapper.text) if text is not f else wrapper.text or ""
    builder = builder_of(name)
    if builder is None:
        raise UnknownArchitecture(f.model_type, "unknown_model_type", f"{text.prefix}model_type", value=name)
    spec = builder(text)
    blocks, missing = _around(f, wrapper, spec.hidden_size)
    return replace(spec, blocks=(*blocks, *spec.blocks), approximate=(*spec.approximate, *missing))


def _around(f: Fields, wrapper: Wrapper, text_width: int) -> tuple[tuple[Block, ...], tuple[str, ...]]:
    missing = [
        NOT_COUNTED.format(key.removesuffix("_config") + "_tower") for key in _OTHER_TOWERS if f.has(key)
    ]
    if not f.has("vision_config"):
        return (), (NOT_COUNTED.format("vision_tower"), *missing)
    tower = f.nested("vision_config")
    name = tower.text("model_type", default=wrapper.tower) if wrapper.any_tower else wrapper.tower
    count = vision.TOWERS.get(name)
    if count is None:
        return (), (NOT_COUNTED.format("vision_tower"), *missing)
    shape = tower_of(name, f, tower, text_width)
    blocks = [Block(name="vision_tower", params=count(tower), tower=shape)]
    if wrapper.projector is not None:
        params = wrapper.projector(f, tower.size("hidden_size", "vt_hidden_size"), text_width)
        blocks.append(Block(name="projector", params=params))
    return tuple(blocks), tuple(missing)
