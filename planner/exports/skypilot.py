"""A SkyPilot task for one offer. Accepted by skypilot 0.14.1's task schema; see docs/exports.md."""

import re
from collections.abc import Iterable
from typing import Any, Final

from planner.exports.facts import cards, nodes, tidy
from planner.exports.serving_flags import command_for
from planner.exports.types import Export, ExportRefusedError
from planner.plan_types import Plan
from planner.prices import Offer
from planner.yaml_text import write_yaml

CLOUDS: Final = {
    "AWS": "aws",
    "Azure": "azure",
    "GCP": "gcp",
    "Lambda": "lambda",
    "RunPod": "runpod",
    "OCI": "oci",
    "Nebius": "nebius",
}
"""Provider as the price table names it -> SkyPilot's cloud."""
TYPE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
REGION: Final = re.compile(r"[a-z]+[a-z0-9-]*\d")
"""Types and regions that can be asked for; the price table also has rows for "all regions"."""


def cheapest(plan: Plan, offers: Iterable[Offer]) -> Offer | None:
    """The cheapest on-demand instance with just the plan's cards of one machine, None where there is none."""
    _, each = nodes(plan)
    wanted = plan.scenario.hardware.devices[0].gpu
    fitting = [
        offer
        for offer in offers
        if offer.gpu_id == wanted and offer.gpu_count == each and offer.usd_per_hour is not None
        if offer.provider in CLOUDS
        and offer.price_kind == "on_demand"
        and TYPE.fullmatch(offer.instance_type)
    ]
    return min(fitting, key=lambda offer: offer.usd_per_hour or 0.0, default=None)


def skypilot(plan: Plan, offer: Offer | None) -> Export:
    """The task: the offer's instance type, how many of them, what to install and what to start.

    Raises:
        ExportRefusedError: The cards are of several kinds, there is no offer, or it is of a cloud that
            SkyPilot does not know.
    """
    kinds = tuple(dict.fromkeys(row.gpu for row in plan.scenario.hardware.devices))
    if len(kinds) > 1:
        raise ExportRefusedError("kinds", "hardware.devices", ", ".join(kinds), "1")
    if offer is None or offer.provider not in CLOUDS:
        given = plan.scenario.hardware.devices[0].gpu if offer is None else offer.provider
        raise ExportRefusedError("offer", "hardware.devices", given, ", ".join(CLOUDS))
    machines, _ = nodes(plan)
    cloud = CLOUDS[offer.provider]
    where = f"{cloud}/{offer.region}" if REGION.fullmatch(offer.region) else cloud
    setup, run = _work(plan)
    values: dict[str, Any] = tidy(
        {
            "name": "headroom",
            "resources": {"infra": where, "instance_type": offer.instance_type},
            "num_nodes": machines,
            "setup": setup,
            "run": run,
        }
    )
    return Export(
        target="skypilot",
        file_name="sky.yaml",
        text=write_yaml(values),
        remarks=(
            ("offer", f"{offer.provider} {offer.instance_type}, {offer.usd_per_hour} USD/h, {offer.date}"),
        ),
    )


def _work(plan: Plan) -> tuple[str, str]:
    """What to install, and what to start: the server, or train.py of the PyTorch export."""
    if plan.serving is not None:
        command = command_for(plan)
        if command is None:
            raise ExportRefusedError(
                "runtime", "runtime.name", plan.resolved.runtime.name, "vllm, sglang, llama_cpp"
            )
        return f"pip install {plan.resolved.runtime.name.replace('_', '-')}\n", command.text + "\n"
    machines, each = nodes(plan)
    if machines == 1:
        start = (
            f"torchrun --standalone --nproc_per_node {each} train.py"
            if cards(plan) > 1
            else "python train.py"
        )
    else:
        start = (
            f"torchrun --nnodes $SKYPILOT_NUM_NODES --nproc_per_node {each} --node_rank $SKYPILOT_NODE_RANK "
            '--master_addr $(echo "$SKYPILOT_NODE_IPS" | head -n1) --master_port 29500 train.py'
        )
    return "pip install torch transformers accelerate peft bitsandbytes\n", start + "\n"
