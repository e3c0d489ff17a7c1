"""Seconds of a decoding step and of a prefill, from their work and the fitted rates. Numbers may be arrays."""

from dataclasses import dataclass, fields
from typing import Final

from planner.hardware import Tables
from planner.throughput.serving_work import PromptWork, TokenWork

PREFIX: Final = "speed_serve_"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingRates:
    """Fitted constants (`speed_serve_*`), each with its provenance in the data file.

    Attributes:
        read_frac: Share of the bandwidth at which 16-bit weights are read.
        port_bytes: Bytes of weights that a multiprocessor takes in a cycle.
        ggml_port: What it takes in the llama.cpp family, relative to that.
        packed_slow: Time of reading a quantized byte over a 16-bit one.
        unpacked_slow: What is added to that where kernels of their own unpack weights from Python.
        ggml_packed_slow: `packed_slow` of the llama.cpp family.
        ops_per_element: fp32 operations that unpack a quantized element.
        eager_kv_slow: What is added to the time of caches, relative, where each step copies them from Python.
        kv_frac: Share of the bandwidth at which caches are read.
        product_frac: Share of the peak that a decoding step's products reach.
        layer_s: Fixed time of a layer where kernels are recorded once (CUDA graphs, compiled engines).
        eager_layer_s: What is added to that where each is launched from Python.
        unpacked_layer_s: What quantized weights add to that.
        ggml_layer_s: `layer_s` of the llama.cpp family.
        step_s: Fixed time of a step: scheduling, sampling; none in the llama.cpp family.
        scripted_step_s: What is added to it where Python schedules.
        sequence_s: Time of a step for each sequence of the batch.
        scripted_sequence_s: What is added to it where Python schedules.
        reduce_frac: Share of the link's rate in an all-reduce.
        hop_s: Latency of one message.
        prompt_frac: Share of the peak that the products of a prefill reach while power allows.
        prompt_joule: Energy of 1e12 operations.
        prompt_attention_slow: Time of attention operations over that of products.
        prompt_packed_slow: What quantized weights add to the time of products, relative.
        prompt_ggml_slow: What the llama.cpp family adds to it, relative.
        prompt_moved: Memory traffic over the counted bytes.
        prompt_step_s: Fixed time of a prefill.
        offline_frac: Share of the steady rate that a run with every request queued reaches.
    """

    read_frac: float
    port_bytes: float
    ggml_port: float
    packed_slow: float
    unpacked_slow: float
    ggml_packed_slow: float
    ops_per_element: float
    kv_frac: float
    eager_kv_slow: float
    product_frac: float
    layer_s: float
    eager_layer_s: float
    unpacked_layer_s: float
    ggml_layer_s: float
    step_s: float
    scripted_step_s: float
    sequence_s: float
    scripted_sequence_s: float
    reduce_frac: float
    hop_s: float
    prompt_frac: float
    prompt_joule: float
    prompt_attention_slow: float
    prompt_packed_slow: float
    prompt_ggml_slow: float
    prompt_moved: float
    prompt_step_s: float
    offline_frac: float


def serving_rates(tables: Tables) -> ServingRates:
    """The constants of the tables.

    Raises:
        LookupError: One is missing.
    """
    return ServingRates(**{item.name: tables.value(PREFIX + item.name) for item in fields(ServingRates)})


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenParts:
    """Seconds of one decoding step, in order of a stacked bar."""

    weights_read: float
    kv_read: float
    compute: float
    launches: float
    tensor_parallel: float
    engine: float

    @property
    def total(self) -> float:
        """The step."""
        reading = self.weights_read + self.kv_read + self.compute
        return reading + self.launches + self.tensor_parallel + self.engine


def positive(value: float) -> float:
    """The value, or 0 where it is below; written for arrays as well as for numbers."""
    half: float = (value + abs(value)) / 2
    return half


def token_parts(work: TokenWork, rates: ServingRates) -> TokenParts:
    """Roofline of a step: weights and caches at the bandwidth reached, products where they take longer than weights.

    Pope et al. 2022 (arXiv 2211.05102), section 2: a step takes the larger of reading and computing; caches are read
    by attention alone and add up.
    """
    own = rates.packed_slow + (rates.ggml_packed_slow - rates.packed_slow) * work.is_ggml
    slow = 1 + work.is_packed * (own - 1 + rates.unpacked_slow * work.is_unpacked)
    port = rates.port_bytes * (1 + (rates.ggml_port - 1) * work.is_ggml)
    weights = work.weight_s * slow / rates.read_frac + work.port_s / port
    unpacking = work.unpack_s * rates.ops_per_element
    kernels = rates.layer_s + (rates.ggml_layer_s - rates.layer_s) * work.is_ggml
    launches = rates.eager_layer_s * work.is_eager + rates.unpacked_layer_s * work.is_unpacked
    fixed = work.paced_layers * kernels + work.layers * launches
    caches = work.kv_s / rates.kv_frac * (1 + rates.eager_kv_slow * work.is_eager)
    busy = weights + unpacking + caches
    hidden = work.is_eager * (fixed - positive(fixed - busy))
    return TokenParts(
        weights_read=weights,
        kv_read=caches,
        compute=unpacking + positive(work.product_s / rates.product_frac - weights - unpacking),
        launches=fixed - hidden,
        tensor_parallel=work.reduce_s / rates.reduce_frac + work.reduce_hops * rates.hop_s,
        engine=rates.step_s * (1 - work.is_ggml)
        + rates.sequence_s * work.batch
        + (rates.scripted_step_s + rates.scripted_sequence_s * work.batch) * work.is_scripted,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptParts:
    """Seconds of a prefill, in order of a stacked bar."""

    matrix_products: float
    attention: float
    weights_read: float
    memory_traffic: float
    launches: float
    tensor_parallel: float
    engine: float

    @property
    def total(self) -> float:
        """The prefill."""
        busy = self.matrix_products + self.attention + self.weights_read + self.memory_traffic
        return busy + self.launches + self.tensor_parallel + self.engine


def prompt_parts(work: PromptWork, rates: ServingRates) -> PromptParts:
    """Products at peak and at the energy they take, or the weights' reading if that takes longer.

    The energy of attention's operations counts as that of products.
    """
    slow = 1 + rates.prompt_packed_slow * work.is_packed + rates.prompt_ggml_slow * work.is_ggml
    products = (work.product_s / rates.prompt_frac + work.product_w_s * rates.prompt_joule) * slow
    attention = rates.prompt_attention_slow * work.attention_s / rates.prompt_frac * slow
    moved = work.moved_s * rates.prompt_moved
    return PromptParts(
        matrix_products=products,
        attention=attention,
        weights_read=positive(work.weight_s / rates.read_frac - products - attention - moved),
        memory_traffic=moved,
        launches=work.layers * (rates.layer_s + rates.eager_layer_s * work.is_eager),
        tensor_parallel=work.reduce_s / rates.reduce_frac + work.reduce_hops * rates.hop_s,
        engine=rates.prompt_step_s,
    )


def prompt_s(work: PromptWork, rates: ServingRates) -> float:
    """A prefill, all its parts together."""
    return prompt_parts(work, rates).total


def request_s(
    token_s: float, prefill_s: float, output_tokens: float, has_prompt: float, waves: float
) -> float:
    """A batch from its first token read to its last token written; further waves wait for the ones before.

    Args:
        token_s: Seconds of a decoding step.
        prefill_s: Seconds of reading the prompts.
        output_tokens: Tokens of an answer.
        has_prompt: 1 where there are prompts to read, else 0.
        waves: Batches one after the other.
    """
    return (prefill_s * has_prompt + output_tokens * token_s) * waves


def offline_tokens_per_s(
    token_s: float, prefill_s: float, output_tokens: float, running: float, rates: ServingRates
) -> float:
    """Steady rate of a full batch: each answer costs its own prefill and its share of the steps it takes part in.

    Args:
        token_s: A step of the whole batch.
        prefill_s: The prefill of one request.
        output_tokens: Tokens of an answer.
        running: Sequences of the batch.
        rates: Holds what is lost at the ends of the run.
    """
    return rates.offline_frac * output_tokens / (prefill_s + output_tokens * token_s / running)
