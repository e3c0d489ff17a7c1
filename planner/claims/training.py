"""Claims about a training step, each answered by plans."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from planner.claims.bytes_per_parameter import BILLION, HALF, LLAMA_2_7B, LLAMA_2_70B
from planner.claims.types import Claim, Figure, Outcome, planned, refusal, worked
from planner.hardware import Tables
from planner.ledger import Category, Layer, Phase
from planner.plan_types import Plan
from planner.units import GB

A100: Final = "a100-sxm-80gb"
LLAMA_2_13B: Final = "meta-llama/Llama-2-13b-hf"
STATES: Final = frozenset({Category.WEIGHTS, Category.GRADIENTS, Category.OPTIMIZER})
WITHOUT_MASTER: Final = 12
WITH_MASTER: Final = 16
PURE_BF16: Final = {"parameters": "bf16", "compute": "bf16", "gradients": "bf16", "master": "none"}


def full_training(
    model: str = LLAMA_2_7B, cards: int = 1, gpu: str = A100, **training: Any
) -> dict[str, Any]:
    """A full fine-tuning job in bf16 with fp32 AdamW states."""
    precision = {**PURE_BF16, "optimizer": "fp32"}
    given = {"micro_batch": 1, "sequence_length": 2048, "attention": "flash", "precision": precision}
    return {
        "task": "full",
        "model": {"id": model},
        "hardware": {"devices": [{"gpu": gpu, "count": cards}]},
        "training": {**given, **training},
    }


def activation_bytes(made: Plan) -> int:
    """The most of a plan's activations, logits and loss in any phase of the fullest card."""
    ledger = made.worst.ledger
    kinds = (Category.ACTIVATIONS, Category.LOGITS)
    return max(sum(ledger.by_category(phase).get(kind, 0) for kind in kinds) for phase in ledger.phases)


def of_activations(figure: Figure) -> Figure:
    """A figure that is made of `activation_bytes`, so that its working can say what these count."""
    return replace(figure, counts="activations")


def named_bytes(made: Plan, name: str, phase: Phase) -> int:
    """Bytes of the entries with a name in one phase of the fullest card."""
    return sum(e.bytes for e in made.worst.ledger.entries if e.name == name and phase in e.phases)


def allocated(made: Plan) -> int:
    """Peak of the live tensors of the fullest card."""
    return made.worst.ledger.peak(Layer.ALLOCATED)[1]


def _ratio(name: str, said: float | None, found: float) -> Figure:
    return Figure(name=name, said=said, found=found, unit="ratio")


def _share(name: str, said: float | None, found: float) -> Figure:
    return Figure(name=name, said=said, found=found, unit="frac")


def g5(tables: Tables) -> Claim:
    """Activations against the batch: each doubling doubles them, no more."""
    sizes = {b: activation_bytes(planned(full_training(micro_batch=b), tables)) for b in (1, 2, 4, 8)}
    figures = tuple(
        of_activations(_ratio(f"batch_{b}_over_{b // 2}", None, sizes[b] / sizes[b // 2])) for b in (2, 4, 8)
    )
    return Claim(id="g5", outcome=Outcome.WRONG, figures=figures)


def g6(tables: Tables) -> Claim:
    """Activations against the sequence: linear, but for attention scores where they are materialised."""
    found: dict[tuple[str, int], Plan] = {
        (kind, s): planned(full_training(attention=kind, sequence_length=s), tables)
        for kind in ("flash", "eager")
        for s in (2048, 4096)
    }
    scores = [named_bytes(found["eager", s], "attention_scores", Phase.FORWARD) for s in (2048, 4096)]
    flash = [named_bytes(found["flash", s], "attention_scores", Phase.FORWARD) for s in (2048, 4096)]
    figures = (
        of_activations(
            _ratio(
                "flash_doubled",
                4,
                activation_bytes(found["flash", 4096]) / activation_bytes(found["flash", 2048]),
            )
        ),
        _ratio("eager_scores_doubled", 4, scores[1] / scores[0]),
        Figure(name="flash_scores", said=None, found=flash[1], unit="bytes"),
    )
    return Claim(id="g6", outcome=Outcome.WRONG, figures=figures)


def g7(tables: Tables) -> Claim:
    """The rule of thumb 0.1 x weight bytes x batch against plans of one model."""
    figures = []
    for name, b, s, checkpointing in (
        ("short_checkpointed", 1, 512, "full"),
        ("long", 1, 4096, "none"),
        ("batch_of_8", 8, 2048, "none"),
    ):
        made = planned(full_training(micro_batch=b, sequence_length=s, checkpointing=checkpointing), tables)
        weights = made.worst.ledger.by_category(Phase.REST)[Category.WEIGHTS]
        said, symbols = 0.1 * weights * b, {"W": weights, "b": b}
        figures.append(
            of_activations(worked(name, said, "bytes", "0.1*W*b", symbols, activation_bytes(made)))
        )
    return Claim(id="g7", outcome=Outcome.WRONG, figures=tuple(figures))


def g9(tables: Tables) -> Claim:
    """What checkpointing saves of the activations (time is another matter), by length."""
    figures = []
    for s in (512, 4096):
        plans = {
            kind: activation_bytes(planned(full_training(sequence_length=s, checkpointing=kind), tables))
            for kind in ("none", "full", "selective_op")
        }
        figures.append(_share(f"full_{s}", 0.5, 1 - plans["full"] / plans["none"]))
        figures.append(_share(f"selective_{s}", 0.3, 1 - plans["selective_op"] / plans["none"]))
    return Claim(id="g9", outcome=Outcome.DEPENDS, figures=tuple(map(of_activations, figures)))


def g10(tables: Tables) -> Claim:
    """What ZeRO-2 saves of the allocated peak, by cards and by load."""
    figures = []
    for cards, b in ((2, 1), (8, 1), (8, 8)):
        job = full_training(cards=cards, micro_batch=b) | {"runtime": {"name": "deepspeed"}}
        plain, zero = (
            allocated(planned({**job, "parallel": {"sharding": sharding}}, tables))
            for sharding in ("none", "zero2")
        )
        figures.append(_share(f"cards_{cards}_batch_{b}", 0.6, 1 - zero / plain))
    return Claim(id="g10", outcome=Outcome.DEPENDS, figures=tuple(figures))


def g12(tables: Tables) -> Claim:
    """13B: 78 GB of full training down to QLoRA with an 8-bit optimizer and checkpointing on a 24 GB card."""
    full = planned(full_training(LLAMA_2_13B), tables)
    qlora = planned(
        {
            "task": "qlora",
            "model": {"id": LLAMA_2_13B},
            "hardware": {"devices": [{"gpu": "rtx-3090-24gb", "count": 1}]},
            "runtime": {"name": "hf_trainer"},
            "adapter": {"method": "lora", "rank": 64, "base": "nf4_dq", "targets": "all_linear"},
            "training": {
                "micro_batch": 1,
                "sequence_length": 2048,
                "checkpointing": "full",
                "attention": "flash",
                "optimizer": {"name": "adamw_8bit", "paged": True},
            },
        },
        tables,
    )
    figures = (
        Figure(name="full", said=78 * GB, found=full.worst.peak_bytes, unit="bytes"),
        Figure(name="qlora", said=22 * GB, found=qlora.worst.peak_bytes, unit="bytes"),
        Figure(name="usable_24gb_card", said=None, found=qlora.worst.usable_bytes or 0, unit="bytes"),
    )
    return Claim(id="g12", outcome=Outcome.WRONG, figures=figures)


def g13(tables: Tables) -> Claim:
    """70B on eight cards as tensor 8 x pipeline 2, which takes sixteen."""
    job = full_training(LLAMA_2_70B, cards=8) | {"runtime": {"name": "megatron_lm"}}
    issues = refusal({**job, "parallel": {"tensor": 8, "pipeline": 2}}, tables)
    states = 70 * BILLION * WITHOUT_MASTER
    figures = (
        worked("cards", 8, "count", "t*p", {"t": 8, "p": 2}, 16),
        *(
            worked(f"on_{n}", 50 * GB, "bytes", "P*c/n", {"P": 70 * BILLION, "c": 12, "n": n}, states / n)
            for n in (16, 8)
        ),
    )
    return Claim(id="g13", outcome=Outcome.WRONG, figures=figures, issues=issues)


def g22(_tables: Tables) -> Claim:
    """States of 175e9 parameters on 64 cards as tensor 8 x pipeline 4 x data 2."""
    parameters, parts, data = 175 * BILLION, 32, 2
    usable = 80 * GB

    def per_card(name: str, formula: str, symbols: Mapping[str, float], found: float) -> Figure:
        return worked(name, usable, "bytes", formula, {"P": parameters, "n": parts, **symbols}, found)

    figures = (
        per_card("with_master", "P*c/n", {"c": WITH_MASTER}, parameters * WITH_MASTER / parts),
        per_card("without_master", "P*c/n", {"c": WITHOUT_MASTER}, parameters * WITHOUT_MASTER / parts),
        per_card(
            "distributed_optimizer", "P*(w + g + s/d)/n", {"w": HALF, "g": 4, "s": 12, "d": data},
            parameters * (HALF + 4 + 12 / data) / parts,
        ),
    )  # fmt: skip
    return Claim(id="g22", outcome=Outcome.WRONG, figures=figures)


def g27(tables: Tables) -> Claim:
    """ZeRO-3: states divided by the cards, and live parameters and buffers on top that the claim leaves out."""
    job = full_training(cards=8, checkpointing="full") | {"runtime": {"name": "deepspeed"}}
    made = planned({**job, "parallel": {"sharding": "zero3"}}, tables)
    ledger = made.worst.ledger
    phase, peak = ledger.peak(Layer.ALLOCATED)
    parts = ledger.by_category(phase, Layer.ALLOCATED)
    rest = ledger.by_category(Phase.REST, Layer.ALLOCATED)
    held = sum(rest.get(kind, 0) for kind in STATES)
    working = sum(parts.get(kind, 0) for kind in (Category.ACTIVATIONS, Category.LOGITS))
    params = made.model.params_total * HALF / 8
    figures = (
        worked(
            "claimed",
            params + working,
            "bytes",
            "P*w/N + A",
            {"P": made.model.params_total, "w": HALF, "N": 8, "A": working},
            peak,
        ),
        Figure(name="states_per_card", said=params, found=held, unit="bytes"),
        Figure(name="live_and_buffers", said=0, found=peak - held - working, unit="bytes"),
    )
    return Claim(id="g27", outcome=Outcome.WRONG, figures=figures)


def g36(tables: Tables) -> Claim:
    """nn.DataParallel: a full copy on each card, and more on the first."""
    job = full_training("Qwen/Qwen2.5-1.5B", cards=4)
    made = planned({**job, "parallel": {"data_parallel": "dp"}}, tables)
    first = next(device for device in made.devices if 0 in device.indices)
    other = next((device for device in made.devices if 3 in device.indices), first)
    weights = other.ledger.by_category(Phase.FORWARD).get(Category.WEIGHTS, 0)
    figures = (
        Figure(name="copy_on_each", said=made.model.params_total * HALF, found=weights, unit="bytes"),
        Figure(name="first_card_more", said=None, found=first.peak_bytes - other.peak_bytes, unit="bytes"),
    )
    return Claim(id="g36", outcome=Outcome.RIGHT, figures=figures)
