"""Megatron-LM's command line.

Source: Megatron-LM `megatron/training/arguments.py`. The model is described by its sizes, so it becomes a
`megatron_gpt` config.
"""

from typing import Any, Final

from planner.imports.command_line import CommandLine
from planner.imports.draft import Draft
from planner.imports.keys import Keys

NORMS: Final = {"LayerNorm": "layer_norm", "RMSNorm": "rms_norm"}
POSITIONS: Final = {"learned_absolute": "learned", "rope": "rope", "none": "none", "relative": "relative"}
ATTENTION: Final = {
    "flash": "flash",
    "fused": "flash",
    "auto": "flash",
    "unfused": "transformer_engine_unfused",
    "local": "eager",
}

OPTIMIZERS: Final = {"adam": "adamw", "sgd": "sgd_momentum", "muon": "muon"}
FP8: Final = {"tensorwise": "tensorwise", "delayed": "tensorwise", "blockwise": "blockwise", "mxfp8": "mxfp8"}
VOCABULARY_MULTIPLE: Final = 128
HARMLESS: Final = (
    "lr*", "min_lr", "weight_decay*", "adam_*", "clip_grad", "init_method_std", "log_*", "logging_level",
    "save*", "load*", "eval_*", "seed", "data_*", "split", "vocab_file", "merge_file", "tokenizer_*",
    "train_iters", "train_samples", "exit_*", "tensorboard*", "wandb*", "distributed_*", "overlap_*",
    "no_*_fusion", "no_gradient_accumulation_fusion", "no_load_*", "no_save_*", "ckpt_*", "dist_ckpt*",
    "use_dist_ckpt", "use_checkpoint_*", "override_opt*", "num_workers", "rotary_*",
    "use_rotary_position_embeddings", "no_position_embedding", "norm_epsilon", "no_masked_softmax_fusion",
    "attention_softmax_in_fp32", "apply_layernorm_1p", "moe_aux*", "moe_router_load*", "moe_router_dtype",
    "moe_router_score*", "moe_router_pre*", "moe_router_enable*", "moe_router_bias*", "moe_router_num*",
    "moe_router_group*", "moe_router_topk_*", "moe_token_dispatcher*", "moe_grouped_gemm",
    "moe_permute_fusion", "moe_z_loss*", "moe_per_layer_logging", "timing_*", "profile*", "manual_gc*",
    "fp8_amax*", "fp8_margin", "transformer_impl", "use_mcore_models", "use_legacy_models", "tp_comm_*",
    "defer_embedding*", "calculate_per_token_loss", "mock_data", "num_dataset*", "reset_*", "eod_mask_loss",
    "create_attention*", "nccl_*", "high_priority*", "align_*", "empty_unused*", "enable_experimental",
    "nnodes", "nproc_per_node", "node_rank", "master_*", "rdzv*", "hysteresis", "initial_loss_scale",
    "loss_scale*", "deprecated_*", "disable_bias_*", "use_pytorch_profiler", "squared_relu", "decoupled*",
    "moe_layer_freq", "ffn_*", "start_weight*", "end_weight*",
)  # fmt: skip
NOT_MODELLED: Final = (
    "optimizer_cpu_offload", "cpu_offloading", "use_torch_fsdp2", "use_megatron_fsdp",
    "use_precision_aware_optimizer", "exp_avg_dtype", "exp_avg_sq_dtype", "main_params_dtype",
    "main_grads_dtype", "fp8_param_gather", "moe_expert_capacity_factor", "mtp_num_layers",
    "enable_cuda_graph", "hierarchical_context_parallel_sizes", "encoder_pipeline_model_parallel_size",
    "multi_latent_attention", "decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers",
    "account_for_embedding_in_pipeline_split", "qk_layernorm", "standalone_embedding_stage",
    "pipeline_model_parallel_layout", "fp4_format", "num_distributed_optimizer_instances",
)  # fmt: skip


def read(line: CommandLine, draft: Draft) -> None:
    """The whole command line."""
    keys = Keys(line.options, draft, "--")
    draft.train("megatron_lm")
    draft.put("task", "pretrain")
    _cards(line, draft)
    _model(keys, draft)
    _degrees(keys, draft)
    _step(keys, draft)
    _precision(keys, draft)
    _recompute(keys, draft)
    _accumulation(keys, draft)
    keys.not_modelled(*NOT_MODELLED)
    keys.finish(HARMLESS)


def _cards(line: CommandLine, draft: Draft) -> None:
    launcher = Keys(line.launcher, draft, "--")
    each = launcher.whole("", "nproc_per_node", "nproc-per-node")
    nodes = launcher.whole("", "nnodes", default=None)
    if each is not None:
        draft.put("hardware.devices_per_node", each)
        draft.cards(each * (nodes or 1), "--nproc_per_node")
    launcher.finish(("*",))


def _model(keys: Keys, draft: Draft) -> None:
    """Sizes into a config; without them the question's model stays."""
    sizes: dict[str, Any] = {
        name: keys.whole("", option)
        for name, option in (
            ("num_hidden_layers", "num_layers"),
            ("hidden_size", "hidden_size"),
            ("num_attention_heads", "num_attention_heads"),
            ("intermediate_size", "ffn_hidden_size"),
            ("head_dim", "kv_channels"),
            ("num_key_value_heads", "num_query_groups"),
            ("max_position_embeddings", "max_position_embeddings"),
            ("num_experts", "num_experts"),
            ("num_experts_per_tok", "moe_router_topk"),
            ("moe_intermediate_size", "moe_ffn_hidden_size"),
            ("moe_shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"),
        )
    }
    grouped = keys.flag("", "group_query_attention", default=False)
    words = {
        "gated_mlp": keys.flag("", "swiglu", default=False),
        "norm": keys.pick("", NORMS, "normalization", default="layer_norm"),
        "add_bias_linear": not keys.flag("", "disable_bias_linear", default=False),
        "add_qkv_bias": keys.flag("", "add_qkv_bias", default=False),
        "position_embedding": keys.pick("", POSITIONS, "position_embedding_type", default="learned"),
        "tie_word_embeddings": not keys.flag("", "untie_embeddings_and_output_weights", default=False),
        "vocab_size": _vocabulary(keys),
    }
    if sizes["hidden_size"] is None or sizes["num_hidden_layers"] is None:
        return
    if not grouped:
        sizes["num_key_value_heads"] = None
    if words["vocab_size"] is None:
        keys.remark("vocab_size", "", "missing")
    if sizes["intermediate_size"] is None:
        sizes["intermediate_size"] = 4 * int(sizes["hidden_size"])
    found = {name: value for name, value in (sizes | words).items() if value is not None}
    draft.document["model"] = {}
    draft.put("model.config", {"model_type": "megatron_gpt", **found})


def _vocabulary(keys: Keys) -> int | None:
    """Padded as Megatron pads it: to a multiple of 128 times the tensor-parallel degree."""
    size = keys.whole("", "vocab_size", "padded_vocab_size")
    multiple = keys.whole("", "make_vocab_size_divisible_by", default=VOCABULARY_MULTIPLE)
    degree = keys.values.get("tensor_model_parallel_size", 1)
    if size is None or multiple is None or not isinstance(degree, int):
        return size
    unit = multiple * max(1, degree)
    return -(-size // unit) * unit


def _degrees(keys: Keys, draft: Draft) -> None:
    for field, option in (
        ("tensor", "tensor_model_parallel_size"),
        ("pipeline", "pipeline_model_parallel_size"),
        ("context", "context_parallel_size"),
        ("expert", "expert_model_parallel_size"),
    ):
        keys.whole(f"parallel.{field}", option, default=1)
    keys.whole("parallel.expert_tensor", "expert_tensor_parallel_size")
    keys.flag("parallel.sequence", "sequence_parallel", default=False)
    sharded = keys.flag("", "use_distributed_optimizer", default=False)
    draft.put("parallel.sharding", "zero1" if sharded else "none")
    draft.put("parallel.data_parallel", "megatron")
    chunks = keys.whole("", "num_virtual_stages_per_pipeline_rank")
    layers = keys.whole("", "num_layers_per_virtual_pipeline_stage")
    count = draft.get("model.config.num_hidden_layers")
    depth = draft.get("parallel.pipeline") or 1
    if chunks is None and layers is not None and isinstance(count, int):
        chunks = max(1, count // depth // layers)
    many = chunks is not None and chunks > 1
    draft.put("parallel.virtual_stages", chunks if many else None)
    draft.put("parallel.pipeline_schedule", ("interleaved" if many else "1f1b") if depth > 1 else None)


def _step(keys: Keys, draft: Draft) -> None:
    keys.whole("training.micro_batch", "micro_batch_size", default=1)
    keys.whole("training.sequence_length", "seq_length", "encoder_seq_length")
    hidden = keys.real("", "hidden_dropout", default=0.1)
    inside = keys.real("", "attention_dropout", default=0.1)
    draft.put("training.dropout", max(hidden or 0.0, inside or 0.0))
    flash = keys.flag("", "use_flash_attn", default=False)
    backend = keys.pick("", ATTENTION, "attention_backend", default="flash")
    draft.put("training.attention", "flash" if flash else backend)
    keys.pick("training.optimizer.name", OPTIMIZERS, "optimizer", default="adamw")
    keys.flag("", "cross_entropy_loss_fusion")
    keys.raw("cross_entropy_fusion_impl")
    if keys.values.get("cross_entropy_loss_fusion"):
        draft.put("training.loss", "fused")


def _precision(keys: Keys, draft: Draft) -> None:
    half, brain = keys.flag("", "fp16", default=False), keys.flag("", "bf16", default=False)
    kind = "bf16" if brain else "fp16" if half else "fp32"
    reduced = keys.flag("", "grad_reduce_in_bf16", default=False)
    keys.flag("", "accumulate_allreduce_grads_in_fp32")
    draft.put("training.precision.parameters", kind)
    draft.put("training.precision.compute", kind)
    draft.put("training.precision.gradients", "bf16" if reduced else "fp32")
    draft.put("training.precision.master", "none" if kind == "fp32" else "fp32")
    if keys.raw("fp8_format", "fp8") is not None:
        recipe = keys.pick("", FP8, "fp8_recipe", default="tensorwise")
        draft.put("training.precision.fp8", recipe)


def _recompute(keys: Keys, draft: Draft) -> None:
    granularity = keys.pick("", {"full": "full", "selective": "selective"}, "recompute_granularity")
    selective = keys.flag("", "recompute_activations", default=False)
    keys.raw("recompute_method")
    layers = keys.whole("", "recompute_num_layers")
    modules = keys.raw("recompute_modules")
    names = [modules] if isinstance(modules, str) else modules
    if granularity == "full":
        every = layers is not None and layers > 1 and keys.values.get("recompute_method") == "uniform"
        draft.put("training.checkpointing", "every_k" if every else "full")
        draft.put("training.checkpoint_every", layers if every else None)
    elif granularity == "selective" or selective:
        own = isinstance(names, list) and names != ["core_attn"]
        draft.put("training.checkpointing", "selective_op" if own else "selective_attention")
        draft.put("training.checkpoint_modules", [str(name) for name in names] if own and names else None)
    else:
        draft.put("training.checkpointing", "none")
    keys.flag("training.checkpoint_partitioned", "distribute_saved_activations", default=False)


def _accumulation(keys: Keys, draft: Draft) -> None:
    """The global batch is micro-batch x accumulation x data-parallel ranks, which are what the degrees leave."""
    total = keys.whole("", "global_batch_size")
    devices = draft.get("hardware.devices")
    if not isinstance(devices, list):
        return
    cards, model_ranks = sum(int(row.get("count", 1)) for row in devices), 1
    for name in ("tensor", "pipeline", "context"):
        model_ranks *= max(1, int(draft.get(f"parallel.{name}") or 1))
    draft.put("parallel.data", None if cards % model_ranks else cards // model_ranks)
    if total is None:
        return
    cards //= model_ranks
    micro = draft.get("training.micro_batch") or 1
    steps = max(1, total // (micro * max(1, cards)))
    draft.put("training.gradient_accumulation", steps)
    if steps * micro * max(1, cards) != total:
        keys.remark("global_batch_size", total, "differs", found=steps * micro * max(1, cards))
