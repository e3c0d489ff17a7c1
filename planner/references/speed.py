"""References of the speed and cost formulas."""

from planner.references.types import Reference


def _paper(title: str, where: str, arxiv: str) -> Reference:
    return Reference(title, where, f"https://arxiv.org/abs/{arxiv}", "paper")


REFERENCES: dict[str, Reference] = {
    "matrix_flops": _paper(
        "Scaling Laws for Neural Language Models",
        "section 2.1: 2 operations a weight and token",
        "2001.08361",
    ),
    "attention_flops": _paper(
        "FlashAttention-2", "section 4.1: 4 s^2 d operations a head, halved under a causal mask", "2307.08691"
    ),
    "roofline": Reference(
        "Roofline: An Insightful Visual Performance Model for Multicore Architectures",
        "time is bounded by operations over peak and by bytes over bandwidth",
        "https://doi.org/10.1145/1498765.1498785",
        "paper",
    ),
    "recompute": _paper(
        "Training Deep Nets with Sublinear Memory Cost",
        "section 4: parts that were not kept are computed again in the backward pass",
        "1604.06174",
    ),
    "kernel_launches": Reference(
        "CUDA C++ Programming Guide",
        "CUDA Graphs: launching each kernel from the host costs time that graphs save",
        "https://docs.nvidia.com/cuda/cuda-c-programming-guide/",
        "docs",
    ),
    "ring_all_reduce": Reference(
        "Bandwidth optimal all-reduce algorithms for clusters of workstations",
        "section 3: 2 (n-1)/n of the buffer a rank, 2 (n-1) messages one after the other",
        "https://doi.org/10.1016/j.jpdc.2008.09.002",
        "paper",
    ),
    "pipeline_bubble": _paper(
        "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM",
        "section 2.2: (p-1)/m, divided by the chunks of a stage where interleaved",
        "2104.04473",
    ),
    "stage_transfers": _paper(
        "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM",
        "section 4.1: each rank sends its part of the activations to the next stage, and their gradients back",
        "2104.04473",
    ),
    "matrix_tiles": Reference(
        "Matrix Multiplication Background User's Guide",
        "tiles: a product is computed in whole tiles, however few rows the last one holds",
        "https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/",
        "docs",
    ),
    "offload_transfers": _paper(
        "ZeRO-Offload", "section 4: gradients to the host, updated parameters back, each step", "2101.06840"
    ),
    "decode_roofline": _paper(
        "Efficiently Scaling Transformer Inference",
        "section 2: a step reads every weight and the caches, or computes, whichever takes longer",
        "2211.05102",
    ),
    "engine_step": Reference(
        "Published serving runs", "fitted: constants speed_serve_*", "", "published_measurement"
    ),
    "spot_interruptions": Reference(
        "A first order approximation to the optimum checkpoint interval",
        "lost work is half an interval and the restart at each failure",
        "https://doi.org/10.1145/361147.361115",
        "paper",
    ),
    "annuity": Reference(
        "Engineering economy", "capital recovery: a price spread over months at an interest rate", "", "docs"
    ),
}
