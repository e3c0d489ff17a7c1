"""Show the working: every entry's formula, with its symbols put in, gives the entry's bytes."""

import ast
import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from planner.ledger import Entry
from planner.references import REFERENCES
from tests.planner.training import cases

BINARY: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
CALLS: dict[str, Callable[..., Fraction | int]] = {"ceil": math.ceil, "min": min, "max": max}


def evaluate(formula: str, symbols: dict[str, Fraction]) -> Fraction:
    """A formula of numbers, symbols, + - * / ( ), ceil, min and max; anything else is an error."""
    return _value(ast.parse(formula, mode="eval").body, symbols)


def _value(node: ast.expr, symbols: dict[str, Fraction]) -> Fraction:
    match node:
        case ast.Constant(value=int() | float()):
            return Fraction(node.value)  # type: ignore[arg-type]
        case ast.Name():
            return symbols[node.id]
        case ast.BinOp():
            return BINARY[type(node.op)](_value(node.left, symbols), _value(node.right, symbols))
        case ast.Call(func=ast.Name(id=name), keywords=[]):
            return Fraction(CALLS[name](*(_value(argument, symbols) for argument in node.args)))
        case _:
            raise AssertionError(ast.dump(node))


FSDP = {"sharding": "fsdp"}
LORA = {"method": "lora", "rank": 16, "dropout": 0.05, "targets": "all_linear"}
MEGATRON = {"name": "megatron_lm"}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": (cases.LLAMA_8B, {}),
    "checkpointed": (cases.LLAMA_8B, {"training": {"checkpointing": "full"}}),
    "every-third": (cases.LLAMA_8B, {"training": {"checkpointing": "every_k", "checkpoint_every": 3}}),
    "selective-attention": (
        cases.llama(64, 4, 4, 4, 128, 512),
        {
            "runtime": {"name": "hf_trainer"},
            "training": {"checkpointing": "selective_attention", "attention": "eager"},
        },
    ),
    "selective-op": (cases.LLAMA_8B, {"training": {"checkpointing": "selective_op"}}),
    "eager": (cases.LLAMA_1B, {"training": {"attention": "eager", "sequence_length": 512}}),
    "autocast": (cases.LLAMA_1B, {"runtime": {"name": "hf_trainer"}}),
    "old-trainer": (cases.LLAMA_1B, {"runtime": {"name": "hf_trainer", "version": "4.45.2"}}),
    "chunked": (cases.LLAMA_8B, {"runtime": {"name": "torchtune"}}),
    "fused": (cases.LLAMA_8B, {"training": {"loss": "fused"}}),
    "fused-linear": (cases.LLAMA_8B, {"training": {"loss": "fused_linear"}}),
    "gpt2": (cases.GPT2, {}),
    "mixtral": (cases.MIXTRAL, {}),
    "latent": (cases.DEEPSEEK, {}),
    "latent-ep": (cases.DEEPSEEK, {"devices": 4, "parallel": {"expert": 4, "sharding": "fsdp"}}),
    "ddp": (cases.LLAMA_1B, {"devices": 2}),
    "zero1": (cases.LLAMA_1B, {"devices": 3, "parallel": {"sharding": "zero1"}}),
    "zero2": (cases.LLAMA_1B, {"devices": 3, "parallel": {"sharding": "zero2"}}),
    "zero3": (
        cases.LLAMA_8B,
        {"devices": 3, "runtime": {"name": "deepspeed"}, "parallel": {"sharding": "zero3"}},
    ),
    "fsdp": (cases.LLAMA_8B, {"devices": 7, "parallel": FSDP}),
    "lora": (cases.LLAMA_8B, {"task": "lora", "adapter": LORA}),
    "lora-fsdp": (
        cases.LLAMA_8B,
        {
            "task": "lora",
            "adapter": LORA,
            "devices": 2,
            "runtime": {"name": "hf_trainer", "version": "4.48.1"},
            "training": {"checkpointing": "full"},
            "parallel": FSDP,
        },
    ),
    "qlora": (cases.LLAMA_8B, {"task": "qlora", "adapter": {**LORA, "base": "nf4_dq"}}),
    "qlora-nf4": (cases.LLAMA_8B, {"task": "qlora", "adapter": {**LORA, "base": "nf4"}}),
    "qlora-fsdp": (
        cases.LLAMA_8B,
        {"task": "qlora", "adapter": {**LORA, "base": "nf4_dq"}, "devices": 4, "parallel": FSDP},
    ),
    "int8": (cases.LLAMA_8B, {"task": "qlora", "adapter": {**LORA, "base": "int8"}}),
    "gptq": (cases.LLAMA_8B, {"task": "qlora", "adapter": {**LORA, "base": "gptq4"}}),
    "gptq-no-groups": (
        {**cases.LLAMA_8B, "quantization_config": {"bits": 4, "group_size": -1}},
        {"task": "qlora", "adapter": {**LORA, "base": "gptq4"}},
    ),
    "unsloth": (cases.LLAMA_8B, {"task": "qlora", "adapter": {}, "runtime": {"name": "unsloth"}}),
    "megatron": (
        cases.LLAMA_8B,
        {"devices": 8, "runtime": MEGATRON, "parallel": {"tensor": 4, "sequence": True}},
    ),
    "deepspeed-master": (
        cases.LLAMA_1B,
        {"devices": 3, "runtime": {"name": "deepspeed"}, "parallel": {"sharding": "zero2"}},
    ),
    "pipeline-fsdp": (
        cases.LLAMA_8B,
        {"devices": 8, "runtime": {"name": "torchtitan"}, "parallel": {"pipeline": 2, **FSDP}},
    ),
    "old-megatron": (cases.LLAMA_1B, {"devices": 2, "runtime": {**MEGATRON, "version": "2021-05"}}),
    "megatron-interleaved": (
        cases.LLAMA_8B,
        {
            "devices": 8,
            "runtime": MEGATRON,
            "training": {"gradient_accumulation": 8},
            "parallel": {"pipeline": 4, "virtual_stages": 4, "sharding": "zero1"},
        },
    ),
    "megatron-full": (
        cases.LLAMA_8B,
        {
            "devices": 8,
            "runtime": MEGATRON,
            "training": {"checkpointing": "full", "gradient_accumulation": 3},
            "parallel": {"pipeline": 4, "virtual_stages": 2, "tensor": 2},
        },
    ),
    **{
        f"optimizer-{name}-{sharding}": (
            cases.LLAMA_1B,
            {
                "devices": 3,
                "training": {"optimizer": {"name": name}},
                "parallel": {"sharding": sharding},
            },
        )
        for name in (
            "adamw", "adam", "sgd", "sgd_momentum", "adafactor",
            "lion", "adamw_8bit", "lion_8bit", "muon", "galore",
        )
        for sharding in ("none", "fsdp")
    },
}  # fmt: skip


def all_entries(name: str) -> list[Entry]:
    config, blocks = CASES[name]
    return [entry for ledger in cases.ledgers(config, **blocks) for entry in ledger.entries]


@pytest.mark.parametrize("name", CASES)
def test_the_formula_of_every_entry_gives_its_bytes(name: str) -> None:
    for entry in all_entries(name):
        symbols = {key: Fraction(value) for key, value in entry.symbols}
        assert evaluate(entry.formula, symbols) == entry.bytes, (entry.name, entry.formula, entry.symbols)


@pytest.mark.parametrize("name", CASES)
def test_every_symbol_stands_in_the_formula_and_every_reference_exists(name: str) -> None:
    for entry in all_entries(name):
        names = {node.id for node in ast.walk(ast.parse(entry.formula)) if isinstance(node, ast.Name)}
        assert {key for key, _ in entry.symbols} == names - set(CALLS), (entry.name, entry.formula)
        assert entry.reference in REFERENCES, entry.reference
        assert type(entry.bytes) is int, entry.name
        assert entry.bytes > 0, entry.name
