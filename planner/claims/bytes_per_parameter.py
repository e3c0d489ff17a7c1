"""Claims that multiply parameters by bytes."""

from collections.abc import Mapping
from typing import Final

from planner.claims.types import Claim, Figure, Outcome, planned, worked
from planner.hardware import Tables
from planner.ledger import Category, Ledger
from planner.units import GB
from planner.validation import model_for, parse_scenario

BILLION: Final = 10**9
ADAM_FP32: Final = 8
MASTER_FP32: Final = 4
HALF: Final = 2
CARD: Final = {"devices": [{"gpu": "a100-sxm-80gb", "count": 1}]}
LLAMA_2_7B: Final = "meta-llama/Llama-2-7b-hf"
LLAMA_2_70B: Final = "meta-llama/Llama-2-70b-hf"


def _times(name: str, said_gb: float | None, parameters: float, size: Mapping[str, float]) -> Figure:
    """Parameters times a sum of bytes."""
    found = parameters * sum(size.values())
    symbols = {"P": parameters, **size}
    formula = f"P*({' + '.join(size)})" if len(size) > 1 else f"P*{next(iter(size))}"
    return worked(name, None if said_gb is None else said_gb * GB, "bytes", formula, symbols, found)


def g1(tables: Tables) -> Claim:
    """States of 100e9 parameters in fp32; activations are no share of them: two loads of one model show it."""
    parameters = 100 * BILLION
    job = {
        "task": "pretrain",
        "model": {"id": "openai/gpt3-175b"},
        "hardware": {"devices": [{"gpu": "a100-sxm-80gb", "count": 64}], "devices_per_node": 8},
        "runtime": {"name": "megatron_lm"},
        "parallel": {"tensor": 8, "pipeline": 8, "sequence": True},
    }
    figures = [
        _times("weights", 400, parameters, {"w": 4}),
        _times("gradients", 400, parameters, {"g": 4}),
        _times("adam", 800, parameters, {"m": 4, "v": 4}),
    ]
    for name, micro_batch, checkpointing in (("small", 1, "full"), ("large", 8, "none")):
        training = {
            "micro_batch": micro_batch,
            "sequence_length": 2048,
            "gradient_accumulation": 64,
            "checkpointing": checkpointing,
            "attention": "flash",
        }
        made = planned({**job, "training": training}, tables)
        held = sum(len(device.indices) * _most_activations(device.ledger) for device in made.devices)
        figures.append(
            Figure(
                name=f"activations_per_parameter_{name}",
                said=None,
                found=held / made.model.params_total,
                unit="number",
            )
        )
    return Claim(id="g1", outcome=Outcome.DEPENDS, figures=tuple(figures))


def _most_activations(ledger: Ledger) -> int:
    return max(ledger.by_category(phase).get(Category.ACTIVATIONS, 0) for phase in ledger.phases)


def g2(_tables: Tables) -> Claim:
    """Training states of 7, 13 and 70e9 parameters, with and without an fp32 master copy."""
    states = {"w": HALF, "g": HALF, "a": ADAM_FP32}
    figures = []
    for size, said in ((7, 84), (13, 156), (70, 840)):
        figures.append(_times(f"without_master_{size}b", said, size * BILLION, states))
        figures.append(_times(f"with_master_{size}b", None, size * BILLION, {**states, "c": MASTER_FP32}))
    return Claim(id="g2", outcome=Outcome.RIGHT, figures=tuple(figures))


def g3(tables: Tables) -> Claim:
    """7e9 parameters by format, and what a real 7B checkpoint takes in four bits."""
    figures = [
        _times(name, said, 7 * BILLION, {"w": size})
        for name, said, size in (("fp32", 28, 4), ("fp16", 14, 2), ("int8", 7, 1), ("int4", 3.5, 0.5))
    ]
    figures.append(Figure(name="real_gptq4", said=3.5 * GB, found=gptq_bytes(tables), unit="bytes"))
    return Claim(id="g3", outcome=Outcome.DEPENDS, figures=tuple(figures))


def gptq_bytes(tables: Tables, model: str = LLAMA_2_7B) -> int:
    """Weights of a model served from a 4-bit GPTQ checkpoint: scales, zero points, 16-bit embedding and head too."""
    job = {
        "task": "serve",
        "model": {"id": model},
        "hardware": CARD,
        "runtime": {"name": "vllm"},
        "serving": {"weights": "gptq4", "max_model_len": 2048},
    }
    worst = planned(job, tables).worst
    return worst.ledger.by_category(worst.peak_phase)[Category.WEIGHTS]


def g4(_tables: Tables) -> Claim:
    """Optimizer states of 7e9 parameters. The formula beside the table gives 42 GB for K = 2, the table 56."""
    parameters, block = 7 * BILLION, 256
    eight_bit = parameters * 2 + 2 * -(-parameters // block) * 4
    figures = (
        _times("adamw", 56, parameters, {"m": 4, "v": 4}),
        worked("sgd", 14 * GB, "bytes", "0", {}, 0),
        worked("sgd_momentum", None, "bytes", "P*m", {"P": parameters, "m": 4}, parameters * 4),
        worked(
            "adamw_8bit", 28 * GB, "bytes", "2*P + 2*ceil(P/B)*4", {"P": parameters, "B": block}, eight_bit
        ),
        worked("formula", 56 * GB, "bytes", "P*(2 + 2*K)", {"P": parameters, "K": 2}, parameters * 6),
    )
    return Claim(id="g4", outcome=Outcome.WRONG, figures=figures)


def g14(tables: Tables) -> Claim:
    """Llama-2-70B in fp16 against one A100 80GB.

    Raises:
        LookupError: Its own question can't be read.
    """
    scenario, _ = parse_scenario(
        {"version": 1, "task": "full", "model": {"id": LLAMA_2_70B}, "hardware": CARD}
    )
    if scenario is None:
        raise LookupError(LLAMA_2_70B)
    model, card = model_for(scenario, tables), tables.gpus["a100-sxm-80gb"]
    total = model.params_total * HALF
    figures = (
        worked("weights", 140 * GB, "bytes", "P*w", {"P": model.params_total, "w": HALF}, total),
        worked(
            "cards", None, "ratio", "P*w/U", {"U": card.usable_bytes or 0}, total / (card.usable_bytes or 1)
        ),
    )
    return Claim(id="g14", outcome=Outcome.RIGHT, figures=figures)


def g24(_tables: Tables) -> Claim:
    """Bits saved against 16, and against 32."""
    figures = tuple(
        worked(name, said, "frac", "1 - b/a", {"b": bits, "a": against}, 1 - bits / against)
        for name, said, bits, against in (
            ("w4_of_fp16", 0.875, 4, 16),
            ("w4_of_fp32", 0.875, 4, 32),
            ("w3_of_fp16", 0.81, 3, 16),
        )
    )
    return Claim(id="g24", outcome=Outcome.WRONG, figures=figures)


def g25(tables: Tables) -> Claim:
    """A 7B GPTQ model in 3 GB: less than its four-bit weights alone."""
    figures = (
        _times("four_bits", 3, 7 * BILLION, {"w": 0.5}),
        Figure(name="real_gptq4", said=3 * GB, found=gptq_bytes(tables), unit="bytes"),
    )
    return Claim(id="g25", outcome=Outcome.WRONG, figures=figures)
