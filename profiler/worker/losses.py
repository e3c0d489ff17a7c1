"""Losses that never hold the whole chain of fp32 logits, put in place of a causal model's own.

`chunked` follows torchtune's `CEWithChunkedOutputLoss` (torchtune/modules/loss/ce_chunked_output_loss.py, 0.4): the
head runs on eight pieces of the sequence and the loss widens one piece at a time. `fused_linear` follows Liger's
`fused_linear_cross_entropy_forward` (src/liger_kernel/ops/fused_linear_cross_entropy.py, commit 00eba63): head, loss
and both gradients in the forward pass, one chunk of logits at a time, the gradient written over the logits.

Both are written anew on PyTorch's own operators. They take the memory that those take, on every device; numbers come
out in the compute format and are good for a measured step, not for training.
"""

from typing import Any, Final

import torch
from torch.nn import functional

from planner.memory.logits import CHUNKS, fused_linear_chunk_tokens

IGNORED: Final = -100
SCALES_LOGITS: Final = ("final_logit_softcapping", "logits_scaling", "logit_scale")
"""Configuration keys of models that do something to their logits between head and loss."""


def why_not_replaceable(model: Any) -> str:
    """What stands in the way of another loss, empty if nothing does.

    Args:
        model: A transformers model with a head, without wrappers.
    """
    head = model.get_output_embeddings()
    if type(head) is not torch.nn.Linear:
        return f"the head is {type(head).__name__}, not a plain Linear"
    for name in SCALES_LOGITS:
        if getattr(model.config, name, None) not in (None, 1, 1.0):
            return f"{name} changes the logits"
    return ""


def replace_loss(model: Any, kind: str) -> None:
    """Leave the head to the loss: the model hands over its last hidden states and returns no logits.

    Args:
        model: A transformers model with a head, without wrappers.
        kind: `chunked` or `fused_linear`.
    """
    head = model.get_output_embeddings()
    compute = {"chunked": chunked, "fused_linear": fused_linear}[kind]

    def loss_function(logits: Any, labels: Any, *_: Any, **__: Any) -> Any:
        return compute(logits, head.weight, head.bias, labels)

    head.forward = lambda hidden: hidden
    model.loss_function = loss_function
    model.register_forward_hook(_without_logits)


def _without_logits(_: Any, __: Any, outputs: Any) -> Any:
    return type(outputs)(**{name: value for name, value in outputs.items() if name != "logits"})


def _shifted(labels: Any) -> Any:
    """Each position's label is the token after it."""
    return functional.pad(labels, (0, 1), value=IGNORED)[..., 1:].contiguous()


def chunked(hidden: Any, weight: Any, bias: Any, labels: Any) -> Any:
    """Mean cross-entropy over eight pieces of the sequence.

    Args:
        hidden: Last hidden states: rows, positions, width.
        weight: The head's matrix: vocabulary, width.
        bias: The head's bias or None.
        labels: Tokens: rows, positions.
    """
    targets = _shifted(labels)
    counted = (targets != IGNORED).sum()
    pieces = [functional.linear(piece, weight, bias) for piece in hidden.chunk(CHUNKS, dim=1)]
    total: Any = 0.0
    for piece, target in zip(pieces, targets.chunk(CHUNKS, dim=1), strict=True):
        logits = piece.reshape(-1, piece.shape[-1]).float()
        total = total + functional.cross_entropy(
            logits, target.reshape(-1), ignore_index=IGNORED, reduction="sum"
        )
        del logits  # its fp32 copy is not kept; the log-softmax is
    return total / counted


def fused_linear(hidden: Any, weight: Any, bias: Any, labels: Any) -> Any:
    """Mean cross-entropy of the head's output, with the gradients made on the way.

    Args:
        hidden: Last hidden states: rows, positions, width.
        weight: The head's matrix: vocabulary, width.
        bias: The head's bias or None.
        labels: Tokens: rows, positions.
    """
    return _FusedLinear.apply(hidden.view(-1, hidden.shape[-1]), weight, bias, _shifted(labels).view(-1))


class _FusedLinear(torch.autograd.Function):  # type: ignore[misc]  # torch is not followed by the type checker
    """Keeps the gradients of the hidden states and of the head, and neither logits nor hidden states."""

    @staticmethod
    def forward(ctx: Any, hidden: Any, weight: Any, bias: Any, targets: Any) -> Any:
        """Loss, and the gradients as far as they are wanted."""
        tokens, width = hidden.shape
        step = min(tokens, fused_linear_chunk_tokens(tokens, width, weight.shape[0]))
        losses = torch.zeros(tokens, dtype=torch.float32, device=hidden.device)
        of_hidden = torch.zeros_like(hidden)
        of_weight = torch.zeros_like(weight) if weight.requires_grad else None
        of_bias = torch.zeros_like(bias) if bias is not None and bias.requires_grad else None
        counted = (targets != IGNORED).sum()
        buffer = _buffer(hidden, weight, step)
        for start in range(0, tokens, step):
            part = slice(start, min(start + step, tokens))
            gradient = _logits(hidden[part], weight, bias, buffer)
            _differentiate(gradient, targets[part], counted, losses[part])
            if buffer is None:
                of_hidden[part] = gradient @ weight
            else:
                torch.mm(gradient, weight, out=of_hidden[part])
            if of_weight is not None:
                accumulate(of_weight, gradient, hidden[part])
            if of_bias is not None:
                of_bias.add_(gradient.sum(dim=0))
            del gradient
        ctx.save_for_backward(of_hidden, of_weight, of_bias)
        return losses.sum()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        """The gradients made before, scaled in place."""
        made = ctx.saved_tensors
        return (*(None if one is None else one.detach().mul_(gradient) for one in made), None)


def _buffer(hidden: Any, weight: Any, rows: int) -> Any:
    """One chunk of logits for all chunks; under autocast, or with two formats, each makes its own."""
    if torch.is_autocast_enabled(_cast_device(hidden)) or hidden.dtype != weight.dtype:
        return None
    return torch.empty((rows, weight.shape[0]), dtype=hidden.dtype, device=hidden.device)


def _cast_device(tensor: Any) -> str:
    return "cpu" if tensor.device.type == "meta" else str(tensor.device.type)


def _logits(hidden: Any, weight: Any, bias: Any, buffer: Any) -> Any:
    if buffer is None:
        logits = hidden @ weight.t()
        return logits if bias is None else logits + bias
    logits = buffer[: hidden.shape[0]]
    torch.mm(hidden, weight.t(), out=logits)
    return logits if bias is None else logits.add_(bias)


def _differentiate(logits: Any, targets: Any, counted: Any, losses: Any) -> None:
    """Write the gradient over the logits and the loss beside it, as one kernel does."""
    known = targets != IGNORED
    places = targets.where(known, 0).unsqueeze(1)
    torch.softmax(logits, -1, out=logits)
    losses.copy_(logits.gather(1, places).squeeze(1).float().log_().neg_().mul_(known).div_(counted))
    logits.scatter_add_(1, places, torch.full_like(places, -1, dtype=logits.dtype))
    logits.mul_((known / counted).to(logits.dtype).unsqueeze(1))


def accumulate(total: Any, gradient: Any, hidden: Any) -> None:
    """Add a chunk's share to the head's gradient; where the formats differ, by way of whole temporaries."""
    if gradient.dtype == total.dtype:
        total.addmm_(gradient.t(), hidden.to(total.dtype))
    elif total.device.type == "cuda":
        accumulate_wide(total, gradient, hidden)
    else:
        total += torch.mm(gradient.t(), hidden.to(gradient.dtype)).float()


def accumulate_wide(total: Any, gradient: Any, hidden: Any) -> None:
    """A product of 16-bit factors added to an fp32 sum: one CUDA kernel, which no other device has."""
    torch.addmm(total, gradient.t(), hidden.to(gradient.dtype), out_dtype=torch.float32, out=total)
