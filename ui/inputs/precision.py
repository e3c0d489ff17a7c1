"""Number formats of a training step, and how the optimizer works."""

from typing import Final

from ui.inputs.desk import Desk
from ui.inputs.groups import folded
from ui.inputs.widgets import choice, worded

TYPES: Final = ("fp32", "bf16", "fp16", "fp8")
GRADIENTS: Final = ("fp32", "bf16", "fp16")
MASTERS: Final = ("fp32", "bf16", "none")
STATES: Final = ("fp32", "bf16", "int8", "fp8")
OPTIMIZERS: Final = (
    *(
        "adamw",
        "adamw_8bit",
        "adam",
        "sgd",
        "sgd_momentum",
        "adafactor",
        "lion",
        "lion_8bit",
        "muon",
        "galore",
    ),
)
IMPLEMENTATIONS: Final = ("foreach", "fused", "single")
CHECKPOINTING: Final = ("none", "selective_attention", "selective_op", "every_k", "full")
ATTENTION: Final = ("eager", "sdpa", "flash", "flex")
LOSSES: Final = ("standard", "fused", "chunked", "fused_linear")


def draw(desk: Desk) -> None:
    """Training only: a server's formats stand with its load."""
    if not desk.is_training:
        return
    where = "training.precision"
    words = desk.words
    parameters = worded(desk, "format", str(desk.effective(f"{where}.parameters", "")))
    states = desk.effective("training.optimizer.name", "adamw")
    summary = [part for part in (parameters, words(f"optimizer.{states}")) if part]
    with folded(desk, "precision", summary, where, "training.optimizer"):
        for name, options, group in (
            ("parameters", TYPES, "format"),
            ("compute", TYPES, "format"),
            ("gradients", GRADIENTS, "format"),
            ("master", MASTERS, "format"),
            ("optimizer", STATES, "format"),
        ):
            choice(desk, f"{where}.{name}", options, group=group)
            desk.messages(f"{where}.{name}")
        choice(desk, "training.optimizer.name", OPTIMIZERS, group="optimizer", default="adamw")
        choice(desk, "training.optimizer.implementation", IMPLEMENTATIONS, group="implementation")
        desk.messages("training.optimizer", where)
