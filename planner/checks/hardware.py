"""The cards: known ids, memory figures that agree, and number formats that they compute in."""

from collections.abc import Iterator

from planner.checks.codes import make
from planner.checks.question import Question
from planner.checks.words import closest, listed
from planner.hardware import Gpu, Tables, has_gpu
from planner.issues import Issue
from planner.scenario import OwnCard, Scenario

NEEDS = {
    "bf16": (8, 0),
    "fp8": (8, 9),
    "mxfp8": (10, 0),
    "nvfp4": (10, 0),
    "sparse24_bf16": (8, 0),
    "sparse24_fp8": (8, 9),
}
"""Least CUDA compute capability with tensor-core support of a format."""
FLASH_NEEDS = (8, 0)
CARD_SLACK_FRAC = 0.05
"""How far a given size may lie above the number on the box before it is worth a word."""
CARD_LIMIT_FRAC = 0.1
"""How far it may lie above before it can only be a slip: another card, or another unit."""
CARD_LEAST_FRAC = 0.01
"""Less of the card than this is no share of it but another unit; the smallest MIG slice is a twenty-fourth."""
CUDA_OR_ROCM = ("NVIDIA", "AMD")
TORCH_VENDORS = (*CUDA_OR_ROCM, "Intel")
LLAMA_VENDORS = (*TORCH_VENDORS, "Apple")
VENDORS: dict[str, tuple[str, ...]] = {
    "tensorrt_llm": ("NVIDIA",),
    "pegainfer": ("NVIDIA",),
    "vllm": TORCH_VENDORS,
    "sglang": TORCH_VENDORS,
    "sglang_omni": TORCH_VENDORS,
    "tgi": TORCH_VENDORS,
    "aphrodite": TORCH_VENDORS,
    "llama_cpp": LLAMA_VENDORS,
    "ollama": LLAMA_VENDORS,
    "ik_llama_cpp": ("NVIDIA", "Apple"),
    "mlc_llm": LLAMA_VENDORS,
    "hf_trainer": LLAMA_VENDORS,
    "transformers": LLAMA_VENDORS,
    "torchtune": TORCH_VENDORS,
    "torchtitan": TORCH_VENDORS,
    "litgpt": CUDA_OR_ROCM,
    "megatron_lm": CUDA_OR_ROCM,
    "deepspeed": TORCH_VENDORS,
    "unsloth": TORCH_VENDORS,
}
"""Makers whose cards a runtime's own releases run on; ports beside them exist, so others earn a warning only."""
SPLITS_OVER_MAKERS = ("llama_cpp", "ollama", "ik_llama_cpp")
"""Engines with a backend per card, which can hold layers of one model on cards of several makers."""


def gpu_issues(scenario: Scenario, tables: Tables) -> Iterator[Issue]:
    """Cards that neither the table nor the two special forms name; described ones by a name that is taken."""
    for i, row in enumerate(scenario.hardware.devices):
        if row.card is not None:
            yield from _described_issues(f"hardware.devices.{i}", row.gpu, row.card, tables)
        elif not has_gpu(row.gpu, tables):
            known = (*tables.gpus, "unknown", "generic-24gb")
            yield make(
                "gpu_unknown",
                f"hardware.devices.{i}.gpu",
                given=row.gpu[:80],
                closest=closest(row.gpu, known),
            )


def _described_issues(field: str, name: str, card: OwnCard, tables: Tables) -> Iterator[Issue]:
    if has_gpu(name, tables):
        yield make("card_name_taken", f"{field}.gpu", given=name)
    if card.like is not None and card.like not in tables.gpus:
        shown = closest(card.like, tuple(tables.gpus))
        yield make("gpu_unknown", f"{field}.card.like", given=card.like[:80], closest=shown)


def check_memory(question: Question) -> Iterator[Issue]:
    """Free is part of all; all is not above the card, and not so little that the unit is wrong."""
    for i, row in enumerate(question.asked.hardware.devices):
        if row.free_bytes and row.memory_bytes and row.free_bytes > row.memory_bytes:
            field = f"hardware.devices.{i}.free_bytes"
            yield make("free_above_memory", field, given=row.free_bytes, allowed=row.memory_bytes)
    for field, gpu in question.gpus:
        row = question.asked.hardware.devices[int(field.rpartition(".")[2])]
        nominal = gpu.memory_nominal_bytes
        if nominal is None:
            continue
        for name, given in (("memory_bytes", row.memory_bytes), ("free_bytes", row.free_bytes)):
            if given is not None and given > nominal * (1 + CARD_SLACK_FRAC):
                far = given > nominal * (1 + CARD_LIMIT_FRAC)
                code = "memory_far_above_card" if far else "memory_above_card"
                yield make(code, f"{field}.{name}", given=given, allowed=nominal, gpu=gpu.id)
        if row.memory_bytes is not None and row.memory_bytes < nominal * CARD_LEAST_FRAC:
            where, given = f"{field}.memory_bytes", row.memory_bytes
            yield make("memory_far_below_card", where, given=given, allowed=nominal, gpu=gpu.id)


def check_vendors(question: Question) -> Iterator[Issue]:
    """Cards that the runtime does not run on, and makers that can't work on one job together."""
    name = question.resolved.runtime.name
    allowed = VENDORS.get(name)
    makers: dict[str, str] = {}
    for field, gpu in question.gpus:
        if gpu.vendor is None:
            continue
        makers.setdefault(gpu.vendor, field)
        if allowed is not None and gpu.vendor not in allowed:
            shown = listed(allowed)
            yield make(
                "runtime_not_on_this_card", f"{field}.gpu", given=name, vendor=gpu.vendor, allowed=shown
            )
    if len(makers) > 1 and name not in SPLITS_OVER_MAKERS:
        last = list(makers)[-1]
        yield make("vendors_mixed", f"{makers[last]}.gpu", given=last, allowed=next(iter(makers)))


def check_formats(question: Question) -> Iterator[Issue]:
    """Formats and attention kernels that a card of the job has no hardware for."""
    weakest = _weakest(question)
    if weakest is None:
        return
    gpu, has = weakest
    for field, value in _formats(question):
        needs = NEEDS.get(value)
        if needs is not None and has < needs:
            yield make(
                "dtype_unsupported", field, given=value, gpu=gpu.id, has=_text(has), needs=_text(needs)
            )
    if question.trains and question.training.attention == "flash" and has < FLASH_NEEDS:
        yield make(
            "attention_unsupported",
            "training.attention",
            given="flash",
            gpu=gpu.id,
            has=_text(has),
            needs=_text(FLASH_NEEDS),
        )


def check_nodes(question: Question) -> Iterator[Issue]:
    """Tensor parallelism across machines runs over the slow links."""
    per_node, tensor = question.resolved.hardware.devices_per_node, question.parallel.tensor
    if per_node is not None and tensor > per_node:
        yield make("tensor_spans_nodes", "parallel.tensor", given=tensor, allowed=per_node)


def _weakest(question: Question) -> tuple[Gpu, tuple[int, int]] | None:
    known = [(gpu, gpu.compute_capability) for _, gpu in question.gpus]
    capable = [(gpu, capability) for gpu, capability in known if capability is not None]
    return min(capable, key=lambda pair: pair[1]) if capable else None


def _formats(question: Question) -> Iterator[tuple[str, str]]:
    if question.trains:
        precision = question.training.precision
        yield "training.precision.compute", precision.compute or ""
        if precision.fp8 is not None:
            yield "training.precision.fp8", "mxfp8" if precision.fp8 == "mxfp8" else "fp8"
        if precision.fp4 == "nvfp4":
            yield "training.precision.fp4", "nvfp4"
    else:
        yield "serving.weights", question.serving.weights or ""
        yield "serving.kv_cache", question.serving.kv_cache or ""


def _text(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"


CHECKS = (check_memory, check_vendors, check_formats, check_nodes)
