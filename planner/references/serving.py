"""References of the serving formulas."""

from planner.references.types import Reference

_VLLM = "https://github.com/vllm-project/vllm/blob/v0.19.0/"
_LLAMA = "https://github.com/ggml-org/llama.cpp/blob/master/"
_SGLANG = "https://github.com/sgl-project/sglang/blob/v0.5.6/"
_TRUTH = (
    "https://github.com/llm-d-incubation/llm-d-planner/tree/d3121e059da88662db39a926a3ead964be97359b/accuracy"
)

REFERENCES: dict[str, Reference] = {
    # --- weights
    "weight_formats": Reference("Number formats", "bytes of an element: fp32 4, bf16 and fp16 2", "", "docs"),
    "gptq_awq_layout": Reference(
        "GPTQ and AWQ checkpoints",
        "packed integers, an fp16 scale and a packed zero point for each group of 128",
        "https://github.com/AutoGPTQ/AutoGPTQ/blob/main/auto_gptq/nn_modules/qlinear/qlinear_cuda.py",
        "source",
    ),
    "compressed_tensors": Reference(
        "compressed-tensors: fp8 and int8 weights",
        "one byte an element and a scale per output channel; embeddings and head left alone",
        "https://github.com/neuralmagic/compressed-tensors",
        "source",
    ),
    "bitsandbytes_nf4": Reference(
        "QLoRA: Efficient Finetuning of Quantized LLMs",
        "section 3",
        "https://arxiv.org/abs/2305.14314",
        "paper",
    ),
    "mx_formats": Reference(
        "OCP Microscaling Formats (MX) Specification",
        "MXFP4: 32 elements of 4 bits share an 8-bit scale; swizzled rows are padded to 256 inputs",
        "https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf",
        "docs",
    ),
    "nvfp4": Reference(
        "NVFP4",
        "16 elements of 4 bits share an fp8 scale",
        "https://developer.nvidia.com/blog/"
        "introducing-nvfp4-for-efficient-and-accurate-low-precision-inference/",
        "docs",
    ),
    "mlc_quantization": Reference(
        "MLC LLM: quantization formats",
        "q4f16_1: groups of 32 with an fp16 scale",
        "https://llm.mlc.ai/docs/compilation/configure_quantization.html",
        "docs",
    ),
    "ggml_blocks": Reference(
        "ggml block structures; file types of llama-quantize",
        "block_q4_0 to block_iq4_xs; llama_tensor_get_type for the mixtures",
        f"{_LLAMA}ggml/src/ggml-common.h",
        "source",
    ),
    "ik_blocks": Reference(
        "ik_llama.cpp block structures",
        "block_iq2_k to block_iq6_k, row-interleaved types of the same size",
        "https://github.com/ikawrakow/ik_llama.cpp/blob/main/ggml/src/ggml-common.h",
        "source",
    ),
    "gguf_file_size": Reference(
        "GGUF file",
        "tensor data is the file; the rest stays on the host",
        f"{_LLAMA}docs/gguf.md",
        "docs",
    ),
    "checkpoint_headers": Reference(
        "safetensors and GGUF headers",
        "every tensor's type, shape and place in the file, read without the tensors",
        "https://huggingface.co/docs/safetensors/index#format",
        "docs",
    ),
    "vllm_rotary_embedding": Reference(
        "vLLM RotaryEmbedding",
        "cos_sin_cache: positions x rotary width, linear scaling stretches it",
        f"{_VLLM}vllm/model_executor/layers/rotary_embedding",
        "source",
    ),
    "sglang_rope": Reference(
        "SGLang RotaryEmbedding and Gemma3TextModel",
        "on CUDA the cache stays in fp32 (from 0.4.2); Gemma-3's layers are all made with the local base",
        "https://github.com/sgl-project/sglang/blob/00a66ebe136b90479f9ccf9fc4f3d1c08251981c/python/sglang/srt/layers/rotary_embedding.py",
        "source",
    ),
    "vllm_triton_experts": Reference(
        "vLLM Mxfp4MoEMethod and Triton's HopperMXScaleLayout",
        "process_weights_after_loading deletes w13_weight and w2_weight, not their scales, which it stores swizzled; "
        "biases in float32; intermediate size to 64, from 0.19 to 128",
        f"{_VLLM}vllm/model_executor/layers/quantization/mxfp4.py",
        "source",
    ),
    "tensorrt_llm_rope": Reference(
        "TensorRT-LLM RopeEmbeddingUtils",
        "create_sinusoidal_positions_for_attention_plugin: cosines and sines of every position in float32",
        "https://github.com/NVIDIA/TensorRT-LLM/blob/main/tensorrt_llm/functional.py",
        "source",
    ),
    "vllm_mla_weights": Reference(
        "vLLM MLA: process_weights_after_loading",
        "W_UK_T and W_UV beside kv_b_proj",
        f"{_VLLM}vllm/v1/attention/backends/mla/common.py",
        "source",
    ),
    "mtp_layers": Reference(
        "DeepSeek-V3 Technical Report", "section 2.2", "https://arxiv.org/abs/2412.19437", "paper"
    ),
    "pytorch_caching_allocator": Reference(
        "PyTorch CUDACachingAllocator",
        "get_allocation_size (2 MiB steps from 10 MiB on), should_split (rest above 1 MiB)",
        "https://github.com/pytorch/pytorch/blob/v2.9.0/c10/cuda/CUDACachingAllocator.cpp",
        "source",
    ),
    # --- working memory
    "vllm_profile_run": Reference(
        "vLLM memory profiling: a dummy step and a dummy sampler run",
        "what is held at the peak by layer and by the sampler; coefficients fitted to published logs",
        _TRUTH,
        "published_measurement",
    ),
    "vllm_cuda_graphs": Reference(
        "vLLM CUDA graph capture and FlashAttention 3",
        "capture_model, cudagraph_capture_sizes, flash_attn_max_num_splits_for_cuda_graph; out_accum of "
        "hopper/flash_api.cpp; bytes a graph and layer fitted to published logs",
        f"{_VLLM}vllm/v1/attention/backends/flash_attn.py",
        "source",
    ),
    "eager_position_bias": Reference(
        "T5Attention of Transformers and TGI",
        "scores plus position bias, softmax in fp32; 9.66 GiB held and 4.83 GiB wanted in the report",
        "https://github.com/huggingface/text-generation-inference/issues/563",
        "published_measurement",
    ),
    "sglang_cuda_graphs": Reference(
        "SGLang CUDA graph runner",
        "capture order, output buffers, token counts of prompts; bytes a graph and layer as in vLLM",
        f"{_SGLANG}python/sglang/srt/model_executor/cuda_graph_runner.py",
        "source",
    ),
    "forward_working_set": Reference(
        "Forward pass without gradients",
        "widest moment of a layer: both halves of the feed-forward, its product and the residual stream",
        "",
        "trace",
    ),
    "ggml_flash_attention": Reference(
        "ggml CUDA flash attention",
        "launch_fattn: keys and values of other types are converted to fp16",
        f"{_LLAMA}ggml/src/ggml-cuda/fattn-common.cuh",
        "source",
    ),
    "llama_memory_breakdown": Reference(
        "llama.cpp memory breakdown",
        "what a card holds beside model, context and compute buffers, in published tables",
        _TRUTH,
        "published_measurement",
    ),
    "ik_latent_scratch": Reference(
        "ik_llama.cpp, graph of latent attention",
        "build_deepseek2: heads in turns by -amb, keys and values cast to fp16, joined query; one turn's at a time "
        "since pull request 1211",
        "https://github.com/ikawrakow/ik_llama.cpp/blob/main/src/graphs/build_deepseek2.cpp",
        "source",
    ),
    "ik_feed_scratch": Reference(
        "ik_llama.cpp, places of a graph's tensors",
        "ggml_op_can_inplace: the product of both feed-forward halves (GGML_OP_FUSED_MUL_UNARY) is not in the list",
        "https://github.com/ikawrakow/ik_llama.cpp/blob/94b659a2f106e017e5eeb6f492dc9f290e136833/ggml/src/ggml-alloc.c",
        "source",
    ),
    "llama_compute_buffer": Reference(
        "llama.cpp compute buffers in published logs",
        "logits beside the residual stream in fp32: exact with flash attention on one device",
        "https://github.com/ikawrakow/ik_llama.cpp/discussions/258",
        "published_measurement",
    ),
    # --- caches
    "sparse_latent_cache": Reference(
        "vLLM DeepseekV32IndexerCache and fp8_ds_mla, SGLang NSATokenToKVPool",
        "132 bytes a token for the indexer's keys; 656 for an fp8 latent: 512 in fp8, four scales, 64 in 16 bit",
        f"{_VLLM}vllm/model_executor/models/deepseek_v2.py",
        "source",
    ),
    "kv_cache": Reference(
        "Keys and values kept for every token",
        "layers x tokens x KV heads x (key width + value width); MLA: latent and rope part once",
        "https://arxiv.org/abs/2309.06180",
        "paper",
    ),
    "vllm_state_blocks": Reference(
        "vLLM MambaSpec and HybridAttentionMambaModelConfig",
        "max_memory_usage_bytes: 1 + drafted blocks a sequence; mamba_cache_mode align (0.15): 2, all: one a block. "
        "Blocks are multiples of 64 tokens beside latent attention",
        f"{_VLLM}vllm/v1/kv_cache_interface.py",
        "source",
    ),
    "vllm_kv_groups": Reference(
        "vLLM hybrid KV cache manager",
        "_get_kv_cache_groups_uniform_page_size; SlidingWindowSpec and ChunkedLocalAttentionSpec",
        f"{_VLLM}vllm/v1/core/kv_cache_utils.py",
        "source",
    ),
    "state_cache": Reference(
        "Mamba: Linear-Time Sequence Modeling with Selective State Spaces",
        "section 3: a state of fixed size for each sequence",
        "https://arxiv.org/abs/2312.00752",
        "paper",
    ),
    "llama_recurrent_state": Reference(
        "llama.cpp recurrent memory",
        "r and s tensors in fp32, one set a slot",
        f"{_LLAMA}src/llama-memory-recurrent.cpp",
        "source",
    ),
    "llama_kv_cache": Reference(
        "llama.cpp KV cache",
        "size_swa = pad(min(context, window x slots + ubatch), 256); whole context elsewhere",
        f"{_LLAMA}src/llama-kv-cache-iswa.cpp",
        "source",
    ),
    # --- defaults of engines
    "vllm_engine_args": Reference(
        "vLLM engine arguments", "EngineArgs.get_batch_defaults", f"{_VLLM}vllm/engine/arg_utils.py", "source"
    ),
    "sglang_server_args": Reference(
        "SGLang server arguments",
        "_handle_gpu_memory_settings",
        f"{_SGLANG}python/sglang/srt/server_args.py",
        "source",
    ),
    "llama_server_options": Reference(
        "llama.cpp HTTP server", "options", f"{_LLAMA}tools/server/README.md", "docs"
    ),
    "ik_llama_options": Reference(
        "ik_llama.cpp",
        "parameters -mla, -amb, -fmoe",
        "https://github.com/ikawrakow/ik_llama.cpp/blob/main/docs/parameters.md",
        "docs",
    ),
    "ollama_options": Reference(
        "Ollama FAQ",
        "context length, parallel requests, flash attention",
        "https://docs.ollama.com/faq",
        "docs",
    ),
    "tensorrt_llm_args": Reference(
        "TensorRT-LLM: KvCacheConfig",
        "free_gpu_memory_fraction",
        "https://nvidia.github.io/TensorRT-LLM/llm-api/reference.html",
        "docs",
    ),
    "mlc_engine_config": Reference(
        "MLC LLM EngineConfig",
        "gpu_memory_utilization, max_num_sequence, prefill_chunk_size",
        "https://github.com/mlc-ai/mlc-llm/blob/main/python/mlc_llm/serve/config.py",
        "source",
    ),
    "tgi_launcher": Reference(
        "Text Generation Inference launcher",
        "arguments",
        "https://huggingface.co/docs/text-generation-inference/reference/launcher",
        "docs",
    ),
    "transformers_generation": Reference(
        "Transformers: cache strategies",
        "DynamicCache",
        "https://huggingface.co/docs/transformers/kv_cache",
        "docs",
    ),
    "awq_paper": Reference(
        "AWQ: Activation-aware Weight Quantization for LLM Compression and Acceleration",
        "table 4: perplexity of Llama-2-7B on WikiText-2, groups of 128",
        "https://arxiv.org/abs/2306.00978",
        "paper",
    ),
    "structured_sparsity": Reference(
        "Accelerating Sparse Deep Neural Networks",
        "section 3: two of four values kept, two bits of place a kept value; sparse tensor cores from Ampere on",
        "https://arxiv.org/abs/2104.08378",
        "paper",
    ),
}
