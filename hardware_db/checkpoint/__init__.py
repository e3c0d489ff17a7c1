"""A model from its own files: config and exact bytes, read from headers; no weight is loaded or downloaded.

`read_checkpoint` takes what a person typed: a repository of the Hugging Face Hub (its id or address), a folder or a
file. Only the first goes to the network, and only when the function is called. Imports of the libraries that read
the files stay inside, so that a page or a command line that never asks does not load them.
"""

from hardware_db.checkpoint.found import Checkpoint, CheckpointError, Tensor
from hardware_db.checkpoint.source import Source, parse_source
from hardware_db.checkpoint.tally import stored_document

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "Source",
    "Tensor",
    "model_document",
    "parse_source",
    "read_checkpoint",
    "stored_document",
]


def read_checkpoint(text: str) -> Checkpoint:
    """Config and tensors of a checkpoint.

    Args:
        text: `org/name`, `org/name:Q4_K_M`, an address on the Hub, a folder or a file.

    Raises:
        CheckpointError: It cannot be read; the code says why.
    """
    source = parse_source(text)
    if source.path is not None:
        from hardware_db.checkpoint.local import read_local  # noqa: PLC0415

        return read_local(source.path)
    from hardware_db.checkpoint.hub import read_repo  # noqa: PLC0415

    return read_repo(source)


def model_document(found: Checkpoint, date: str) -> dict[str, object]:
    """The `model` block of a scenario: id and config where it has a config, and the sizes where it has weights.

    Args:
        found: What was read.
        date: Today, as YYYY-MM-DD.
    """
    block: dict[str, object] = {"stored": stored_document(found, date)} if found.files else {}
    if found.config is None:
        return block
    return {**({"id": found.repo} if found.repo else {}), "config": dict(found.config), **block}
