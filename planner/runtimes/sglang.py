"""SGLang: defaults of `launch_server`, which depend on the size of the card."""

from planner.memory.serving_demand import longest_tokens, version_of
from planner.memory.weight_formats import config_value, served_format
from planner.model.spec import ModelSpec
from planner.runtimes.profile import Defaults, Profile
from planner.runtimes.sglang_static import bucket, static_frac
from planner.scenario import Scenario

MULTIMODAL_FRAC = 0.95
MULTIMODAL_LESS_FROM = (0, 4, 6)
MULTIMODAL_LESS_FRAC = 0.9
TOWER_RULE_FROM = (0, 4, 10)
"""From here on the share kept for images follows the size of the vision tower."""
PLAIN_TOWER = (24, 1024)
"""Layers and width of the tower that the rule compares with, taken where a config names neither."""


def multimodal_factor(scenario: Scenario, model: ModelSpec) -> float:
    """What a vision tower leaves of the static share: less for each doubling of layers x width squared."""
    if not any(block.name == "vision_tower" for block in model.blocks):
        return 1.0
    version = version_of(scenario)
    if version < TOWER_RULE_FROM:
        return MULTIMODAL_FRAC if version < MULTIMODAL_LESS_FROM else MULTIMODAL_LESS_FRAC
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
    chunk, largest = bucket(scenario)
    chunk = scenario.serving.batched_tokens or chunk
    largest = scenario.serving.cuda_graph_max_batch or largest
    frac = static_frac(scenario, model, chunk, largest)
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
