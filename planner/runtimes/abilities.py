"""What each training framework can do with a job: the settings that its own recipes offer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

BASES: Final = ("nf4", "nf4_dq", "int8")
"""Formats of a packed base."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ability:
    """What a framework can do.

    Attributes:
        sharding: Ways to divide the states over data ranks.
        checkpointing: Forms of it that the planner models.
        tensor: Divides matrices over cards.
        pipeline: Divides layers over cards.
        context: Divides sequences over cards.
        sequence: Tensor-parallel ranks also divide the residual stream, as its recipes do.
        offload: Keeps optimizer states on the host.
        full: Trains whole models.
        adapters: Trains adapters.
        packed: Formats of a packed base.
        most_cards: That one job runs on; None for any number.
    """

    sharding: tuple[str, ...] = ("none",)
    checkpointing: tuple[str, ...] = ("none", "full")
    tensor: bool = False
    pipeline: bool = False
    context: bool = False
    sequence: bool = False
    offload: bool = False
    full: bool = True
    adapters: bool = True
    packed: tuple[str, ...] = ()
    most_cards: int | None = None


ABILITIES: Final[Mapping[str, Ability]] = {
    "hf_trainer": Ability(sharding=("none", "fsdp"), packed=BASES),
    "torchtune": Ability(sharding=("none", "fsdp"), packed=("nf4",)),
    "torchtitan": Ability(
        sharding=("fsdp",), tensor=True, pipeline=True, context=True, sequence=True, adapters=False
    ),
    "litgpt": Ability(sharding=("none", "fsdp"), packed=("nf4", "nf4_dq")),
    "megatron_lm": Ability(
        sharding=("none", "zero1"), checkpointing=("none", "selective_attention", "full"),
        tensor=True, pipeline=True, context=True, sequence=True, adapters=False,
    ),
    "deepspeed": Ability(sharding=("zero1", "zero2", "zero3"), offload=True),
    "unsloth": Ability(packed=("nf4",), most_cards=1),
    "generic": Ability(sharding=("none", "zero1", "zero2", "fsdp"), tensor=True, pipeline=True, packed=BASES),
}  # fmt: skip
"""Settings that each framework's own recipes offer. `transformers` stands for a plain loop around its classes."""
