"""Whatever is planned: a file is refused with a reason, or it reads back as the same plan."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hardware_db import load_tables
from planner.cli.files import REMARKS, export_lines, refused_export
from planner.estimate import plan
from planner.exports.catalog import offered, read_back
from planner.issues import ScenarioError
from planner.plan_types import Plan
from planner.validation import parse_scenario
from tests.planner.exports.cases import Document, question

TYPES = ["fp32", "bf16", "fp16"]


def maybe(values: list[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), st.sampled_from(values))


def block(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Document]:
    """A block of a scenario; what is None is left out."""
    return st.fixed_dictionaries(fields).map(lambda b: {k: v for k, v in b.items() if v is not None})


TRAINING = block(
    micro_batch=maybe([1, 3]),
    gradient_accumulation=maybe([1, 5]),
    sequence_length=maybe([512, 3000]),
    packing=maybe(["none", "packed"]),
    attention=maybe(["eager", "sdpa", "flash"]),
    loss=maybe(["standard", "chunked", "fused_linear"]),
    checkpointing=maybe(["none", "full", "selective_attention"]),
    checkpoint_reentrant=maybe([True, False]),
    activation_offload=maybe([True]),
    precision=block(parameters=maybe(TYPES), compute=maybe(TYPES), autocast=maybe([True, False])),
    optimizer=block(
        name=st.sampled_from(
            ["adamw", "adamw_8bit", "adam", "sgd", "sgd_momentum", "adafactor", "lion", "muon"]
        ),
        implementation=maybe(["foreach", "fused", "single"]),
        paged=maybe([True]),
        in_backward=maybe([True]),
    ),
)
ADAPTER = block(
    method=st.sampled_from(["lora", "dora", "rslora", "ia3"]),
    rank=maybe([8, 64]),
    alpha=maybe([16, 17.5]),
    dropout=maybe([0.0, 0.1]),
    targets=maybe(
        ["all_linear", ["q_proj", "v_proj"], ["q_proj", "down_proj"], ["gate_proj", "up_proj", "down_proj"]]
    ),
    base=maybe(["bf16", "fp16", "nf4", "nf4_dq", "int8", "gptq4"]),
    modules_to_save=maybe([["lm_head"]]),
)
PARALLEL = block(
    sharding=maybe(["none", "zero1", "zero2", "zero3", "fsdp"]),
    reshard_after_forward=maybe([True, False]),
    tensor=maybe([1, 2]),
    bucket_mb=maybe([50, 12.5]),
    offload=maybe([
        {"optimizer": "cpu", "gradients": "cpu"},
        {"optimizer": "nvme", "gradients": "cpu", "parameters": "nvme"},
        {"optimizer": "cpu", "gradients": "cpu", "parameters": "cpu"},
    ]),
)  # fmt: skip
JOBS = st.builds(
    lambda task, runtime, cards, compiled, training, adapter, parallel: (
        question(
            task,
            runtime,
            cards=cards,
            training=training,
            parallel=parallel,
            **({"adapter": adapter} if task in {"lora", "qlora"} else {}),
        )
        | {"runtime": {"name": runtime, "compile": compiled}}
    ),
    st.sampled_from(["pretrain", "full", "lora", "qlora"]),
    st.sampled_from(["hf_trainer", "generic", "deepspeed", "torchtune", "megatron_lm", "unsloth"]),
    st.sampled_from([1, 4]),
    st.booleans(),
    TRAINING,
    ADAPTER,
    PARALLEL,
)
SERVERS = st.builds(
    lambda engine, cards, serving: question(
        "serve", engine, cards=cards, serving=serving, parallel={"tensor": cards}
    ),
    st.sampled_from(["vllm", "sglang", "llama_cpp"]),
    st.sampled_from([1, 2]),
    block(
        weights=maybe(["bf16", "fp16", "fp8", "awq4", "q4_k_m"]),
        kv_cache=maybe(["fp8", "fp16", "bf16"]),
        max_model_len=maybe([4096, 9000]),
        max_sequences=maybe([7, 300]),
        batched_tokens=maybe([2048, 9000]),
        memory_utilization=maybe([0.5, 0.915]),
        block_size=maybe([16, 32]),
        cuda_graphs=maybe([True, False]),
        prefix_caching=maybe([True, False]),
    ),
)


def planned(document: Document) -> Plan | None:
    scenario, _ = parse_scenario(document)
    if scenario is None:
        return None
    try:
        return plan(scenario, load_tables())
    except ScenarioError:
        return None


def figures(made: Plan | None) -> Any:
    return None if made is None else ([device.ledger.entries for device in made.devices], made.serving)


def hold(document: Document) -> None:
    made = planned(document)
    if made is None:
        return
    files, refused = offered(made, load_tables())
    for target, problem in refused:
        assert refused_export(target, problem)
    for file in files:
        assert {code for code, _ in file.remarks} <= set(REMARKS)
        assert all(export_lines(file))
        again = read_back(made.scenario, file)
        if again is not None:
            assert figures(planned(again)) == figures(made), (file.target, file.text, again)


@given(JOBS)
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
def test_any_training_job(document: Document) -> None:
    hold(document)


@given(SERVERS)
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
def test_any_server(document: Document) -> None:
    hold(document)


@pytest.mark.long
@given(st.one_of(JOBS, SERVERS))
@settings(max_examples=3000, suppress_health_check=[HealthCheck.too_slow])
def test_very_many(document: Document) -> None:
    hold(document)
