"""Weights of a server on one device: elements by part of the model and number format."""

from collections.abc import Callable
from math import ceil
from typing import Final

from planner.ledger import Category, Entry
from planner.memory.serving_entry import LOADED, entry
from planner.memory.weight_formats import FORMATS, WeightFormat, config_value
from planner.model.distinct import distinct
from planner.model.spec import AttentionKind, Block, Layer, Linear, ModelSpec, Part, Split
from planner.placement import Share
from planner.scenario import Parallel
from planner.units import ceil_div, round_up

Elements = dict[tuple[Part, WeightFormat], int]
"""Elements by part of the model and number format."""

FormatOf = Callable[[Linear], WeightFormat]

KEY_VALUE_NAMES: Final = frozenset({"k_proj", "v_proj", "key", "value", "wk", "wv", "k", "v"})
VOCAB_STEP: Final = 64
"""vLLM and SGLang pad the vocabulary to a multiple of this before they divide it."""

VISION_TOWER: Final = "vision_tower"
TOWER_MLP_ONLY: Final = frozenset({"kimi_vl"})
"""Towers whose attention is whole on every rank (MoonViT in vLLM); only their feed-forward half is
divided."""

FEED: Final = frozenset({Part.MLP, Part.SHARED_EXPERTS})

PART_NAMES: Final[dict[Part, str]] = {part: f"weights_{part.value}" for part in Part}


def add(elements: Elements, part: Part, kind: WeightFormat, count: int) -> None:
    """Count `count` elements more."""
    if count:
        elements[part, kind] = elements.get((part, kind), 0) + count


def divided_weights(linear: Linear, layer: Layer | None, tensor: int, step: int = 1) -> int:
    """Elements of a matrix's copies on one rank, biases left out, rows padded to `step` inputs.

    Column-parallel divides outputs, row-parallel inputs. Key and value heads fewer than ranks are repeated,
    so a rank never holds less than one head.
    """
    rows, columns = linear.out_features, linear.in_features
    if linear.split is Split.COLUMN:
        rows = _divided_rows(linear, layer, tensor)
    elif linear.split is Split.ROW:
        columns = ceil_div(columns, tensor)
    elif linear.split is Split.VOCAB:
        rows = ceil_div(round_up(rows, VOCAB_STEP), tensor) if tensor > 1 else rows
    return rows * round_up(columns, step) * linear.copies


def _divided_rows(linear: Linear, layer: Layer | None, tensor: int) -> int:
    rows = linear.out_features
    shape = layer.attention if layer else None
    if shape is None or not 0 < shape.num_kv_heads < tensor or shape.kind is AttentionKind.MLA:
        return ceil_div(rows, tensor)
    if linear.name in KEY_VALUE_NAMES:
        return rows // shape.num_kv_heads
    fused = shape.q_width + shape.k_width + shape.v_width
    if linear.part is Part.ATTENTION and rows == fused:
        return ceil_div(shape.q_width, tensor) + (shape.k_width + shape.v_width) // shape.num_kv_heads
    return ceil_div(rows, tensor)


def divided_bias(linear: Linear, layer: Layer | None, tensor: int) -> int:
    """Elements of the biases on one rank: divided with the outputs, whole for row-parallel matrices."""
    if not linear.bias_features:
        return 0
    if linear.split is Split.COLUMN:
        return _divided_rows(linear, layer, tensor) * linear.copies
    return linear.bias_features * linear.copies


def expert_split(parallel: Parallel, tensor: int) -> tuple[int, int]:
    """How experts are divided: (ranks that share the list of them, ranks that share each one)."""
    if parallel.expert == 1:
        return 1, parallel.expert_tensor or tensor
    return parallel.expert, parallel.expert_tensor or max(1, tensor // parallel.expert)


def expert_replicas(parallel: Parallel, tensor: int) -> int:
    """Replicas whose tokens meet at one rank's experts: more than one where attention is data-parallel.

    The ranks of a replica have the same tokens, so a group of experts that is wider than a replica's tensor
    parallelism takes in those of its neighbours.
    """
    lists, each = expert_split(parallel, tensor)
    return max(1, lists * each // tensor)


def expert_weights(linear: Linear, tensor: int, kind: WeightFormat) -> int:
    """Elements of an expert matrix's copies on one rank, with the paddings of its format's kernel."""
    if kind.expert_pads is None:
        return divided_weights(linear, None, tensor, kind.pad_inputs)
    hidden, inner = kind.expert_pads
    if linear.split is Split.ROW:
        rows, columns = (
            round_up(linear.out_features, hidden),
            round_up(ceil_div(linear.in_features, tensor), inner),
        )
    else:
        halves = 2 if "gate_up" in linear.name else 1
        rows = round_up(ceil_div(linear.out_features, tensor), inner * halves)
        columns = round_up(linear.in_features, hidden)
    return rows * columns * linear.copies


def layer_elements(
    elements: Elements,
    layer: Layer,
    times: int,
    format_of: FormatOf,
    plain: WeightFormat,
    parallel: Parallel,
    tensor: int,
    wide: int | None = None,
) -> None:
    """Add `times` equal layers to a count.

    Args:
        elements: The count so far.
        layer: The layer.
        times: How many of them the device holds.
        format_of: Format of a matrix.
        plain: Format of biases, norms and other vectors.
        parallel: Expert parallelism.
        tensor: Tensor-parallel degree.
        wide: Ranks that dense feed-forward matrices and shared experts are divided over, if other than that.
    """
    lists, each = expert_split(parallel, tensor)
    for linear in layer.linears:
        if linear.part is Part.EXPERTS:
            kept = ceil_div(linear.copies, lists) / linear.copies
            weights = round(expert_weights(linear, each, format_of(linear)) * kept)
            bias = round(divided_bias(linear, None, each) * kept)
        else:
            ranks = wide or tensor if linear.part in FEED else tensor
            weights, bias = divided_weights(linear, layer, ranks), divided_bias(linear, layer, ranks)
        kind = format_of(linear)
        add(elements, linear.part, kind, weights * times)
        add(elements, linear.part, plain, bias * times)
        if kind.channel_bytes:
            add(elements, linear.part, FORMATS["fp32"], linear.out_features * linear.copies * times)
    add(elements, Part.NORM, plain, layer.norm_params * times)
    add(elements, Part.ATTENTION, plain, layer.vector_params * times)


def embedding_elements(model: ModelSpec, tensor: int) -> int:
    """Token embedding on one rank, divided over a padded vocabulary."""
    if tensor == 1 or model.vocab_size == 0:
        return model.embedding_params
    width = model.embedding_params // model.vocab_size
    return ceil_div(round_up(model.vocab_size, VOCAB_STEP), tensor) * width


def edge_elements(
    elements: Elements,
    share: Share,
    model: ModelSpec,
    plain: WeightFormat,
    tables: WeightFormat,
    wide: int | None = None,
) -> None:
    """Add what lies outside the layers: embedding, positions, last norm, head, towers, tables.

    The head is divided over `wide` ranks where that is given.

    A tied head costs nothing where the embedding is on the same device, and a copy on the last stage of a
    pipeline.
    """
    tensor = share.tensor
    if share.holds_embedding:
        add(elements, Part.EMBEDDING, plain, embedding_elements(model, tensor))
        add(elements, Part.EMBEDDING, plain, model.position_params)
        for block in model.blocks:
            if block.counted and block.stage == "first":
                kind, ranks = (tables, wide or tensor) if block.table else (plain, tensor)
                add(elements, Part.OTHER, kind, block_elements(block, model, ranks))
    if not share.holds_head:
        return
    add(elements, Part.NORM, plain, model.final_norm_params)
    for block in model.blocks:
        if block.counted and block.stage != "first":
            add(elements, Part.OTHER, plain, block.params)
    if model.head is None:
        return
    if not (model.tie_word_embeddings and share.holds_embedding):
        add(elements, Part.HEAD, plain, divided_weights(model.head, None, wide or tensor))
    add(elements, Part.HEAD, plain, ceil_div(model.head.bias_features, wide or tensor))


def block_elements(block: Block, model: ModelSpec, tensor: int) -> int:
    """A part counted as one piece on one rank: vision towers and tables are divided, projectors kept whole."""
    if block.table:
        return ceil_div(block.params, tensor)
    if tensor == 1 or block.name != VISION_TOWER:
        return block.params
    divided = _tower_mlp_frac(model) if model.model_type in TOWER_MLP_ONLY else 1.0
    return ceil(block.params * (1 - divided + divided / tensor))


def _tower_mlp_frac(model: ModelSpec) -> float:
    """Share of a tower's layers that is feed-forward: 2 h f of 2 h f + 4 h h."""
    vision = config_value(model, "vision_config")
    if not isinstance(vision, dict):
        return 1.0
    hidden, inner = vision.get("hidden_size"), vision.get("intermediate_size")
    if not (isinstance(hidden, int) and isinstance(inner, int) and inner > 0):
        return 1.0
    return inner / (inner + 2 * hidden)


def _kept_in_fp32(linear: Linear, model: ModelSpec) -> bool:
    """T5's second feed-forward matrix, which overflows in fp16 (`_keep_in_fp32_modules` of its class)."""
    return model.model_type in {"t5", "mt5", "umt5", "switch_transformers"} and linear.name == "wo"


def engine_elements(
    share: Share,
    model: ModelSpec,
    base: WeightFormat,
    experts: WeightFormat,
    plain: WeightFormat,
    parallel: Parallel,
    wide: int | None = None,
) -> Elements:
    """Elements of a paged engine's weights on one device of a share.

    Args:
        share: The layers and the tensor-parallel degree.
        model: The model.
        base: Format of quantized linears.
        experts: Format of routed experts.
        plain: 16-bit (or 32-bit) format of everything else.
        parallel: Expert parallelism.
        wide: Ranks that everything but attention is divided over, if other than the share's own.
    """

    def format_of(linear: Linear) -> WeightFormat:
        if linear.part is Part.EXPERTS:
            return experts
        if base.family == "plain":
            return FORMATS["fp32"] if base.id == "fp16" and _kept_in_fp32(linear, model) else base
        return base if linear.quantizable and not (base.experts_only and model.has_experts) else plain

    elements: Elements = {}
    for layer, times in distinct(share.layers):
        layer_elements(elements, layer, times, format_of, plain, parallel, share.tensor, wide)
    for layer, times in distinct(share.encoder_layers):
        layer_elements(elements, layer, times, format_of, plain, parallel, share.tensor, wide)
    edge_elements(elements, share, model, plain, base, wide)
    return elements


def part_entries(
    elements: Elements, reference: str = "weight_formats", *, estimate: bool = False
) -> list[Entry]:
    """One entry per part of the model, its formula a sum over the number formats in it."""
    entries = []
    for part in Part:
        kinds = [(kind, count) for (other, kind), count in elements.items() if other is part and count]
        if not kinds:
            continue
        formula = " + ".join(_block_formula(kind) for kind, _ in kinds)
        symbols = tuple((f"n_{kind.id}", count) for kind, count in kinds)
        quantized = next((kind for kind, _ in kinds if kind.family != "plain"), None)
        entries.append(
            entry(
                Category.WEIGHTS,
                PART_NAMES[part],
                formula,
                symbols,
                quantized.reference if quantized else reference,
                phases=LOADED,
                estimate=estimate,
            )
        )
    return entries


def _block_formula(kind: WeightFormat) -> str:
    size = f"{kind.bytes:g}"
    return f"n_{kind.id}*{size}" if kind.elements == 1 else f"n_{kind.id}*{size}/{kind.elements}"


def elements_bytes(elements: Elements, parts: frozenset[Part] = frozenset(Part)) -> int:
    """Bytes of a count, or of some parts of it."""
    return round(
        sum(count * kind.bytes / kind.elements for (part, kind), count in elements.items() if part in parts)
    )


def plain_format(name: str | None) -> WeightFormat:
    """The 16-bit (or 32-bit) format that a quantized model keeps its other tensors in."""
    return FORMATS[name] if name in {"fp16", "fp32"} else FORMATS["bf16"]
