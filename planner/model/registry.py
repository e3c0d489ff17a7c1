"""Which file builds which `model_type`. A file is loaded when one of its models is first asked for."""

import importlib
from collections.abc import Callable, Mapping
from typing import Final, cast

from planner.model.fields import Fields
from planner.model.spec import ModelSpec

Builder = Callable[[Fields], ModelSpec]

MULTIMODAL: Final = "multimodal"
FAMILIES: Final[Mapping[str, tuple[str, ...]]] = {
    "dense_decoders": (
        "llama",
        "granite",
        "minicpm",
        "mistral",
        "ministral3",
        "ministral",
        "qwen2",
        "qwen2_vl_text",
        "qwen2_5_vl_text",
        "mimo",
        "qwen3",
        "qwen3_vl_text",
        "seed_oss",
        "smollm3",
        "arcee",
        "ernie4_5",
        "exaone4",
        "hunyuan_v1_dense",
        "gemma",
        "gemma2",
        "gemma3_text",
        "glm",
        "glm4",
        "glm4v_text",
        "olmo",
        "olmo2",
        "olmo3",
        "phi3",
        "internlm3",
        "internlm2",
        "internlm",
        "baichuan",
        "cohere",
        "cohere2",
        "nemotron",
        "starcoder2",
        "phi",
        "stablelm",
        "apertus",
    ),
    "gpt": (
        "gpt2",
        "gpt_bigcode",
        "gpt_neo",
        "gptj",
        "gpt_neox",
        "bloom",
        "falcon",
    ),
    "gpt_variants": (
        "mpt",
        "opt",
        "chatglm",
        "qwen",
    ),
    "moe": (
        "mixtral",
        "phimoe",
        "olmoe",
        "minimax_m2",
        "grok1",
        "granitemoe",
        "granitemoeshared",
        "gpt_oss",
        "qwen2_moe",
        "qwen3_moe",
        "qwen3_vl_moe_text",
        "deepseek",
        "dots1",
        "glm4_moe",
    ),
    "moe_variants": (
        "minimax_m3",
        "minimax_m3_vl_text",
        "ernie4_5_moe",
        "dbrx",
        "llama4_text",
        "mimo_v2_flash",
        "step3p5",
    ),
    "mla_moe": (
        "deepseek_v2",
        "deepseek_v3",
        "kimi_k2",
        "deepseek_v32",
        "glm_moe_dsa",
        "glm4_moe_lite",
        "mistral4",
        "mistral_large4_text",
        "longcat_flash",
    ),
    "hyper": (
        "deepseek_v4",
        "glm5_next_text",
    ),
    "hybrid": (
        "qwen3_next",
        "qwen3_5_text",
        "qwen3_5_moe_text",
        "minimax",
        "kimi_linear",
        "lfm2",
        "lfm2_moe",
    ),
    "mamba": (
        "jamba",
        "mamba",
        "falcon_mamba",
        "mamba2",
        "bamba",
        "nemotron_h",
        "granitemoehybrid",
        "falcon_h1",
    ),
    "gemma": (
        "gemma3n_text",
        "gemma4_text",
    ),
    "deepseek_v41": ("deepseek_v41_text",),
    "nas": ("nemotron-nas",),
    "encoders": (
        "bert",
        "roberta",
        "xlm-roberta",
        "electra",
        "distilbert",
        "modernbert",
        "vit",
        "dinov2",
        "wav2vec2",
    ),
    "dual_encoders": (
        "clip",
        "siglip",
    ),
    "encoder_decoder": (
        "t5",
        "mt5",
        "umt5",
        "bart",
        "mbart",
        "whisper",
    ),
    "diffusion": (
        "flux",
        "flux2",
        "sd3",
        "qwen_image",
        "hunyuan_video",
        "wan",
        "ltx_video",
        "cogvideox",
        "z_image",
    ),
    "mochi": ("mochi",),
    "unet": ("unet_2d_condition",),
    "megatron": (
        "megatron_gpt",
        "megatron_moe",
        "megatron_bert",
        "megatron_t5",
    ),
    MULTIMODAL: (
        "llava",
        "llava_next",
        "mistral3",
        "mistral_large4",
        "gemma3",
        "paligemma",
        "idefics3",
        "smolvlm",
        "llava_onevision",
        "glm4v",
        "gemma4",
        "llama4",
        "qwen2_vl",
        "qwen2_5_vl",
        "qwen3_vl",
        "qwen3_vl_moe",
        "qwen3_5",
        "qwen3_5_moe",
        "kimi_vl",
        "glm5_next",
        "deepseek_v41",
        "kimi_k25",
        "kimi_k3",
        "step3p7",
        "minimax_m3_vl",
        "moondream1",
    ),
}
"""The names in each file's `BUILDERS` (`WRAPPERS` for models with a language model inside)."""

FAMILY_OF: Final = {model_type: family for family, types in FAMILIES.items() for model_type in types}

MODEL_TYPES: Final = tuple(sorted(FAMILY_OF))
"""Every `model_type` that can be described."""


def builder_of(model_type: str) -> Builder | None:
    """The builder of a model that stands alone; None for unknown types and for those with a model inside."""
    family = FAMILY_OF.get(model_type)
    if family is None or family == MULTIMODAL:
        return None
    module = importlib.import_module(f"planner.model.{family}")
    return cast("Mapping[str, Builder]", module.BUILDERS)[model_type]
