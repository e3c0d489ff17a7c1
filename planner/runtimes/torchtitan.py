"""torchtitan."""

from planner.model.spec import ModelSpec
from planner.runtimes.profile import Defaults, Profile
from planner.runtimes.pytorch_common import training_defaults
from planner.scenario import Scenario


def _defaults(scenario: Scenario, model: ModelSpec) -> Defaults:
    """fp32 shards with bf16 gathered for compute and fp32 reduction; selective checkpointing; fused AdamW.

    Experts that are spread over ranks are not cut as well (`expert_tensor_parallel_degree = 1`). Its `run_train.sh`
    asks for expandable segments.
    """
    spread: Defaults = {"parallel.expert_tensor": 1} if scenario.parallel.expert > 1 else {}
    return {
        **spread,
        **training_defaults(scenario, model),
        "training.precision.parameters": "fp32",
        "training.precision.gradients": "fp32",
        "training.precision.optimizer": "fp32",
        "training.precision.master": "none",
        "training.checkpointing": "selective_op",
        "training.optimizer.implementation": "fused",
        "runtime.allocator": "expandable_segments",
    }


TORCHTITAN = Profile(name="torchtitan", kind="training", defaults=_defaults, reference="defaults_torchtitan")
