"""`search` on the command line: for how much training its days and dollars are, and who says so."""

import argparse
from typing import Any

from planner.cost.run_cost import tokens_of
from planner.scenario import Scenario
from planner.search.step import step_sequences
from planner.search.types import Limits


def sequences_of(options: argparse.Namespace, question: Scenario) -> int | None:
    """Sequences of an optimizer step: the option's, else the question's; None where neither tells."""
    given: int | None = options.sequences
    return given or step_sequences(question)


def job_line(options: argparse.Namespace, question: Scenario, limits: Limits) -> str:
    """The job in a line: training tokens, sequences of a step and their length, each with where it comes from."""
    tokens, sequences = _sources(options, question)
    return (
        f"Job: {limits.tokens:,.0f} training tokens ({tokens}), {limits.sequences:,} sequences a step ({sequences}) "
        f"of {question.training.sequence_length:,} tokens."
    )


def job_document(options: argparse.Namespace, question: Scenario, limits: Limits) -> dict[str, Any]:
    """The same as plain values."""
    tokens, sequences = _sources(options, question)
    return {
        "tokens": limits.tokens,
        "tokens_from": tokens,
        "sequences": limits.sequences,
        "sequences_from": sequences,
        "sequence_length": question.training.sequence_length,
    }


def _sources(options: argparse.Namespace, question: Scenario) -> tuple[str, str]:
    tokens = _source(options.tokens, tokens_of(question.workload), "tokens")
    return tokens, _source(options.sequences, step_sequences(question), "sequences")


def _source(option: float | None, told: float | None, name: str) -> str:
    if option is not None:
        return f"--{name}"
    return f"assumed; --{name} sets them" if told is None else "the scenario's"
