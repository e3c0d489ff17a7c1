"""Claims about number formats: what a label, a range or a card allows."""

from typing import Final

from planner.checks.hardware import NEEDS
from planner.claims.training import full_training
from planner.claims.types import Claim, Figure, Outcome, cautions, planned, worked
from planner.exports.catalog import export
from planner.hardware import Tables
from planner.memory.weight_formats import FORMATS

HALF_BITS: Final = 16
SCALER: Final = "GradScaler"
EXPONENTS: Final = {"fp16": (5, 10), "bf16": (8, 7), "fp32": (8, 23)}
"""Bits of exponent and fraction (IEEE 754; bf16 is fp32 cut short)."""


def smallest(name: str, *, subnormal: bool = False) -> Figure:
    """The smallest positive number of a format: 2^(2 - 2^(e - 1)), and 2^-m of that below the normal ones."""
    exponent, fraction = EXPONENTS[name]
    normal = 2.0 ** (2 - 2 ** (exponent - 1))
    if subnormal:
        said = 6e-8 if name == "fp16" else None
        formula, symbols = "2^(2 - 2^(e - 1) - m)", {"e": exponent, "m": fraction}
        return worked(f"subnormal_{name}", said, "number", formula, symbols, normal * 2.0**-fraction)
    said = 6e-8 if name == "fp16" else None
    return worked(f"normal_{name}", said, "number", "2^(2 - 2^(e - 1))", {"e": exponent}, normal)


def g15(_tables: Tables) -> Claim:
    """Labels: AWQ leaves activations in 16 bit; GGUF is a file format with many types."""
    gguf = sorted(f.bits for f in FORMATS.values() if f.reference == "ggml_blocks")
    figures = (
        Figure(name="awq_weight_bits", said=4, found=FORMATS["awq4"].bits, unit="bits"),
        Figure(name="awq_activation_bits", said=4, found=HALF_BITS, unit="bits"),
        Figure(name="gguf_least_bits", said=3, found=gguf[0], unit="bits"),
        Figure(name="gguf_most_bits", said=3, found=gguf[-1], unit="bits"),
        Figure(name="gguf_types", said=1, found=len(gguf), unit="count"),
    )
    return Claim(id="g15", outcome=Outcome.WRONG, figures=figures)


def g16(_tables: Tables) -> Claim:
    """The smallest normal number of fp16, and the smallest there is."""
    figures = (smallest("fp16"), smallest("fp16", subnormal=True))
    return Claim(id="g16", outcome=Outcome.WRONG, figures=figures)


def g17(tables: Tables) -> Claim:
    """bf16 reaches as low as fp32, so nothing is scaled; and what the exported loop does."""
    figures = [smallest("bf16"), smallest("fp32"), smallest("fp16")]
    for name, said in (("bf16", 1), ("fp16", None)):
        precision = {"parameters": "fp32", "compute": name, "autocast": True, "master": "none"}
        job = full_training("Qwen/Qwen2.5-1.5B", precision=precision, attention="sdpa")
        text = export(planned({**job, "runtime": {"name": "generic"}}, tables), "pytorch", tables).text
        figures.append(
            Figure(name=f"scaler_in_{name}_export", said=said, found=float(SCALER in text), unit="flags")
        )
    return Claim(id="g17", outcome=Outcome.WRONG, figures=tuple(figures))


def g26(tables: Tables) -> Claim:
    """The oldest cards with fp8 tensor cores: Ada's compute capability, below Hopper's."""
    ada = [
        gpu
        for gpu in tables.gpus.values()
        if gpu.compute_capability == NEEDS["fp8"] and gpu.flops.fp8 is not None
    ]
    major, minor = NEEDS["fp8"]
    precision = {"parameters": "bf16", "compute": "bf16", "fp8": "tensorwise"}
    figures = (
        Figure(name="least_capability", said=9.0, found=major + minor / 10, unit="number"),
        Figure(name="ada_cards", said=0, found=len(ada), unit="count"),
        *(
            Figure(
                name=f"warned_on_{card}",
                said=said,
                found=float(
                    "dtype_unsupported"
                    in cautions(full_training("Qwen/Qwen2.5-1.5B", gpu=gpu, precision=precision), tables)
                ),
                unit="flags",
            )
            for card, gpu, said in (("ada", "rtx-4090-24gb", 1), ("ampere", "rtx-3090-24gb", None))
        ),
    )
    return Claim(id="g26", outcome=Outcome.WRONG, figures=figures)
