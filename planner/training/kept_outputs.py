"""What a loop that holds the model's outputs keeps of the step before."""

from planner.ledger import Category, Entry, Phase
from planner.memory.terms import item
from planner.training.step import Step


def kept_output_entries(step: Step) -> list[Entry]:
    """What a loop that holds the model's outputs keeps through the step: logits, and the cache made on the way."""
    setup, e = step.setup, step.setup.compute_bytes
    if not setup.keeps_outputs or not step.share.holds_head:
        return []
    cache = kept_cache(step, frozenset({Phase.REST, Phase.FORWARD, Phase.OPTIMIZER_STEP}))
    if setup.training.loss not in {None, "standard"}:
        return cache
    tokens = setup.target_tokens
    return [
        item(
            Category.LOGITS,
            "kept_logits",
            tokens * step.vocab * e,
            "t*V*e",
            {"t": tokens, "V": step.vocab, "e": e},
            "kept_outputs",
            phases=frozenset({Phase.REST, Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER_STEP}),
        ),
        *cache,
    ]


def kept_cache(step: Step, phases: frozenset[Phase], *, but_first: bool = False) -> list[Entry]:
    """Keys and values of all layers (but the first), as a loop's outputs hold them until the next ones replace them."""
    setup, e = step.setup, step.setup.product_bytes
    if not setup.keeps_cache or not step.kinds:
        return []
    k, v = (sum(kind.count * int(kind.form.widths[x]) for kind in step.kinds) for x in "kv")
    if but_first:
        k, v = k - int(step.first.form.widths["k"]), v - int(step.first.form.widths["v"])
    return [
        item(
            Category.ACTIVATIONS,
            "kept_cache",
            setup.tokens * (k * step.cached_key_bytes + v * e),
            "t*(k*c + v*e)",
            {"t": setup.tokens, "k": k, "c": step.cached_key_bytes, "v": v, "e": e},
            "kept_outputs",
            phases=phases,
        )
    ]
