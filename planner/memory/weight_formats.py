"""Weight formats of inference engines: bytes of a block of elements, and what a format leaves in 16 bit.

Every format is a block: so many elements take so many bytes, scales and zero points included. GGUF block
sizes are those of ggml's block structs; group sizes of the others are each tool's default unless the config
tells.
"""

import json
from dataclasses import dataclass, replace
from typing import Final, Literal

from planner.model.spec import ModelSpec

Family = Literal["plain", "quantized", "gguf"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightFormat:
    """One number format. Compared and hashed by identity: counts of elements are kept by it.

    Attributes:
        id: Lowercase id.
        elements: Elements of a block.
        bytes: Bytes of a block; a multiple of 1/8 (packed zero points).
        family: `plain` = every tensor; `quantized` = the linears an engine quantizes, the rest in 16 bit;
            `gguf` = one of ggml's types, every matrix.
        channel_bytes: Bytes more per output feature (a scale per row).
        pad_inputs: Inputs of an expert's rows are padded to a multiple of this.
        expert_pads: Experts' hidden and intermediate sizes are padded to multiples of these instead.
        experts_only: Only routed experts are in this format where the model has any (gpt-oss and its likes).
        reference: Key into `planner.references`.
    """

    id: str
    elements: int
    bytes: float
    family: Family = "quantized"
    channel_bytes: int = 0
    pad_inputs: int = 1
    expert_pads: tuple[int, int] | None = None
    experts_only: bool = False
    reference: str = "weight_formats"

    @property
    def bits(self) -> float:
        """Bits per element, row scales left out."""
        return 8 * self.bytes / self.elements


def _grouped(name: str, bits: int, group: int, *, zeros: bool) -> WeightFormat:
    """Groupwise integers: an fp16 scale and, where asymmetric, a packed zero point a group."""
    size = group * bits / 8 + 2 + (bits / 8 if zeros else 0)
    return WeightFormat(id=name, elements=group, bytes=size, reference="gptq_awq_layout")


def _gguf(name: str, elements: int, size: int, reference: str = "ggml_blocks") -> WeightFormat:
    return WeightFormat(id=name, elements=elements, bytes=size, family="gguf", reference=reference)


_IK = "ik_blocks"
_ENGINE_FORMATS: Final = (
    WeightFormat(id="fp32", elements=1, bytes=4, family="plain"),
    WeightFormat(id="bf16", elements=1, bytes=2, family="plain"),
    WeightFormat(id="fp16", elements=1, bytes=2, family="plain"),
    WeightFormat(id="fp8", elements=1, bytes=1, channel_bytes=4, reference="compressed_tensors"),
    WeightFormat(id="int8", elements=1, bytes=1, channel_bytes=4, reference="compressed_tensors"),
    _grouped("awq4", 4, 128, zeros=True),
    _grouped("gptq4", 4, 128, zeros=True),
    _grouped("gptq8", 8, 128, zeros=True),
    _grouped("int4", 4, 128, zeros=True),
    WeightFormat(id="nf4", elements=64, bytes=36, reference="bitsandbytes_nf4"),
    WeightFormat(id="nf4_dq", elements=64 * 256, bytes=64 * 256 / 2 + 256 + 4, reference="bitsandbytes_nf4"),
    WeightFormat(
        id="mxfp4", elements=32, bytes=17, pad_inputs=256, experts_only=True, reference="mx_formats"
    ),
    WeightFormat(id="nvfp4", elements=16, bytes=9, reference="nvfp4"),
    WeightFormat(id="q4f16_1", elements=32, bytes=18, reference="mlc_quantization"),
    WeightFormat(id="sparse24_bf16", elements=4, bytes=4.5, reference="structured_sparsity"),
    WeightFormat(id="sparse24_fp8", elements=4, bytes=2.5, channel_bytes=4, reference="structured_sparsity"),
)
_GGUF_FORMATS: Final = (
    _gguf("f32", 1, 4), _gguf("f16", 1, 2),
    _gguf("q4_0", 32, 18), _gguf("q4_1", 32, 20), _gguf("q5_0", 32, 22), _gguf("q5_1", 32, 24),
    _gguf("q8_0", 32, 34), _gguf("q8_1", 32, 36),
    _gguf("q2_k", 256, 84), _gguf("q3_k", 256, 110), _gguf("q4_k", 256, 144), _gguf("q5_k", 256, 176),
    _gguf("q6_k", 256, 210), _gguf("q8_k", 256, 292),
    _gguf("iq1_s", 256, 50), _gguf("iq1_m", 256, 56), _gguf("iq2_xxs", 256, 66), _gguf("iq2_xs", 256, 74),
    _gguf("iq2_s", 256, 82), _gguf("iq3_xxs", 256, 98), _gguf("iq3_s", 256, 110), _gguf("iq4_nl", 32, 18),
    _gguf("iq4_xs", 256, 136), _gguf("tq1_0", 256, 54), _gguf("tq2_0", 256, 66), _gguf("mxfp4_gguf", 32, 17),
    _gguf("q6_0", 32, 26, _IK), _gguf("iq1_bn", 64, 13, _IK), _gguf("iq2_bn", 64, 16, _IK),
    _gguf("iq2_ks", 256, 70, _IK), _gguf("iq2_k", 256, 76, _IK), _gguf("iq2_kl", 256, 86, _IK),
    _gguf("iq3_ks", 256, 102, _IK), _gguf("iq3_k", 256, 110, _IK), _gguf("iq4_kss", 256, 128, _IK),
    _gguf("iq4_ks", 256, 136, _IK), _gguf("iq4_k", 256, 144, _IK), _gguf("iq5_ks", 256, 168, _IK),
    _gguf("iq5_k", 256, 176, _IK), _gguf("iq6_k", 256, 212, _IK),
    _gguf("iq1_s_r4", 32, 6, _IK), _gguf("iq1_m_r4", 32, 7, _IK),
)  # fmt: skip

FORMATS: Final[dict[str, WeightFormat]] = {f.id: f for f in (*_ENGINE_FORMATS, *_GGUF_FORMATS)}

UNMEASURED: Final = frozenset({"pq2_0", "ptq1_0", "mixed"})
"""Formats whose block is not documented, or that stand for no one type: only a file size tells their
bytes."""


IK_TYPES: Final = frozenset(f.id for f in _GGUF_FORMATS if f.reference == _IK) | {"iq1_s", "iq1_m"}
"""Types that only ik_llama.cpp's quantizer makes, and those it makes to be interleaved."""


def base_type(name: str) -> str:
    """A type without its row interleaving (`iq3_k_r4` packs the same bytes as `iq3_k`)."""
    if name in FORMATS:
        return name
    stem, _, suffix = name.rpartition("_")
    return stem if suffix in {"r4", "r8", "r16"} else name


def weight_format(name: str) -> WeightFormat | None:
    """The format of an id, None where its size is not known."""
    return FORMATS.get(base_type(name))


def config_value(model: ModelSpec, key: str) -> object:
    """A key of the config the model was built from, None if absent or not JSON."""
    for name, text in model.config:
        if name == key:
            try:
                value: object = json.loads(text)
            except ValueError:
                return None
            return value
    return None


def declared_format(model: ModelSpec) -> str | None:
    """The format that the config's `quantization_config` names, else its dtype, else None."""
    quantization = config_value(model, "quantization_config")
    if isinstance(quantization, dict):
        found = _declared_quantization(quantization)
        if found:
            return found
    for key in ("dtype", "torch_dtype"):
        name = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}.get(str(config_value(model, key)))
        if name:
            return name
    return None


def served_format(model: ModelSpec) -> str:
    """What a server with its own kernels runs a model in: as declared, 32-bit checkpoints cast to 16 bit."""
    declared = declared_format(model) or "bf16"
    return "bf16" if declared == "fp32" else declared


def served_experts(weights: str, model: ModelSpec) -> str | None:
    """The format of routed experts that ship in one of their own, None where they are like the rest.

    Args:
        weights: Format the model is served in; another than the declared one holds for experts too.
        model: The model; DeepSeek-V4's configs name 4-bit experts beside 8-bit linears in `expert_dtype`.
    """
    quantization = config_value(model, "quantization_config")
    within = quantization.get("expert_dtype") if isinstance(quantization, dict) else None
    own = "fp4" in {config_value(model, "expert_dtype"), within}
    return "mxfp4" if own and weights == declared_format(model) else None


def _packed_group(quantization: dict[str, object]) -> dict[str, object]:
    """How compressed-tensors stores the weights of its first group, empty where it does not say."""
    groups = quantization.get("config_groups")
    for group in groups.values() if isinstance(groups, dict) else ():
        found = group.get("weights") if isinstance(group, dict) else None
        return found if isinstance(found, dict) else {}
    return {}


def _packed_format(quantization: dict[str, object]) -> str | None:
    weights = _packed_group(quantization)
    kind = (str(weights.get("type")), _size(weights.get("num_bits")))
    if kind == ("float", 4):
        return {16: "nvfp4", 32: "mxfp4"}.get(_size(weights.get("group_size")))
    return {("int", 4): "int4", ("int", 8): "int8", ("float", 8): "fp8"}.get(kind)


def _size(value: object) -> int:
    return value if isinstance(value, int) else 0


def _declared_quantization(quantization: dict[str, object]) -> str | None:
    method = str(quantization.get("quant_method", "")).lower()
    if method == "compressed-tensors":
        return _packed_format(quantization)
    bits = quantization.get("bits", quantization.get("w_bit"))
    if method == "bitsandbytes":
        if quantization.get("load_in_4bit"):
            return "nf4_dq" if quantization.get("bnb_4bit_use_double_quant") else "nf4"
        return "int8"
    if method == "gptq":
        return "gptq8" if bits == 8 else "gptq4"
    return {"awq": "awq4", "fp8": "fp8", "fbgemm_fp8": "fp8", "mxfp4": "mxfp4", "auto-round": "int4"}.get(
        method
    )


def engine_format(name: str, model: ModelSpec) -> WeightFormat | None:
    """The format with the group size and block shape that the model's own config states, where it does."""
    found = weight_format(name)
    quantization = config_value(model, "quantization_config")
    if found is None or not isinstance(quantization, dict) or declared_format(model) != name:
        return found
    packed = _packed_group(quantization)
    if packed:
        return _packed_layout(found, packed, quantization)
    group = quantization.get("group_size", quantization.get("q_group_size"))
    if name in {"awq4", "gptq4", "gptq8", "int4"} and isinstance(group, int) and group > 0:
        zeros = bool(quantization.get("zero_point", True)) or name.startswith("gptq")
        return _grouped(name, 8 if name == "gptq8" else 4, group, zeros=zeros)
    block = quantization.get("weight_block_size")
    if (
        name == "fp8"
        and isinstance(block, list)
        and len(block) == 2
        and all(isinstance(b, int) and b > 0 for b in block)
    ):
        return replace(found, elements=block[0] * block[1], bytes=block[0] * block[1] + 4, channel_bytes=0)
    return found


def _packed_layout(
    found: WeightFormat, packed: dict[str, object], quantization: dict[str, object]
) -> WeightFormat:
    """Group size, zero points and reach as compressed-tensors states them.

    A checkpoint that leaves attention out of its linears quantizes routed experts only (Kimi-K2.5).
    """
    ignored = quantization.get("ignore")
    attention = isinstance(ignored, list) and any("self_attn.*" in str(pattern) for pattern in ignored)
    group = _size(packed.get("group_size"))
    if found.id == "int4" and group > 0:
        found = _grouped("int4", 4, group, zeros=packed.get("symmetric") is not True)
    return replace(found, experts_only=found.experts_only or attention)
