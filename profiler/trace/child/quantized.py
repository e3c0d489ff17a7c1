"""Linears on quantized weights: the memory that libraries take for them and none of their arithmetic.

4 bit: bitsandbytes 0.41.1, 0.42.0, 0.43.1, 0.43.3 and 0.44.1: `nn/modules.py` (`Linear4bit`, `Params4bit`),
`autograd/_functions.py` (`MatMul4Bit`), `functional.py` (`quantize_4bit`, `dequantize_4bit`). 8 bit: the same,
`Linear8bitLt` and `MatMul8bitLt`. GPTQ: AutoGPTQ `qlinear_tritonv2.py` (`QuantLinear`, `QuantLinearFunction`) and
`triton_utils/dequant.py` (`quant_matmul_248`).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from profiler.trace.quantized_rules import GPTQ_GROUP, GPTQ_PER_WORD, FourBit


class PackedLinear(nn.Module):  # type: ignore[misc]  # torch is not followed by the type checker
    """A linear whose weights are packed.

    Attributes:
        in_features: Input width.
        out_features: Output width.
        bias: As in a plain linear.
    """

    def __init__(self, plain: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = plain.in_features, plain.out_features
        self.register_parameter("bias", plain.bias)
        if plain.bias is not None:
            plain.bias.requires_grad = False


class FourBitLinear(PackedLinear):
    """A linear on bitsandbytes' 4-bit weights, two in a byte."""

    def __init__(self, plain: nn.Linear, rules: FourBit) -> None:
        super().__init__(plain)
        self.rules = rules
        device = plain.weight.device
        elements = self.in_features * self.out_features
        packed = torch.empty((-(-elements // 2), 1), dtype=torch.uint8, device=device)
        self.weight = nn.Parameter(packed, requires_grad=False)
        for name, shape, dtype in rules.state(elements):
            kept = torch.empty(shape, dtype=getattr(torch, dtype), device=device)
            self.register_buffer(name, kept, persistent=False)

    def forward(self, x: Any) -> Any:
        """The product, in the compute format in between, in the input's on both sides."""
        asked = self.rules.compute
        compute = x.dtype if asked is None else getattr(torch, asked)
        bias = None if self.bias is None else self.bias.to(compute)
        return _FourBitProduct.apply(x.to(compute), bias, self).to(x.dtype)

    def dequantized(self, dtype: Any) -> Any:
        """The weights in `dtype`, with what unpacking them takes in between."""
        device = self.weight.device
        scales = None
        if self.rules.nested:
            blocks = self.rules.blocks(self.in_features * self.out_features)
            scales = torch.empty((blocks,), dtype=torch.float32, device=device)
        stored = getattr(torch, self.rules.stored)
        unpacked = torch.empty((self.out_features, self.in_features), dtype=stored, device=device)
        del scales
        return unpacked.to(dtype)


class _FourBitProduct(torch.autograd.Function):  # type: ignore[misc]  # torch is not followed by the type checker
    """The weights are unpacked for the forward pass and again for the backward pass.

    Where the input is kept, it hangs on the context itself (`ctx.tensors`), not among the saved tensors: the
    backward pass doesn't free it, only the end of the graph does.
    """

    @staticmethod
    def forward(ctx: Any, x: Any, bias: Any, linear: FourBitLinear) -> Any:
        out = torch.nn.functional.linear(x, linear.dequantized(x.dtype), bias)
        ctx.linear = linear
        ctx.kept = x if linear.rules.keeps_input and ctx.needs_input_grad[0] else None
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        if not ctx.needs_input_grad[0]:
            return None, None, None
        return torch.matmul(gradient, ctx.linear.dequantized(gradient.dtype)), None, None


class EightBitLinear(PackedLinear):
    """A linear on LLM.int8() weights: rows with one scale each, the input quantized row by row, too."""

    def __init__(self, plain: nn.Linear) -> None:
        super().__init__(plain)
        device = plain.weight.device
        packed = torch.empty((self.out_features, self.in_features), dtype=torch.int8, device=device)
        self.weight = nn.Parameter(packed, requires_grad=False)
        scales = torch.empty((self.out_features,), dtype=torch.float32, device=device)
        self.register_buffer("scales", scales, persistent=False)

    def forward(self, x: Any) -> Any:
        """The product on 8-bit rows."""
        return _EightBitProduct.apply(x, self)


class _EightBitProduct(torch.autograd.Function):  # type: ignore[misc]
    """Input in fp16 and 8 bit, the sums in int32; the backward pass multiplies by the weights cast back.

    `MatMul8bitLt` of 0.45 and later; before, the transposed 8-bit input was made beside it and the weights were
    laid out anew, which is not followed.
    """

    @staticmethod
    def forward(ctx: Any, x: Any, linear: EightBitLinear) -> Any:
        rows = x.reshape(-1, linear.in_features).to(torch.float16)
        packed = torch.empty(rows.shape, dtype=torch.int8, device=x.device)
        scales = torch.empty(rows.shape[:1], dtype=torch.float32, device=x.device)
        sums = torch.empty((rows.shape[0], linear.out_features), dtype=torch.int32, device=x.device)
        out = torch.empty(sums.shape, dtype=torch.float16, device=x.device)
        del packed, scales, sums
        ctx.linear = linear
        if linear.bias is not None:
            out = out + linear.bias
        return out.to(x.dtype).view(*x.shape[:-1], linear.out_features)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        linear = ctx.linear
        weight = linear.weight.to(gradient.dtype) * linear.scales.unsqueeze(1).to(gradient.dtype)
        return torch.matmul(gradient, weight), None


class GptqLinear(PackedLinear):
    """A linear on GPTQ weights of 4 bit, eight in an int32, with scales and zeros by group of inputs."""

    def __init__(self, plain: nn.Linear) -> None:
        super().__init__(plain)
        inputs, outputs, device = self.in_features, self.out_features, plain.weight.device
        groups = -(-inputs // GPTQ_GROUP)
        for name, shape, dtype in (
            ("weight", (inputs // GPTQ_PER_WORD, outputs), torch.int32),
            ("zeros", (groups, outputs // GPTQ_PER_WORD), torch.int32),
            ("scales", (groups, outputs), torch.float16),
            ("group_of_input", (inputs,), torch.int32),
        ):
            self.register_buffer(name, torch.empty(shape, dtype=dtype, device=device))

    def forward(self, x: Any) -> Any:
        """The product in the scales' format."""
        out = _GptqProduct.apply(x, self)
        return out if self.bias is None else out + self.bias

    def dequantized(self, dtype: Any) -> Any:
        """The weights, inputs by outputs."""
        shape = (self.in_features, self.out_features)
        return torch.empty(shape, dtype=torch.float16, device=self.weight.device).to(dtype)


class _GptqProduct(torch.autograd.Function):  # type: ignore[misc]
    """Unpacked for the forward pass and again for the backward pass; the input is not kept.

    `custom_fwd(cast_inputs=torch.float16)` casts the input under autocast.
    """

    @staticmethod
    def forward(ctx: Any, x: Any, linear: GptqLinear) -> Any:
        ctx.linear, ctx.given = linear, x.dtype
        return torch.matmul(x.to(torch.float16), linear.dequantized(torch.float16))

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        back = torch.matmul(gradient, ctx.linear.dequantized(gradient.dtype).t())
        return back.to(ctx.given), None


def quantize(model: Any, make: Callable[[nn.Linear], PackedLinear], wanted: Callable[[str], bool]) -> None:
    """Put packed linears in place of plain ones.

    Args:
        model: Changed in place.
        make: Makes the packed linear of a plain one.
        wanted: Whether the linear of that path is quantized.
    """
    for path, module in list(model.named_modules()):
        for name, child in list(module.named_children()):
            full = f"{path}.{name}" if path else name
            plain = _as_linear(child)
            if plain is not None and wanted(full):
                setattr(module, name, make(plain))


def _as_linear(module: Any) -> nn.Linear | None:
    """A linear; GPT-2's `Conv1D` is one whose weight lies the other way round.

    transformers `replace_with_bnb_linear` packs both.
    """
    if type(module) is nn.Linear:
        return module
    if type(module) is not Conv1D:
        return None
    width, device = module.weight.shape[0], module.weight.device
    linear = nn.Linear(width, module.nf, device=device, dtype=module.weight.dtype)
    linear.bias = module.bias
    return linear
