"""Megatron-LM's command line, flags as in its `training/arguments.py`; see docs/exports.md for what was checked."""

import shlex
from typing import Final

from planner.exports.facts import data_ranks, nodes, refuse, require, require_runtime
from planner.exports.types import Export, ExportRefusedError
from planner.model.spec import AttentionKind, Layer, MlpKind, ModelSpec
from planner.plan_types import Plan
from planner.scenario import Scenario

NORMS: Final = {"rms_norm": "RMSNorm", "layer_norm": "LayerNorm"}
POSITIONS: Final = {"learned": "learned_absolute", "rope": "rope", "none": "none", "rotary": "rope"}
BACKENDS: Final = {"flash": "flash", "transformer_engine_unfused": "unfused", "eager": "local"}
CARRIES: Final = (
    "task",
    "model",
    "runtime.name",
    "training",
    "parallel",
    "hardware.devices.0.count",
    "hardware.devices_per_node",
)

FP8_RECIPES: Final = ("tensorwise", "blockwise", "mxfp8")


def megatron(plan: Plan) -> Export:
    """A `torchrun ... pretrain_gpt.py` line; the paths of data and tokenizer are to be added."""
    require_runtime(plan, "megatron_lm")
    machines, each = nodes(plan)
    words = ["torchrun", "--nproc_per_node", str(each), "--nnodes", str(machines), "pretrain_gpt.py"]
    arguments = [
        *_model(plan.model, plan.scenario),
        *_degrees(plan),
        *_step(plan),
        *_precision(plan.resolved),
        *_recompute(plan.resolved),
    ]
    lines = [shlex.join(words), *(shlex.join(group) for group in arguments)]
    return Export(
        target="megatron",
        file_name="pretrain.sh",
        text=" \\\n  ".join(lines) + "\n",
        carries=CARRIES,
        remarks=(("data_set", "--data-path"), ("tokenizer", "--tokenizer-type")),
    )


def _model(model: ModelSpec, scenario: Scenario) -> list[tuple[str, ...]]:
    """Sizes of a plain decoder of equal layers.

    Raises:
        ExportRefusedError: The model is something else.
    """
    first = model.layers[0]
    if any(layer != first for layer in model.layers) or first.attention.kind is not AttentionKind.FULL:
        raise ExportRefusedError(
            "model", "model", scenario.model.id or model.model_type, "equal layers of full attention"
        )
    if first.mlp.kind not in {MlpKind.GATED, MlpKind.PLAIN}:
        raise ExportRefusedError("model", "model", scenario.model.id or model.model_type, "dense layers")
    require("model.norm", model.norm, *NORMS)
    require("model.position_embedding", model.position_embedding, *POSITIONS)
    heads, groups = first.attention.num_heads, first.attention.num_kv_heads
    width = _ffn_width(first)
    biased = any(linear.bias_features for linear in first.linears)
    found: list[tuple[str, ...]] = [
        ("--num-layers", str(model.num_layers)),
        ("--hidden-size", str(model.hidden_size)),
        ("--ffn-hidden-size", str(width)),
        ("--num-attention-heads", str(heads)),
    ]
    if groups != heads:
        found += [("--group-query-attention",), ("--num-query-groups", str(groups))]
    if first.attention.head_dim * heads != model.hidden_size:
        found.append(("--kv-channels", str(first.attention.head_dim)))
    found += [
        ("--normalization", NORMS[model.norm]),
        ("--position-embedding-type", POSITIONS[model.position_embedding]),
        ("--vocab-size", str(model.vocab_size)),
        ("--make-vocab-size-divisible-by", "128"),
        (
            "--max-position-embeddings",
            str(model.max_position_embeddings or scenario.training.sequence_length),
        ),
    ]
    flags = {
        "--swiglu": first.mlp.kind is MlpKind.GATED,
        "--disable-bias-linear": not biased,
        "--untie-embeddings-and-output-weights": not model.tie_word_embeddings,
    }
    return found + [(flag,) for flag, on in flags.items() if on]


def _ffn_width(layer: Layer) -> int:
    down = next((linear for linear in layer.linears if linear.name in {"down_proj", "linear_fc2"}), None)
    return layer.mlp.intermediate_size if down is None else down.in_features


def _degrees(plan: Plan) -> list[tuple[str, ...]]:
    held = plan.resolved.parallel
    require("parallel.sharding", held.sharding, "none", "zero1")
    if held.stages or held.pipeline_layers or held.offload.optimizer != "none":
        raise refuse("parallel.stages", "uneven", "equal stages, no offload")
    found: list[tuple[str, ...]] = [
        ("--tensor-model-parallel-size", str(held.tensor)),
        ("--pipeline-model-parallel-size", str(held.pipeline)),
    ]
    if held.context > 1:
        found.append(("--context-parallel-size", str(held.context)))
    if (held.virtual_stages or 1) > 1:
        chunk = plan.model.num_layers // (held.pipeline * (held.virtual_stages or 1))
        found.append(("--num-layers-per-virtual-pipeline-stage", str(chunk)))
    elif held.pipeline > 1:
        require("parallel.pipeline_schedule", held.pipeline_schedule, "1f1b", None)
    if held.sequence:
        found.append(("--sequence-parallel",))
    if held.sharding == "zero1":
        found.append(("--use-distributed-optimizer",))
    return found


def _step(plan: Plan) -> list[tuple[str, ...]]:
    training = plan.resolved.training
    batch = training.micro_batch * training.gradient_accumulation * data_ranks(plan)
    attention = training.attention or "flash"
    require("training.attention", attention, *BACKENDS)
    dropout = f"{training.dropout or 0.0:g}"
    optimizer = training.optimizer.name
    require("training.optimizer.name", optimizer, "adamw", "adam", "sgd_momentum")
    found: list[tuple[str, ...]] = [
        ("--micro-batch-size", str(training.micro_batch)),
        ("--global-batch-size", str(batch)),
        ("--seq-length", str(training.sequence_length)),
        ("--hidden-dropout", dropout),
        ("--attention-dropout", dropout),
        ("--attention-backend", BACKENDS[attention]),
        ("--optimizer", "sgd" if optimizer == "sgd_momentum" else "adam"),
        ("--train-iters", "1000"),
        ("--lr", "1e-4"),
    ]
    if training.loss == "fused":
        found.append(("--cross-entropy-loss-fusion",))
    return found


def _precision(held: Scenario) -> list[tuple[str, ...]]:
    precision = held.training.precision
    require("training.precision.parameters", precision.parameters, "bf16", "fp16", "fp32")
    found: list[tuple[str, ...]] = []
    if precision.parameters in {"bf16", "fp16"}:
        require("training.precision.master", precision.master, "fp32", None)
        found.append((f"--{precision.parameters}",))
    if precision.gradients == "bf16":
        found.append(("--grad-reduce-in-bf16",))
    elif precision.parameters == "bf16":
        found.append(("--accumulate-allreduce-grads-in-fp32",))
    if precision.fp8 is not None:
        require("training.precision.fp8", precision.fp8, *FP8_RECIPES)
        found += [("--fp8-format", "hybrid"), ("--fp8-recipe", precision.fp8)]
    return found


def _recompute(held: Scenario) -> list[tuple[str, ...]]:
    training = held.training
    kind = training.checkpointing or "none"
    found: list[tuple[str, ...]] = []
    if kind in {"full", "every_k"}:
        every = training.checkpoint_every if kind == "every_k" else 1
        found = [
            ("--recompute-granularity", "full"),
            ("--recompute-method", "uniform"),
            ("--recompute-num-layers", str(every or 1)),
        ]
    elif kind in {"selective_attention", "selective_op"}:
        found = [("--recompute-granularity", "selective")]
        if kind == "selective_op" and training.checkpoint_modules:
            found.append(("--recompute-modules", *training.checkpoint_modules))
    if training.checkpoint_partitioned:
        found.append(("--distribute-saved-activations",))
    return found
