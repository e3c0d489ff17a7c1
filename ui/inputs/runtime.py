"""The framework or engine with its version, and what it decides where nothing else is set."""

from typing import Final

from ui.inputs import alignment
from ui.inputs.desk import Desk
from ui.inputs.groups import folded
from ui.inputs.precision import ATTENTION, CHECKPOINTING, LOSSES
from ui.inputs.widgets import choice, optional_fraction, optional_number, text, worded

TRAINERS: Final = (
    *("generic", "hf_trainer", "torchtune", "torchtitan", "litgpt", "megatron_lm", "deepspeed", "unsloth"),
)
SERVERS: Final = (
    *(
        "vllm",
        "sglang",
        "llama_cpp",
        "ollama",
        "tensorrt_llm",
        "transformers",
        "ik_llama_cpp",
        "mlc_llm",
        "tgi",
    ),
    *("aphrodite", "pegainfer", "sglang_omni", "generic"),
)
ALLOCATORS: Final = ("default", "expandable_segments")


def draw(desk: Desk) -> None:
    """Name first; then what differs between training and serving."""
    name = str(desk.get("runtime.name", "generic"))
    version = desk.get("runtime.version")
    summary = [worded(desk, "runtime", name), *([str(version)[:12]] if version else [])]
    fields = ("runtime", "hardware.margin_frac", "training" if desk.is_training else "serving")
    with folded(desk, "runtime", summary, *fields):
        choice(
            desk,
            "runtime.name",
            TRAINERS if desk.is_training else SERVERS,
            group="runtime",
            default="generic",
        )
        desk.messages("runtime.name")
        text(desk, "runtime.version", placeholder=desk.words("field.runtime.version.example"))
        if desk.is_training:
            text(desk, "runtime.torch", placeholder=desk.words("field.runtime.torch.example"))
            choice(desk, "training.attention", ATTENTION, group="attention")
            choice(desk, "training.checkpointing", CHECKPOINTING, group="checkpointing")
            choice(desk, "training.loss", LOSSES, group="loss")
            choice(desk, "runtime.allocator", ALLOCATORS, group="allocator")
            auto = desk.words("field.no_default")
            optional_number(desk, "training.sequence_chunks", placeholder=auto)
            optional_fraction(desk, "training.recompute_budget_frac", placeholder=auto)
            alignment.draw(desk)
        else:
            auto = desk.words("field.no_default")
            optional_number(desk, "serving.max_sequences", placeholder=auto)
            optional_number(desk, "serving.batched_tokens", placeholder=auto, step=1024)
        optional_fraction(
            desk, "hardware.margin_frac", placeholder=desk.words("field.hardware.margin_frac.auto")
        )
        desk.messages(*fields)
