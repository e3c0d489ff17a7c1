"""vLLM: defaults of `vllm serve`."""

from planner.memory.serving_demand import longest_tokens, memory_gib, version_of
from planner.memory.serving_state_blocks import caches_prefixes
from planner.memory.weight_formats import served_format
from planner.model.spec import ModelSpec
from planner.placement import data_degree
from planner.runtimes.profile import Defaults, Profile, Value
from planner.scenario import Scenario

LARGE_CARD_GIB = 70
LARGE_CARD_TOKENS = 8192
LARGE_CARD_SEQUENCES = 4 * 256
SMALL_TOKENS = 2048
SMALL_SEQUENCES = 256
V1_FROM = (0, 8)
CARD_DEFAULTS_FROM = (0, 9)
"""Before this the second generation took the larger batch on every card."""
SHARED_EXPERTS_FROM = (0, 9)
"""From here on replicas of a mixture of experts run as one server (`--data-parallel-size`)."""
CHUNKED_FROM = 32768
"""The first generation read whole prompts up to this length, and in chunks beyond."""
CHUNKS_LONG_FROM = (0, 5, 4)
"""From here on; before, of any length."""


def _defaults(scenario: Scenario, model: ModelSpec) -> Defaults:
    weights = scenario.serving.weights or served_format(model)
    engine = scenario.runtime.engine or ("v1" if version_of(scenario) >= V1_FROM else "v0")
    return {
        "runtime.engine": engine,
        "serving.weights": weights,
        "serving.kv_cache": weights if weights in {"fp16", "fp32"} else "bf16",
        "serving.max_model_len": longest_tokens(scenario, model),
        "serving.memory_utilization": 0.9,
        "serving.block_size": 16,
        "serving.cuda_graphs": True,
        "serving.prefix_caching": engine == "v1" and caches_prefixes(scenario, model),
        **_batch(scenario, model, engine),
        **_stages(scenario, model),
        **_experts(scenario, model),
    }


def _experts(scenario: Scenario, model: ModelSpec) -> dict[str, Value]:
    """Replicas of one server divide every expert among all their ranks, unless they deal out whole ones."""
    parallel = scenario.parallel
    wide = data_degree(scenario) > 1 and parallel.expert == 1 and not parallel.stages
    together = version_of(scenario) >= SHARED_EXPERTS_FROM
    if not (wide and together and model.has_experts):
        return {}
    return {"parallel.expert_tensor": data_degree(scenario) * parallel.tensor}


def _stages(scenario: Scenario, model: ModelSpec) -> dict[str, Value]:
    """Layers of every stage where they don't divide evenly: the rest from the last but one backwards."""
    depth = scenario.parallel.pipeline
    base, rest = divmod(model.num_layers, depth)
    if not rest or scenario.parallel.stages:
        return {}
    counts = [base] * depth
    for back in range(2, rest + 2):
        counts[-back] += 1
    return {"parallel.pipeline_layers": tuple(counts)}


def _batch(scenario: Scenario, model: ModelSpec, engine: str) -> dict[str, Value]:
    longest = longest_tokens(scenario, model)
    if engine == "v0":
        whole = longest <= CHUNKED_FROM or version_of(scenario) < CHUNKS_LONG_FROM
        tokens = longest if whole else SMALL_TOKENS
        return {"serving.batched_tokens": max(tokens, SMALL_TOKENS), "serving.max_sequences": SMALL_SEQUENCES}
    if version_of(scenario) < CARD_DEFAULTS_FROM:
        return {"serving.batched_tokens": SMALL_TOKENS, "serving.max_sequences": LARGE_CARD_SEQUENCES}
    size = memory_gib(scenario)
    large = size is not None and size >= LARGE_CARD_GIB and "a100" not in scenario.hardware.devices[0].gpu
    return {
        "serving.batched_tokens": LARGE_CARD_TOKENS if large else SMALL_TOKENS,
        "serving.max_sequences": LARGE_CARD_SEQUENCES if large else SMALL_SEQUENCES,
    }


VLLM = Profile(name="vllm", kind="serving", defaults=_defaults, reference="vllm_engine_args")
