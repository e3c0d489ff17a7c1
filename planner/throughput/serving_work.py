"""What a decoding step and a prefill of a plan ask of the cards: bytes read, operations, messages.

`TokenWork` and `PromptWork` hold plain numbers, so that the formulas of `serving_time` take one plan or arrays.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from planner.cards import gpu_at
from planner.hardware import Gpu, Tables
from planner.ledger import Category, Ledger
from planner.memory.kv_cache import GROWING, element_bytes, model_shapes
from planner.model.spec import Layer, ModelSpec
from planner.plan_types import DevicePlan, Plan
from planner.scenario import Scenario
from planner.throughput import flops as fl
from planner.throughput import links as ln
from planner.throughput.processors import pace, unit_cycles_per_s
from planner.throughput.types import Unknown

EAGER: Final = frozenset({"transformers"})
"""Engines that launch every kernel from Python."""
EAGER_VERSIONS: Final = ("litgpt", "transformers")
SCRIPTED: Final = frozenset({"vllm", "sglang", "tgi", "aphrodite"})
"""Engines that schedule a step and take apart its answers in Python."""
GGML: Final = frozenset({"llama_cpp", "ik_llama_cpp", "ollama"})
FULL_FORMATS: Final = frozenset({"bf16", "fp16", "fp32", "f16", "f32", "sparse24_bf16"})
NATIVE_FORMATS: Final = {"fp8": "fp8", "nvfp4": "fp4", "int8": "int8", "mxfp4": "fp4", "sparse24_fp8": "fp8"}
"""Weight formats whose products run at their own rate where the card has one; others are unpacked to 16 bit."""
UNREAD: Final = frozenset({"rope_cache", "draft_weights", "weights_allocator_tail"})
"""Entries beside the weights that a step of the model itself reads; a draft has steps of its own."""
TILE_ROWS: Final = 64
SMALL_TILE_ROWS: Final = 16
SIXTEEN: Final = 16
_BITS: Final = re.compile(r"exl2_(\d+(?:\.\d+)?)|q(\d)f16")
CACHE_FORMAT: Final = "bf16"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenWork:
    """One decoding step of one batch, summed over the pipeline stages that a token passes one after the other.

    Attributes:
        weight_s: Ideal time of reading weights, all stages.
        kv_s: Ideal time of reading caches.
        product_s: Ideal time of the products at the peak rate, whole tiles; 0 where no rate is known.
        port_s: Bytes of weights over what a byte a cycle into every multiprocessor would be.
        layers: Layers passed.
        paced_layers: The same, each times the clock of an A100 over that of its card.
        stages: Pipeline stages.
        batch: Sequences.
        is_eager: 1 where kernels are launched one by one from Python.
        is_ggml: 1 for the llama.cpp family.
        is_packed: 1 where weights are quantized.
        is_scripted: 1 where a step is scheduled from Python.
        is_unpacked: 1 where quantized weights are unpacked by kernels of their own, from Python.
        unpack_s: Quantized elements read over the plain fp32 rate: the arithmetic that unpacks them.
        reduce_s: Ideal time of tensor-parallel all-reduces.
        reduce_hops: Their messages.
    """

    weight_s: float
    kv_s: float
    product_s: float
    port_s: float
    layers: float
    paced_layers: float
    stages: float
    batch: float
    is_eager: float
    is_ggml: float
    is_packed: float
    is_scripted: float
    is_unpacked: float
    unpack_s: float
    reduce_s: float
    reduce_hops: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptWork:
    """The prefill of some requests at once, summed over the stages.

    Attributes:
        product_s: Ideal time of the products at the peak rate.
        product_w_s: Operations over the power limit: 1e12 operations a watt (the energy term).
        attention_s: Ideal time of attention at the 16-bit peak.
        weight_s: Ideal time of reading the weights once.
        moved_s: Ideal time of memory traffic beside the weights.
        layers: Layers passed.
        stages: Pipeline stages.
        is_eager: As for `TokenWork`.
        is_ggml: As for `TokenWork`.
        is_packed: As for `TokenWork`.
        reduce_s: Ideal time of all-reduces.
        reduce_hops: Their messages.
    """

    product_s: float
    product_w_s: float
    attention_s: float
    weight_s: float
    moved_s: float
    layers: float
    stages: float
    is_eager: float
    is_ggml: float
    is_packed: float
    reduce_s: float
    reduce_hops: float


@dataclass(frozen=True, slots=True)
class Server:
    """A plan of a server, read once.

    Attributes:
        scenario: As resolved.
        model: The model.
        stages: The first group of devices of every stage.
        gpus: Their cards.
        shapes: Their distinct layers with counts, in stage order.
        loads: Load of every layer by identity.
        peer: Card-to-card rate of a tensor-parallel group; that of its machines' network where it spans several.
        spans: Whether it does.
    """

    scenario: Scenario
    model: ModelSpec
    stages: tuple[DevicePlan, ...]
    gpus: tuple[Gpu, ...]
    layers: tuple[tuple[Layer, ...], ...]
    loads: dict[int, fl.LayerLoad]
    peer: float | None
    spans: bool

    @property
    def tensor(self) -> int:
        """Tensor-parallel degree."""
        return self.scenario.parallel.tensor

    @property
    def weights(self) -> str:
        """Format of the weights."""
        return self.scenario.serving.weights or "bf16"


def server_of(plan: Plan, tables: Tables) -> Server:
    """The parts of a serving plan that speed depends on."""
    model = plan.model
    stages = {device.stage: device for device in reversed(plan.devices)}
    devices = tuple(stages[key] for key in sorted(stages))
    gpus = tuple(gpu_at(d.indices[0], plan.resolved.hardware, tables) for d in devices)
    hardware, tensor = plan.resolved.hardware, plan.resolved.parallel.tensor
    peer, spans = ln.group_link(gpus[0], hardware, tensor, tables)
    return Server(
        scenario=plan.resolved,
        model=model,
        stages=devices,
        gpus=gpus,
        layers=tuple(model.layers[d.layers[0] : d.layers[1]] or model.layers for d in devices),
        loads={id(layer): fl.layer_load(layer, model.hidden_size) for layer in model.layers},
        peer=peer,
        spans=spans,
    )


def missing(server: Server, *, prefill: bool) -> tuple[Unknown, ...]:
    """What the tables lack for a time."""
    found = []
    for gpu in dict.fromkeys(server.gpus):
        if gpu.bandwidth_bytes_per_s is None:
            found.append(Unknown(code="no_bandwidth", gpu_id=gpu.id))
        if prefill and compute_rate(gpu, server.weights) is None:
            found.append(Unknown(code="no_peak_rate", gpu_id=gpu.id, params=(("dtype", server.weights),)))
        if prefill and gpu.tdp_w is None:
            found.append(Unknown(code="no_power_limit", gpu_id=gpu.id))
    if reads_host(server.scenario, server.model):
        found.append(Unknown(code="no_host_memory_rate", gpu_id=server.gpus[0].id))
    if server.tensor > 1 and server.peer is None:
        code = "no_network_rate" if server.spans else "no_peer_link"
        found.append(Unknown(code=code, gpu_id=server.gpus[0].id))
    return tuple(found)


def reads_host(scenario: Scenario, model: ModelSpec) -> bool:
    """Whether a token needs weights or caches that stay on the host, whose memory no table has the rate of.

    Rows of the input embedding are too few to count.
    """
    serving = scenario.serving
    layers = serving.gpu_layers
    return bool(
        serving.host_experts or serving.no_kv_offload or (layers is not None and layers <= model.num_layers)
    )


def compute_rate(gpu: Gpu, weights: str, *, ggml: bool = False) -> float | None:
    """Peak rate of the products: the weights' own format where card and format allow it, else 16 bit.

    llama.cpp multiplies quantized weights as int8 (`ggml_cuda_mul_mat_q`), and 16-bit ones with 16-bit sums, at
    half that rate; GeForce cards are rated here with fp32 sums.
    """
    if ggml and gpu.flops.int8 is not None:
        return gpu.flops.int8 / 2 if weights in FULL_FORMATS else gpu.flops.int8
    own = gpu.flops.of(NATIVE_FORMATS.get(weights, ""))
    return own or gpu.flops.fp16 or gpu.flops.bf16


def is_packed(server: Server) -> bool:
    """Whether weights are quantized."""
    return server.weights not in FULL_FORMATS


def is_eager(scenario: Scenario) -> bool:
    """Whether every kernel is launched from Python."""
    version = scenario.runtime.version or ""
    named = scenario.runtime.name in EAGER or version.startswith(EAGER_VERSIONS)
    return named and not scenario.runtime.compile


def _marks(server: Server) -> dict[str, float]:
    return {
        "is_eager": float(is_eager(server.scenario)),
        "is_ggml": float(server.scenario.runtime.name in GGML),
        "is_packed": float(is_packed(server)),
    }


def touched_frac(experts: int, visited: int, tokens: float) -> float:
    """Share of routed experts that at least one of some tokens visits, at balanced load: 1 - (1 - k/E)^n."""
    return 1 - (1 - visited / experts) ** tokens if experts else 0.0


def token_work(server: Server, batch: float, context: float) -> TokenWork:
    """One step for `batch` sequences of `context` tokens each.

    Args:
        server: The plan.
        batch: Sequences of one replica.
        context: Tokens of one sequence so far, mean over the batch.
    """
    weight_s = kv_s = product_s = unpack_s = port_s = paced = 0.0
    layers, marks = 0, _marks(server)
    for device, gpu, held in zip(server.stages, server.gpus, server.layers, strict=True):
        rate = gpu.bandwidth_bytes_per_s or 1.0
        dense, experts = weight_reads(device.ledger, server)
        mlp = next((layer.mlp for layer in held if layer.mlp.num_experts), None)
        part = touched_frac(mlp.num_experts, mlp.experts_per_token, batch) if mlp else 0.0
        weight_s += (dense + experts * part) / rate
        port_s += (dense + experts * part) / (unit_cycles_per_s(gpu) or float("inf"))
        paced += len(held) * pace(gpu)
        if marks["is_packed"] and not runs_natively(gpu, server.weights):
            unpack_s += _stage_elements(server, held, batch) / (gpu.flops.fp32 or float("inf"))
        kv_s += batch * cache_read_bytes(server, held, context) / rate
        peak = compute_rate(gpu, server.weights, ggml=bool(marks["is_ggml"]))
        product_s += _stage_flops(server, held, device, batch) / peak if peak else 0.0
        layers += len(held)
    reduce_s, hops = _reduces(server, batch)
    unpacked = marks["is_eager"] * marks["is_packed"]
    return TokenWork(
        is_scripted=float(server.scenario.runtime.name in SCRIPTED),
        weight_s=weight_s, kv_s=kv_s, product_s=product_s, layers=layers, stages=len(server.stages), batch=batch,
        port_s=port_s, paced_layers=paced,
        is_unpacked=unpacked, unpack_s=unpack_s, reduce_s=reduce_s, reduce_hops=hops, **marks,
    )  # fmt: skip


def weight_reads(ledger: Ledger, server: Server) -> tuple[float, float]:
    """Bytes of a device's weights that a step reads whole, and those of routed experts; no embedding rows."""
    dense = experts = embedding = head = 0.0
    scale = named_scale(server.weights)
    for entry in ledger.entries:
        if entry.category is not Category.WEIGHTS or entry.name in UNREAD:
            continue
        if "expert" in entry.name and "shared" not in entry.name:
            experts += entry.bytes * scale
        elif "embedding" in entry.name:
            embedding += entry.bytes
        elif "head" in entry.name:
            head += entry.bytes
        else:
            dense += entry.bytes * scale
    return dense + head + (embedding if server.model.tie_word_embeddings and not head else 0.0), experts


def named_scale(weights: str) -> float:
    """Bytes over those of 16 bit, for formats whose name tells their bits and that have no block of their own."""
    match = _BITS.fullmatch(weights)
    return float(match[1] or match[2]) / SIXTEEN if match else 1.0


def _stage_elements(server: Server, layers: Sequence[Layer], tokens: float) -> float:
    """Quantizable elements one step reads on one card."""
    total = 0.0
    for layer in layers:
        load, mlp = server.loads[id(layer)], layer.mlp
        part = touched_frac(mlp.num_experts, mlp.experts_per_token, tokens)
        total += load.weights + load.held_experts * part
    return total / server.tensor


def runs_natively(gpu: Gpu, weights: str) -> bool:
    """Whether products run in the weights' own format, so that nothing is unpacked."""
    return gpu.flops.of(NATIVE_FORMATS.get(weights, "")) is not None


def cache_read_bytes(server: Server, layers: Sequence[Layer], context: float) -> float:
    """Bytes of caches that one sequence's next token reads on one device."""
    serving = server.scenario.serving
    key = serving.kv_cache or CACHE_FORMAT
    value = serving.kv_cache_v or key
    total = 0.0
    for shape, count in model_shapes(server.model, tuple(layers), server.tensor).items():
        seen = context if shape.window is None else min(context, shape.window)
        if shape.kind in GROWING:
            total += count * seen * shape.token_bytes(key, value)
        total += count * 2 * (shape.state + shape.conv) * element_bytes(CACHE_FORMAT)
    return total


def tile_rows(server: Server) -> tuple[int, int]:
    """Rows of the smallest tile of dense products, and of those of experts.

    A tile is computed whole however few rows it holds. NVIDIA, Matrix Multiplication Background: cuBLAS tiles go down
    to 64 x 64. Kernels for packed weights (Marlin, arXiv 2408.11743) and for experts take 16; the llama.cpp family has
    products of a matrix and a vector.
    """
    if server.scenario.runtime.name in GGML:
        return 1, 1
    if server.weights in FULL_FORMATS or server.weights in NATIVE_FORMATS:
        return TILE_ROWS, SMALL_TILE_ROWS
    return SMALL_TILE_ROWS, SMALL_TILE_ROWS


def _stage_flops(server: Server, layers: Sequence[Layer], device: DevicePlan, batch: float) -> float:
    """Operations of a step in one stage, on one card, with the rows that fill up tiles."""
    (dense_rows, expert_rows), total = tile_rows(server), 0.0
    rows = max(batch, dense_rows)
    for layer in layers:
        load, mlp = server.loads[id(layer)], layer.mlp
        total += fl.matrix_flops(rows, load.weights) + batch * load.state_flops
        touched = load.held_experts * touched_frac(mlp.num_experts, mlp.experts_per_token, batch)
        total += max(fl.matrix_flops(batch, load.expert_weights), fl.matrix_flops(expert_rows, touched))
    if device is server.stages[-1] and server.model.head is not None:
        total += fl.matrix_flops(rows, float(server.model.head.weight_params))
    return total / server.tensor


def _reduces(server: Server, tokens: float) -> tuple[float, float]:
    """Two all-reduces a layer. Shoeybi et al. 2019 (arXiv 1909.08053), section 3."""
    t, model = server.tensor, server.model
    if t == 1:
        return 0.0, 0.0
    amount = tokens * model.hidden_size * 2
    times = 2 * model.num_layers
    return times * ln.all_reduce_s(amount, t, server.peer or 1.0), times * 2 * math.log2(t)


def prompt_work(server: Server, tokens: float, requests: float) -> PromptWork:
    """The prefill of `requests` prompts of `tokens` tokens each, computed together.

    Only the last position of each passes the output matrix.
    """
    product_s = watts = attention_s = weight_s = moved_s = 0.0
    layers, marks = 0, _marks(server)
    for device, gpu, held in zip(server.stages, server.gpus, server.layers, strict=True):
        all_tokens = tokens * requests
        peak = compute_rate(gpu, server.weights, ggml=bool(marks["is_ggml"])) or 1.0
        half = gpu.flops.fp16 or gpu.flops.bf16 or peak
        dense, experts = weight_reads(device.ledger, server)
        mlp = next((layer.mlp for layer in held if layer.mlp.num_experts), None)
        part = touched_frac(mlp.num_experts, mlp.experts_per_token, all_tokens) if mlp else 0.0
        products = attention = stream = 0.0
        for layer in held:
            load = server.loads[id(layer)]
            products += fl.matrix_flops(all_tokens, load.weights + load.expert_weights)
            seen = fl.layer_seen_keys(layer, max(tokens, 1.0), causal=True)
            attention += fl.attention_flops(all_tokens, seen, float(load.score_width))
            stream += all_tokens * (load.stream + load.widths + load.expert_widths) * 2
        rate = gpu.bandwidth_bytes_per_s or 1.0
        product_s += products / server.tensor / peak
        watts += (products + attention) / server.tensor / (gpu.tdp_w or 1.0) / 1e12
        attention_s += attention / server.tensor / half
        weight_s += (dense + experts * part) / rate
        moved_s += stream / server.tensor / rate
        layers += len(held)
    reduce_s, hops = _reduces(server, tokens * requests)
    return PromptWork(
        product_s=product_s, product_w_s=watts, attention_s=attention_s, weight_s=weight_s, moved_s=moved_s,
        layers=layers, stages=len(server.stages), reduce_s=reduce_s, reduce_hops=hops, **marks,
    )  # fmt: skip
