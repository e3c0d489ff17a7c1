"""What a PyTorch engine holds beside a checkpoint's own tensors once weights are loaded."""

from typing import Final

from planner.ledger import Category, Entry, Symbol
from planner.memory.kv_cache import STATEFUL
from planner.memory.serving_demand import version_of
from planner.memory.serving_entry import RUNNING, entry
from planner.memory.serving_stored import DRAFT, held_safetensors, stored_bytes
from planner.memory.serving_weights import divided_bias, divided_weights, expert_split, expert_weights
from planner.memory.weight_formats import WeightFormat, config_value
from planner.model.distinct import distinct
from planner.model.spec import AttentionKind, Layer, ModelSpec, Part, Split
from planner.placement import Share
from planner.scenario import Parallel, Scenario
from planner.units import MIB, round_up

TRITON_PADS: Final = ((1, 128), (1, 64))
"""Triton's experts on Hopper, from vLLM 0.19 and before: hidden size as it is, each rank's intermediate size to a
multiple of the second."""
SCALE_TILE: Final = 256
"""Rows of a tile of scales (2 x 8 warps x 2 x 8 of `HopperMXScaleLayout`)."""
LARGE: Final = 10 * MIB
STEP: Final = 2 * MIB
KEPT: Final = MIB
ABSORBED_FROM: Final = {"vllm": (0, 7), "aphrodite": (0, 7), "sglang": (0, 4), "sglang_omni": (0, 0)}
TWO_TABLES: Final = frozenset({"gemma3", "gemma3_text"})
WITHOUT_TABLE: Final = frozenset({"kimi_linear"})
"""Its latent attention rotates nothing (`mla_use_nope`), so `KimiMLAAttention` makes no table."""
WIDE_TYPES: Final = frozenset({"gpt_oss"})
"""vLLM's classes that ask for a table in 32 bit."""
CLASS_SHARES: Final = {
    "qwen3_next": 0.25, "qwen3_5": 0.25, "qwen3_5_moe": 0.25, "glm": 0.5, "glm4": 0.5, "glm4_moe": 0.5, "glm4v": 0.5,
    "phi": 0.5, "nemotron": 0.5, "stablelm": 0.25, "gpt_neox": 0.25,
}  # fmt: skip
"""Rotating share of a head where a config says nothing: defaults of the configuration classes."""
WIDE_TABLES_FROM: Final = {"sglang": (0, 4, 2), "sglang_omni": (0, 0), "tensorrt_llm": (0, 0)}
"""From here on these keep the table in 32 bit on CUDA, whatever the model's own width."""
WIDE_REFERENCES: Final = {
    "sglang": "sglang_rope",
    "sglang_omni": "sglang_rope",
    "tensorrt_llm": "tensorrt_llm_rope",
}
ONE_TABLE: Final = frozenset({"sglang", "sglang_omni"})
"""Engines that make all layers of a model with two bases from the config of the local one."""
ANGLES_AT_RUN: Final = frozenset({"transformers", "mlc_llm"})
"""These keep the inverse frequencies alone and make cosines and sines in every step."""
SCALED_PAST_CONFIG: Final = frozenset({"linear"})


# --- rotary tables


def rope_entries(share: Share, scenario: Scenario, model: ModelSpec, width_bytes: int) -> list[Entry]:
    """Cosines and sines of every position, once a rank; models with two rotary bases keep two tables.

    SGLang and TensorRT-LLM keep them in 32 bit. SGLang makes all layers of Gemma-3 from the config whose base is
    the local one: one table.
    """
    positions = model.max_position_embeddings
    if model.position_embedding != "rope" or positions is None or not share.layers:
        return []
    if model.model_type in WITHOUT_TABLE or scenario.runtime.name in ANGLES_AT_RUN:
        return []
    turned_layers = (la.attention for la in share.layers if la.attention.kind not in STATEFUL)
    shape = next((shape for shape in turned_layers if shape.head_dim), None)
    if shape is None:
        return []
    width = _turned_width(model, shape.head_dim)
    if shape.kind is AttentionKind.MLA:
        width = shape.qk_rope_head_dim
    elif shape.kv_tied:
        turned = _text_value(model, "qk_rope_head_dim")
        width = turned if isinstance(turned, int) else width
    two = model.model_type in TWO_TABLES or _text_value(model, "rope_local_base_freq") is not None
    engine = scenario.runtime.name
    since = WIDE_TABLES_FROM.get(engine)
    wide = since is not None and version_of(scenario) >= since
    width_bytes = 4 if model.model_type in WIDE_TYPES else width_bytes
    scale = 1 if two and engine in ONE_TABLE and wide else _scale(model)
    formula = "P*(s + 1)*d*w" if two and not (engine in ONE_TABLE and wide) else "P*s*d*w"
    reference = WIDE_REFERENCES[engine] if wide else "vllm_rotary_embedding"
    symbols: tuple[Symbol, ...] = (
        ("P", positions),
        ("s", scale),
        ("d", width),
        ("w", 4 if wide else width_bytes),
    )
    return [entry(Category.WEIGHTS, "rope_cache", formula, symbols, reference)]


def _turned_width(model: ModelSpec, head_dim: int) -> int:
    """Dimensions of a head that rotate: a share that the config or the class of its model type names."""
    told = _text_value(model, "rope_parameters")
    nested = told.get("partial_rotary_factor") if isinstance(told, dict) else None
    given = (nested, _text_value(model, "partial_rotary_factor"), _text_value(model, "rotary_pct"))
    shares = [value for value in given if isinstance(value, int | float)]
    if shares:
        return round(head_dim * shares[0])
    dimensions = _text_value(model, "rotary_dim")
    if isinstance(dimensions, int):
        return min(dimensions, head_dim)
    kind = model.model_type.removesuffix("_text")
    return round(head_dim * CLASS_SHARES.get(kind, 1.0))


def _text_value(model: ModelSpec, key: str) -> object:
    """A key of the config, or of its text part."""
    value = config_value(model, key)
    text = config_value(model, "text_config")
    return value if value is not None or not isinstance(text, dict) else text.get(key)


def _scale(model: ModelSpec) -> int | float:
    """How far linear rope scaling stretches the table beyond the positions that the config names."""
    scaling = _text_value(model, "rope_scaling")
    if not isinstance(scaling, dict):
        return 1
    kind = scaling.get("rope_type", scaling.get("type"))
    factor = scaling.get("factor")
    return factor if kind in SCALED_PAST_CONFIG and isinstance(factor, int | float) and factor > 1 else 1


# --- latent attention


def absorbed_entries(share: Share, scenario: Scenario, width_bytes: int) -> list[Entry]:
    """MLA: the decompression matrix a second time, reshaped to be absorbed into query and output."""
    since = ABSORBED_FROM.get(scenario.runtime.name)
    if since is None or version_of(scenario) < since:
        return []
    elements = 0
    for layer, times in distinct(share.layers):
        shape = layer.attention
        if shape.kind is AttentionKind.MLA:
            heads = -(-shape.num_heads // share.tensor)
            nope = shape.head_dim - shape.qk_rope_head_dim
            elements += times * heads * (nope + shape.v_head_dim) * shape.kv_lora_rank
    symbols: tuple[Symbol, ...] = (("n", elements), ("w", width_bytes))
    return (
        [entry(Category.WEIGHTS, "absorbed_latent", "n*w", symbols, "vllm_mla_weights")] if elements else []
    )


# --- experts in Triton's layout


def swizzled_entries(share: Share, kind: WeightFormat, parallel: Parallel) -> list[Entry]:
    """MXFP4 on Hopper: scales a second time in the kernel's order, and biases in 32 bit.

    The order wants whole tiles of rows. The scales as they were read stay a parameter of the layer.
    """
    if kind.expert_pads not in TRITON_PADS:
        return []
    step = kind.expert_pads[1]
    lists, each = expert_split(parallel, share.tensor)
    scales = biases = 0
    for layer, times in distinct(share.layers):
        for linear in layer.linears:
            if linear.part is not Part.EXPERTS:
                continue
            kept = -(-linear.copies // lists) * times
            columns = linear.in_features
            if linear.split is Split.ROW:
                columns = round_up(-(-columns // each), step)
            rows = expert_weights(linear, each, kind) // (linear.copies * columns)
            scales += kept * round_up(rows, SCALE_TILE) * columns // kind.elements
            biases += kept * divided_bias(linear, None, each) // linear.copies
    symbols: tuple[Symbol, ...] = (("s", scales), ("b", biases))
    if not scales:
        return []
    return [
        entry(
            Category.WEIGHTS, "expert_scales", "s + b*2", symbols, "vllm_triton_experts", phases=RUNNING,
        )
    ]  # fmt: skip


# --- multi-token prediction


def draft_entries(share: Share, scenario: Scenario, model: ModelSpec, width_bytes: int) -> list[Entry]:
    """Prediction layers of the checkpoint, loaded only to draft: in 16 bit, whole on every rank."""
    if scenario.serving.speculative != "mtp" or not share.holds_head:
        return []
    stored = held_safetensors(scenario, model)
    size = stored_bytes(stored, (DRAFT,)) if stored is not None else 0
    if size:
        return [entry(Category.WEIGHTS, "draft_weights", "F", (("F", size),), "checkpoint_headers")]
    elements = sum(block.params for block in model.blocks if block.name == "mtp")
    symbols: tuple[Symbol, ...] = (("n", elements), ("w", width_bytes))
    return [entry(Category.WEIGHTS, "draft_weights", "n*w", symbols, "mtp_layers")] if elements else []


# --- the allocator


def merged_sizes(layer: Layer, tensor: int, kind: WeightFormat) -> list[int]:
    """Bytes of each weight tensor of a layer as engines store them: q, k, v as one, gate and up as one."""
    merged: dict[str, int] = {}
    for linear in layer.linears:
        if linear.part is Part.NORM or not linear.quantizable:
            continue
        stacked = linear.split is Split.COLUMN and layer.attention.kind is not AttentionKind.MLA
        joined = stacked or (linear.split is Split.COLUMN and linear.part is not Part.ATTENTION)
        key = f"{linear.part.value}.in" if joined else f"{linear.part.value}.{linear.name}"
        merged[key] = merged.get(key, 0) + divided_weights(linear, layer, tensor)
    return [round(count * kind.bytes / kind.elements) for count in merged.values()]


def slack_entries(share: Share, kind: WeightFormat, *, whole: bool = False) -> list[Entry]:
    """Ends of 2 MiB pages too short to be split off: PyTorch counts them with the tensor.

    A tensor of 10 MiB or more gets its own segment, rounded up to 2 MiB; a rest of at most 1 MiB stays with
    it. Where the driver's free memory is read (`whole`), the longer rests count too.
    """
    kept = STEP if whole else KEPT
    tails: dict[int, int] = {}
    for layer, times in distinct(share.layers):
        for size in merged_sizes(layer, share.tensor, kind):
            tail = round_up(size, STEP) - size
            if size >= LARGE and 0 < tail <= kept:
                tails[size] = tails.get(size, 0) + times
    if not tails:
        return []
    formula, symbols = _tail_sum(tails)
    return [entry(Category.WEIGHTS, "weights_allocator_tail", formula, symbols, "pytorch_caching_allocator")]


def _tail_sum(tails: dict[int, int]) -> tuple[str, tuple[Symbol, ...]]:
    terms, symbols = [], [("a", STEP)]
    for index, (size, times) in enumerate(tails.items()):
        terms.append(f"n_{index}*(ceil(t_{index}/a)*a - t_{index})")
        symbols += [(f"n_{index}", times), (f"t_{index}", size)]
    return " + ".join(terms), tuple(symbols)
