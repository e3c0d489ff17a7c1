"""SGLang: defaults of `launch_server`, which depend on the size of the card."""

from planner.memory.serving_demand import longest_tokens, memory_gib, version_of
from planner.memory.weight_formats import config_value, served_format
from planner.model.spec import ModelSpec
from planner.runtimes.profile import Defaults, Profile
from planner.scenario import Scenario
from planner.units import KIB

BY_CARD_FROM = (0, 5)
MULTIMODAL_FRAC = 0.95
TOWER_RULE_FROM = (0, 4, 9)
"""From here on the share kept for images follows the size of the vision tower."""
PLAIN_TOWER = (24, 1024)
"""Layers and width of the tower that the rule compares with, taken where a config names neither."""
UNKNOWN_CARD_FRAC = 0.88
BUCKETS = ((20, 2048, 8, 8), (35, 2048, 24, 80), (60, 4096, 32, 160), (160, 8192, 256, 512))
"""Card below so many GiB: chunk of a prefill, largest graph batch below tensor parallelism 4, and from 4
on."""
LARGEST = (16384, 512, 512)


def _bucket(size_gib: float, tensor: int) -> tuple[int, int]:
    for limit, chunk, narrow, wide in BUCKETS:
        if size_gib < limit:
            return chunk, narrow if tensor < 4 else wide
    chunk, narrow, wide = LARGEST
    return chunk, narrow if tensor < 4 else wide


def static_frac(scenario: Scenario, chunk: int, largest_batch: int) -> float:
    """Share of the card for weights and pool: what is left after a reserve for steps and graphs, in MiB."""
    parallel = scenario.parallel
    if version_of(scenario) < BY_CARD_FROM:
        steps = ((16, 0.79), (8, 0.81), (4, 0.85), (2, 0.87))
        return next((frac for degree, frac in steps if parallel.tensor >= degree), UNKNOWN_CARD_FRAC)
    size = memory_gib(scenario)
    if size is None:
        return UNKNOWN_CARD_FRAC
    reserve = 512 + max(chunk, 2048) * 1.5 + largest_batch * 2 + parallel.tensor * parallel.pipeline / 8 * KIB
    if size > 60:
        reserve = max(reserve, 10 * KIB)
    return round(max(0.1, 1 - reserve / (size * KIB)), 3)


def multimodal_factor(scenario: Scenario, model: ModelSpec) -> float:
    """What a vision tower leaves of the static share: less for each doubling of layers x width squared."""
    if not any(block.name == "vision_tower" for block in model.blocks):
        return 1.0
    if version_of(scenario) < TOWER_RULE_FROM:
        return MULTIMODAL_FRAC
    vision = config_value(model, "vision_config")
    given = vision if isinstance(vision, dict) else {}
    layers, width = (
        value if isinstance(value, int) else plain
        for value, plain in zip(
            (given.get("num_hidden_layers"), given.get("hidden_size")), PLAIN_TOWER, strict=True
        )
    )
    ratio = layers * width**2 / (PLAIN_TOWER[0] * PLAIN_TOWER[1] ** 2)
    return MULTIMODAL_FRAC * max(0.8, min(1.05, 1 - 0.1 * (ratio - 1)))


def _defaults(scenario: Scenario, model: ModelSpec) -> Defaults:
    weights = scenario.serving.weights or served_format(model)
    chunk, largest = _bucket(memory_gib(scenario) or 80, scenario.parallel.tensor)
    chunk = scenario.serving.batched_tokens or chunk
    largest = scenario.serving.cuda_graph_max_batch or largest
    frac = static_frac(scenario, chunk, largest)
    return {
        "serving.weights": weights,
        "serving.kv_cache": weights if weights in {"fp16", "fp32"} else "bf16",
        "serving.max_model_len": longest_tokens(scenario, model),
        "serving.memory_utilization": frac * multimodal_factor(scenario, model),
        "serving.batched_tokens": chunk,
        "serving.max_sequences": 256,
        "serving.cuda_graphs": True,
        "serving.cuda_graph_max_batch": largest,
        "serving.prefix_caching": True,
    }


SGLANG = Profile(name="sglang", kind="serving", defaults=_defaults, reference="sglang_server_args")
SGLANG_OMNI = Profile(name="sglang_omni", kind="serving", defaults=_defaults, reference="sglang_server_args")
