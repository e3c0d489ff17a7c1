"""The numbers that a training step's time is worked out from.

Plain numbers, so that the formulas of `training_time` take one plan or an array of them.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StepWork:
    """One step on the card that limits it. Per micro-batch, forward and backward, unless said otherwise.

    Attributes:
        full_flops: Matrix products in the compute format, those done again included.
        low_flops: Matrix products in fp8 or fp4.
        full_expert_flops: Of `full_flops`, products of routed experts.
        low_expert_flops: Of `low_flops`.
        attention_flops: Scores and values, those done again included.
        moved_bytes: Operands of matrix products, and streams of everything else.
        eager_frac: 1 where the runtime's kernels are single steps, 0 where they are fused.
        is_hopper_up: 1 where kernels written for older cards run attention below the rate of this one.
        again_full_flops: Of `full_flops`, what checkpointing does again.
        again_low_flops: Of `low_flops`.
        again_attention_flops: Of `attention_flops`.
        again_moved_bytes: Of `moved_bytes`.
        layer_passes: Layers passed, forward and backward.
        peak: Operations per second in the compute format.
        low_peak: The same in the low format.
        power_w: Power limit.
        bandwidth: Bytes per second of device memory.
        micro_batches: Micro-batches of a step.
        bubble_frac: Idle time of the pipeline over busy time.
        fabric_s: Ideal time of collectives in the way of the layers, over the maker's fabric.
        pcie_s: The same over PCIe.
        network_s: The same between nodes.
        hops: Messages one after the other in those collectives.
        state_fabric_s: Ideal time of gathering and reducing states of a micro-batch over the fabric.
        state_pcie_s: The same over PCIe.
        state_network_s: The same between nodes.
        state_hops: Messages one after the other.
        once_fabric_s: The same, once a step.
        once_pcie_s: The same.
        once_network_s: The same.
        once_hops: Messages one after the other.
        once_hidden: 1 where they run under the computing of the last micro-batch, 0 where after it.
        optimizer_bytes: Bytes the optimizer reads and writes on the card, once a step.
        host_s: Ideal time of copies between host and card, of the whole step.
        host_optimizer_bytes: Bytes the host's own optimizer step reads and writes for this card.
        disk_s: Ideal time of the node's disk, all its cards together.
        tensor_frac: Share of the in-the-way time that tensor parallelism causes.
        expert_frac: Share that experts cause.
        stage_frac: Share of transfers to the next pipeline stage; the rest is context parallelism.
    """

    full_flops: float
    low_flops: float
    full_expert_flops: float
    low_expert_flops: float
    attention_flops: float
    moved_bytes: float
    again_full_flops: float
    again_low_flops: float
    again_attention_flops: float
    again_moved_bytes: float
    eager_frac: float
    is_hopper_up: float
    layer_passes: float
    peak: float
    low_peak: float
    power_w: float
    bandwidth: float
    micro_batches: float
    bubble_frac: float
    fabric_s: float
    pcie_s: float
    network_s: float
    hops: float
    state_fabric_s: float
    state_pcie_s: float
    state_network_s: float
    state_hops: float
    once_fabric_s: float
    once_pcie_s: float
    once_network_s: float
    once_hops: float
    once_hidden: float
    optimizer_bytes: float
    host_s: float
    host_optimizer_bytes: float
    disk_s: float
    tensor_frac: float
    expert_frac: float
    stage_frac: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCounts:
    """What a step amounts to, whatever the card.

    Attributes:
        step_tokens: Tokens of a step over all cards.
        model_flops: Operations of the step over all cards, without what is done again.
        hardware_flops: With it.
        cards: Cards of the job.
        peak: Rate of a card, mean over the job, in the lowest format its products use; None where one has none.
        network_bytes: What a card sends to other nodes in a step.
    """

    step_tokens: float
    model_flops: float
    hardware_flops: float
    cards: int
    peak: float | None
    network_bytes: float
