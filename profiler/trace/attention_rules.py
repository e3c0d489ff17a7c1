"""Which kernel PyTorch takes for scaled dot product attention. No PyTorch here.

Source: `can_use_flash_attention`, `can_use_mem_efficient_attention`, `can_use_cudnn_attention` and
`check_prefer_cudnn_attention` in `aten/src/ATen/native/transformers/cuda/sdp_utils.cpp`,
`use_flash_attention_cpp` in `sdp_utils_cpp.cpp`, PyTorch 2.13. cuDNN is taken to be newer than 9.15, as in the
wheels of that version, and to have head sizes up to 128 in training.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from profiler.trace.documents import Target

Backend = Literal["flash", "efficient", "cudnn", "math"]
Capability = tuple[int, int]

HALF: Final = frozenset({"float16", "bfloat16"})
OLDEST_FLASH: Final = (8, 0)
NEWEST: Final = (12, 1)
MAX_FLASH_HEAD: Final = 256
MAX_CUDNN_HEAD: Final = 128
MAX_TRAINED_HEAD_OF_SMALL_CHIPS: Final = 192


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionCall:
    """One call of `scaled_dot_product_attention`.

    Attributes:
        heads: Query heads.
        key_heads: Key and value heads.
        queries: Query positions.
        keys: Key positions.
        head_dim: Of queries and keys.
        value_dim: Of values.
        dtype: As PyTorch names it.
        has_mask: A mask is given.
        mask_needs_grad: The mask receives a gradient.
        dropout: Probability.
        causal: The `is_causal` flag.
        grouped: The `enable_gqa` flag.
        needs_grad: Any input receives a gradient.
        rows_are_dense: The last dimension of all three lies in one piece.
    """

    heads: int
    key_heads: int
    queries: int
    keys: int
    head_dim: int
    value_dim: int
    dtype: str
    has_mask: bool = False
    mask_needs_grad: bool = False
    dropout: float = 0.0
    causal: bool = False
    grouped: bool = False
    needs_grad: bool = True
    rows_are_dense: bool = True

    @property
    def heads_match(self) -> bool:
        """As many key heads as query heads."""
        return self.heads == self.key_heads


def choose(call: AttentionCall, target: Target) -> Backend:
    """The kernel that a call gets on a device."""
    if target.device == "cpu":
        return "flash" if _cpu_flash(call) else "math"
    asked, capability = target.attention, target.compute_capability
    order: tuple[Backend, ...] = _order(capability) if asked == "auto" else (asked, "math")
    return next((name for name in order if _CAN_USE[name](call, capability)), "math")


def _order(capability: Capability) -> tuple[Backend, ...]:
    """cuDNN first on data centre chips of the Hopper and Blackwell generations."""
    plain: tuple[Backend, ...] = ("flash", "efficient", "math")
    return ("cudnn", *plain) if capability in {(9, 0), (10, 0), (10, 3)} else plain


def _flash(call: AttentionCall, capability: Capability) -> bool:
    return (
        not call.has_mask
        and call.head_dim == call.value_dim <= MAX_FLASH_HEAD
        and OLDEST_FLASH <= capability <= NEWEST
        and call.dtype in HALF
        and (call.heads_match or call.grouped)
        and not (call.causal and call.queries != call.keys)
        and call.rows_are_dense
        and _trains_large_heads(call, capability)
    )


def _trains_large_heads(call: AttentionCall, capability: Capability) -> bool:
    """Heads over 192 have no backward pass on the smaller chips, 256 without dropout aside."""
    small_chip = (8, 6) <= capability <= (8, 9) or capability >= (12, 0)
    if not (call.needs_grad and small_chip) or call.head_dim <= MAX_TRAINED_HEAD_OF_SMALL_CHIPS:
        return True
    return call.head_dim > 224 and call.dropout == 0


def _efficient(call: AttentionCall, capability: Capability) -> bool:
    half = call.dtype in HALF
    step = 8 if half and capability >= (7, 0) else 4 if capability >= (8, 0) else 1
    allowed = HALF | {"float32"} if capability >= (8, 0) else frozenset({"float16", "float32"})
    return (
        (5, 0) <= capability <= NEWEST
        and call.heads_match
        and call.head_dim % step == 0
        and call.value_dim % step == 0
        and call.dtype in allowed
        and call.rows_are_dense
    )


def _cudnn(call: AttentionCall, capability: Capability) -> bool:
    return (
        OLDEST_FLASH <= capability <= NEWEST
        and call.dtype in HALF
        and call.head_dim <= MAX_CUDNN_HEAD
        and call.value_dim <= MAX_CUDNN_HEAD
        and call.head_dim % 8 == 0
        and call.value_dim % 8 == 0
        and (call.heads_match or call.grouped)
        and (call.dropout * 16).is_integer()
        and call.keys > 1
        and not call.mask_needs_grad
        and call.rows_are_dense
    )


def _math(_: AttentionCall, __: Capability) -> bool:
    return True


_CAN_USE: Final[dict[Backend, Callable[[AttentionCall, Capability], bool]]] = {
    "flash": _flash,
    "efficient": _efficient,
    "cudnn": _cudnn,
    "math": _math,
}


def _cpu_flash(call: AttentionCall) -> bool:
    return (
        call.dropout == 0
        and not call.mask_needs_grad
        and call.head_dim == call.value_dim
        and (call.heads_match or call.grouped)
        and call.rows_are_dense
    )
