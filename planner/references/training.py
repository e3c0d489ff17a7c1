"""References of the training formulas."""

from planner.references.types import Reference

PYTORCH = "https://github.com/pytorch/pytorch/blob/v2.4.0/"
TRANSFORMERS = "https://github.com/huggingface/transformers/blob/v4.48.1/"
ZERO_1_2 = "https://github.com/deepspeedai/DeepSpeed/blob/v0.17.6/deepspeed/runtime/zero/stage_1_and_2.py"
TRACE = "Traced with torch 2.13 and transformers 5.24 on tensors without storage"


def _paper(title: str, where: str, arxiv: str) -> Reference:
    return Reference(title, where, f"https://arxiv.org/abs/{arxiv}", "paper")


def _source(title: str, where: str, url: str) -> Reference:
    return Reference(title, where, url, "source")


_ADAM = ("Adam: A Method for Stochastic Optimization", "algorithm 1: two moments a parameter", "1412.6980")

REFERENCES: dict[str, Reference] = {
    "number_formats": _paper("Mixed Precision Training", "section 3: bytes of each format", "1710.03740"),
    "mixed_precision": _paper(
        "Mixed Precision Training", "section 3.1: fp32 master copy of weights", "1710.03740"
    ),
    "gradients": _source(
        "PyTorch autograd", "`AccumulateGrad`: one gradient a parameter, in its format", PYTORCH
    ),
    "gradient_copy": _source(
        "Megatron-LM mixed-precision optimizer",
        "`_copy_model_grads_to_main_grads`",
        "https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/core/optimizer/optimizer.py",
    ),
    "zero_bubble": _paper(
        "Zero Bubble Pipeline Parallelism",
        "section 2, table 1: ZB-H1, memory of the weights' own pass",
        "2401.10241",
    ),
    "sequence_chunks": _paper(
        "Mini-Sequence Transformer", "section 3: feed-forward part in pieces of the sequence", "2407.15892"
    ),
    "recompute_budget": _source(
        "PyTorch min-cut partitioner",
        "`activation_memory_budget`: from every layer's input alone to what the default keeps",
        "https://pytorch.org/blog/activation-checkpointing-techniques/",
    ),
    "reference_model": _paper(
        "Direct Preference Optimization",
        "section 4: a frozen reference policy beside the trained one",
        "2305.18290",
    ),
    "reward_and_value": _paper(
        "Training language models to follow instructions",
        "section 3.5: reward and value models",
        "2203.02155",
    ),
    "rollouts": _paper("DeepSeekMath", "section 4.1: a group of completions per question", "2402.03300"),
    "format_fp32": _paper("Mixed Precision Training", "section 3", "1710.03740"),
    "format_bf16": _paper("A Study of BFLOAT16 for Deep Learning Training", "section 2", "1905.12322"),
    "format_fp16": _paper("Mixed Precision Training", "section 3", "1710.03740"),
    "format_nf4": _paper("QLoRA", "section 3: 4-bit NormalFloat, blocks of 64", "2305.14314"),
    "format_nf4_dq": _paper(
        "QLoRA", "section 3: double quantization, 8-bit constants, blocks of 256", "2305.14314"
    ),
    "format_int8": _paper("LLM.int8()", "section 3: vector-wise scales", "2208.07339"),
    "format_gptq4": _paper("GPTQ", "section 4: groups with a scale and a zero point", "2210.17323"),
    "format_gptq8": _paper("GPTQ", "section 4: groups with a scale and a zero point", "2210.17323"),
    "optimizer_adamw": _paper(*_ADAM),
    "optimizer_adam": _paper(*_ADAM),
    "optimizer_sgd": _source("PyTorch SGD", "no state without momentum", PYTORCH + "torch/optim/sgd.py"),
    "optimizer_sgd_momentum": _source("PyTorch SGD", "`momentum_buffer`", PYTORCH + "torch/optim/sgd.py"),
    "optimizer_lion": _paper(
        "Symbolic Discovery of Optimization Algorithms", "algorithm 2: one moment", "2302.06675"
    ),
    "optimizer_8bit": _paper("8-bit Optimizers via Block-wise Quantization", "section 2", "2110.02861"),
    "optimizer_adafactor": _paper("Adafactor", "algorithm 4: row and column statistics", "1804.04235"),
    "optimizer_muon": _paper(
        "Muon is Scalable for LLM Training", "section 2: momentum for matrices", "2502.16982"
    ),
    "optimizer_galore": _paper("GaLore", "algorithm 2: projected moments and the projection", "2403.03507"),
    "foreach_temporary": _source(
        "PyTorch optimizers",
        "`_foreach_doc`: temporaries as large as the parameters",
        PYTORCH + "torch/optim/optimizer.py",
    ),
    "zero": _paper(
        "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", "section 5", "1910.02054"
    ),
    "lora": _paper("LoRA", "section 4.1", "2106.09685"),
    "activations_eager": Reference(
        TRACE,
        "saved tensors of one layer by width; equal to the byte on four shapes, two batch sizes each",
        "",
        "trace",
    ),
    "encoder_blocks": Reference(
        "transformers, modeling files of encoders and encoder-decoders",
        "operation by operation; kept tensors as PyTorch's autograd has them, held against traces of whole steps",
        "",
        "source",
    ),
    "activations_megatron": _paper(
        "Reducing Activation Recomputation in Large Transformer Models",
        "section 4, equations 1 to 5",
        "2205.05198",
    ),
    "checkpointing_full": _paper("Training Deep Nets with Sublinear Memory Cost", "section 4", "1604.06174"),
    "activation_offload": _source(
        "Unsloth, offloaded gradient checkpointing",
        "`Unsloth_Offloaded_Gradient_Checkpointer`: a layer's input goes to the host, and comes back for its backward",
        "https://github.com/unslothai/unsloth-zoo/blob/main/unsloth_zoo/gradient_checkpointing.py",
    ),
    "backward_inside_layer": Reference(
        "Worked out from the order of a gated MLP's backward pass",
        "the stream's gradient and two inner ones",
        "",
        "trace",
    ),
    "autocast_cache": _source(
        "PyTorch autocast",
        "`cached_cast`: casts of leaves live until the block ends",
        PYTORCH + "aten/src/ATen/autocast_mode.cpp",
    ),
    "kept_outputs": Reference(TRACE, "logits and cache held by the loop's own variable", "", "trace"),
    "loss_standard": _source(
        "transformers causal language-model loss",
        "`ForCausalLMLoss`: fp32 logits, log-softmax, its two gradients",
        TRANSFORMERS + "src/transformers/loss/loss_utils.py",
    ),
    "loss_fused": _source(
        "Unsloth cross-entropy kernel",
        "the gradient is written over the logits",
        "https://github.com/unslothai/unsloth/blob/main/unsloth/kernels/cross_entropy_loss.py",
    ),
    "loss_mpt": _source(
        "LLM Foundry, MPT's own training code",
        "`ComposerMPTCausalLM`: `loss_fn` is `fused_crossentropy`, flash-attention's kernel on the 16-bit logits",
        "https://github.com/mosaicml/llm-foundry/blob/v0.4.0/llmfoundry/models/mpt/modeling_mpt.py",
    ),
    "loss_litgpt": _source(
        "LitGPT and Lightning Fabric",
        "`chunked_cross_entropy`, `lm_head_chunk_size`; `HalfPrecision.convert_output` casts logits to fp32",
        "https://github.com/Lightning-AI/litgpt/blob/v0.4.13/litgpt/finetune/lora.py",
    ),
    "loss_compiled": _source(
        "torchtitan, compiled cross-entropy",
        "`cross_entropy_loss` under `torch.compile`; `del pred` before the backward pass",
        "https://github.com/pytorch/torchtitan/blob/v0.1.0/torchtitan/components/loss.py",
    ),
    "loss_chunked": _source(
        "torchtune chunked cross-entropy",
        "`CEWithChunkedOutputLoss`: eight chunks",
        "https://github.com/pytorch/torchtune/blob/v0.4.0/torchtune/modules/loss/ce_chunked_output_loss.py",
    ),
    "loss_fused_linear": _paper(
        "Liger Kernel: Efficient Triton Kernels for LLM Training", "section 3.2", "2410.10989"
    ),
    "loss_megatron": _source(
        "Megatron-LM vocabulary-parallel cross-entropy",
        "fp32 logits reused for softmax and gradient",
        "https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/core/tensor_parallel/cross_entropy.py",
    ),
    "ddp_buckets": _source(
        "PyTorch DistributedDataParallel",
        "`gradient_as_bucket_view=False`: buckets beside the gradients",
        PYTORCH + "torch/nn/parallel/distributed.py",
    ),
    "fake_quantize": _source(
        "PyTorch fake quantization",
        "`fake_quantize_per_channel_affine_cachemask` returns the copy and a mask, which its backward keeps",
        PYTORCH + "tools/autograd/derivatives.yaml",
    ),
    "data_parallel": _source(
        "PyTorch nn.DataParallel",
        "`forward`: replicate, parallel_apply, gather on the output device",
        PYTORCH + "torch/nn/parallel/data_parallel.py",
    ),
    "fsdp_gather": _paper("PyTorch FSDP", "section 3.2: gathered units and prefetching", "2304.11277"),
    "fsdp_scatter": _paper(
        "PyTorch FSDP", "section 3.2: reduce-scatter of one unit's gradients", "2304.11277"
    ),
    "zero3_live": _source(
        "DeepSpeed configuration",
        "stage3_max_live_parameters, stage3_max_reuse_distance, stage3_prefetch_bucket_size; `fetch_sub_module` takes "
        "what a module needs, and only what is prefetched is held to the limit",
        "https://www.deepspeed.ai/docs/config-json/",
    ),
    "zero3_gather": _source(
        "DeepSpeed ZeRO stage 3, 0.6.0 to 0.17.6",
        "`AllGatherCoalescedHandle.wait`: `torch.cat(partitions)` of the flat buffer that was gathered",
        "https://github.com/deepspeedai/DeepSpeed/blob/v0.17.6/deepspeed/runtime/zero/partition_parameters.py",
    ),
    "zero_buckets": _source(
        "DeepSpeed configuration",
        "reduce_bucket_size, allgather_bucket_size: 5e8; `torch.empty(reduce_bucket_size)` whatever the model's size",
        "https://www.deepspeed.ai/docs/config-json/",
    ),
    "expert_all_to_all": _paper("GShard", "section 3.1: dispatch and combine", "2006.16668"),
    "cublas_workspace": _source(
        "PyTorch cuBLAS handles",
        "`getChosenWorkspaceSize`: 8.125 MiB, 32 MiB on Hopper; one per handle and stream",
        PYTORCH + "aten/src/ATen/cuda/CublasHandlePool.cpp",
    ),
    "cuda_context": Reference(
        "Readings of an idle process by architecture", "hardware constants", "", "published_measurement"
    ),
    "kernel_modules": Reference(
        "CUDA loads kernels when they are first called",
        "lazy loading; what a step's own kernels add to the context, from published readings of the device",
        "https://docs.nvidia.com/cuda/cuda-c-programming-guide/lazy-loading.html",
        "published_measurement",
    ),
    "nccl_buffers": Reference(
        "Half a GiB a communicator",
        "NCCL issue 864 and published logs",
        "https://github.com/NVIDIA/nccl/issues/864",
        "published_measurement",
    ),
    "allocator_slack": Reference(
        "PyTorch caching allocator: blocks are cut to what first asked for them",
        "`get_free_block` takes the smallest that fits; `release_cached_blocks` where the card is full; shares from "
        "used bytes of published runs",
        PYTORCH + "c10/cuda/CUDACachingAllocator.cpp",
        "published_measurement",
    ),
    "attention_scores": _paper(
        "Reducing Activation Recomputation in Large Transformer Models", "equation 1: 5*a*s*s*b", "2205.05198"
    ),
    "batch": _source(
        "PyTorch embedding and nll_loss",
        "indices saved for the backward pass, 64 bit",
        PYTORCH + "tools/autograd/derivatives.yaml",
    ),
    "embedding_leaf": _source(
        "PEFT and transformers",
        "`enable_input_require_grads`: the embedding's output becomes a leaf, which its `AccumulateGrad` node holds",
        TRANSFORMERS + "src/transformers/modeling_utils.py",
    ),
    "vision_tower": _source(
        "transformers' vision towers",
        "`get_image_features` and `masked_scatter`: pixels, layers, projector, and the embeddings they are put into",
        TRANSFORMERS + "src/transformers/models/llava/modeling_llava.py",
    ),
    "rotary_tables": _source(
        "transformers `LlamaModel.forward`",
        "`position_embeddings`, made once and kept by `apply_rotary_pos_emb`'s products",
        TRANSFORMERS + "src/transformers/models/llama/modeling_llama.py",
    ),
    "head_backward": _source(
        "PyTorch derivatives of `mm`",
        "gradients of logits, of the head and of its input at once",
        PYTORCH + "tools/autograd/derivatives.yaml",
    ),
    "tied_gradients": _source(
        "PyTorch autograd `InputBuffer::accumulate`",
        "the head's gradient waits for the embedding's; their sum is a third tensor, as the waiting one is a view",
        PYTORCH + "torch/csrc/autograd/input_buffer.cpp",
    ),
    "accumulated_gradients": _source(
        "PyTorch autograd `AccumulateGrad`",
        "a later micro-batch's gradient is made whole before it is added",
        PYTORCH + "torch/csrc/autograd/functions/accumulate_grad.h",
    ),
    "te_workspace": _source(
        "Transformer Engine",
        "`get_cublas_workspace_size_bytes`",
        "https://github.com/NVIDIA/TransformerEngine/blob/main/transformer_engine/pytorch/module/base.py",
    ),
    "te_low_precision": _source(
        "Transformer Engine",
        "`Linear`: what is kept of a product's input, `Float8Tensor` and its transpose, `is_first_microbatch`",
        "https://github.com/NVIDIA/TransformerEngine/blob/main/transformer_engine/pytorch/module/linear.py",
    ),
    "stage_buffers": _source(
        "Megatron-LM pipeline schedules",
        "input tensors and output gradients by chunk",
        "https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/core/pipeline_parallel/schedules.py",
    ),
    "pipeline_buffers": _source(
        "PyTorch pipeline stages",
        "`args_recv_info`, `grad_recv_info`: a buffer for every micro-batch; `fwd_cache`; `output_chunks`",
        PYTORCH + "torch/distributed/pipelining/stage.py",
    ),
    "torchtitan_selective": _source(
        "torchtitan selective checkpointing",
        "`_get_save_ops`, `per_op_sac_force_recompute_mm_shapes_by_fqns`; `_make_default_memory_policy`",
        "https://github.com/pytorch/torchtitan/blob/main/torchtitan/distributed/activation_checkpoint.py",
    ),
    "packed_inputs": _source(
        "bitsandbytes 0.42, 4-bit product",
        "`MatMul4Bit.forward`: `ctx.tensors = (A, B)`; `dequantize_4bit(B, quant_state).to(A.dtype)`",
        "https://github.com/bitsandbytes-foundation/bitsandbytes/blob/0.42.0/bitsandbytes/autograd/_functions.py",
    ),
    "fsdp_reduce": _source(
        "PyTorch FSDP2",
        "`foreach_reduce`: gradients are copied into one input in the format they are reduced in",
        PYTORCH + "torch/distributed/_composable/fsdp/_fsdp_collectives.py",
    ),
    "dtensor_embedding": _source(
        "PyTorch DTensor",
        "`RowwiseParallel` on an embedding; `_MaskPartial`: the gradient of all rows, a piece of it as a view",
        PYTORCH + "torch/distributed/tensor/_ops/_embedding_ops.py",
    ),
    "fsdp_second": _source(
        "PyTorch FSDP2",
        "`FSDPParamGroup`: `wait_for_unshard` keeps `all_gather_state`; `post_backward` keeps `reduce_scatter_states`",
        PYTORCH + "torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py",
    ),
    "fsdp_flat": _source(
        "PyTorch FSDP",
        "`FlatParamHandle`: views are split from the flat parameter; `_post_backward_hook` leaves early in `no_sync`",
        PYTORCH + "torch/distributed/fsdp/_flat_param.py",
    ),
    "fsdp_retained": _source(
        "PyTorch FSDP",
        "`_register_post_backward_reshard_only_hook`: inputs of frozen units stay hooked",
        PYTORCH + "torch/distributed/fsdp/_runtime_utils.py",
    ),
    "zero_step": _source(
        "DeepSpeed ZeRO optimizers, 0.5.10 to 0.17.6",
        "`step`: `flatten(averaged_gradients).to(fp32)`, then `_optimizer_step`; `sub_group_size` of stage 3",
        ZERO_1_2,
    ),
    "zero_reduce": _source(
        "DeepSpeed ZeRO stages 1 and 2, 0.5.10 to 0.17.6",
        "`copy_grads_in_partition`; from 0.12 on `allreduce_bucket` of a flat copy (`use_multi_rank_bucket_allreduce`)",
        ZERO_1_2,
    ),
    "zero_norm": _source(
        "DeepSpeed ZeRO optimizers, 0.5.10 to 0.17.6",
        "`get_grad_norm_direct`: `g.data.double()`, one gradient at a time",
        ZERO_1_2,
    ),
    "megatron_local_ddp": _source(
        "Megatron-LM v2.5",
        "`LocalDDP.allreduce_params`: gradients flattened into one tensor",
        "https://github.com/NVIDIA/Megatron-LM/blob/v2.5/megatron/model/distributed.py",
    ),
    "megatron_main_grad": _source(
        "Megatron-LM v2.5, gradients",
        "`allreduce_gradients`: `param.main_grad = param.grad`; `zero_grad` drops those of `float16_groups` alone",
        "https://github.com/NVIDIA/Megatron-LM/blob/v2.5/megatron/model/distributed.py",
    ),
    "defaults_pytorch": _source(
        "PyTorch and PEFT defaults",
        "`AdamW`, `LoraConfig`",
        "https://github.com/huggingface/peft/blob/v0.14.0/src/peft/tuners/lora/config.py",
    ),
    "defaults_hf_trainer": _source(
        "transformers Trainer and PEFT",
        "`TrainingArguments.optim`, `prepare_model_for_kbit_training`",
        TRANSFORMERS + "src/transformers/training_args.py",
    ),
    "defaults_torchtune": _source(
        "torchtune recipes",
        "recipes/configs",
        "https://github.com/pytorch/torchtune/tree/v0.4.0/recipes/configs",
    ),
    "defaults_torchtitan": _source(
        "torchtitan", "training configuration; `run_train.sh`", "https://github.com/pytorch/torchtitan"
    ),
    "defaults_litgpt": _source("LitGPT", "litgpt/finetune/lora.py", "https://github.com/Lightning-AI/litgpt"),
    "defaults_megatron": _source(
        "Megatron-LM", "megatron/training/arguments.py", "https://github.com/NVIDIA/Megatron-LM"
    ),
    "defaults_deepspeed": _source(
        "DeepSpeed configuration", "bf16, zero_optimization", "https://www.deepspeed.ai/docs/config-json/"
    ),
    "defaults_unsloth": _source(
        "Unsloth", "`FastLanguageModel.get_peft_model`", "https://github.com/unslothai/unsloth"
    ),
    "cudnn_convolutions": Reference(
        "NVIDIA cuDNN: cudnnConvolutionFwdAlgo_t",
        "CUDNN_CONVOLUTION_FWD_ALGO_GEMM forms the matrix of the input in memory; benchmark mode may choose it",
        "https://docs.nvidia.com/deeplearning/cudnn/backend/v9.0.0/api/cudnn-cnn-library.html",
        "docs",
    ),
    "length_grouping": Reference(
        "Transformers: Trainer",
        "`LengthGroupedSampler`: rows sorted by length within stretches of fifty batches",
        "https://huggingface.co/docs/transformers/main_classes/trainer",
        "docs",
    ),
    "sequence_packing": Reference(
        "Efficient Sequence Packing without Cross-contamination",
        "section 3: padding of real data sets, first-fit packing by length",
        "https://arxiv.org/abs/2107.02027",
        "paper",
    ),
}
