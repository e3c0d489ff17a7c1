"""What fits on a server beside its weights: tokens, context and sequences, by the device that limits."""

from planner.hardware import Tables
from planner.ledger import Ledger
from planner.memory.serving_answer import DeviceAnswer
from planner.memory.serving_demand import demand, workload_tokens
from planner.memory.serving_engines import engine_for
from planner.memory.serving_llama_cache import context_each
from planner.memory.serving_llama_host import host_side
from planner.model.spec import ModelSpec
from planner.placement import Share
from planner.placement_llama_cpp import LLAMA_FAMILY
from planner.plan_types import ServingAnswer, ServingHost
from planner.scenario import Scenario


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
