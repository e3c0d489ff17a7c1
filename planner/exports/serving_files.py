"""Files around a server: its start command, Triton's queue, a Kubernetes deployment that scales."""

import re
from typing import Any, Final

from planner.exports.facts import cards, tidy
from planner.exports.serving_flags import DTYPES, PLAIN_NAME, QUANTIZED_ON_LOAD, command_for
from planner.exports.types import Export, ExportRefusedError, Remark
from planner.plan_types import Plan
from planner.scenario import Autoscale
from planner.yaml_text import write_yaml_documents

IMAGES: Final = {
    "vllm": ("vllm/vllm-openai", "v0.19.0", 8000),
    "sglang": ("lmsysorg/sglang", "latest", 30000),
    "tensorrt_llm": ("nvcr.io/nvidia/tensorrt-llm/release", "latest", 8000),
    "llama_cpp": ("ghcr.io/ggml-org/llama.cpp", "server-cuda", 8080),
}

"""Engine -> image, tag where the question names no version, port."""
RESOURCES: Final = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "intel": "gpu.intel.com/i915"}
MOST_REPLICAS: Final = 4
BUSY_FRAC: Final = 0.75
"""GPU utilisation to scale at where the question names nothing."""
LABEL: Final = re.compile(r"[^a-z0-9-]+")
VLLM_FIELDS: Final = (
    "max_model_len", "max_sequences", "batched_tokens", "memory_utilization", "block_size", "cuda_graphs",
    "prefix_caching",
)  # fmt: skip


def serve(plan: Plan) -> Export:
    """The command that starts the server, or Ollama's file.

    Raises:
        ExportRefusedError: The job trains, or its runtime has no server.
    """
    command = command_for(plan)
    if command is None:
        raise _no_server(plan)
    name = plan.resolved.runtime.name
    text = command.text
    if command.file_name:
        text = f"{text}\ncat > {command.file_name} <<'END'\n{command.file_text}END\n"
    carries = _vllm_says(plan) if name == "vllm" else ()
    return Export(
        target="serve",
        file_name="serve.sh",
        text=text.rstrip("\n") + "\n",
        carries=carries,
        remarks=command.remarks,
    )


def _vllm_says(plan: Plan) -> tuple[str, ...]:
    """What vLLM's command carries; a format that is in the checkpoint, and so in no flag, is left out."""
    given = plan.scenario.serving
    told = [
        "task",
        "runtime.name",
        "parallel",
        "hardware.devices.0.count",
        *(f"serving.{name}" for name in VLLM_FIELDS),
    ]
    if given.weights in {*DTYPES, *QUANTIZED_ON_LOAD}:
        told.append("serving.weights")
    if given.kv_cache == "fp8":
        told.append("serving.kv_cache")
    if given.weights is None and PLAIN_NAME.fullmatch(plan.scenario.model.id or ""):
        told.append("model")
    return tuple(told)


def _no_server(plan: Plan) -> ExportRefusedError:
    if plan.serving is None:
        return ExportRefusedError("for_serving", "task", plan.resolved.task, "serve")
    allowed = "vllm, sglang, tensorrt_llm, llama_cpp, ik_llama_cpp, ollama"
    return ExportRefusedError("runtime", "runtime.name", plan.resolved.runtime.name, allowed)


def triton(plan: Plan) -> Export:
    """Triton's `config.pbtxt` with `dynamic_batching`, in protobuf's text format.

    Raises:
        ExportRefusedError: The job trains.
    """
    if plan.serving is None:
        raise ExportRefusedError("for_serving", "task", plan.resolved.task, "serve")
    batching = plan.scenario.batching
    largest = plan.resolved.serving.max_sequences or max(1, int(plan.serving.concurrency))
    preferred = (
        () if batching is None else tuple(sorted({size for size in batching.preferred if size <= largest}))
    )
    delay_us = 0 if batching is None else round(batching.max_delay_ms * 1000)
    group = "kind: KIND_GPU count: 1 gpus: [ 0 ]" if cards(plan) == 1 else "kind: KIND_MODEL count: 1"
    lines = [
        f'name: "{label(plan)}"',
        'backend: "python"',
        f"max_batch_size: {largest}",
        'input [ { name: "text_input" data_type: TYPE_STRING dims: [ 1 ] } ]',
        'output [ { name: "text_output" data_type: TYPE_STRING dims: [ 1 ] } ]',
        f"instance_group [ {{ {group} }} ]",
        "dynamic_batching {",
        *([f"  preferred_batch_size: [ {', '.join(map(str, preferred))} ]"] if preferred else []),
        f"  max_queue_delay_microseconds: {delay_us}",
        "}",
    ]
    dropped = () if batching is None else tuple(size for size in batching.preferred if size > largest)
    remarks: tuple[Remark, ...] = (("above_largest", ", ".join(map(str, dropped))),) if dropped else ()
    return Export(target="triton", file_name="config.pbtxt", text="\n".join(lines) + "\n", remarks=remarks)


def label(plan: Plan) -> str:
    """A name that Kubernetes and Triton both take."""
    stem = (plan.scenario.model.id or plan.model.model_type).rpartition("/")[2].lower()
    return LABEL.sub("-", stem).strip("-")[:50] or "model"


def kubernetes(plan: Plan, vendor: str | None = "nvidia") -> Export:
    """A Deployment, a Service and a HorizontalPodAutoscaler of the same name.

    Args:
        plan: A serving plan.
        vendor: Maker of the cards, which names the resource.

    Raises:
        ExportRefusedError: The job trains, or its engine has no image of its own.
    """
    command = command_for(plan)
    found = IMAGES.get(plan.resolved.runtime.name)
    if command is None or found is None:
        raise (
            ExportRefusedError("runtime", "runtime.name", plan.resolved.runtime.name, ", ".join(IMAGES))
            if (plan.serving is not None)
            else _no_server(plan)
        )
    name = label(plan)
    image, tag, port = found
    version = plan.scenario.runtime.version
    if version and plan.resolved.runtime.name == "vllm":
        tag = f"v{version.removeprefix('v')}"
    documents = [
        _deployment(
            plan,
            name,
            f"{image}:{tag}",
            port,
            list(command.words),
            RESOURCES.get((vendor or "nvidia").casefold(), "nvidia.com/gpu"),
        ),
        _service(name, port),
        _autoscaler(name, plan.scenario.autoscale),
    ]
    remarks: tuple[Remark, ...] = (
        *command.remarks,
        ("image", f"{image}:{tag}"),
        ("metrics", "DCGM_FI_DEV_GPU_UTIL"),
        ("most_replicas", str(MOST_REPLICAS)),
    )
    return Export(
        target="kubernetes",
        file_name="kubernetes.yaml",
        text=write_yaml_documents(documents),
        remarks=remarks,
    )


def _deployment(
    plan: Plan, name: str, image: str, port: int, words: list[str], resource: str
) -> dict[str, Any]:
    """One pod is one copy of the server with all its cards; tensor parallelism needs shared memory."""
    count = cards(plan)
    container = tidy(
        {
            "name": "server",
            "image": image,
            "command": [*words, "--host", "0.0.0.0", "--port", str(port)],  # noqa: S104 - a pod's own network
            "ports": [{"containerPort": port}],
            "resources": {"limits": {resource: count}, "requests": {resource: count}},
            "readinessProbe": {
                "httpGet": {"path": "/health", "port": port},
                "periodSeconds": 10,
                "failureThreshold": 180,
            },
            "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],  # noqa: S108 - where Linux keeps it
        }
    )
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "containers": [container],
                    "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
                },
            },
        },
    }


def _service(name: str, port: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": port}]},
    }


def _autoscaler(name: str, autoscale: Autoscale | None) -> dict[str, Any]:
    """GPU use and waiting time are custom metrics: an adapter has to bring them into the cluster."""
    rule = autoscale or Autoscale(gpu_utilisation_up=BUSY_FRAC)
    metrics = []
    if rule.gpu_utilisation_up is not None or rule.queue_ms_up is None:
        busy = rule.gpu_utilisation_up or BUSY_FRAC
        metrics.append(_metric("DCGM_FI_DEV_GPU_UTIL", str(round(busy * 100))))
    if rule.queue_ms_up is not None:
        metrics.append(_metric("request_queue_time_ms", str(round(rule.queue_ms_up))))
    up = {"policies": [{"type": "Pods", "value": rule.step_up or 1, "periodSeconds": 60}]}
    down = {
        "policies": [{"type": "Pods", "value": rule.step_down or 1, "periodSeconds": 60}],
        "stabilizationWindowSeconds": min(
            3600, round(rule.idle_s_down if rule.idle_s_down is not None else 300)
        ),
    }
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": 1,
            "maxReplicas": MOST_REPLICAS,
            "metrics": metrics,
            "behavior": {"scaleUp": up, "scaleDown": down},
        },
    }


def _metric(name: str, value: str) -> dict[str, Any]:
    target = {"type": "AverageValue", "averageValue": value}
    return {"type": "Pods", "pods": {"metric": {"name": name}, "target": target}}
