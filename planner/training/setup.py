"""What the formulas need to know of a resolved scenario: formats in bytes, degrees, and the runtime's habits."""

import json
import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from planner.lazy import lazy, once
from planner.memory.formats import GPTQ_GROUP, QUANTIZED, dtype_bytes
from planner.memory.inventory import MEGATRON_VOCAB_MULTIPLE, Division
from planner.model.own_tokens import own_tokens
from planner.model.spec import ModelSpec, Structure
from planner.placement import Share
from planner.scenario import Adapter, Alignment, Optimizer, Parallel, Scenario, Training
from planner.training.titan import FUSED_NORM_SINCE, compiles_loss_alone, runs_whole_graph, since

STATE_OPTIMIZERS_8BIT: Final = frozenset({"adamw_8bit", "lion_8bit"})


REENTRANT: Final = frozenset({"generic", "hf_trainer"})
"""Runtimes that follow transformers' default, by its version."""

PAIRED: Final = frozenset({"dpo", "orpo"})
"""Methods whose batch counts pairs: the chosen and the rejected completion are rows of their own."""
NORMS_FIRST: Final = frozenset({"bloom"})
"""Model types with a layer norm after the embedding, which autocast runs in fp32."""
NO_CACHE_BY_DEFAULT: Final = frozenset({"mpt"})
ENGINES_TRAINERS: Final = frozenset({"hf_trainer"})
"""Runtimes that hand ZeRO to DeepSpeed's engine."""
HALF: Final = frozenset({"bf16", "fp16"})
MASTER_BYTES: Final = 4


@dataclass(frozen=True, kw_only=True)
class Setup:
    """One device's part of one training step, in numbers.

    Attributes:
        runtime: Runtime name.
        version: Runtime version as numbers, () if not given.
        compiled: The model runs through a compiler that makes kernels of it.
        whole_graph: A compiler has captured the step as one graph, which runs operator by operator.
        compiles_loss: The loss is compiled, with the model or alone.
        training: The training block as resolved.
        parallel: The parallel block as resolved.
        adapter: The adapter, None for full training.
        batch: Sequences of a micro-batch.
        length: Tokens of a whole sequence, as the layers see it (of the picture, where a text is beside it).
        target_length: The same of the decoder of an encoder-decoder; else `length`.
        sequence: Tokens of a sequence on this device (context parallelism divides it).
        tokens: `batch` times `sequence`.
        target_tokens: Decoder tokens of an encoder-decoder; else `tokens`.
        param_bytes: Bytes of a stored parameter that is not quantized.
        compute_bytes: Bytes of an element in matrix products.
        residual_bytes: Bytes of an element of the residual stream.
        autocast: Casts are made on the fly (fp32 stream, 16-bit products); not where FSDP gathers 16-bit copies of
            fp32 shards, which leaves nothing to cast.
        train_bytes: Bytes of a stored trainable parameter.
        gradient_bytes: Bytes of a gradient as kept.
        gradient_copy_bytes: Bytes of a second copy of each gradient, 0 for none.
        master_bytes: Bytes of a master copy, 0 for none.
        state_bytes: Bytes of an element of the optimizer's states.
        base: Format of a frozen base, None for full training.
        gptq_group: Input features that share a scale in a GPTQ base, -1 for all of them.
        shard_weights: Ranks weights are sharded over.
        shard_gradients: Ranks gradients are sharded over.
        shard_states: Ranks optimizer states are sharded over.
        shard_adapters: Ranks adapter weights are sharded over; fused adapter kernels keep them (and their gradients and
            states) whole, outside FSDP's units.
        shard_experts: Ranks each rank's routed experts are sharded over, where anything is.
        division: How tensors are cut before that.
        megatron: Megatron's own layers, buffers and loss.
        keeps_outputs: The loop holds the model's outputs until the next step's replace them.
        keeps_cache: Those outputs hold keys and values (`use_cache`, on unless the model's config says otherwise;
            checkpointing of layers turns it off).
        checkpointed: Any form of activation checkpointing that stores layer inputs.
        known: What functions of this setup have returned (`planner.lazy.once`).
    """

    runtime: str
    version: tuple[int, ...]
    compiled: bool
    whole_graph: bool
    compiles_loss: bool
    training: Training
    parallel: Parallel
    adapter: Adapter | None
    batch: int
    length: int
    target_length: int
    sequence: int
    tokens: int
    target_tokens: int
    param_bytes: int
    compute_bytes: int
    residual_bytes: int
    autocast: bool
    train_bytes: int
    gradient_bytes: int
    gradient_copy_bytes: int
    master_bytes: int
    state_bytes: float
    base: str | None
    gptq_group: int
    shard_weights: int
    shard_gradients: int
    shard_states: int
    shard_adapters: int
    shard_experts: int
    division: Division
    megatron: bool
    keeps_outputs: bool
    keeps_cache: bool
    checkpointed: bool
    known: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @lazy
    def optimizer(self) -> Optimizer:
        """The optimizer block."""
        return self.training.optimizer

    @lazy
    def recomputes_output(self) -> bool:
        """Whether a checkpointed layer's output is made again, and held beside its gradient.

        PyTorch's non-reentrant checkpoint stops when it has what was asked for (`_StopRecomputationError`);
        transformers asks for that one from version 5 on, Megatron has its own of the older kind.
        """
        asked = self.training.checkpoint_reentrant
        older = self.runtime in REENTRANT and bool(self.version) and self.version < (5,)
        return self.megatron or (older if asked is None else asked)

    @lazy
    def product_bytes(self) -> int:
        """Bytes of an element that a layer's matrices put out.

        Packed ones hand over what they were given, whatever autocast says (bitsandbytes `Linear4bit.forward`,
        `MatMul8bitLt`: `.to(inp_dtype)`), so that between fp32 norms and activations everything is fp32.
        """
        return self.residual_bytes if self.quantized_base and self.autocast else self.compute_bytes

    @lazy
    def keeps_frac(self) -> float:
        """Share of the activations that a compiler may keep; 1 where it decides by itself."""
        budget = self.training.recompute_budget_frac
        return budget if budget is not None and self.compiled and not self.checkpointed else 1.0

    @lazy
    def chunks(self) -> int:
        """Pieces of the sequence that the feed-forward part runs on."""
        own = self.megatron or self.runtime == "litgpt"
        return 1 if own else self.training.sequence_chunks or 1

    @lazy
    def quantized_base(self) -> bool:
        """Whether the frozen base is packed."""
        return self.base in QUANTIZED


COMPILER_FUSES: Final = frozenset({"rms_norm", "swiglu"})
"""Chains of single steps that Inductor makes one kernel of, and makes again in the backward pass.

PyTorch `min_cut_rematerialization_partition`: pointwise steps are made again rather than kept; what a matrix product
reads is kept (`ban_recompute_materialized_backward`)."""


@once
def fused_kernels(setup: Setup) -> frozenset[str]:
    """Fused kernels in use: those asked for, those of PyTorch itself, and those a compiler makes."""
    asked = frozenset(setup.training.kernels or ())
    if since(setup.runtime, setup.version, FUSED_NORM_SINCE):
        asked |= {"rms_norm"}
    return asked | COMPILER_FUSES if setup.compiled else asked


def setup_for(share: Share, scenario: Scenario, model: ModelSpec) -> Setup:
    """Everything the formulas need, from a resolved scenario."""
    training, parallel, precision = scenario.training, scenario.parallel, scenario.training.precision
    adapter = scenario.adapter if scenario.task in {"lora", "qlora"} else None
    megatron = scenario.runtime.name == "megatron_lm"
    compute = max(2, dtype_bytes(precision.compute, 2))
    cast = casts_module(scenario)
    param = compute if cast else dtype_bytes(precision.parameters, compute)
    away = share.shard > 1 or parallel.offload.parameters != "none"
    gathered = parallel.sharding == "fsdp" and away
    autocast = bool(precision.autocast) and not cast and not (gathered and param > compute)
    train = dtype_bytes(adapter.dtype, param) if adapter and not cast else param
    gradient = dtype_bytes(precision.gradients, train)
    master = MASTER_BYTES if cast else dtype_bytes(precision.master, 0)
    length, target_length = _lengths(training, model)
    sequence, target = -(-length // share.context), -(-target_length // share.context)
    zero = _zero_stage(parallel)
    replicated = adapter is not None and "lora_attention" in (training.kernels or ()) and zero >= 3
    trained = 1 if replicated else share.shard
    keeps, checkpointed = scenario.runtime.name == "generic", training.checkpointing in {"full", "every_k"}
    batch = training.micro_batch * rows_per_batch(training.alignment)
    version, expert_tensor = _numbers(scenario.runtime.version), parallel.expert_tensor or share.tensor
    whole_graph = captures_whole_graph(scenario, model)
    return Setup(
        runtime=scenario.runtime.name,
        version=version,
        compiled=bool(scenario.runtime.compile) and not whole_graph,
        whole_graph=whole_graph,
        compiles_loss=_compiles_loss(scenario, model, version) and not whole_graph,
        training=training,
        parallel=parallel,
        adapter=adapter,
        batch=batch,
        length=length,
        target_length=target_length,
        sequence=sequence,
        tokens=batch * sequence,
        target_tokens=batch * target,
        param_bytes=param,
        compute_bytes=compute,
        residual_bytes=_residual_bytes(model, param, compute, autocast=autocast),
        autocast=autocast,
        train_bytes=train,
        gradient_bytes=gradient,
        gradient_copy_bytes=dtype_bytes(precision.gradient_copy, 0),
        master_bytes=master if master > train else 0,
        state_bytes=_state_bytes(precision.optimizer, max(train, master)),
        base=(adapter.base or precision.parameters or "bf16") if adapter else None,
        gptq_group=_gptq_group(model) if adapter and (adapter.base or "").startswith("gptq") else 0,
        shard_weights=share.shard if zero >= 3 else 1,
        shard_gradients=trained if zero >= 2 else 1,
        shard_states=trained if zero >= 1 else 1,
        shard_adapters=trained if zero >= 3 else 1,
        shard_experts=max(1, share.shard * share.tensor // (parallel.expert * expert_tensor)),
        division=Division(
            tensor=share.tensor,
            expert=parallel.expert,
            expert_tensor=expert_tensor,
            vocab_multiple=MEGATRON_VOCAB_MULTIPLE if megatron else 1,
            copies_tied_head=share.num_stages > 1,
        ),
        megatron=megatron,
        keeps_outputs=keeps,
        keeps_cache=keeps
        and not checkpointed
        and training.checkpointing != "selective_op"
        and _caches(model),
        checkpointed=checkpointed,
    )


def _lengths(training: Training, model: ModelSpec) -> tuple[int, int]:
    """Tokens of a whole sequence that the layers see, and those of a decoder."""
    own = own_tokens(model)
    length = training.sequence_length if own is None else own.layers
    return length, training.decoder_sequence_length or (own and own.decoder) or length


def _compiles_loss(scenario: Scenario, model: ModelSpec, version: tuple[int, ...]) -> bool:
    name = scenario.runtime.name
    return bool(scenario.runtime.compile) or compiles_loss_alone(name, version, model.model_type)


def captures_whole_graph(scenario: Scenario, model: ModelSpec) -> bool:
    """Whether torchtitan runs the step as one graph (`planner.training.titan`)."""
    version = _numbers(scenario.runtime.version)
    compiled = bool(scenario.runtime.compile) and scenario.training.recompute_budget_frac is None
    routed = any(layer.mlp.num_experts for layer in model.layers)
    return runs_whole_graph(scenario.runtime.name, version, compiled=compiled, routed=routed)


def casts_module(scenario: Scenario) -> bool:
    """Whether DeepSpeed's engine makes the model 16-bit as a whole, adapters too, and keeps an fp32 copy of its own.

    That is what a Trainer gets that asks for `bf16` or `fp16` (`_configure_distributed_model`: `module.bfloat16()`);
    accelerate then leaves autocast off (`Accelerator.__init__`: `native_amp`).
    """
    precision, sharding = scenario.training.precision, scenario.parallel.sharding
    asked = bool(precision.autocast) and precision.compute in HALF
    return scenario.runtime.name in ENGINES_TRAINERS and sharding.startswith("zero") and asked


def rows_per_batch(alignment: Alignment | None) -> int:
    """Rows of the model's input for one of a micro-batch: preferences come as pairs."""
    return 2 if alignment is not None and alignment.method in PAIRED else 1


def _residual_bytes(model: ModelSpec, param: int, compute: int, *, autocast: bool) -> int:
    """Bytes of the stream's elements: under autocast the parameters', or fp32 where a layer norm begins it."""
    if not autocast:
        return compute
    return 4 if model.model_type in NORMS_FIRST else param


def _caches(model: ModelSpec) -> bool:
    """Whether the model puts out keys and values while training: decoders do, unless `use_cache` is false.

    A config that does not say follows its class: off in transformers 5.24's `MptConfig`, on in the other decoders.
    """
    default = "false" if model.model_type in NO_CACHE_BY_DEFAULT else "true"
    return (
        model.structure not in {Structure.ENCODER, Structure.DENOISER}
        and dict(model.config).get("use_cache", default) != "false"
    )


def _gptq_group(model: ModelSpec) -> int:
    """The group size that the checkpoint's config states, else the usual 128."""
    text = dict(model.config).get("quantization_config")
    found = json.loads(text).get("group_size") if text else None
    return found if isinstance(found, int) and found else GPTQ_GROUP


def _zero_stage(parallel: Parallel) -> int:
    return {"none": 0, "zero1": 1, "zero2": 2, "zero3": 3, "fsdp": 3}[parallel.sharding]


def _state_bytes(given: str | None, default: int) -> float:
    """PyTorch's optimizers make their states like the tensor they step (`zeros_like`)."""
    return 0.5 if given == "int4" else dtype_bytes(given, default)


@cache
def _numbers(version: str | None) -> tuple[int, ...]:
    """A version as numbers, as far as it is one: `4.45.2` -> (4, 45, 2), `2024-09` -> (2024, 9)."""
    numbers = []
    for piece in re.split(r"[.-]", version or ""):
        if not piece.isdigit():
            break
        numbers.append(int(piece))
    return tuple(numbers)
