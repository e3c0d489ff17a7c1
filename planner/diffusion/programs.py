"""Every block by the name that a layer has for it."""

from collections.abc import Mapping
from typing import Final

from planner.diffusion import blocks, mochi

PROGRAMS: Final[Mapping[str, tuple[blocks.Program, blocks.Shape]]] = {
    "flux_double": (blocks.flux_double, blocks.Shape()),
    "flux_single": (blocks.flux_single, blocks.Shape()),
    "flux2_double": (blocks.flux_double, blocks.Shape(gated=True)),
    "flux2_single": (blocks.flux2_single, blocks.Shape()),
    "joint": (blocks.joint_block, blocks.Shape(head_norms=False)),
    "joint_normed": (blocks.joint_block, blocks.Shape()),
    "joint_second": (blocks.joint_block, blocks.Shape(second_attention=True)),
    "joint_last": (blocks.joint_block, blocks.Shape(head_norms=False, drops_text=True)),
    "joint_normed_last": (blocks.joint_block, blocks.Shape(drops_text=True)),
    "qwen_double": (blocks.qwen_double, blocks.Shape()),
    "wan": (blocks.wan_block, blocks.Shape()),
    "ltx": (blocks.ltx_block, blocks.Shape()),
    "cogvideox": (blocks.cogvideox_block, blocks.Shape()),
    "hunyuan_double": (blocks.hunyuan_double, blocks.Shape()),
    "hunyuan_single": (blocks.hunyuan_single, blocks.Shape()),
    "z_image": (blocks.z_image_block, blocks.Shape()),
    "mochi": (mochi.mochi_block, blocks.Shape()),
    "mochi_last": (mochi.mochi_block, blocks.Shape(drops_text=True)),
}
"""By the kind of block that a layer names (`planner.model.spec.Layer.program`)."""

PUTS_TOGETHER: Final = frozenset({"flux_single", "hunyuan_single"})
"""Blocks that begin by putting both streams together: what the block before put out is not kept."""
