"""Logits and the cross-entropy chain, in bytes per token and vocabulary entry."""

from typing import Final

LOG_SOFTMAX_BYTES: Final = 4
GRADIENT_BYTES: Final = 8
"""Backward of `nll_loss` and of `log_softmax`, both fp32 and alive at once."""

CHUNKS: Final = 8
"""torchtune `CEWithChunkedOutputLoss.num_output_chunks`."""


def forward_chain_bytes(e: int, *, shifts: bool, holds_logits: bool) -> int:
    """Per token and entry at the end of the loss: logits, their fp32 copy, the shifted copy, the log-softmax.

    transformers `ForCausalLMLoss`; the shifted copy (`[..., :-1, :].contiguous()`) went with 4.50, the caller's own
    logits in 16 bit live on from 4.46 (before, the model rebinds them to the fp32 copy).
    """
    copy = 4 if e < 4 else 0
    kept = e if holds_logits or e == 4 else 0
    return kept + copy + (4 if shifts else 0) + LOG_SOFTMAX_BYTES


def fused_loss_bytes(e: int) -> int:
    """A fused cross-entropy on whole logits writes the gradient over them and keeps one number a token."""
    return e


def chunked_loss_bytes(e: int, *, compiled: bool) -> float:
    """Logits of all chunks, and one chunk's own: compiled its gradient, else its fp32 copy beside all log-softmaxes.

    A compiled chunk keeps the logits themselves, which go as their gradient comes.
    """
    return e + e / CHUNKS if compiled else e + LOG_SOFTMAX_BYTES + 4 / CHUNKS


def compiled_loss_bytes(kept: int) -> int:
    """A compiled cross-entropy keeps the logits it was given and a number a token, and makes their gradient."""
    return 2 * kept


def fused_linear_chunk_tokens(tokens: int, hidden: int, vocab: int) -> int:
    """Tokens of a chunk of the fused head and loss: about as many logits as inputs. Liger `fused_linear_cross_entropy`.

    The number of chunks is ceil(vocab / hidden), the chunk the next power of two of tokens / chunks.
    """
    chunks = -(-vocab // hidden)
    return 1 << max(0, -(-tokens // chunks) - 1).bit_length()
