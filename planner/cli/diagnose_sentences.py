"""English of a diagnosis for the command line: fixes, what would not help, remarks, signs, the checklist."""

from typing import Final

FIXES: Final = {
    "stop_other_process": "End the other process: or run on a card that nobody uses",
    "limit_other_process": (
        "Give the other process less: a server takes its share of the card at start; lower "
        "gpu_memory_utilization or put it to sleep"
    ),
    "use_free_card": "Choose a free card: CUDA_VISIBLE_DEVICES; nvidia-smi shows who is where",
    "raise_fraction": (
        "Raise or remove the cap: set_per_process_memory_fraction, or the engine's own setting"
    ),
    "check_length": "Look at the longest input: a row without truncation, a wrong maximum length",
    "check_resolution": "Cap image and audio tokens: pixels become tokens, and attention squares them",
    "expandable_segments": (
        "expandable_segments:True: PYTORCH_CUDA_ALLOC_CONF, PYTORCH_ALLOC_CONF from 2.9 on; segments "
        "grow, so pieces join"
    ),
    "even_lengths": (
        "Even out lengths: pad to a multiple, or sort by length, so that freed blocks fit again"
    ),
    "check_driver": "Check driver and runtime: their versions have to fit each other, ROCm above all",
    "check_limits": (
        "Check limits of the system: locked memory, container and WSL limits, number of mappings"
    ),
    "no_driver_spill": (
        "Turn off the driver's spilling: NVIDIA control panel: prefer no system memory fallback; it "
        "then fails at the right place"
    ),
    "query_outside": "Read memory outside of WSL: nvidia-smi on Windows shows the true figure",
    "look_at_card": "See who is on the card: nvidia-smi at the moment it fails",
    "fewer_processes": "Fewer processes per card: each has a CUDA context of its own, a few hundred MiB",
    "lazy_modules": "CUDA_MODULE_LOADING=LAZY: kernels are loaded as they are used",
    "reload_driver": "Reload the driver or restart: the library was updated under the running driver",
    "restart_container": "Restart the container: it lost its device, often after a reload of systemd",
    "read_cgroup": (
        "Raise the container's limit: memory.max of the cgroup, the job's --mem, the pod's limit"
    ),
    "fewer_workers": "Fewer data loader workers: each copies what it touches",
    "load_in_shards": "Load in shards: low_cpu_mem_usage, safetensors, one rank at a time",
    "load_in_16_bit": "Load in 16 bit: dtype=torch.bfloat16; without it the weights come in fp32",
    "less_offload": "Offload less: what leaves the card lands in host memory",
    "read_other_ranks": (
        "Read the other ranks' logs: the one that stopped first has the cause; a longer time-out only"
        " waits longer"
    ),
    "nothing_to_do": "Nothing to do: the second try went through",
    "empty_cache_once": "empty_cache() once after loading: or leave it: the allocator uses it again",
    "write_out_auto": (
        "Write the values out: a bucket of the square of the hidden size is small for small models "
        "and large for large ones"
    ),
    "lower_utilization": (
        "Lower gpu_memory_utilization: if others need the card; the pool and the concurrency shrink with it"
    ),
    "raise_utilization": (
        "Raise the engine's share: gpu_memory_utilization or mem-fraction-static, if nobody else is "
        "on the card"
    ),
    "shorter_context": (
        "Shorter context: max_model_len, num_ctx or -c: the KV cache grows with it, and llama.cpp's graph"
    ),
    "kv_cache_q8_0": (
        "KV cache in q8_0: --cache-type-k and --cache-type-v, OLLAMA_KV_CACHE_TYPE: about half of 16 bit"
    ),
    "fewer_gpu_layers": "Fewer layers on the card: -ngl or num_gpu: the others run on the CPU, and slower",
    "no_projector": ("Leave the projector on the CPU: a vision model's projector has a graph of its own"),
    "force_layers": ("Set the number of layers: num_gpu overrides the engine's estimate, at your own risk"),
    "exclude_device": (
        "Leave the small card out: CUDA_VISIBLE_DEVICES without it; it costs more than it adds"
    ),
    "tensor_split": "Give it fewer layers: tensor-split by what each card has free after its buffers",
    "sharded_state_dict": "Save in shards: a sharded state dict, so that no card holds the whole model",
    "save_to_host": ("Gather on the host: offload_to_cpu and rank0_only when the whole state dict is needed"),
    "eval_accumulation": (
        "Move predictions off the card: eval_accumulation_steps; else logits of the whole evaluation pile up"
    ),
    "smaller_eval_batch": "Smaller evaluation batch: it is a setting of its own",
    "fewer_graphs": "Capture fewer graphs: fewer batch sizes, or none: graphs keep private pools",
    "smaller_bucket": "Smaller buckets: reduce_bucket_size and allgather_bucket_size",
    "fewer_sequences": (
        "Fewer sequences at once: max_num_seqs, --max-running-requests or max_batch_size: warm-up, "
        "graphs and cache grow with them"
    ),
    "leave_room": (
        "Lower the engine's share: gpu_memory_utilization, --mem-fraction-static or "
        "kv_cache_free_gpu_memory_fraction: what lies outside of it is for warm-up and activations"
    ),
    "fewer_instances": (
        "Fewer instances of the model: count in instance_group of config.pbtxt: each instance holds "
        "its own copy"
    ),
    "fewer_batched_tokens": (
        "Fewer tokens in a batch: max_num_batched_tokens, --chunked-prefill-size or max_num_tokens: "
        "activations grow with them"
    ),
    "experts_on_host": (
        "Experts on the host: --n-cpu-moe or --cpu-moe, if the model is a mixture of experts"
    ),
    "smaller_weights": (
        "A file in fewer bits: a smaller quantization of the model than the one that was loaded"
    ),
    "quantized_weights": "Weights in 8 or 4 bits: --quantization fp8, or a checkpoint in AWQ",
    "kv_cache_fp8": "KV cache in FP8: --kv-cache-dtype fp8: half of 16 bit",
    "more_cards": "More cards: the model divided over several, or a card with more memory",
    "raise_max_memory": (
        "Let more of it onto the cards: max_memory and device_map: the estimate leaves modules out "
        "that may have room"
    ),
    "offload_in_fp32": (
        "Allow modules on the CPU: llm_int8_enable_fp32_cpu_offload=True with a device_map of your "
        "own; those modules stay in 32 bits and are slow"
    ),
    "raise_shm": ("More shared memory: --shm-size or --ipc=host for a container, a larger /dev/shm in a pod"),
    "smaller_kernel_blocks": (
        "Smaller blocks: the kernel's block sizes: the tile that it keeps in shared memory shrinks with them"
    ),
    "fewer_kernel_stages": "Fewer stages: num_stages: each of them keeps a tile of its own",
    "other_kernel": (
        "Another kernel: or a tuned configuration of this card: the chosen one is for a card with "
        "more shared memory"
    ),
    "cap_longest_row": "Cap the longest row: the mean says nothing: one outlier makes the peak",
}
"""What is done outside of a plan."""

PLANNED: Final = {
    "fused_loss": "Fused linear loss: the logits are never whole",
    "flash_attention": "Flash attention: no scores of all pairs",
    "fused_step": "Fused optimizer step: no temporaries of the foreach step",
    "adam_8bit": "8-bit AdamW: states of one byte",
    "zero1": "ZeRO-1: optimizer states divided over the cards",
    "zero2": "ZeRO-2: gradients divided, too",
    "zero3": "ZeRO-3: weights divided, too",
    "checkpointing": "Full checkpointing: layers computed twice",
    "half_micro_batch": "Half the micro-batch, with twice the accumulation",
    "half_sequence": "Half the sequence length",
    "offload": "Optimizer states on the host: a copy over PCIe each step",
    "lora": "LoRA in place of full training",
    "qlora": "QLoRA: base in 4 bits",
    "move_layer": "One layer to another card",
    "kv_fp8": "KV cache in fp8: half of 16 bit",
    "kv_q8_0": "KV cache in q8_0: about half of 16 bit",
    "half_concurrency": "Half the sequences at once",
    "half_context": "Half the context",
    "double_cards": "Twice the cards, tensor parallel",
    "double_cards_split": "Twice the cards, layers split over them",
    "weights_fp8": "Weights in fp8: half of 16 bit",
    "weights_awq4": "Weights in 4 bits (AWQ)",
    "weights_q8_0": "Weights in 8 bits (Q8_0)",
    "weights_q4_k_m": "Weights in 4 bits (Q4_K_M)",
}
"""Changes of a plan, without the figures that only planning them gives."""

VAIN: Final = {
    "smaller_batch": "Smaller batch.",
    "expandable_segments": "expandable_segments.",
    "empty_cache": "empty_cache().",
    "more_data_parallel": "More data-parallel cards.",
}

VAIN_REASONS: Final = {
    "already_one": "It is already 1.",
    "another_process": "This process uses little; the card belongs to another.",
    "driver_limit": "There was room for it.",
    "shape": "The wrong shape stays wrong in a smaller batch.",
    "context_only": "No tensor was asked for.",
    "timed_out": "No memory was asked for.",
    "host_memory": "The card was not what ran out.",
    "engine": "The engine had not begun to batch.",
    "not_in_this_phase": "No part of this phase grows with the batch.",
    "tensor_of_the_model": "The tensor has the size of the model's weights, whatever the batch.",
    "too_little_cached": "{cached} GiB is cached; {missing} is missing.",
    "done_before_it_raised": (
        "PyTorch gives cached blocks back by itself before it raises; live tensors and the CUDA context stay."
    ),
    "each_card_keeps_its_batch": "Every card still makes this tensor for its own micro-batch.",
}

REMARKS: Final = {
    "message_of_other_run": (
        "The message is of {file}, the open plan of {model}: its figures are not those of this run."
    ),
    "memory_line": (
        "The last memory line before it, line {line}: {allocated_bytes} GiB allocated, "
        "{reserved_bytes} reserved by PyTorch."
    ),
    "host_nearly_full": "Host memory was {host_frac} full.",
    "process_size_unknown": (
        "The size printed for this process is all ones: the driver could not tell it (WSL, Windows)."
    ),
    "broken_checkpoint": (
        "A failure while saving can leave a checkpoint that is not whole: check its files before you use it."
    ),
    "late_in_run": (
        "{steps} logged steps had gone well: ask for the longest row, not the mean, and for what is "
        "kept from step to step."
    ),
    "small_request": (
        "A request of {request_bytes} GiB is one of the allocator's two small segments, so its size "
        "names no tensor."
    ),
    "free_above_request": (
        "{free_bytes} GiB were free for {request_bytes}: free memory is read a moment later, or is "
        "not in one piece."
    ),
    "xla_preallocates": (
        "JAX takes 75 % of the card when it starts, so nvidia-smi shows it full from the first moment."
    ),
    "message_of_a_server": (
        "The message is of a server, and the open plan trains: open the plan that was served."
    ),
    "other_card": (
        "The card in the text has {has_bytes} GiB, the plan's {gpu} {planned_bytes}: this may not be "
        "the run that was planned."
    ),
    "several_ranks": "{count} ranks failed; the one with the least free memory is shown.",
    "frozen_base_fp32": (
        "FSDP may hold the frozen base in fp32: {held_bytes} GiB on each of {cards} cards instead of "
        "half of it."
    ),
    "experts_stay_16_bit": (
        "bitsandbytes quantizes linear layers only. Experts fused into one tensor stay in 16 bit: up "
        "to {held_bytes} GiB."
    ),
    "tied_head_doubles": (
        "Quantizing a tied output matrix makes a second one: {head_bytes} GiB more than the "
        "{weights_bytes} of the weights, {sum_bytes} together."
    ),
    "compile_undoes_checkpointing": (
        "torch.compile decides by itself what is kept, and can undo checkpointing on some blocks: up "
        "to 3.5 times the memory has been reported."
    ),
}

SIGNS: Final = {
    "predicted_talk": (
        "Planned: {frac} of a step is spent waiting for other cards; more than {most_frac} is a "
        "bottleneck. The largest part: {part}."
    ),
    "predicted_talk_good": (
        "Planned: {frac} of a step is spent waiting for other cards; from {most_frac} on it would be "
        "a bottleneck."
    ),
    "predicted_bubble_good": "Planned: {frac} of a step the stages of the pipeline stand idle.",
    "predicted_talk_unknown": "Planned: the tables lack a rate, so no share of the step can be told.",
    "predicted_bubble": (
        "Planned: {frac} of a step the stages of the pipeline stand idle; more micro-batches in a "
        "step shrink it."
    ),
    "network_rate": (
        "Between nodes a card needs {needed_bytes_per_s} Gbit/s to hide what it sends; it has "
        "{has_bytes_per_s}."
    ),
    "measured_talk": "Measured: {frac} of a step the rank that talks most talks or waits.",
    "measured_talk_unknown": "The opened report has no times of communication.",
    "measured_spread": (
        "Measured: the fastest rank's step is {frac} shorter than the slowest's; more than "
        "{most_frac} means that ranks wait for one."
    ),
    "measured_spread_unknown": "The opened report has the times of one rank only.",
    "nccl_sockets": (
        "NCCL goes between nodes over TCP sockets ({channels} channels). With InfiniBand or RoCE in "
        "the machines: check NCCL_IB_DISABLE, NCCL_IB_HCA and that the container sees "
        "/dev/infiniband."
    ),
    "nccl_staged": (
        "NCCL's transfers between nodes pass through host memory ({channels} channels). GPUDirect "
        "RDMA needs the nvidia-peermem module or DMA-BUF; NCCL_NET_GDR_LEVEL says how far apart card "
        "and network may be."
    ),
    "nccl_direct": "NCCL goes between nodes by GPUDirect RDMA ({channels} channels over {network}).",
    "nccl_host_memory": (
        "{channels} channels inside a machine go through host memory instead of from card to card. "
        "Check NVLink, NCCL_P2P_DISABLE and, in virtual machines, access control of PCIe."
    ),
    "nccl_peer": "Cards of a machine reach each other directly ({channels} channels).",
    "nccl_ranks": "The log has {ranks} ranks, the open plan {planned} cards.",
    "nccl_warned": "NCCL warned {count} times, first: {text}",
}
"""By code, and by code and state where those differ."""

CHECKS: Final = {
    "versions.item": "PyTorch, CUDA and cuDNN go together",
    "versions.unknown": "A plan cannot tell; a measurement does.",
    "cudnn_benchmark.item": "cudnn.benchmark for convolutions of one size",
    "cudnn_benchmark.unknown": "Speeds up convolutions alone, and may take workspace.",
    "threads.item": "OMP_NUM_THREADS: no more threads than processors",
    "threads.unknown": "A plan cannot tell; a measurement does.",
    "precision.item": "16 bit or less",
    "precision.good": "Computes in {compute}.",
    "precision.attention": "Computes in {compute}, which takes twice the memory and more time.",
    "checkpointing.item": "Checkpointing where activations are large",
    "checkpointing.good": "Activations are {frac} of the peak.",
    "checkpointing.attention": "Activations are {frac} of the peak, and nothing is computed again.",
    "offload.item": "What is offloaded has room",
    "offload.good": "{host_bytes} GiB of host memory a machine.",
    "offload.attention": "{host_bytes} GiB of host memory are needed, more than the machine has.",
    "utilisation.item": "Cards compute more than 80 % of the time",
    "utilisation.good": "{frac} of a step; the largest part: {bound}.",
    "utilisation.attention": "{frac} of a step; the largest part: {bound}.",
    "utilisation.unknown": "Follows the load.",
    "swapping.item": "Nothing is swapped",
    "swapping.good": "Nothing spills into host memory.",
    "swapping.attention": "Host memory is too small, or the driver spills into it.",
    "bandwidth.item": "Memory bandwidth more than 60 % used",
    "bandwidth.good": "{frac} of a decoding step reads weights and cache.",
    "bandwidth.attention": "{frac} of a decoding step reads weights and cache; the largest part: {bound}.",
    "bandwidth.unknown": "The tables lack this card's bandwidth.",
}
"""What an item asks, and what the plan says of it by its state."""

TENSORS: Final = {
    "logits_fp32": "the fp32 logits",
    "logits_16_bit": "the 16-bit logits",
    "logits_shifted": "the shifted fp32 logits",
    "attention_scores": "the attention scores of one layer",
    "hidden_states": "the hidden states of one layer",
    "mlp_states": "the feed-forward states of one layer",
    "optimizer_temporary": "a temporary of the optimizer step",
    "gradient_copy": "the flattened gradients",
    "whole_weights_fp32": "all weights in fp32 on one card",
    "whole_weights_16_bit": "all weights in 16 bit on one card",
    "layer_weights": "the weights of one layer",
    "zero_bucket": "a bucket of ZeRO",
    "ddp_bucket": "a gradient bucket",
    "kv_pool": "the whole KV cache",
    "kv_layer": "the KV cache of one layer",
    "kv_sequence": "the KV cache of one sequence",
    "vocabulary_matrix": "a copy of the vocabulary matrix",
    "matrix": "a copy of the matrix {detail}",
    "experts": "all experts of {detail} in one tensor",
}

FORMS: Final = {
    "vllm_warm_up": "vLLM's warm-up",
    "triton_load": "Triton's server",
    "trtllm_malloc": "TensorRT-LLM",
    "bitsandbytes_dispatch": "bitsandbytes under transformers",
    "dataloader_shm": "PyTorch's data loader",
    "kernel_shared_memory": "the Triton compiler",
    "torch_1": "PyTorch up to 1.9",
    "torch_1_10": "PyTorch 1.10 to 2.0",
    "torch_2": "PyTorch 2.1 to 2.13",
    "torch_2_1": "PyTorch 2.1",
    "torch_2_2": "PyTorch 2.2 to 2.9",
    "torch_2_10": "PyTorch 2.10 or later",
    "torch_unknown": "PyTorch, without figures",
    "torch_driver": "the CUDA driver",
    "torch_mps": "PyTorch on MPS",
    "nccl_memory": "NCCL, out of memory",
    "nccl_timeout": "NCCL's watchdog",
    "nccl": "NCCL",
    "host_ollama": "Ollama",
    "host_killed": 'a shell that says "Killed"',
    "host_signal": "an exit by SIGKILL",
    "host_kernel": "the Linux kernel",
    "ggml_driver": "the CUDA driver under llama.cpp",
    "xla": "JAX, XLA",
    "xla_tpu": "XLA on a TPU",
    "tensorflow": "TensorFlow",
    "llama_cpp": "llama.cpp",
    "llama_cpp_malloc": "llama.cpp",
    "llama_cpp_buffer": "llama.cpp",
    "ollama_offload": "Ollama's offload line",
    "deepspeed_usage": "DeepSpeed, see_memory_usage",
    "deepspeed_host": "DeepSpeed, host memory",
    "deepspeed_config": "a DeepSpeed configuration",
    "megatron": "Megatron-LM",
    "nvidia_smi": "nvidia-smi",
    "nvidia_smi_query": "nvidia-smi, query",
    "memory_summary": "torch.cuda.memory_summary",
    "vllm_kv_needed": "vLLM",
    "vllm_length": "vLLM",
    "vllm_startup_free": "vLLM at start-up",
    "vllm_no_blocks": "vLLM",
    "sglang_init": "SGLang at start-up",
}
"""Whose message it is."""

WORKED_OUT: Final = {
    "minimum_bytes": "what the engine wants free before its first layer",
    "reduce_bucket_elements": "elements of a reduce bucket",
    "prefetch_bucket_elements": "elements prefetched",
    "persistence_threshold_elements": "elements up to which a parameter stays whole",
    "needs_bytes": "what the model needs",
    "reserves_bytes": "what the engine reserves",
    "pool_frac": "the engine's share of the card",
}
