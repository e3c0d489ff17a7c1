"""The advice on a plan as lines for a terminal and as JSON."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from planner.advise import Change, Outcome, advise
from planner.cli import words
from planner.cli.report import table
from planner.document import Document
from planner.estimate import plan as planned
from planner.hardware import Tables
from planner.issues import ScenarioError
from planner.plan_types import Plan, Verdict
from planner.scenario import to_document
from planner.units import gib
from planner.validation import parse_scenario

MOST_LINES: Final = 6
LEAST_TIME_FRAC: Final = 0.005
WHAT: Final = {
    "move_layer": "one layer to device {gpu} (layers {layers})",
    "fused_step": "fused optimizer step",
    "fused_loss": "fused linear loss",
    "flash_attention": "flash attention",
    "adam_8bit": "8-bit AdamW",
    "zero1": "ZeRO-1 over {cards} cards",
    "zero2": "ZeRO-2 over {cards} cards",
    "zero3": "ZeRO-3 over {cards} cards",
    "sequence_parallel": "sequence parallelism over {cards} cards",
    "checkpointing": "full checkpointing",
    "half_micro_batch": "micro-batch {size}, {steps} accumulation steps",
    "half_sequence": "sequence {size}",
    "offload": "optimizer states on the host",
    "offload_activations": "saved inputs on the host",
    "lora": "LoRA in place of full",
    "qlora": "QLoRA: base in 4 bits",
    "double_micro_batch": "micro-batch {size}",
    "double_sequence": "sequence {size}",
    "no_checkpointing": "no checkpointing",
    "no_offload": "no offload",
    "back_to_zero2": "ZeRO-2 in place of ZeRO-3",
    "back_to_zero1": "ZeRO-1 in place of ZeRO-2",
    "back_to_none": "no sharding",
    "half_cards": "half the cards: {cards}",
    "double_concurrency": "{size} sequences at once",
    "double_context": "context {size}",
    "kv_fp8": "KV cache in fp8",
    "kv_q8_0": "KV cache in q8_0",
    "weights_fp8": "weights in fp8",
    "weights_awq4": "weights in 4 bits (AWQ)",
    "weights_q8_0": "weights in 8 bits (Q8_0)",
    "weights_q4_k_m": "weights in 4 bits (Q4_K_M)",
    "half_concurrency": "{size} sequences at once",
    "half_context": "context {size}",
    "more_of_the_card": "memory utilization {percent} %",
    "fewer_step_tokens": "{size} tokens a step",
    "other_division": "the same cards as tensor {tensor}, pipeline {pipeline}, data {data}",
    "double_cards": "{cards} cards, tensor parallel {tensor}",
    "double_cards_split": "{cards} cards, layers split over them",
}


def advice_on(plan: Plan, tables: Tables) -> tuple[Outcome, ...]:
    """The advice on a plan, each change planned.

    Args:
        plan: The plan.
        tables: Cards and constants.
    """

    def answering(document: Document) -> Plan | None:
        scenario, _ = parse_scenario(document)
        try:
            return None if scenario is None else planned(scenario, tables)
        except ScenarioError:
            return None

    return advise(to_document(plan.scenario), plan, answering, tables)


def advice_lines(plan: Plan, found: Iterable[Outcome]) -> Iterator[str]:
    """What would make it fit, least time for what is missing first; or what could use the rest.

    Args:
        plan: The plan.
        found: The advice on it, in order.
    """
    fits = plan.verdict is Verdict.FITS
    rows = [row for row in found if row.change.grows == fits][:MOST_LINES]
    if not rows:
        return
    yield ""
    yield "What could use the rest:" if fits else "What would help, least time for what is missing first:"
    yield from table(["change", "GiB", "time", "then"], map(_row, rows))


def _row(outcome: Outcome) -> list[str]:
    headroom = outcome.plan.worst.headroom_bytes
    left = "" if headroom is None else f", {gib(headroom):+.1f} GiB"
    verdict = words.VERDICTS[outcome.plan.verdict].lower()
    return [
        what(outcome.change),
        _bytes(outcome),
        _time(outcome),
        f"{verdict}{left}",
    ]


def _bytes(outcome: Outcome) -> str:
    """Change of the need; and what the engine may take more."""
    need, budget = f"{gib(outcome.delta_bytes):+.1f}", f"budget {gib(outcome.budget_bytes):+.1f}"
    if not outcome.budget_bytes:
        return need
    return f"{need}, {budget}" if outcome.change.parts else budget


def _time(outcome: Outcome) -> str:
    """Change of the time a token takes; on other cards that of the card time beside it."""
    time, card_time = outcome.time_frac, outcome.card_time_frac
    if time is None or card_time is None:
        return "-"
    said = "same" if abs(time) < LEAST_TIME_FRAC else f"{time:+.0%}"
    return said if abs(time - card_time) < LEAST_TIME_FRAC else f"{said} (cards {card_time:+.0%})"


def what(change: Change) -> str:
    """A change in a few words; both of a pair."""
    if change.parts:
        return " + ".join(map(what, change.parts))
    texts = {
        name: ",".join(map(str, value)) if isinstance(value, tuple) else f"{value:,}"
        for name, value in change.params.items()
    }
    return WHAT[change.name].format(**texts)


def advice_document(found: Iterable[Outcome]) -> list[dict[str, Any]]:
    """The advice as JSON values: which fields, what it saves, what it costs."""
    return [
        {
            "name": outcome.change.name,
            "values": dict(outcome.change.values),
            "verdict": str(outcome.plan.verdict),
            "delta_bytes": outcome.delta_bytes,
            "budget_bytes": outcome.budget_bytes,
            "time_frac": outcome.time_frac,
            "card_time_frac": outcome.card_time_frac,
            "other_job": outcome.change.other_job,
        }
        for outcome in found
    ]
