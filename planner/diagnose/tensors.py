"""The tensors of a plan that a failing request could have been, by size."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from planner.diagnose.sizes import Size
from planner.ledger import Entry
from planner.memory.kv_cache import cache_shape
from planner.model.spec import AttentionKind
from planner.plan_types import DevicePlan, Plan
from planner.units import MIB, ceil_div, round_up

NEAR_FRAC: Final = 0.005
SMALL_BYTES: Final = MIB
SMALL_SEGMENT_BYTES: Final = 2 * MIB
MIDDLE_BYTES: Final = 10 * MIB
MIDDLE_SEGMENT_BYTES: Final = 20 * MIB
DDP_BUCKET_BYTES: Final = 25 * MIB
ZERO_BUCKET_ELEMENTS: Final = 500_000_000
"""`reduce_bucket_size` and `allgather_bucket_size` where a DeepSpeed configuration says nothing."""
MOST_MATCHES: Final = 5
WITH_SCORES: Final = frozenset({"eager", "transformer_engine_unfused"})
"""Attention that makes the whole matrix of scores; other kernels go through it in blocks (sdpa not in fp32)."""

SOURCES: Final = {
    "logits_fp32": "loss_standard",
    "logits_16_bit": "loss_standard",
    "logits_shifted": "loss_standard",
    "attention_scores": "attention_scores",
    "hidden_states": "activations_eager",
    "mlp_states": "activations_eager",
    "optimizer_temporary": "foreach_temporary",
    "gradient_copy": "gradient_copy",
    "whole_weights_fp32": "fsdp_gather",
    "whole_weights_16_bit": "fsdp_gather",
    "layer_weights": "fsdp_gather",
    "zero_bucket": "zero_buckets",
    "ddp_bucket": "ddp_buckets",
    "kv_pool": "kv_cache",
    "kv_layer": "kv_cache",
    "kv_sequence": "kv_cache",
    "vocabulary_matrix": "autocast_cache",
    "matrix": "autocast_cache",
    "experts": "autocast_cache",
}
"""Where each closed form is from, as a key of `planner.references`; segments: `pytorch_caching_allocator`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A tensor that a step of the plan makes.

    Attributes:
        name: Stable id; locale files word it. `entry` for a term of the plan's own ledger.
        bytes: Its size.
        formula: In symbols.
        symbols: Each symbol with its value.
        detail: Name of a matrix, or of the ledger's entry.
        reference: Key of `planner.references`.
        grows_with: `batch`, `length` (squared, and with the batch), `context` (of a server) or `model`.
    """

    name: str
    bytes: int
    formula: str
    symbols: tuple[tuple[str, int], ...]
    reference: str
    detail: str = ""
    grows_with: str = "model"


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A tensor whose size is that of the request.

    Attributes:
        tensor: Which.
        exact: Within the rounding of the printed figure; else within 0.5 %.
        off_bytes: How far the request is from what the allocator would ask for it.
    """

    tensor: Tensor
    exact: bool
    off_bytes: int


def segment_bytes(size_bytes: int) -> int:
    """What PyTorch's caching allocator asks of the driver for a tensor, which is the figure its message prints."""
    if size_bytes <= SMALL_BYTES:
        return SMALL_SEGMENT_BYTES
    if size_bytes < MIDDLE_BYTES:
        return MIDDLE_SEGMENT_BYTES
    return round_up(size_bytes, SMALL_SEGMENT_BYTES)


def is_small(request: Size) -> bool:
    """Whether the request is one of the two small segments, which say nothing about the tensor."""
    return request.bytes in {SMALL_SEGMENT_BYTES, MIDDLE_SEGMENT_BYTES}


def matches(request: Size, tensors: tuple[Tensor, ...], *, segments: bool) -> tuple[Match, ...]:
    """The tensors of that size, nearest first.

    Args:
        request: The printed request.
        tensors: Candidates.
        segments: Whether the request was rounded up to a segment (PyTorch).
    """
    found = []
    for tensor in tensors:
        asked = segment_bytes(tensor.bytes) if segments else tensor.bytes
        off = abs(asked - request.bytes)
        exact = off <= request.tolerance_bytes
        if exact or off <= NEAR_FRAC * request.bytes:
            found.append(Match(tensor=tensor, exact=exact, off_bytes=off))
    found.sort(key=lambda match: (not match.exact, match.tensor.name == "entry"))
    return tuple(found[:MOST_MATCHES])


def tensors_of(plan: Plan, device: DevicePlan) -> tuple[Tensor, ...]:
    """Every tensor that is told apart, each size once; the named ones before the ledger's terms."""
    named = _training(plan, device) if plan.resolved.is_training else _serving(plan)
    by_bytes: dict[int, Tensor] = {}
    for tensor in (*named, *_matrices(plan), *_entries(device)):
        if tensor.bytes > SMALL_BYTES:
            by_bytes.setdefault(tensor.bytes, tensor)
    return tuple(by_bytes.values())


def named(tensors: tuple[Tensor, ...], *names: str) -> Tensor | None:
    """The first tensor called one of `names`, in their order."""
    return next((tensor for name in names for tensor in tensors if tensor.name == name), None)


def _made(
    name: str,
    formula: str,
    symbols: Mapping[str, int],
    bytes_: int,
    grows_with: str = "model",
    detail: str = "",
) -> Tensor:
    return Tensor(
        name=name,
        bytes=bytes_,
        formula=formula,
        symbols=tuple(symbols.items()),
        reference=SOURCES[name],
        grows_with=grows_with,
        detail=detail,
    )


def _training(plan: Plan, device: DevicePlan) -> Iterator[Tensor]:
    asked, model = plan.resolved.training, plan.model
    parallel = plan.resolved.parallel
    b = asked.micro_batch
    s = ceil_div(asked.sequence_length, parallel.context)
    t, h = b * s, model.hidden_size
    v = ceil_div(model.vocab_size, parallel.tensor)
    for e, name in ((4, "logits_fp32"), (2, "logits_16_bit")):
        yield _made(name, f"b*s*V*{e}", {"b": b, "s": s, "V": v}, t * v * e, "batch")
    shifted = {"b": b, "s": s - 1, "V": v}
    yield _made("logits_shifted", "b*s*V*4", shifted, b * (s - 1) * v * 4, "batch")
    yield from _attention(plan, b, s)
    for e in (2, 4):
        yield _made("hidden_states", f"b*s*h*{e}", {"b": b, "s": s, "h": h}, t * h * e, "batch")
    widths = sorted({layer.mlp.intermediate_size for layer, _ in model.distinct_layers()})
    for i in filter(None, widths):
        for e in (2, 4):
            yield _made("mlp_states", f"b*s*i*{e}", {"b": b, "s": s, "i": i}, t * i * e, "batch")
    yield from _of_states(plan, device)


def _attention(plan: Plan, b: int, s: int) -> Iterator[Tensor]:
    """Scores, sequence by sequence, where the plan's attention makes them."""
    asked = plan.resolved.training
    falls_back = asked.attention == "sdpa" and asked.precision.compute == "fp32"
    if asked.attention not in WITH_SCORES and not falls_back:
        return
    tensor = plan.resolved.parallel.tensor
    heads = sorted({layer.attention.num_heads for layer, _ in plan.model.distinct_layers()})
    for n in filter(None, heads):
        own = ceil_div(n, tensor)
        for e in (2, 4):
            symbols = {"b": b, "n": own, "s": s}
            yield _made("attention_scores", f"b*n*s*s*{e}", symbols, b * own * s * s * e, "length")


def _of_states(plan: Plan, device: DevicePlan) -> Iterator[Tensor]:
    """Copies of whole groups of parameters: temporaries of the step, flattened gradients, gathers, buckets."""
    states = next((e for e in device.ledger.entries if e.name == "optimizer_states"), None)
    if states is not None:
        values = dict(states.symbols)
        p, n = int(values.get("P", 0)), int(values.get("N", 1) or 1)
        yield _made("optimizer_temporary", "4*P/N", {"P": p, "N": n}, 4 * ceil_div(p, n))
        yield _made("gradient_copy", "2*P/N", {"P": p, "N": n}, 2 * ceil_div(p, n))
    whole = plan.model.params_total
    for e, name in ((4, "whole_weights_fp32"), (2, "whole_weights_16_bit")):
        yield _made(name, f"{e}*P", {"P": whole}, e * whole)
    for layer, _ in plan.model.distinct_layers():
        for e in (2, 4):
            yield _made("layer_weights", f"{e}*P", {"P": layer.params}, e * layer.params)
    if plan.resolved.parallel.sharding.startswith("zero"):
        k = ZERO_BUCKET_ELEMENTS
        for e in (2, 4):
            yield _made("zero_bucket", f"{e}*k", {"k": k}, e * k)
    yield _made("ddp_bucket", "B", {"B": DDP_BUCKET_BYTES}, DDP_BUCKET_BYTES)


def _serving(plan: Plan) -> Iterator[Tensor]:
    served = plan.serving
    if served is None:
        return
    layers = plan.model.layers
    growing = sum(1 for layer in layers if cache_shape(layer, 1).kind is not AttentionKind.NONE)
    yield _made("kv_pool", "KV", {"KV": served.kv_pool_bytes}, served.kv_pool_bytes, "context")
    if growing:
        one = served.kv_pool_bytes // growing
        yield _made("kv_layer", "KV/L", {"KV": served.kv_pool_bytes, "L": growing}, one, "context")
    per_token, c = served.kv_bytes_per_token, served.context_tokens
    yield _made("kv_sequence", "k*c", {"k": per_token, "c": c}, per_token * c, "context")
    v = plan.model.vocab_size
    sequences = plan.resolved.serving.max_sequences
    if sequences:
        yield _made("logits_fp32", "n*V*4", {"n": sequences, "V": v}, 4 * sequences * v, "batch")


def _matrices(plan: Plan) -> Iterator[Tensor]:
    """Copies of one matrix, in 16 bit or fp32; experts that lie in one tensor together."""
    model = plan.model
    v, h = model.vocab_size, model.hidden_size
    for e in (2, 4):
        yield _made("vocabulary_matrix", f"V*h*{e}", {"V": v, "h": h}, v * h * e)
    for layer, _ in model.distinct_layers():
        for linear in layer.linears:
            symbols = {"o": linear.out_features, "i": linear.in_features}
            one = linear.out_features * linear.in_features
            for e in (2, 4):
                yield _made("matrix", f"o*i*{e}", symbols, one * e, detail=linear.name)
                if linear.copies > 1:
                    many = {"E": linear.copies, **symbols}
                    yield _made("experts", f"E*o*i*{e}", many, linear.copies * one * e, detail=linear.name)


def _entries(device: DevicePlan) -> Iterator[Tensor]:
    """Terms of the ledger, for what a closed form above does not name."""
    for entry in device.ledger.entries:
        if not entry.estimate:
            yield Tensor(
                name="entry",
                bytes=entry.bytes,
                formula=entry.formula,
                symbols=tuple(_whole(entry).items()),
                reference=entry.reference,
                detail=entry.name,
            )


def _whole(entry: Entry) -> dict[str, int]:
    return {name: int(value) for name, value in entry.symbols if float(value).is_integer()}
