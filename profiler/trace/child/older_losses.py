"""The loss of older versions of transformers, put in place of today's where a scenario names one.

Until 4.49 `ForCausalLMLoss` (and before 4.46 every model's own forward pass) cut the last position off the fp32
logits and copied the rest; today labels are shifted instead. Before 4.46 the model put the fp32 logits in the place
of its own, so that those in 16 bit were gone.
"""

from typing import Any, Final

import torch
from torch.nn import functional

Version = tuple[int, ...]
SHIFTS_BEFORE: Final = (4, 50)
REBINDS_BEFORE: Final = (4, 46)


def version_of(text: str | None) -> Version | None:
    """The numbers of a version, None where it names none."""
    pieces = (text or "").split(".")[:2]
    return tuple(map(int, pieces)) if len(pieces) == 2 and all(piece.isdigit() for piece in pieces) else None


def use_older_loss(model: Any, version: Version) -> None:
    """Give a causal model the loss that it had.

    Args:
        model: A transformers model with a head, adapters around it or not.
        version: Of transformers, major and minor.
    """
    if version >= SHIFTS_BEFORE:
        return
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    inner.loss_function = _shifting
    if version < REBINDS_BEFORE:
        head = inner.get_output_embeddings()
        original = head.forward
        head.forward = lambda hidden: original(hidden).float()


def _shifting(logits: Any, labels: Any, vocab_size: int, **_: Any) -> Any:
    """Mean cross-entropy over copied logits, positions but the last."""
    wide = logits.to(torch.float32)
    kept = wide[..., :-1, :].contiguous()
    targets = labels[..., 1:].contiguous()
    return functional.cross_entropy(kept.view(-1, vocab_size), targets.view(-1))
