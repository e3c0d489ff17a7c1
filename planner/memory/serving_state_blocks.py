"""Blocks that recurrent layers take in vLLM's pool: one a sequence, two, or one at every block's end.

With prefix caching a state is kept where a later request may begin: `align` keeps the state before beside the
current one, `all` (classes with `SupportsMambaPrefixCaching`: Mamba) one at the end of every block.
"""

from dataclasses import dataclass, replace
from math import lcm
from typing import Final

from planner.memory.kv_cache import STATEFUL, CacheShape, keeps_states
from planner.memory.serving_demand import version_of
from planner.memory.serving_draft import draft_tokens
from planner.memory.weight_formats import config_value
from planner.model.spec import AttentionKind, ModelSpec
from planner.scenario import Scenario

HYBRID_PREFIXES_FROM: Final = (0, 28)
"""First version seen to turn prefix caching on for models with recurrent layers (0.23 did not)."""
ALIGN_FROM: Final = (0, 15)
CHUNK_TOKENS: Final = 256
"""Tokens of a Mamba-2 chunk where a config says nothing; kept blocks are whole chunks."""
KERNEL_KEYS: Final = (
    "linear_conv_kernel_dim",
    "mamba_d_conv",
    "conv_kernel",
    "d_conv",
    "short_conv_kernel_size",
)
KERNEL: Final = 4
"""Width of the convolution before a recurrent layer where a config says nothing."""
STEP: Final = 16
LATENT_STEP: Final = 64
"""Kernels of latent attention want larger blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateBlocks:
    """How many blocks a sequence holds in a recurrent group.

    Attributes:
        fixed: Blocks whatever its length; a drafted token has one each, so that those refused can be taken back.
        each_block: One more for every block of tokens.
        step_tokens: Blocks of tokens are multiples of this.
    """

    fixed: int = 1
    each_block: bool = False
    step_tokens: int = STEP


def has_states(model: ModelSpec) -> bool:
    """Whether a model has recurrent layers."""
    return any(keeps_states(layer.attention) for layer in model.layers)


def caches_prefixes(scenario: Scenario, model: ModelSpec) -> bool:
    """Whether the second engine generation turns prefix caching on unless told.

    Models with recurrent layers alone never; beside attention from `HYBRID_PREFIXES_FROM` on.
    """
    if not has_states(model):
        return True
    alone = all(layer.attention.kind in STATEFUL | {AttentionKind.NONE} for layer in model.layers)
    return not alone and version_of(scenario) >= HYBRID_PREFIXES_FROM


def state_blocks(scenario: Scenario, model: ModelSpec) -> StateBlocks:
    """The rule for a scenario with its runtime's defaults."""
    drafted = draft_tokens(scenario)
    latent = any(layer.attention.kind is AttentionKind.MLA for layer in model.layers)
    step = LATENT_STEP if latent else STEP
    cached = bool(scenario.serving.prefix_caching) and has_states(model)
    if scenario.runtime.name != "vllm" or not cached:
        return StateBlocks(fixed=1 + drafted, step_tokens=step)
    delta = AttentionKind.LINEAR, AttentionKind.CONVOLUTION
    spaces = any(la.attention.kind not in delta and keeps_states(la.attention) for la in model.layers)
    if spaces and not drafted:
        chunk = config_value(model, "mamba_chunk_size") or config_value(model, "chunk_size")
        step = lcm(chunk if isinstance(chunk, int) and chunk > 0 else CHUNK_TOKENS, step)
        return StateBlocks(fixed=0, each_block=True, step_tokens=step)
    return StateBlocks(fixed=(2 if version_of(scenario) >= ALIGN_FROM else 1) + drafted, step_tokens=step)


def widened(shapes: dict[CacheShape, int], scenario: Scenario, model: ModelSpec) -> dict[CacheShape, int]:
    """Caches whose convolutions keep one input more for every drafted token: k - 1 + drafted."""
    drafted = draft_tokens(scenario)
    if scenario.runtime.name != "vllm" or not drafted:
        return shapes
    kept = _kernel(model) - 1
    return {
        replace(shape, conv=shape.conv * (kept + drafted) // kept) if shape.state else shape: count
        for shape, count in shapes.items()
    }


def _kernel(model: ModelSpec) -> int:
    nested = config_value(model, "linear_attn_config")
    text = config_value(model, "text_config")
    places = [part for part in (text, nested) if isinstance(part, dict)]
    given = [config_value(model, key) for key in KERNEL_KEYS]
    given += [part.get(key) for part in places for key in KERNEL_KEYS]
    return next((value for value in given if isinstance(value, int) and value > 1), KERNEL)
