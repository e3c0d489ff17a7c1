"""`nn.DataParallel`: one process, the model on the first card, a copy lent to every other for each step.

The copies are made in the forward pass (`replicate`) and live as long as the graph that holds them; their gradients
come out of one function and go to the first card together. Outputs are gathered there too, so it is the fullest.
"""

from typing import Final

from planner.ledger import Category, Entry, Phase
from planner.memory.terms import item
from planner.training.step import Step

LENT: Final = frozenset({Phase.FORWARD, Phase.LOSS, Phase.BACKWARD})
KEPT_BY_OWNER: Final = frozenset({Category.OPTIMIZER})
MASTER: Final = "master_weights"
BUCKETS: Final = "ddp_buckets"


def lent_entries(step: Step, entries: list[Entry]) -> list[Entry]:
    """The entries of one card of such a job, from those of a card that works alone."""
    if step.setup.parallel.data_parallel != "dp" or step.share.data < 2:
        return entries
    entries = [entry for entry in entries if entry.name != BUCKETS]
    if not step.share.replica:
        return [*entries, *_gathered_outputs(step)]
    return [
        lent
        for entry in entries
        if entry.category not in KEPT_BY_OWNER and entry.name != MASTER
        for lent in _lent(entry)
    ]


def _lent(entry: Entry) -> list[Entry]:
    """Weights and gradients of a copy do not outlive the step's graph; what belongs to the process stays."""
    if entry.category is Category.WEIGHTS:
        phases = entry.phases & LENT
    elif entry.category is Category.GRADIENTS:
        phases = entry.phases & {Phase.LOSS, Phase.BACKWARD}
    else:
        return [entry]
    return [entry._replace(phases=phases)] if phases else []


def _gathered_outputs(step: Step) -> list[Entry]:
    """The logits of every card, concatenated on the first."""
    n, t, v, e = step.share.data, step.setup.target_tokens, step.vocab, step.setup.compute_bytes
    return [
        item(
            Category.LOGITS,
            "gathered_outputs",
            n * t * v * e,
            "N*t*V*e",
            {"N": n, "t": t, "V": v, "e": e},
            "data_parallel",
            phases={Phase.LOSS},
        )
    ]
