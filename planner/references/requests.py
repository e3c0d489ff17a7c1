"""References of what a stream of requests does to a server."""

from planner.references.types import Reference

REFERENCES: dict[str, Reference] = {
    "paged_attention": Reference(
        "Efficient Memory Management for Large Language Model Serving with PagedAttention",
        "section 4 (blocks, sharing, copy on write), section 6.1 (request lengths, reservations of Orca)",
        "https://arxiv.org/abs/2309.06180",
        "paper",
    ),
    "orca": Reference(
        "Orca: A Distributed Serving System for Transformer-Based Generative Models",
        "section 3: scheduling by iteration",
        "https://www.usenix.org/conference/osdi22/presentation/yu",
        "paper",
    ),
    "chunked_prefill": Reference(
        "SARATHI: Efficient LLM Inference by Piggybacking Decodes with Chunked Prefills",
        "section 4.2",
        "https://arxiv.org/abs/2308.16369",
        "paper",
    ),
    "triton_dynamic_batching": Reference(
        "Triton Inference Server: Batchers",
        "dynamic batcher: preferred_batch_size, max_queue_delay_microseconds",
        "https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/user_guide/batcher.html",
        "docs",
    ),
    "kv_cache_tiers": Reference(
        "LMCache: An Efficient KV Cache Layer for Enterprise-Scale LLM Inference",
        "caches on the host and on a shared server, loaded instead of worked out again",
        "https://arxiv.org/abs/2510.09665",
        "paper",
    ),
    "memory_tiers": Reference(
        "FlexGen: High-Throughput Generative Inference of Large Language Models with a Single GPU",
        "section 4: time of a step as bytes over bandwidth, by memory",
        "https://arxiv.org/abs/2303.06865",
        "paper",
    ),
    "gptcache": Reference(
        "GPTCache: An Open-Source Semantic Cache for LLM Applications",
        "hit and miss",
        "https://aclanthology.org/2023.nlposs-1.24/",
        "paper",
    ),
    "kubernetes_hpa": Reference(
        "Kubernetes: Horizontal Pod Autoscaling",
        "scaling policies: pods added and removed in a period, stabilisation",
        "https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/",
        "docs",
    ),
}
