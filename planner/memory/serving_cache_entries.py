"""Ledger entries for caches."""

from planner.ledger import Category, Entry, Symbol
from planner.memory.kv_cache import KV_BYTES, STATEFUL, WINDOWED, CacheShape
from planner.memory.serving_entry import RUNNING, entry
from planner.memory.serving_paged import PagedPool
from planner.model.spec import AttentionKind

KV_NAMES = ("kv_cache", "kv_cache_window", "kv_cache_latent", "kv_cache_index")
STATE_NAME = "recurrent_states"


def cache_name(shape: CacheShape) -> str:
    """The entry a layer's cache is counted in."""
    if shape.kind in STATEFUL:
        return STATE_NAME
    if shape.kind in WINDOWED:
        return "kv_cache_window"
    return "kv_cache_latent" if shape.kind is AttentionKind.MLA else "kv_cache"


def cache_entry(
    shape: CacheShape,
    layers: int,
    cells: int,
    key_format: str,
    value_format: str,
    reference: str = "kv_cache",
) -> Entry:
    """Keys and values of equal layers over `cells` cached tokens, all sequences together."""
    symbols: tuple[Symbol, ...] = (("L", layers), ("n", cells), ("k", shape.key))
    text, values = _format_term("k", key_format)
    formula, symbols = f"L*n*({text}", (*symbols, *values)
    if shape.value:
        text, values = _format_term("v", value_format)
        formula, symbols = f"{formula} + {text}", (*symbols, ("v", shape.value), *values)
    if shape.index:
        formula, symbols = f"{formula} + x*2", (*symbols, ("x", shape.index))
    return entry(Category.KV_CACHE, cache_name(shape), f"{formula})", symbols, reference, phases=RUNNING)


def _format_term(symbol: str, name: str) -> tuple[str, tuple[Symbol, ...]]:
    elements, size = KV_BYTES[name]
    if elements == 1:
        return f"{symbol}*b_{symbol}", ((f"b_{symbol}", size),)
    return f"{symbol}*{size}/{elements}", ()


def state_entry(
    shape: CacheShape, layers: int, sequences: int, state_bytes: int, conv_bytes: int, reference: str
) -> Entry:
    """Recurrent and convolution states of equal layers."""
    return entry(
        Category.KV_CACHE,
        STATE_NAME,
        "L*B*(s*b_s + c*b_c)",
        (
            ("L", layers),
            ("B", sequences),
            ("s", shape.state),
            ("b_s", state_bytes),
            ("c", shape.conv),
            ("b_c", conv_bytes),
        ),
        reference,
        phases=RUNNING,
    )


def pool_entry(pool: PagedPool, sequences: int, context: int, reference: str, saved: int = 0) -> Entry:
    """What `sequences` sequences of `context` tokens need of a block pool of several groups.

    Args:
        pool: The pool.
        sequences: How many.
        context: Tokens of each.
        reference: Key of the entry.
        saved: Blocks that they hold in common and need once.
    """
    formula = "B*n_blocks*L_group*page"
    symbols: tuple[Symbol, ...] = (("B", sequences), ("n_blocks", pool.blocks_for(context)))
    if saved:
        formula, symbols = "(B*n_blocks - n_common)*L_group*page", (*symbols, ("n_common", saved))
    return entry(
        Category.KV_CACHE,
        "kv_cache",
        formula,
        (*symbols, ("L_group", pool.group_layers), ("page", pool.page_bytes)),
        reference,
        phases=RUNNING,
    )
