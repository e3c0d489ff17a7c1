"""Why no card can be asked, in English, for commands; a page has its own words."""

from typing import Final

SENTENCES: Final = {
    "no_driver": "There is no NVIDIA driver on this machine.",
    "driver_not_loaded": "An NVIDIA driver is installed but not loaded.",
    "no_binding": "The NVIDIA bindings for Python (nvidia-ml-py) are not installed.",
    "library_mismatch": "The NVIDIA driver and its library are of different versions; a restart usually mends it.",
    "version_mismatch": "The NVIDIA driver and its library are of different versions; a restart usually mends it.",
    "no_permission": "The NVIDIA driver does not let this user ask.",
    "no_device": "The NVIDIA driver lists no card.",
    "hidden": "CUDA_VISIBLE_DEVICES hides every card.",
    "unknown_entry": "CUDA_VISIBLE_DEVICES names a card that is not there.",
    "repeated_entry": "CUDA_VISIBLE_DEVICES names a card twice, which hides them all.",
    "gpu_lost": "The card has fallen off the bus; a restart is needed.",
    "reset_required": "The card needs a reset.",
    "missing_symbol": "The NVIDIA driver is too old to be asked.",
}
"""By the reason of a `profiler.nvml.Reading`."""


def why_no_card(reason: str, detail: str = "") -> str:
    """A sentence for a reason.

    Args:
        reason: Of a reading, or of a machine without cards.
        detail: The driver's own words, which only a reason without a sentence needs.
    """
    known = SENTENCES.get(reason or "no_device")
    return known or f"The NVIDIA driver could not be asked ({reason}{': ' if detail else ''}{detail})."
