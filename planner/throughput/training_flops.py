"""Operations and memory traffic of a training step on one card, by layer."""

import re
from collections.abc import Mapping
from typing import Final

from planner.hardware import Gpu
from planner.memory.megatron_selective import CORE, modules_again, weights_again
from planner.model.distinct import distinct
from planner.model.own_tokens import PAIRS
from planner.model.spec import Layer, ModelSpec
from planner.placement import Share
from planner.throughput import flops as fl
from planner.throughput.stage_load import Passes, StageLoad
from planner.throughput.tower_flops import tower_load
from planner.training.setup import Setup

SCORE_FORMATS_BYTES: Final = 4
PRODUCTS: Final = 3
"""Forward, gradient of the input, gradient of the weight."""
SELECTIVE_AGAIN: Final = 0.5
"""torchtitan's selective policy keeps every second matrix product."""
FLASH_MONTH: Final = "2022-06"
"""FlashAttention was published at the end of May 2022 (arXiv 2205.14135)."""
_MONTH: Final = re.compile(r"\b20\d\d-\d\d\b")
BASE_BYTES: Final[Mapping[str, float]] = {
    "nf4": 0.5625,
    "nf4_dq": 0.516,
    "gptq4": 0.52,
    "gptq8": 1.02,
    "int8": 1.0,
}


def compute_format(setup: Setup) -> str:
    """Number format of matrix products."""
    return setup.training.precision.compute or "bf16"


def low_format(setup: Setup) -> str | None:
    """fp8 or fp4 where the layers' products run in it."""
    precision = setup.training.precision
    if precision.fp4 is not None:
        return "fp4"
    return "fp8" if precision.fp8 is not None else None


def peak_flops(gpu: Gpu, dtype: str) -> float | None:
    """Dense rate; bf16 on a card without it runs at no rate we know."""
    return gpu.flops.of(dtype)


def passes_of(setup: Setup, *, again: bool = True) -> Passes:
    """Forward 1, backward 2 (1 through a frozen base), and what checkpointing does again.

    Args:
        setup: The job in numbers.
        again: Whether what checkpointing does again is counted.
    """
    training = setup.training
    backward = PRODUCTS - 1 if setup.adapter is None else 1
    kind = (training.checkpointing or "none") if again else "none"
    products_again, attention_again, stream_again = {
        "full": (1.0, 1.0, 1.0),
        "every_k": (1.0, 1.0, 1.0),
        "selective_attention": (0.0, 1.0, 0.0),
        "selective_op": _selective_again(setup),
    }.get(kind, (0.0, 0.0, 0.0))
    return Passes(1 + backward + products_again, 3.5 + attention_again, 2 + stream_again, 2 + products_again)


def _selective_again(setup: Setup) -> tuple[float, float, float]:
    """Products, attention and the rest again; products of Megatron's modules are counted layer by layer."""
    if not setup.megatron:
        return SELECTIVE_AGAIN, 0.0, 1.0
    modules = modules_again(setup)
    return 0.0, float(CORE in modules), float(bool(modules - {CORE}))


def layer_loads(model: ModelSpec) -> dict[int, fl.LayerLoad]:
    """Every distinct layer counted once, by identity."""
    return {id(layer): fl.layer_load(layer, model.hidden_size) for layer, _ in model.distinct_layers()}


def writes_scores(attention: str | None, version: str | None) -> bool:
    """Whether attention scores go through memory: eager attention, and all there was before FlashAttention.

    Args:
        attention: Kernel of the resolved question.
        version: Version of the runtime; one that ends in a month tells when it ran.
    """
    month = _MONTH.search(version or "")
    return attention == "eager" or (month is not None and month[0] < FLASH_MONTH)


def stage_load(
    share: Share,
    setup: Setup,
    model: ModelSpec,
    loads: Mapping[int, fl.LayerLoad],
    trained: int,
    *,
    scores: bool = False,
    again: bool = True,
) -> StageLoad:
    """What a micro-batch asks of one card.

    Args:
        share: The card's part of the job.
        setup: The job in numbers.
        model: The model.
        loads: What `layer_loads` returned for it.
        trained: Trainable parameters on the card (adapters only where there are any).
        scores: Attention scores are written and read, all of the square.
        again: Whether what checkpointing does again is counted.
    """
    passes, t = passes_of(setup, again=again), share.tensor
    full = low = attention = moved = experts = 0.0
    e = setup.compute_bytes
    causal, is_low = fl.is_causal(model) and not scores, low_format(setup) is not None
    modules = modules_again(setup) if again else frozenset[str]()
    for layer, count, of_source in _layers_of(share, model):
        load, part = loads[id(layer)], fl.token_share(layer)
        in_batch, length = _tokens_seen(setup, of_source=of_source)
        tokens = in_batch * part
        dense_again, experts_again = weights_again(layer, modules) if modules else (0.0, 0.0)
        visited = load.expert_weights * passes.dense + experts_again
        products = fl.matrix_flops(tokens, load.weights * passes.dense + dense_again + visited) / t * count
        low, full = (low + products, full) if is_low else (low, full + products)
        experts += fl.matrix_flops(tokens, visited) / t * count
        seen = fl.layer_seen_keys(
            layer, length * part, causal=causal and not _sees_all(model, of_source=of_source)
        )
        attention += (
            (
                fl.attention_flops(tokens, seen, load.score_width) * passes.attention
                + tokens * load.state_flops * passes.dense
            )
            / t
            * count
        )
        held = load.weights + load.held_experts / setup.division.expert
        operands = (tokens * (load.widths + load.expert_widths) + held) * e / t
        moved += count * (
            operands * passes.dense + tokens * load.stream * e / _stream_ranks(setup, t) * passes.stream
        )
        if scores:
            moved += (
                count
                * part**2
                * _score_bytes(in_batch, length, setup, layer.attention.num_heads / t, passes.attention)
            )
        moved += count * _dequantized(setup, load.weights / t) * passes.visits
    moved += _head_bytes(share, setup, model)
    full += _head_flops(share, setup, model)
    if share.holds_embedding:
        full += _text_flops(setup, model) * passes.dense / t
    if setup.adapter is not None:
        full += fl.matrix_flops(setup.tokens * mean_share(model), trained) * PRODUCTS
    layers = len(share.layers) + len(share.encoder_layers)
    full_experts, low_experts = (0.0, experts) if is_low else (experts, 0.0)
    text = StageLoad(full, low, attention, moved, layers * passes.visits, full_experts, low_experts)
    pictures = tower_load(share, setup, model, again=again)
    return text if pictures is None else text + pictures


def _layers_of(share: Share, model: ModelSpec) -> list[tuple[Layer, int, bool]]:
    """Distinct layers of a card with their number, and whether they read the source: all but those of a decoder."""
    decodes = bool(model.encoder_layers)
    return [
        *((layer, count, not decodes) for layer, count in distinct(share.layers)),
        *((layer, count, True) for layer, count in distinct(share.encoder_layers)),
    ]


def _tokens_seen(setup: Setup, *, of_source: bool) -> tuple[int, int]:
    """Tokens of a micro-batch on this card, and of a whole sequence, that a layer sees."""
    return (setup.tokens, setup.length) if of_source else (setup.target_tokens, setup.target_length)


def _sees_all(model: ModelSpec, *, of_source: bool) -> bool:
    """Whether tokens of a layer see those after them although the model's others don't: an encoder before a decoder."""
    return of_source and bool(model.encoder_layers)


def _text_weights(model: ModelSpec) -> int:
    """Matrices of a text tower beside the layers (CLIP, SigLIP); its attention to so few tokens is left out."""
    blocks = model.blocks if model.model_type in PAIRS else ()
    return sum(linear.weight_params for block in blocks for linear in block.linears)


def _text_flops(setup: Setup, model: ModelSpec) -> float:
    """Operations of a text tower for one product of each matrix."""
    return fl.matrix_flops(setup.batch * setup.training.sequence_length, _text_weights(model))


def _score_bytes(tokens: int, length: int, setup: Setup, heads: float, attention_passes: float) -> float:
    """Scores written and read by eager attention: about five times forward, twice that backward.

    The product is written; scale, mask and softmax read and write; the values' product reads.
    """
    reads = 5 * (attention_passes - 0.5)
    return tokens * length * heads * setup.compute_bytes * reads


def _stream_ranks(setup: Setup, tensor: int) -> int:
    return tensor if setup.parallel.sequence else 1


def _dequantized(setup: Setup, weights: float) -> float:
    """A packed base is unpacked for every pass: read packed, written and read in the compute format."""
    packed = BASE_BYTES.get(setup.base or "")
    return 0.0 if packed is None else weights * (packed + 2 * setup.compute_bytes)


def _head_products(setup: Setup) -> int:
    return PRODUCTS if setup.adapter is None else PRODUCTS - 1


def _head_flops(share: Share, setup: Setup, model: ModelSpec) -> float:
    if model.head is None or not share.holds_head:
        return 0.0
    return (
        fl.matrix_flops(setup.target_tokens, model.head.weight_params) * _head_products(setup) / share.tensor
    )


def _head_bytes(share: Share, setup: Setup, model: ModelSpec) -> float:
    """Logits are written and read in the compute format and in fp32, forward and backward."""
    if model.head is None or not share.holds_head:
        return 0.0
    logits = setup.target_tokens * model.vocab_size * 2 * (setup.compute_bytes + SCORE_FORMATS_BYTES)
    return (logits + 3 * model.head.weight_params * setup.compute_bytes) / share.tensor


def mean_share(model: ModelSpec) -> float:
    """Share of a sequence's tokens that the mean weight of the layers sees: 1 but for U-Nets."""
    if model.unet is None:
        return 1.0
    weights = sum(layer.params * count for layer, count in model.distinct_layers())
    seen = sum(layer.params * count * fl.token_share(layer) for layer, count in model.distinct_layers())
    return seen / weights


def token_flops(setup: Setup, model: ModelSpec, loads: Mapping[int, fl.LayerLoad]) -> float:
    """Operations that one token of a sequence needs of the whole model, without any that are done again.

    A frozen base needs no gradients of its weights: two products for three (LoRA, arXiv 2106.09685, section 4).
    """
    products = PRODUCTS if setup.adapter is None else PRODUCTS - 1
    causal, total = fl.is_causal(model), 0.0
    sequence, decodes = setup.training.sequence_length, bool(model.encoder_layers)
    sources = {id(layer) for layer in model.encoder_layers}
    for layer, count in model.distinct_layers():
        of_source = not decodes or id(layer) in sources
        length = setup.length if of_source else setup.target_length
        load, part = loads[id(layer)], fl.token_share(layer) * length / sequence
        seen = fl.layer_seen_keys(
            layer,
            length * fl.token_share(layer),
            causal=causal and not _sees_all(model, of_source=of_source),
        )
        total += count * (
            products * (fl.matrix_flops(part, load.weights + load.expert_weights) + load.state_flops)
            + PRODUCTS * fl.attention_flops(part, seen, float(load.score_width))
        )
    if model.head is not None:
        rows = setup.target_length / sequence if decodes else 1.0
        total += products * fl.matrix_flops(rows, float(model.head.weight_params))
    return total + products * fl.matrix_flops(1.0, float(_text_weights(model)))
