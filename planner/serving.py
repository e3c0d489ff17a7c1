"""What a server needs and what it can hold: ledgers, and the tokens and sequences that fit.

The ledger holds what the asked load needs. An engine that claims a share of the card takes that share
whatever the load; what it takes stands in `ServingAnswer.reserves_bytes`, and `engine_limit_bytes` turns its
refusal to start into the bytes a plan may use: needs fit exactly when the engine starts and holds the asked
    load.
"""

from collections.abc import Callable, Hashable

from planner.diffusion.gaps import PHASES as PICTURE_PHASES
from planner.hardware import Tables
from planner.ledger import Ledger, make_ledger
from planner.memory.serving_answer import DeviceAnswer
from planner.memory.serving_cache_entries import KV_NAMES, STATE_NAME
from planner.memory.serving_demand import demand, workload_tokens
from planner.memory.serving_engines import engine_for
from planner.memory.serving_entry import PHASES
from planner.memory.serving_llama_cache import context_each
from planner.memory.serving_llama_host import host_side
from planner.model.spec import ModelSpec
from planner.placement import Share
from planner.placement_llama_cpp import LLAMA_FAMILY, alike
from planner.plan_types import ServingAnswer, ServingHost
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
    """
    engine = engine_for(scenario.runtime.name)
    if engine.refuses(share, scenario):
        return 0
    available = engine.available(share, ledger, scenario, tables)
    if available is None:
        return None
    return max(0, ledger.peak()[1] - cache_bytes(ledger) + available)


def answer_serving(
    shares: tuple[Share, ...],
    ledgers: tuple[Ledger, ...],
    scenario: Scenario,
    model: ModelSpec,
    tables: Tables,
) -> ServingAnswer:
    """Tokens, context and sequences that fit, over all devices; sizes of the device that limits.

    Args:
        shares: Who holds which layers.
        ledgers: What `serving_ledgers` returned for them.
        scenario: The question with its runtime's defaults filled in.
        model: The model.
        tables: Constants.
    """
    if model.latents is not None:
        from planner.diffusion.inference import pipeline_answer  # noqa: PLC0415 - only pipelines need it

        answers = [pipeline_answer(s, led, scenario, model) for s, led in zip(shares, ledgers, strict=True)]
    else:
        answers = _answers(shares, ledgers, scenario, model, tables)
    tightest = min(range(len(answers)), key=lambda i: answers[i].concurrency)
    limit = answers[tightest]
    return ServingAnswer(
        kv_bytes_per_token=limit.kv_bytes_per_token,
        state_bytes_per_sequence=limit.state_bytes_per_sequence,
        budget_bytes=limit.budget_bytes,
        kv_pool_bytes=limit.pool_bytes,
        kv_tokens=min(a.tokens for a in answers),
        longest_context_tokens=min(a.longest_tokens for a in answers),
        concurrency=limit.concurrency * shares[tightest].data,
        context_tokens=_context_tokens(scenario, model, shares[tightest]),
        needs_bytes=max(ledger.peak()[1] for ledger in ledgers),
        reserves_bytes=max(a.reserves_bytes for a in answers),
        device_pools_bytes=tuple(a.pool_bytes for a in answers),
        kv_blocks=min(a.blocks for a in answers),
        state_pool_bytes=limit.state_pool_bytes,
        state_slots=limit.state_slots,
        host=_host(shares, ledgers, scenario, model),
    )


def _answers(
    shares: tuple[Share, ...],
    ledgers: tuple[Ledger, ...],
    scenario: Scenario,
    model: ModelSpec,
    tables: Tables,
) -> list[DeviceAnswer]:
    """The engine's answer for each group; devices of one row that share a ledger are asked once."""
    engine = engine_for(scenario.runtime.name)
    known: dict[tuple[int, int], DeviceAnswer] = {}
    found = []
    for share, ledger in zip(shares, ledgers, strict=True):
        key = id(ledger), id(share.device)
        if key not in known:
            known[key] = engine.answer(share, ledger, scenario, model, tables)
        found.append(known[key])
    return found


def _host(
    shares: tuple[Share, ...], ledgers: tuple[Ledger, ...], scenario: Scenario, model: ModelSpec
) -> ServingHost:
    """What lies in host memory: llama.cpp's part of a model, or a pipeline's components that wait."""
    if model.latents is not None:
        from planner.diffusion.inference import host_bytes  # noqa: PLC0415 - only pipelines need it

        return ServingHost(weights_bytes=host_bytes(scenario, model, shares))
    return (
        host_side(shares, ledgers, scenario, model)
        if scenario.runtime.name in LLAMA_FAMILY
        else ServingHost()
    )


def _context_tokens(scenario: Scenario, model: ModelSpec, share: Share) -> int:
    """The length of a sequence that `concurrency` counts."""
    if scenario.runtime.name in LLAMA_FAMILY:
        return context_each(scenario, model)
    asked = demand(scenario, model, share)
    return asked.context_tokens if workload_tokens(scenario) else asked.longest_tokens
