"""Steps with pictures on which the formulas of `planner.training.pictures` are held against traces.

Small models of real classes: each tower with the language model it comes with, trained, frozen, below adapters, with
checkpoints, by every kind of attention. `python -m benchmarks.picture_cases` traces them all and writes
`tests/data/picture_traces.json` (memory limited, one after the other, about three minutes).
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from benchmarks.formula_cases import CARD, CHECKPOINTING, OPTIMIZERS, PRECISIONS, Case
from benchmarks.formula_records import RECORDS

PICTURE_RECORDS: Final[Path] = RECORDS.with_name("picture_traces.json")
Config = dict[str, Any]

TEXT: Final[Config] = {
    "hidden_size": 512,
    "intermediate_size": 1376,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 4096,
    "max_position_embeddings": 4096,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}
LLAMA: Final[Config] = {**TEXT, "model_type": "llama", "num_key_value_heads": 8}
GEMMA: Final[Config] = {
    **TEXT,
    "model_type": "gemma3_text",
    "intermediate_size": 2048,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "sliding_window": 512,
    "layer_types": [*["sliding_attention"] * 5, "full_attention"],
    "hidden_act": "gelu_pytorch_tanh",
}
VIT: Final[Config] = {
    "hidden_size": 256,
    "intermediate_size": 1024,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "patch_size": 14,
}
CLIP: Final[Config] = {
    **VIT,
    "model_type": "clip_vision_model",
    "image_size": 336,
    "hidden_act": "quick_gelu",
}
SIGLIP: Final[Config] = {
    **VIT,
    "model_type": "siglip_vision_model",
    "image_size": 448,
    "hidden_act": "gelu_pytorch_tanh",
    "vision_use_head": False,
}
PIXTRAL: Final[Config] = {
    **VIT,
    "model_type": "pixtral",
    "image_size": 1540,
    "head_dim": 64,
    "hidden_act": "silu",
}
QWEN: Final[Config] = {
    "depth": 6,
    "num_heads": 4,
    "in_channels": 3,
    "patch_size": 14,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
}
IMAGE_TOKEN: Final = 4000
AXES: Final = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [8, 12, 12]}


def _llava(vision: Config, layer: int, strategy: str) -> Config:
    return {
        "model_type": "llava",
        "image_token_index": IMAGE_TOKEN,
        "projector_hidden_act": "gelu",
        "vision_feature_layer": layer,
        "vision_feature_select_strategy": strategy,
        "vision_config": vision,
        "text_config": LLAMA,
    }


def _qwen(kind: str, vision: Config, **text: object) -> Config:
    return {
        "model_type": kind,
        "image_token_id": IMAGE_TOKEN,
        "video_token_id": IMAGE_TOKEN + 1,
        "tie_word_embeddings": False,
        "vision_config": {**QWEN, "model_type": kind, **vision},
        "text_config": {**TEXT, "model_type": f"{kind}_text", "rope_parameters": AXES, **text},
    }


CONFIGS: Final[dict[str, Config]] = {
    "clip": _llava(CLIP, -2, "default"),
    "siglip": _llava(SIGLIP, -1, "full"),
    "gemma3": {
        "model_type": "gemma3",
        "image_token_index": IMAGE_TOKEN,
        "mm_tokens_per_image": 256,
        "tie_word_embeddings": True,
        "vision_config": SIGLIP,
        "text_config": {**GEMMA, "tie_word_embeddings": True},
    },
    "pixtral": {
        "model_type": "mistral3",
        "image_token_index": IMAGE_TOKEN,
        "spatial_merge_size": 2,
        "vision_feature_layer": -1,
        "projector_hidden_act": "gelu",
        "multimodal_projector_bias": False,
        "tie_word_embeddings": False,
        "vision_config": PIXTRAL,
        "text_config": {**LLAMA, "model_type": "mistral", "sliding_window": None, "head_dim": 64},
    },
    "qwen2": _qwen("qwen2_vl", {"embed_dim": 256, "hidden_size": 512, "mlp_ratio": 4}),
    "qwen2.5": _qwen(
        "qwen2_5_vl",
        {
            "hidden_size": 256, "intermediate_size": 688, "out_hidden_size": 512, "window_size": 112,
            "fullatt_block_indexes": [2, 5], "hidden_act": "silu",
        },
    ),
    "qwen3": _qwen(
        "qwen3_vl",
        {
            "hidden_size": 256, "intermediate_size": 1024, "out_hidden_size": 512, "patch_size": 16,
            "num_position_embeddings": 1024, "deepstack_visual_indexes": [1, 2, 3],
            "hidden_act": "gelu_pytorch_tanh",
        },
        head_dim=64,
        rope_parameters={**AXES, "mrope_interleaved": True},
    ),
}  # fmt: skip
PIXELS: Final = {"pixtral": 448 * 448, "qwen2": 448 * 448, "qwen2.5": 448 * 448, "qwen3": 512 * 512}
SEQUENCES: Final = {"siglip": 2304, "pixtral": 2304}
"""Where two pictures would fill the 2,048 tokens of the others."""
STEPS: Final = (
    "clip trained none sdpa bf16",
    "clip trained full sdpa bf16",
    "clip frozen none sdpa bf16",
    "clip adapter none sdpa bf16",
    "clip adapter full sdpa bf16",
    "clip trained none eager bf16",
    "clip trained none sdpa cast-bf16",
    "clip trained none flash bf16",
    "siglip trained none sdpa bf16",
    "siglip trained full eager bf16",
    "siglip adapter full flash bf16",
    "siglip frozen full sdpa cast-bf16",
    "gemma3 trained none sdpa bf16",
    "gemma3 adapter full sdpa bf16",
    "gemma3 frozen none sdpa bf16",
    "pixtral trained none sdpa bf16",
    "pixtral adapter none sdpa bf16",
    "pixtral trained full eager bf16",
    "qwen2 trained none sdpa bf16",
    "qwen2 frozen full sdpa bf16",
    "qwen2.5 trained none sdpa bf16",
    "qwen2.5 trained full sdpa bf16",
    "qwen2.5 adapter full sdpa bf16",
    "qwen2.5 trained none eager bf16",
    "siglip trained none sdpa fp32",
    "qwen3 trained none sdpa bf16",
    "qwen3 trained full sdpa bf16",
    "qwen3 frozen none sdpa bf16",
)
"""Tower, what learns, checkpointing, attention, precision."""


def picture_cases() -> tuple[Case, ...]:
    """Every step."""
    return tuple(_cases())


def _cases() -> Iterator[Case]:
    for words in STEPS:
        tower, learns, checkpointing, attention, precision = words.split()
        yield Case(
            name=words.replace(" ", "-"),
            scenario=_document(tower, learns, checkpointing, attention, PRECISIONS[precision]),
        )


def _document(
    tower: str, learns: str, checkpointing: str, attention: str, precision: tuple[str, str, bool]
) -> dict[str, Any]:
    stored, compute, autocast = precision
    training = {
        "micro_batch": 1,
        "sequence_length": SEQUENCES.get(tower, 2048),
        "images": 2,
        "attention": attention,
        "loss": "standard",
        "dropout": 0.0,
        "precision": {"parameters": stored, "compute": compute, "autocast": autocast},
        "optimizer": OPTIMIZERS["foreach"],
        **CHECKPOINTING[checkpointing],
    }
    if tower in PIXELS:
        training["image_pixels"] = PIXELS[tower]
    if learns == "frozen":
        training["tower"] = "frozen"
    found: dict[str, Any] = {
        "version": 1,
        "task": "lora" if learns == "adapter" else "full",
        "model": {"config": CONFIGS[tower]},
        "hardware": {"devices": [{"gpu": CARD}]},
        "runtime": {"name": "hf_trainer"},
        "training": training,
    }
    if learns == "adapter":
        found["adapter"] = {
            "method": "lora", "rank": 16, "alpha": 16, "dropout": 0.0, "dtype": "fp32", "base": stored,
            "targets": ["q_proj", "v_proj"],
        }  # fmt: skip
    return found


def main() -> int:
    """Trace every step, or those named, and write what was traced. Returns 1 where a step has no trace."""
    from benchmarks.case_records import trace_and_record  # noqa: PLC0415  # starts children

    return trace_and_record(picture_cases(), sys.argv[1:], PICTURE_RECORDS)


if __name__ == "__main__":
    sys.exit(main())
