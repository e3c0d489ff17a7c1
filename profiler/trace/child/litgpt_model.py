"""LitGPT's own decoder: what its blocks keep and what its adapters add, on shape-only tensors.

LitGPT trains a model of its own, not transformers': one fused matrix for query, key and value whose outputs lie
group by group, rotary positions applied in fp32, keys and values repeated for every query head, plain RMS norms
in fp32, the head in pieces of 128 positions. Structure read off `litgpt/model.py` and `litgpt/lora.py` (0.3.0,
0.4.5, 0.5.0) and, for 2023, `lit_gpt/model.py` and `lit_gpt/lora.py`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import nn
from torch.nn import functional

from profiler.trace.litgpt_rules import Shape

HEAD_CHUNK: Final = 128
"""Positions that the head sees at once (`lm_head_chunk_size` of the finetuning scripts)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapters:
    """Low-rank adapters: where and how wide.

    Attributes:
        rank: Rank.
        dropout: Dropout on an adapter's input.
        scale: What its output is multiplied by.
        heads: Whether query, key and value have one.
        out: Whether the attention's output matrix has one.
        mlp: Whether the feed-forward matrices have one.
        head: Whether the output matrix has one.
        pads_out_of_place: Missing parts of the fused output are filled in by a copy (2023).
    """

    rank: int
    dropout: float
    scale: float
    heads: tuple[bool, bool, bool]
    out: bool
    mlp: bool
    head: bool
    pads_out_of_place: bool


class RmsNorm(nn.Module):  # type: ignore[misc]  # torch is not followed by the type checker
    """In fp32 throughout; the result is cast back."""

    def __init__(self, width: int, *, adds_one: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))
        self.adds_one = adds_one

    def forward(self, x: Any) -> Any:
        """Normalize the last dimension."""
        wide = x.float()
        power = torch.mean(wide * wide, dim=-1, keepdim=True)
        normed = wide * torch.rsqrt(power + 1e-5)
        weight = 1 + self.weight if self.adds_one else self.weight
        return (normed * weight.float()).to(x.dtype)


class Adapted(nn.Module):  # type: ignore[misc]  # torch is not followed by the type checker
    """A matrix and, where it has one, its adapter."""

    def __init__(self, inputs: int, outputs: int, adapters: Adapters | None, *, bias: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=bias)
        self.adapters = adapters
        if adapters is not None:
            self.down = nn.Parameter(torch.empty(adapters.rank, inputs))
            self.up = nn.Parameter(torch.empty(outputs, adapters.rank))

    def forward(self, x: Any) -> Any:
        """Matrix and adapter side by side."""
        out = self.linear(x)
        adapters = self.adapters
        if adapters is None:
            return out
        dropped = functional.dropout(x, adapters.dropout) if adapters.dropout else x
        more = (dropped @ self.down.transpose(0, 1) @ self.up.transpose(0, 1)) * adapters.scale
        return out + more


class AdaptedHeads(nn.Module):  # type: ignore[misc]  # torch is not followed by the type checker
    """The fused matrix of query, key and value; its adapter widens each part by itself and pads what has none."""

    def __init__(self, shape: Shape, adapters: Adapters | None) -> None:
        super().__init__()
        self.linear = nn.Linear(shape.hidden, shape.fused, bias=shape.bias)
        widths = (shape.heads, shape.groups, shape.groups)
        on = adapters.heads if adapters is not None else (False,) * 3
        self.parts = [width * shape.head_size for width, there in zip(widths, on, strict=True) if there]
        self.adapters = adapters if self.parts else None
        self.equal = shape.heads == shape.groups
        if self.adapters is not None:
            self.down = nn.Parameter(torch.empty(self.adapters.rank * len(self.parts), shape.hidden))
            self.up = nn.Parameter(torch.empty(sum(self.parts), self.adapters.rank))
            if len(self.parts) < 3:
                places = torch.empty(sum(self.parts), dtype=torch.int64)
                self.register_buffer("places", places, persistent=False)

    def forward(self, x: Any) -> Any:
        """The fused output, adapters added."""
        out = self.linear(x)
        adapters = self.adapters
        if adapters is None:
            return out
        dropped = functional.dropout(x, adapters.dropout) if adapters.dropout else x
        narrow = functional.linear(dropped, self.down)
        wide = self._widen(narrow.transpose(-2, -1), self.up.unsqueeze(-1)).transpose(-2, -1)
        return out + self._pad(wide, adapters) * adapters.scale

    def _widen(self, narrow: Any, up: Any) -> Any:
        if self.equal:
            return functional.conv1d(narrow, up, groups=len(self.parts))
        pieces = zip(narrow.chunk(len(self.parts), dim=1), up.split(self.parts), strict=True)
        return torch.cat([functional.conv1d(piece, weight) for piece, weight in pieces], dim=1)

    def _pad(self, wide: Any, adapters: Adapters) -> Any:
        if len(self.parts) == 3:
            return wide
        width = self.linear.out_features
        if not adapters.pads_out_of_place:
            return wide.new_zeros(*wide.shape[:-1], width).index_copy_(-1, self.places, wide)
        turned = wide.transpose(0, 1)
        zeros = turned.new_zeros((*turned.shape[:-1], width)).view(-1, width)
        filled = zeros.index_copy(1, self.places, turned.reshape(-1, sum(self.parts)))
        return filled.view((*turned.shape[:-1], width)).transpose(0, 1)


class Attention(nn.Module):  # type: ignore[misc]  # torch is not followed by the type checker
    """Causal attention; by hand where scores are capped."""

    def __init__(self, shape: Shape, adapters: Adapters | None, *, windowed: bool) -> None:
        super().__init__()
        self.shape = shape
        self.windowed = windowed
        self.fused = AdaptedHeads(shape, adapters)
        on_out = adapters if adapters is not None and adapters.out else None
        self.out = Adapted(shape.heads * shape.head_size, shape.hidden, on_out, bias=shape.bias)

    def forward(self, x: Any, cos: Any, sin: Any) -> Any:
        """Attend within the sequence."""
        shape = self.shape
        rows, length, _ = x.size()
        each = shape.heads // shape.groups
        fused = self.fused(x).view(rows, length, shape.groups, each + 2, shape.head_size)
        query, key, value = fused.permute(0, 2, 3, 1, 4).split((each, 1, 1), dim=2)
        if each > 1:
            wanted = (rows, shape.groups, each, length, shape.head_size)
            key, value = key.expand(wanted), value.expand(wanted)
        flat = (rows, -1, length, shape.head_size)
        query, key, value = (part.reshape(flat) for part in (query, key, value))
        query, key = (self._turned(part, cos, sin) for part in (query, key))
        del fused
        mixed = self._mix(query, key, value).transpose(1, 2)
        return self.out(mixed.reshape(rows, length, shape.heads * shape.head_size))

    def _turned(self, part: Any, cos: Any, sin: Any) -> Any:
        size = self.shape.rotary
        moved = part[..., :size]
        half = size // 2
        turned = torch.cat((-moved[..., half:], moved[..., :half]), dim=-1)
        turned = ((moved * cos) + (turned * sin)).to(part.dtype)
        return torch.cat((turned, part[..., size:]), dim=-1)

    def _mix(self, query: Any, key: Any, value: Any) -> Any:
        length = query.size(2)
        mask = _barred(length, query, self.shape.window) if self.windowed else None
        scale = 1 / math.sqrt(self.shape.head_size)
        cap = self.shape.score_cap
        if cap is None:
            return functional.scaled_dot_product_attention(
                query, key, value, attn_mask=mask, is_causal=mask is None, scale=scale
            )
        scores = query @ key.mT * scale
        scores = torch.tanh(scores / cap) * cap
        mask = _barred(length, query, None) if mask is None else mask
        scores = scores + mask
        return functional.softmax(scores, dim=-1, dtype=torch.float).to(query.dtype) @ value


def _barred(length: int, like: Any, window: int | None) -> Any:
    """Zero where a position may look, minus infinity elsewhere."""
    mask = torch.ones(length, length, dtype=like.dtype, device=like.device).triu(diagonal=1)
    mask.masked_fill_(mask.bool(), float("-inf"))
    if window is not None:
        more = torch.ones_like(mask).tril(diagonal=-window)
        mask += more.masked_fill_(more.bool(), float("-inf"))
    return mask


class FeedForward(nn.Module):  # type: ignore[misc]  # torch is not followed by the type checker
    """One or two matrices up, an activation, one down."""

    def __init__(self, shape: Shape, adapters: Adapters | None) -> None:
        super().__init__()
        on = adapters if adapters is not None and adapters.mlp else None
        self.up = Adapted(shape.hidden, shape.intermediate, on, bias=shape.bias)
        self.gate = Adapted(shape.hidden, shape.intermediate, on, bias=shape.bias) if shape.gated else None
        self.down = Adapted(shape.intermediate, shape.hidden, on, bias=shape.bias)
        self.silu = shape.silu

    def forward(self, x: Any) -> Any:
        """Position by position."""
        first = self.up(x)
        second = None if self.gate is None else self.gate(x)
        active = functional.silu(first) if self.silu else functional.gelu(first, approximate="tanh")
        return self.down(active if second is None else active * second)


class Block(nn.Module):  # type: ignore[misc]  # torch is not followed by the type checker
    """Attention and feed-forward, one after the other or side by side."""

    def __init__(self, shape: Shape, adapters: Adapters | None, index: int) -> None:
        super().__init__()
        self.shape = shape
        self.first_norm = _norm(shape)
        self.attention = Attention(shape, adapters, windowed=shape.window is not None and index % 2 == 0)
        self.second_norm = None if shape.shares_norm else _norm(shape)
        self.feed_forward = FeedForward(shape, adapters)
        self.after_attention = _norm(shape) if shape.norms_after else nn.Identity()
        self.after_feed_forward = _norm(shape) if shape.norms_after else nn.Identity()

    def forward(self, x: Any, cos: Any, sin: Any) -> Any:
        """One layer."""
        normed = self.first_norm(x)
        attended = self.after_attention(self.attention(normed, cos, sin))
        if self.shape.parallel:
            normed = normed if self.second_norm is None else self.second_norm(x)
            return self.feed_forward(normed) + attended + x
        x = attended + x
        second = self.second_norm(x) if self.second_norm is not None else x
        return self.after_feed_forward(self.feed_forward(second)) + x


def _norm(shape: Shape) -> Any:
    if shape.norm == "layer_norm":
        return nn.LayerNorm(shape.hidden)
    return RmsNorm(shape.hidden, adds_one=shape.adds_one)


class StableEmbedding(nn.Embedding):  # type: ignore[misc]  # torch is not followed by the type checker
    """bitsandbytes' embedding with a norm behind it, which LitGPT puts in on quantized models, trainable."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__(rows, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Any) -> Any:
        """Look up and normalize."""
        return self.norm(super().forward(tokens)).to(self.weight.dtype)


class Decoder(nn.Module):  # type: ignore[misc]  # torch is not followed by the type checker
    """The whole model. The forward call gives the logits in pieces."""

    def __init__(self, shape: Shape, adapters: Adapters | None, length: int, chunk: int | None) -> None:
        super().__init__()
        self.shape = shape
        self.chunk = chunk
        on_head = adapters if adapters is not None and adapters.head else None
        self.head = Adapted(shape.hidden, shape.vocab, on_head, bias=shape.head_bias)
        self.embedding = nn.Embedding(shape.vocab, shape.hidden)
        self.blocks = nn.ModuleList(Block(shape, adapters, index) for index in range(shape.layers))
        self.last_norm = _norm(shape)
        for name in ("cos", "sin"):
            angles = torch.empty(length, shape.rotary, dtype=torch.float32)
            self.register_buffer(name, angles, persistent=False)

    def forward(self, tokens: Any) -> list[Any]:
        """Logits of each piece of the sequence."""
        length = tokens.size(1)
        cos, sin = self.cos[:length], self.sin[:length]
        x = self.embedding(tokens)
        if self.shape.scales_embedding:
            x = x * self.shape.hidden**0.5
        for block in self.blocks:
            x = block(x, cos, sin)
        x = self.last_norm(x)
        pieces = x.split(self.chunk, dim=1) if self.chunk else (x,)
        return [self.head(piece) for piece in pieces]


def chunked_loss(logits: Sequence[Any], targets: Any, *, whole: bool) -> Any:
    """Cross-entropy piece by piece (`chunked_cross_entropy`), in the logits' own format.

    Args:
        logits: The pieces that the head gave.
        targets: One position fewer than tokens.
        whole: The head gave one piece, which is cut here.
    """
    width = logits[0].size(1)
    flat = [piece.reshape(-1, piece.size(-1)) for piece in logits]
    if whole:
        pieces, wanted = flat[0].split(HEAD_CHUNK), targets.reshape(-1).split(HEAD_CHUNK)
    else:
        pieces, wanted = flat, [piece.reshape(-1) for piece in targets.split(width, dim=1)]
    losses = [
        functional.cross_entropy(piece, target, reduction="none")
        for piece, target in zip(pieces, wanted, strict=True)
    ]
    counted = (targets != -100).sum()
    return torch.cat(losses).sum() / counted.maximum(torch.ones_like(counted))
