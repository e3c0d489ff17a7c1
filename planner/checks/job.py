"""The job itself: runtime against task, the adapter, the step, the engine's settings, the load."""

from collections.abc import Iterator
from typing import Final

from planner.checks.codes import make
from planner.checks.pictures import check_pictures
from planner.checks.question import Question
from planner.checks.words import closest, listed
from planner.issues import Issue
from planner.memory.adapters import EMBEDDING_NAMES, HEAD_NAMES, acts_on_any, roles_of
from planner.model.own_tokens import OwnTokens, own_tokens
from planner.model.spec import ModelSpec, Structure

TRAINERS: Final = ("hf_trainer", "torchtune", "torchtitan", "litgpt", "megatron_lm", "deepspeed", "unsloth")
BOTH: Final = ("generic", "transformers")
SERVERS: Final = (
    "vllm",
    "sglang",
    "llama_cpp",
    "ollama",
    "tensorrt_llm",
    "ik_llama_cpp",
    "mlc_llm",
    "tgi",
    "aphrodite",
    "pegainfer",
    "sglang_omni",
)
ENCODER_DECODER_SERVERS: Final = ("tgi", "tensorrt_llm", "llama_cpp", "transformers", "generic")
FULL_PRECISION_BASES: Final = ("fp32", "bf16", "fp16")
QUANTIZED_BASES: Final = ("nf4", "nf4_dq", "int8", "gptq4", "gptq8")
TARGETED_METHODS: Final = frozenset(
    {"lora", "dora", "rslora", "ia3", "vera", "loha", "lokr", "adalora", "oft", "boft"}
)


def check_runtime(question: Question) -> Iterator[Issue]:
    """A training framework trains, an engine serves."""
    name = question.resolved.runtime.name
    if question.trains and name in SERVERS:
        yield make("runtime_cannot_train", "runtime.name", given=name, allowed=listed((*TRAINERS, *BOTH)))
    if not question.trains and name in TRAINERS:
        yield make("runtime_cannot_serve", "runtime.name", given=name, allowed=listed((*SERVERS, *BOTH)))


def check_generates(question: Question) -> Iterator[Issue]:
    """An engine generates: no encoder does, and few engines serve an encoder with a decoder behind it."""
    name, model = question.resolved.runtime.name, question.model
    if question.trains:
        return
    if model.structure is Structure.ENCODER:
        field = "model.id" if question.asked.model.config is None else "model.config.model_type"
        allowed = listed((Structure.DECODER, Structure.ENCODER_DECODER))
        yield make("model_cannot_generate", field, given=model.model_type, allowed=allowed)
    elif model.structure is Structure.ENCODER_DECODER and name not in ENCODER_DECODER_SERVERS:
        # vLLM serves Whisper of this kind; its first engine also BART, neither T5.
        if name == "vllm" and model.model_type == "whisper":
            return
        allowed = listed(ENCODER_DECODER_SERVERS)
        yield make("encoder_decoder_unserved", "runtime.name", given=name, allowed=allowed)


def check_denoiser(question: Question) -> Iterator[Issue]:
    """Only PyTorch loops over diffusers run a denoiser, whole on each card or sharded."""
    if question.model.latents is None:
        return
    name, parallel = question.resolved.runtime.name, question.resolved.parallel
    if name not in BOTH:
        yield make("denoiser_runtime", "runtime.name", given=name, allowed=listed(BOTH))
    for field in ("tensor", "pipeline", "context", "expert"):
        degree = getattr(parallel, field)
        if degree > 1:
            yield make("denoiser_parallel", f"parallel.{field}", given=degree, allowed=1)
    if not question.trains and question.asked.parallel.offload.parameters == "nvme":
        yield make("denoiser_parallel", "parallel.offload.parameters", given="nvme", allowed="none, cpu")


def check_adapter(question: Question) -> Iterator[Issue]:
    """LoRA and QLoRA need an adapter block, and a base that agrees with the task."""
    task, adapter = question.resolved.task, question.resolved.adapter
    if task not in ("lora", "qlora"):
        return
    if adapter is None:
        yield make("adapter_missing", "adapter", task=task)
        return
    if task == "lora" and adapter.base in QUANTIZED_BASES:
        allowed = listed(FULL_PRECISION_BASES)
        yield make("adapter_base_quantized", "adapter.base", given=adapter.base, allowed=allowed)
    if task == "qlora" and adapter.base in FULL_PRECISION_BASES:
        allowed = listed(QUANTIZED_BASES)
        yield make("adapter_base_not_quantized", "adapter.base", given=adapter.base, allowed=allowed)
    if adapter.layers is not None and adapter.layers > question.model.num_layers:
        layers = question.model.num_layers
        yield make("adapter_layers_above", "adapter.layers", given=adapter.layers, layers=layers)
    if isinstance(adapter.targets, tuple) and adapter.method in TARGETED_METHODS:
        acts = acts_on_any(question.model, adapter)
        yield from _targets(adapter.targets, question.model, acts=acts)


def _targets(targets: tuple[str, ...], model: ModelSpec, *, acts: bool) -> Iterator[Issue]:
    names = linear_names(model)
    unknown = [(i, target) for i, target in enumerate(targets) if not _is_target(target, targets, names)]
    if not targets:
        yield make("adapter_targets_empty", "adapter.targets", allowed=listed(sorted(names)))
        return
    if not acts:
        given, allowed = listed(targets, 8)[:80], listed(sorted(names))
        yield make("adapter_targets_none", "adapter.targets", given=given, allowed=allowed)
        return
    for i, target in unknown:
        found = closest(target, names)
        yield make("adapter_target_unknown", f"adapter.targets.{i}", given=target[:80], closest=found)


def linear_names(model: ModelSpec) -> frozenset[str]:
    """The names that adapters can target: every matrix's own name and the last part of it."""
    names = {linear.name for layer, _ in model.distinct_layers() for linear in layer.linears}
    names |= {linear.name for block in model.blocks for linear in block.linears}
    if model.head is not None:
        names.add(model.head.name)
    return frozenset(names | {name.rpartition(".")[2] for name in names})


def _is_target(target: str, targets: tuple[str, ...], names: frozenset[str]) -> bool:
    """Whether a name is one of the model's own, or another framework's name for a part of it."""
    return (
        target in names
        or any(name.endswith(f".{target}") for name in names)
        or target in HEAD_NAMES | EMBEDDING_NAMES
        or bool(roles_of(target, targets))
    )


def check_step(question: Question) -> Iterator[Issue]:
    """Settings of one step that exclude each other."""
    if not question.trains:
        return
    training = question.training
    if training.optimizer.in_backward and training.gradient_accumulation > 1:
        field = "training.optimizer.in_backward"
        yield make("in_backward_accumulation", field, given=training.gradient_accumulation)


def check_lengths(question: Question) -> Iterator[Issue]:
    """Sequences longer than the model names, and requests longer than the context."""
    longest, own = question.model.max_position_embeddings, own_tokens(question.model)
    if question.trains and own is not None:
        yield from _own_lengths(question, own)
        return
    for field, given in _lengths(question):
        if longest is not None and given > longest:
            ends = _ends_at_positions(question.model)
            code = "sequence_beyond_positions" if ends else "sequence_beyond_model"
            yield make(code, field, given=given, allowed=longest)
    workload = question.resolved.workload
    if question.trains or workload is None:
        return
    per_sequence, request = _tokens_of_each(question), _request_tokens(question)
    if per_sequence is not None and request is not None and request > per_sequence:
        field = "workload.prompt_tokens"
        yield make("workload_beyond_context", field, given=request, allowed=per_sequence)
    prefix, prompt = workload.shared_prefix_tokens, workload.prompt_tokens
    if prefix is not None and prompt is not None and prefix > prompt:
        yield make(
            "shared_prefix_beyond_prompt", "workload.shared_prefix_tokens", given=prefix, allowed=prompt
        )


def _own_lengths(question: Question, own: OwnTokens) -> Iterator[Issue]:
    """Another number of tokens than the model's own: refused where it has no positions for them, else left aside."""
    field, training = "training.sequence_length", question.asked.training
    given = training.sequence_length if question.given(field) else own.sequence
    if own.ends and given > own.sequence:
        yield make("sequence_beyond_positions", field, given=given, allowed=own.sequence)
    elif given != own.sequence:
        yield make("no_effect", field, because="own_number_of_tokens")
    decoder = training.decoder_sequence_length
    if own.decoder is not None and decoder is not None and decoder > own.decoder:
        field = "training.decoder_sequence_length"
        yield make("sequence_beyond_positions", field, given=decoder, allowed=own.decoder)


def _ends_at_positions(model: ModelSpec) -> bool:
    """Whether a longer text has no row in a learned table. Images are resampled; two stacks have two lengths."""
    two = model.structure is Structure.ENCODER_DECODER or "text_config" in dict(model.config)
    return model.position_embedding == "learned" and model.vocab_size > 1 and not two


LLAMA_FAMILY: Final = ("llama_cpp", "ollama", "ik_llama_cpp")


def _tokens_of_each(question: Question) -> int | None:
    """The longest request that is served.

    In the llama.cpp family slots that were asked for have equal parts of the context; those that a server opens
    unasked share it freely.
    """
    context = question.serving.max_model_len
    parted = question.given("workload.concurrency") or question.given("serving.max_sequences")
    if context is None or question.resolved.runtime.name not in LLAMA_FAMILY or not parted:
        return context
    return context // (question.serving.max_sequences or 1)


def _lengths(question: Question) -> Iterator[tuple[str, int]]:
    if question.trains:
        yield "training.sequence_length", question.training.sequence_length
        return
    context = question.serving.max_model_len
    if context is not None:
        sequences = question.serving.max_sequences or 1
        shared = question.resolved.runtime.name in LLAMA_FAMILY
        yield "serving.max_model_len", context // sequences if shared else context
    request = _request_tokens(question)
    if request is not None:
        yield "workload.prompt_tokens", request


def _request_tokens(question: Question) -> int | None:
    workload = question.resolved.workload
    if workload is None or (workload.prompt_tokens is None and workload.output_tokens is None):
        return None
    return (workload.prompt_tokens or 0) + (workload.output_tokens or 0)


def check_engine(question: Question) -> Iterator[Issue]:
    """Lists that hold one figure per device."""
    if question.trains:
        return
    serving, devices = question.serving, question.num_devices
    if serving.tensor_split is not None:
        field = "serving.tensor_split"
        if len(serving.tensor_split) > devices:
            yield make("tensor_split_count", field, given=len(serving.tensor_split), devices=devices)
        if not any(serving.tensor_split):
            yield make("tensor_split_zero", field, given=listed(serving.tensor_split))
    if serving.expert_layers is not None:
        field, layers = "serving.expert_layers", question.model.num_layers
        if len(serving.expert_layers) > devices:
            yield make("expert_layers_count", field, given=len(serving.expert_layers), devices=devices)
        if sum(serving.expert_layers) > layers:
            yield make("expert_layers_above", field, given=sum(serving.expert_layers), layers=layers)


def check_elastic(question: Question) -> Iterator[Issue]:
    """A range has its smaller end first."""
    elastic = question.resolved.elastic
    if elastic is not None and elastic.min_data > elastic.max_data:
        yield make(
            "elastic_range", "elastic.min_data", given=elastic.min_data, allowed=f"1..{elastic.max_data}"
        )


CHECKS = (
    check_runtime,
    check_generates,
    check_denoiser,
    check_adapter,
    check_step,
    check_pictures,
    check_lengths,
    check_engine,
    check_elastic,
)
