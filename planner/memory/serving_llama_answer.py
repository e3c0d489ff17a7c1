"""What a llama.cpp device holds: the context that was asked for, or what of it fits."""

from planner.hardware import Tables
from planner.ledger import Ledger
from planner.memory.kv_cache import STATEFUL
from planner.memory.serving_answer import DeviceAnswer, usable_bytes
from planner.memory.serving_cache_entries import KV_NAMES, STATE_NAME
from planner.memory.serving_demand import longest_tokens
from planner.memory.serving_llama_cache import caps_windows, context_each, device_shapes
from planner.model.spec import ModelSpec
from planner.placement import Share
from planner.scenario import Scenario


def llama_answer(
    share: Share, ledger: Ledger, scenario: Scenario, model: ModelSpec, _tables: Tables
) -> DeviceAnswer:
    """Tokens, longest context and sequences of one device.

    The cache holds `max_model_len` tokens in all (`-c`), which the sequences share: N of C tokens need N x C.
    `longest_tokens` is the context the card could hold if it were asked for: what is left beside weights,
    buffers, states and capped windows, at the price of a token; never more than the asked context where one is
    given.
    """
    key = scenario.serving.kv_cache or "fp16"
    value = scenario.serving.kv_cache_v or key
    shapes = device_shapes(share, scenario, model)
    capped = caps_windows(scenario, model)
    token = sum(n * s.token_bytes(key, value) for s, n in shapes.items() if s.window is None or not capped)
    state = sum(n * (s.state + s.conv) * 4 for s, n in shapes.items() if s.kind in STATEFUL)
    context = longest_tokens(scenario, model)
    grown = ledger.total(*KV_NAMES, STATE_NAME)
    taken = ledger.peak()[1]
    usable = usable_bytes(share)
    longest = context
    if usable is not None and token:
        spare = usable - taken
        longest = min(context, context + int(spare // token)) if spare < 0 else context
    return DeviceAnswer(
        kv_bytes_per_token=round(token),
        state_bytes_per_sequence=round(state),
        budget_bytes=None,
        pool_bytes=grown,
        tokens=context,
        longest_tokens=max(0, longest),
        concurrency=context / context_each(scenario, model),
        reserves_bytes=taken,
    )
