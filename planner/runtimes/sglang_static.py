"""SGLang's share of a card for weights and pool, and the batches it captures, by version and size of the card.

Read in `server_args.py` and `cuda_graph_runner.py` of 0.4.3.post4, 0.4.6 to 0.4.9, 0.5.1 to 0.5.5, 0.5.8 to 0.5.10,
0.5.12, 0.5.15, 0.5.17 and 0.5.19. Three rules followed each other: a share by the number of ranks; a reserve by
the size of the card; a reserve counted from the prompt's chunk and the captured batches.
"""

from typing import Final

from planner.memory.serving_demand import memory_gib, version_of
from planner.memory.serving_graphs_sglang import (
    PROMPT_GRAPHS_FROM,
    attention_replicas,
    is_latent,
    prompt_sizes,
)
from planner.model.spec import ModelSpec
from planner.scenario import Scenario
from planner.units import KIB

BY_CARD_FROM: Final = (0, 4, 8)
BY_CHUNK_FROM: Final = (0, 5, 3)
UNNAMED_PATCH: Final = (0, 5)
"""A version told as "0.5" counts as one of its later releases."""
UNKNOWN_CARD_FRAC: Final = 0.88

BY_RANKS: Final = ((16, 0.79), (8, 0.81), (4, 0.85), (2, 0.87))
ABOVE_80_FROM: Final = (0, 4, 6)
ABOVE_96_FROM: Final = (0, 4, 7)
"""From these on cards above so many GiB had rules of their own."""

CARD_RESERVES: Final = ((35, 2.8, 0.1), (90, 9.5, 0.5), (160, 12, 0.5))
"""Card below so many GiB: GiB kept back, and more for each rank; 32 GiB on larger ones."""
LARGEST_RESERVE: Final = 32
CARD_BUCKETS: Final = ((35, 2048, 8, 80), (90, 8192, 160, 160), (160, 8192, 256, 256))
SMALL_LIMIT_MIB: Final = 25_000
RANK_SMALL: Final = (2048, 8, 80)
RANK_LARGE: Final = (8192, 160, 160)

CHUNK_BUCKETS: Final = ((20, 2048, 8, 8), (35, 2048, 24, 80), (60, 4096, 32, 160), (160, 8192, 256, 512))
"""Card below so many GiB: chunk of a prefill, largest graph batch below tensor parallelism 4, and from 4 on."""
LARGEST: Final = (16384, 512, 512)
NARROW_UNTIL: Final = (0, 5, 5)
NARROW_BATCH: Final = 16
WIDE_GRAPHS: Final = 300
PROMPT_GRAPH_MIB: Final = 8
LATENT_GRAPHS_MIB: Final = 1536
NO_DRAFT_RESERVE_FROM: Final = (0, 5, 13)
"""The reserve for a draft is in 0.5.12 and no longer in 0.5.15."""
DRAFT_MODELS_FROM: Final = (0, 5, 2)


def _by_chunk(version: tuple[int, ...]) -> bool:
    return version >= BY_CHUNK_FROM or version == UNNAMED_PATCH


def bucket(scenario: Scenario) -> tuple[int, int]:
    """Chunk of a prefill, and the largest batch of a graph."""
    version, size = version_of(scenario), memory_gib(scenario) or 80
    wide = scenario.parallel.tensor >= 4
    if version < BY_CARD_FROM and version != UNNAMED_PATCH:
        chunk, few, many = RANK_SMALL if size * KIB < SMALL_LIMIT_MIB else RANK_LARGE
        return chunk, many if wide else few
    rows = CHUNK_BUCKETS if _by_chunk(version) else CARD_BUCKETS
    row = next((row[1:] for row in rows if size < row[0]), LARGEST)
    chunk, few, many = row
    if few == CHUNK_BUCKETS[1][2] and BY_CHUNK_FROM <= version < NARROW_UNTIL:
        few = NARROW_BATCH
    return chunk, many if wide else few


def static_frac(scenario: Scenario, model: ModelSpec, chunk: int, largest_batch: int) -> float:
    """Share of the card for weights and pool (`mem_fraction_static`), images left out."""
    version, size = version_of(scenario), memory_gib(scenario)
    if version < BY_CARD_FROM and version != UNNAMED_PATCH:
        return _by_ranks(scenario, size, version)
    if size is None:
        return UNKNOWN_CARD_FRAC
    if _by_chunk(version):
        reserve = _chunk_reserve_mib(scenario, model, chunk, largest_batch, size)
    else:
        reserve = _card_reserve_mib(scenario, model, size)
    return round(max(0.1, 1 - reserve / (size * KIB)), 3)


def _by_ranks(scenario: Scenario, size: float | None, version: tuple[int, ...]) -> float:
    """Less for more ranks; of the largest cards more, since what is kept back does not grow with them."""
    ranks = scenario.parallel.tensor * scenario.parallel.pipeline
    frac = next((frac for least, frac in BY_RANKS if ranks >= least), UNKNOWN_CARD_FRAC)
    if size is None or version < ABOVE_80_FROM:
        return frac
    if version < ABOVE_96_FROM:
        return frac if size <= 80 else 1 - 13 / size
    drafting = scenario.serving.speculative is not None
    frac = frac if size <= 80 else UNKNOWN_CARD_FRAC
    if size > 96:
        return min(frac + 48 * (1 - frac) / size, 1 - (20 if drafting else 18) / size)
    return frac * 0.95 if drafting else frac


def _card_reserve_mib(scenario: Scenario, model: ModelSpec, size: float) -> float:
    ranks = scenario.parallel.tensor * scenario.parallel.pipeline * attention_replicas(scenario, model)
    row = next(((base, each) for limit, base, each in CARD_RESERVES if size < limit), None)
    reserve = LARGEST_RESERVE if row is None else row[0] + row[1] * ranks
    if scenario.serving.speculative is not None:
        models = version_of(scenario) >= DRAFT_MODELS_FROM and scenario.serving.speculative == "draft"
        reserve += 6 if models else 2
    if attention_replicas(scenario, model) > 1:
        reserve += 4
    return reserve * KIB


def _chunk_reserve_mib(
    scenario: Scenario, model: ModelSpec, chunk: int, largest_batch: int, size: float
) -> float:
    """For steps and graphs, at least 10 GiB on large cards; a draft's comes on top."""
    replicas = attention_replicas(scenario, model)
    ranks = scenario.parallel.tensor * scenario.parallel.pipeline * replicas
    reserve = 512 + max(chunk, 2048) * 1.5 + largest_batch * 2 + ranks / 8 * KIB
    reserve += _replicas_mib(replicas, largest_batch) + _prompt_graphs_mib(scenario, model, chunk)
    if size > 60:
        reserve = max(reserve, 10 * KIB)
    return reserve + _draft_mib(scenario)


def _replicas_mib(replicas: int, largest_batch: int) -> float:
    """What data-parallel attention adds to the reserve, half as much again for large graphs."""
    if replicas == 1:
        return 0.0
    return largest_batch * replicas * (4.5 if largest_batch > WIDE_GRAPHS else 3)


def _prompt_graphs_mib(scenario: Scenario, model: ModelSpec, chunk: int) -> float:
    """What graphs of prompts add: so much each, or a lump where attention is latent."""
    sizes = prompt_sizes(scenario, model, chunk)
    if not sizes:
        return 0.0
    return LATENT_GRAPHS_MIB if is_latent(model) else PROMPT_GRAPH_MIB * len(sizes)


def _draft_mib(scenario: Scenario) -> float:
    """What a draft adds."""
    version = version_of(scenario)
    if scenario.serving.speculative is None or version >= NO_DRAFT_RESERVE_FROM:
        return 0.0
    if scenario.serving.speculative == "draft":
        return 6 * KIB
    return (4 if version >= PROMPT_GRAPHS_FROM else 2) * KIB
