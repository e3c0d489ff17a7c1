"""Every file that is written reads back as the same plan, from a question that no longer says what the file says."""

from __future__ import annotations

from typing import Any

import pytest

import run
from hardware_db import load_tables
from planner.exports.catalog import READ_BY, TARGETS, TRAINING, export, offered, read_back, stripped
from planner.exports.types import Export, ExportRefusedError
from planner.imports import FORMATS, import_text
from planner.plan_types import Plan
from planner.scenario import to_document
from tests.planner.exports.cases import CASES, planned, planned_document


def pairs() -> list[tuple[str, str]]:
    return [
        (name, file.target)
        for name in CASES
        for file in offered(planned(name), load_tables())[0]
        if file.carries
    ]


PAIRS = pairs()


def figures(plan: Plan) -> list[Any]:
    """Everything a plan says about memory: each group's ledger, and what the server holds."""
    ledgers = [(device.indices, device.ledger.entries) for device in plan.devices]
    return [ledgers, plan.serving, plan.trainable_params]


def leaf(document: Any, path: str) -> Any:
    for part in path.split("."):
        document = document[int(part)] if isinstance(document, list) else (document or {}).get(part)
    return document


@pytest.mark.parametrize(("name", "target"), PAIRS)
def test_a_file_reads_back_as_the_same_plan(name: str, target: str) -> None:
    plan = planned(name)
    file = export(plan, target, load_tables())
    again = read_back(plan.scenario, file)
    assert again is not None
    assert figures(planned_document(again)) == figures(plan)


@pytest.mark.parametrize(("name", "target"), PAIRS)
def test_the_question_it_is_read_onto_lacks_what_it_says(name: str, target: str) -> None:
    plan = planned(name)
    file = export(plan, target, load_tables())
    before = to_document(plan.scenario)
    base = stripped(plan.scenario, file.carries)
    said = [path for path in file.carries if leaf(before, path) is not None]
    assert said
    assert [path for path in said if path not in {"task", "model"} and leaf(base, path) is not None] == []


@pytest.mark.parametrize(("name", "target"), PAIRS)
def test_a_file_says_what_program_it_is_for(name: str, target: str) -> None:
    """Read without being told the format, and with nothing in it that the importer has not heard of."""
    file = export(planned(name), target, load_tables())
    found = import_text(file.text, stripped(planned(name).scenario, file.carries))
    assert found.source == READ_BY[target]
    assert [remark for remark in found.trouble if remark.reason != "no_memory"] == []


def test_the_page_about_files_names_every_format() -> None:
    page = (run.ROOT / "docs" / "exports.md").read_text(encoding="utf-8")
    assert [name for name in (*TARGETS, *FORMATS) if f"`{name}`" not in page] == []


def test_every_pair_has_a_case() -> None:
    assert {target for _, target in PAIRS} == set(READ_BY)
    assert len(PAIRS) >= 65, "a case is refused that was not before"
    others = {"sglang", "llama_cpp", "tensorrt_llm", "tgi"}
    assert set(READ_BY.values()) | others == set(FORMATS), "the others: imports/test_server_commands"
    assert set(READ_BY) - {"serve"} <= set(TRAINING)


@pytest.mark.parametrize(
    ("name", "target", "old", "new"),
    [
        ("ds_zero3", "deepspeed", '"stage": 3', '"stage": 2'),
        ("tune_lora", "torchtune", "lora_rank: 16", "lora_rank: 64"),
        ("hf_qlora", "axolotl", "sequence_len: 2048", "sequence_len: 4096"),
        ("hf_fp16", "llama_factory", "lora_rank: 16", "lora_rank: 128"),
        ("megatron_llama", "megatron", "--tensor-model-parallel-size 2", "--tensor-model-parallel-size 4"),
        ("vllm", "serve", "--kv-cache-dtype fp8", ""),
        ("hf_full_keep", "accelerate", "distributed_type: FSDP", "distributed_type: MULTI_GPU"),
        (
            "hf_full_fsdp",
            "training_arguments",
            '"gradient_checkpointing": true',
            '"gradient_checkpointing": false',
        ),
        ("hf_qlora", "peft", "r=16", "r=256"),
    ],
)
def test_another_file_is_another_plan(name: str, target: str, old: str, new: str) -> None:
    plan = planned(name)
    file = export(plan, target, load_tables())
    assert old in file.text
    other = Export(
        target=target, file_name=file.file_name, text=file.text.replace(old, new, 1), carries=file.carries
    )
    again = read_back(plan.scenario, other)
    assert again is not None
    assert figures(planned_document(again)) != figures(plan)


@pytest.mark.parametrize(
    ("name", "target", "code", "field"),
    [
        ("vllm", "deepspeed", "for_training", "task"),
        ("ds_zero1", "triton", "for_serving", "task"),
        ("hf_full_fsdp", "torchtune", "runtime", "runtime.name"),
        ("hf_full_fsdp", "peft", "adapter", "task"),
        ("hf_full_fsdp", "axolotl", "field", "training.precision.parameters"),
        ("megatron_llama", "skypilot", "offer", "hardware.devices"),
        ("vllm", "abacus", "target_unknown", ""),
        ("llama_cpp", "abacus", "target_unknown", ""),
    ],
)
def test_a_program_that_cannot_do_it_is_refused(name: str, target: str, code: str, field: str) -> None:
    with pytest.raises(ExportRefusedError) as refusal:
        export(planned(name), target, load_tables())
    assert (refusal.value.code, refusal.value.field) == (code, field)
    assert refusal.value.allowed


def test_every_target_is_made_of_some_case() -> None:
    made = {file.target for name in CASES for file in offered(planned(name), load_tables())[0]}
    assert made | {"report"} == set(TARGETS)
