"""Estimates per second of two other planners: run by an interpreter that has them, never by Headroom's own.

`PYTHON benchmarks/peer_speed.py` prints one JSON object. Needs llm-analysis 0.2.2 and llm-mem-planner 0.2.2, whose
functions behind one estimate with components are called for many batch and sequence sizes.
"""
# mypy: ignore-errors

import json
import time

SECONDS = 1.0
SIZES = [(batch, 128 * steps) for batch in range(1, 33) for steps in range(1, 33)]


def rate(estimate) -> float:
    """Calls per second over at least `SECONDS` of CPU time."""
    estimate(1, 128)
    done, start = 0, time.process_time()
    while time.process_time() - start < SECONDS:
        for batch, tokens in SIZES:
            estimate(batch, tokens)
        done += len(SIZES)
    return done / (time.process_time() - start)


def llm_analysis():
    """Weights, gradients with optimizer states, and activations in training.

    A model like Llama-3-8B: it takes no feed-forward width but whole multiples of the hidden size.
    """
    from llm_analysis.analysis import LLMAnalysis  # noqa: PLC0415
    from llm_analysis.config import GPUConfig, ModelConfig  # noqa: PLC0415

    model = ModelConfig(
        name="llama-3-8b", num_layers=32, n_head=32, hidden_dim=4096, vocab_size=128256,
        num_key_value_heads=8, ffn_embed_dim=16384, max_seq_len=8192,
    )  # fmt: skip
    card = GPUConfig(
        name="80 GB", mem_per_GPU_in_GB=80, hbm_bandwidth_in_GB_per_sec=2000,
        intra_node_bandwidth_in_GB_per_sec=300, intra_node_min_message_latency=8e-6, peak_fp16_TFLOPS=312,
    )  # fmt: skip
    analysis = LLMAnalysis(model, card)

    def estimate(batch, tokens):
        layers = model.num_layers
        return (
            layers * analysis.get_weight_memory_per_layer() + analysis.get_memory_embedding(),
            layers * sum(analysis.get_memory_optimizer_state_and_gradient_per_layer()),
            layers * analysis.get_activation_memory_per_layer(batch, tokens, is_inference=False),
        )

    return estimate


def llm_mem_planner():
    """Weights per rank, working set and cache of DeepSeek-V3 in serving."""
    from llm_mem_planner import cli  # noqa: PLC0415

    dims = cli.load_dims(DEEPSEEK)
    parameters, parallel = cli.estimate_params(dims), cli.Parallelism(tp=8, ep=8)

    def estimate(batch, tokens):
        return (
            cli.estimate_weight_params_per_rank(dims, parameters, parallel).total,
            cli.estimate_activation_working_set(dims, parallel, tokens=batch * tokens, act_dtype_bytes=2),
            cli.estimate_kv_cache_gib(dims, batch=batch, seq_len=tokens, kv_dtype_bytes=2),
        )

    return estimate


DEEPSEEK = {
    "hidden_size": 7168, "num_hidden_layers": 61, "vocab_size": 129280, "num_attention_heads": 128,
    "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "intermediate_size": 18432, "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1,
    "num_experts_per_tok": 8, "first_k_dense_replace": 3, "tie_word_embeddings": False,
}  # fmt: skip


if __name__ == "__main__":
    print(
        json.dumps(
            {"llm-analysis 0.2.2": rate(llm_analysis()), "llm-mem-planner 0.2.2": rate(llm_mem_planner())}
        )
    )
