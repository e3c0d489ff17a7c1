"""Batches whose rows hold several documents, told apart by positions that begin anew.

Transformers finds the beginnings in `position_ids` and gives every backend the mask that it needs: a matrix for
eager and SDPA, cumulative lengths for the flash kernel (`find_packed_sequence_indices` in `masking_utils.py`,
`prepare_fa_kwargs_from_position_ids` in `modeling_flash_attention_utils.py`). It looks for them only where no cache
is kept.
"""

from typing import Any, Final

import torch

from planner.scenario import Training

DOCUMENTS: Final = 2
"""In every row of a packed batch. Memory does not depend on how many there are, as long as there are several."""


def is_packed(training: Training) -> bool:
    """Whether any row holds more than one document."""
    if training.packing == "padding_free":
        return training.micro_batch > 1
    return training.packing == "packed" and training.sequence_length > 1


def lengths(training: Training) -> tuple[int, int, int]:
    """Rows, tokens of a row, and tokens of its longest document."""
    rows, length = training.micro_batch, training.sequence_length
    if training.packing == "padding_free":
        return 1, rows * length, length
    return rows, length, -(-length // DOCUMENTS)


def positions(training: Training, device: str) -> Any:
    """Position of each token in its document.

    Args:
        training: The scenario's block; packed.
        device: Where the batch lies.

    Returns:
        Whole numbers of shape (rows, tokens).
    """
    rows, tokens, document = lengths(training)
    return (torch.arange(tokens, device=device) % document).expand(rows, tokens).contiguous()
