"""Ledgers of a server: what the asked load needs on each device, and the most its engine would allow.

An engine that claims a share of the card takes that share whatever the load; what it takes stands in
`ServingAnswer.reserves_bytes`, and `engine_limit_bytes` turns its refusal to start into the bytes a plan may use:
needs fit exactly when the engine starts and holds the asked load.
"""

from collections.abc import Callable, Hashable

from planner.diffusion.gaps import PHASES as PICTURE_PHASES
from planner.hardware import Tables
from planner.ledger import Ledger, make_ledger
from planner.memory.serving_cache_entries import KV_NAMES, STATE_NAME
from planner.memory.serving_engines import engine_for
from planner.memory.serving_entry import PHASES
from planner.model.spec import ModelSpec
from planner.placement import Share
from planner.placement_llama_cpp import LLAMA_FAMILY, alike
from planner.scenario import Scenario

CACHE_NAMES = (*KV_NAMES, STATE_NAME)


def serving_ledgers(
    shares: tuple[Share, ...], scenario: Scenario, model: ModelSpec, tables: Tables
) -> tuple[Ledger, ...]:
    """One ledger per group of devices, for the asked load.

    Args:
        shares: Who holds which layers.
        scenario: The question with its runtime's defaults filled in.
        model: The model.
        tables: Constants.
    """
    if model.latents is not None:
        from planner.diffusion.inference import pipeline_entries  # noqa: PLC0415 - only pipelines need it

        made = (pipeline_entries(share, scenario, model, tables) for share in shares)
        return tuple(make_ledger(entries, PICTURE_PHASES) for entries in made)
    engine = engine_for(scenario.runtime.name)

    def made_for(share: Share) -> Ledger:
        return make_ledger(engine.entries(share, scenario, model, tables), PHASES)

    if scenario.runtime.name in LLAMA_FAMILY:
        return _once_each(shares, scenario, made_for)
    return tuple(map(made_for, shares))


def _once_each(
    shares: tuple[Share, ...], scenario: Scenario, make: Callable[[Share], Ledger]
) -> tuple[Ledger, ...]:
    """A ledger a device, those of equal devices made once: thousands of cards hold few different things."""
    known: dict[Hashable, Ledger] = {}
    found = []
    for share in shares:
        key = alike(share, scenario)
        if key not in known:
            known[key] = make(share)
        found.append(known[key])
    return tuple(found)


def cache_bytes(ledger: Ledger) -> int:
    """Caches of the asked load on one device."""
    return ledger.total(*CACHE_NAMES)


def engine_limit_bytes(share: Share, ledger: Ledger, scenario: Scenario, tables: Tables) -> int | None:
    """The most a ledger may come to on a device under the engine's own rules; None where it has none.

    An engine with a budget holds the asked load when its caches fit into what the budget leaves for them.
    That is the same as a limit on the whole ledger: everything but the caches, plus what is left for them. A
    vLLM that finds less free memory than it wants to claim does not start at all, which is a limit of 0.

    Args:
        share: The device and what it holds.
        ledger: Of the asked load.
        scenario: The question with its runtime's defaults filled in.
        tables: Constants.
    """
    engine = engine_for(scenario.runtime.name)
    if engine.refuses(share, scenario):
        return 0
    available = engine.available(share, ledger, scenario, tables)
    if available is None:
        return None
    return max(0, ledger.peak()[1] - cache_bytes(ledger) + available)
