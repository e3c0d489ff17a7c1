"""Vision towers of catalogue rows, which say only how many parameters a tower has.

A tower is taken for one of its family's published shapes where that has exactly as many parameters, to the element.
Shapes: `Qwen3VLVisionConfig` and `Qwen3_5VisionConfig` of transformers 5.24, and the smaller of the two that Qwen3-VL's
checkpoints have.
"""

from collections.abc import Mapping
from typing import Final

from planner.model import vision
from planner.model.fields import Fields
from planner.model.tower import Tower, tower_of

_QWEN3: Final[Mapping[str, object]] = {
    "depth": 27,
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_heads": 16,
    "patch_size": 16,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "in_channels": 3,
    "num_position_embeddings": 2304,
    "deepstack_visual_indexes": (8, 16, 24),
    "hidden_act": "gelu_pytorch_tanh",
}
_QWEN3_SMALL: Final[Mapping[str, object]] = {
    **_QWEN3,
    "depth": 24,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "deepstack_visual_indexes": (5, 11, 17),
}
_QWEN3_5: Final[Mapping[str, object]] = {**_QWEN3, "deepstack_visual_indexes": ()}
SHAPES: Final[Mapping[str, tuple[Mapping[str, object], ...]]] = {
    "qwen3_vl": (_QWEN3, _QWEN3_SMALL),
    "qwen3_vl_moe": (_QWEN3, _QWEN3_SMALL),
    "qwen3_5": (_QWEN3_5,),
    "qwen3_5_moe": (_QWEN3_5,),
}


def tower_of_row(model_type: str, text_width: int, params: int) -> Tower | None:
    """The tower of a row of that type with so many parameters; None where no shape has as many.

    Args:
        model_type: The row's.
        text_width: Width of the language model.
        params: Elements of tower and projector.
    """
    for shape in SHAPES.get(model_type, ()):
        fields = Fields({**shape, "out_hidden_size": text_width}, model_type)
        if vision.TOWERS[model_type](fields) == params:
            return tower_of(model_type, Fields({}, model_type), fields, text_width)
    return None
