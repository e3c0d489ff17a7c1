"""Citation keys to title, section and link. Every ledger entry names one of these keys."""

from planner.references import diffusion, requests, serving, speed, training
from planner.references.types import Reference

REFERENCES: dict[str, Reference] = {
    **training.REFERENCES,
    **serving.REFERENCES,
    **requests.REFERENCES,
    **speed.REFERENCES,
    **diffusion.REFERENCES,
}

__all__ = ["REFERENCES", "Reference"]
