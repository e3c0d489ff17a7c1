"""The tracing child: from a request to a trace, how it ends early, and the command line."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from planner.units import MIB
from profiler.allocator.settings import AllocatorSettings
from profiler.job_types import ExitReason, Snapshot
from profiler.trace.answer import answer
from profiler.trace.documents import Target, TraceOptions
from profiler.trace.record import Trace
from profiler.trace.runner import TraceJob, TraceRunner
from tests.profiler.jobs import STUB, finish, is_running, until
from tests.profiler.scenarios import GPT2, LLAMA, scenario
from tests.profiler.trace.cases import AUTOCAST as BF16_AUTOCAST
from tests.profiler.trace.cases import BF16, SDPA

ROOT = Path(__file__).resolve().parents[3]
LARGE = LLAMA | {"hidden_size": 4096, "intermediate_size": 14_336, "num_attention_heads": 32, "head_dim": 128}


def start(document: dict[str, Any], options: TraceOptions | None = None) -> TraceJob:
    return TraceRunner().start(document, document["model"]["config"], options or TraceOptions())


def traced(job: TraceJob) -> tuple[Trace, Snapshot]:
    seen = finish(job)
    assert seen.reason is ExitReason.DONE, (seen.reason, seen.detail, seen.remarks, seen.stderr)
    assert job.trace is not None
    return job.trace, seen


def test_a_step_that_no_machine_here_could_run() -> None:
    """Three layers of 4096 at 8 x 2048 tokens: kernels and workspaces of the target, sizes by closed form."""
    document = scenario(
        LARGE, **BF16, **SDPA, **{"training.micro_batch": 8, "training.sequence_length": 2048}
    )
    trace, seen = traced(start(document, TraceOptions(target=Target(compute_capability=(8, 0)))))
    assert trace.params_total == trace.params_trainable > 600_000_000
    assert (trace.peak_resident_bytes or 0) < 1024 * MIB
    assert seen.started is not None
    tokens, rows = 8 * 2048, 8 * 2048 * 32
    assert {one.name for one in trace.workspaces} == {
        *("cublas_workspace", "flash_backward_workspace", "embedding_backward_workspace")
    }
    found = answer(trace, AllocatorSettings())
    backward = found.figures("backward")
    assert backward is not None
    kinds = {group.name: group.bytes for group in backward.groups}
    assert kinds["parameters"] == kinds["exp_avg"] == kinds["exp_avg_sq"] == 2 * trace.params_total
    assert kinds["cublas_workspace"] == 2 * 8_519_680
    ops = set(trace.storages.words)
    assert "aten::_scaled_dot_product_flash_attention_backward" in ops
    assert "aten::_scaled_dot_product_attention_math" not in ops
    sizes = trace.storages.bytes
    op = trace.storages.words.index("aten::_scaled_dot_product_flash_attention_backward")
    inside = {sizes[n] for n, o in enumerate(trace.storages.op) if o == op}
    assert {4 * rows, 4 * tokens * 4096, 2 * tokens * 4096} <= inside


@pytest.mark.long
def test_the_kernel_follows_the_card() -> None:
    document = scenario(LLAMA, **BF16, **SDPA)
    ops = {}
    for capability in ((7, 5), (9, 0)):
        trace, _ = traced(start(document, TraceOptions(target=Target(compute_capability=capability))))
        ops[capability] = set(trace.storages.words)
    assert "aten::_scaled_dot_product_cudnn_attention" in ops[9, 0]
    assert {"aten::_safe_softmax", "safe_softmax_temporaries"} <= ops[7, 5]
    assert not any("cudnn" in op or "flash" in op for op in ops[7, 5])


def test_dropout_keeps_one_byte_an_element_as_on_cuda() -> None:
    document = scenario(GPT2, **{"training.dropout": 0.1})
    trace, _ = traced(start(document))
    words = trace.storages.words
    assert "aten::native_dropout" in words
    masks = {
        trace.storages.bytes[number]
        for number, op in enumerate(trace.storages.op)
        if words[op] == "aten::native_dropout" and words[trace.storages.dtype[number]] == "bool"
    }
    assert masks == {2 * 40 * 96, 2 * 4 * 40 * 40}


def test_settings_that_cannot_be_followed_are_refused() -> None:
    seen = finish(start(scenario(LLAMA, **{"runtime.compile": True})))
    assert seen.reason is ExitReason.REFUSED
    assert [remark.field for remark in seen.remarks] == ["runtime.compile"]


@pytest.mark.long
def test_autocast_follows_cudas_list() -> None:
    """CUDA's autocast normalises in fp32, the CPU's in bf16: GPT-2's norms tell them apart."""
    document = scenario(GPT2, **BF16_AUTOCAST)
    trace, _ = traced(start(document))
    words, columns = trace.storages.words, trace.storages
    norms = {
        words[columns.dtype[number]]
        for number, op in enumerate(columns.op)
        if words[op] == "aten::native_layer_norm"
    }
    assert norms == {"float32"}
    assert "step" not in {words[word] for word in columns.detail}  # counters stay on the host
    casts = [words[word] for word in columns.detail if words[word] == "cast"]
    assert len(casts) >= 2 * 2 * 4  # each matrix of each layer, once a step


@pytest.mark.long
def test_a_model_without_a_class_is_refused() -> None:
    seen = finish(start(scenario({"model_type": "no_such_model"})))
    assert seen.reason is ExitReason.REFUSED
    assert [(remark.field, remark.code) for remark in seen.remarks] == [("model", "model_not_built")]


@pytest.mark.long
def test_a_step_that_fails_in_the_models_own_code_is_refused_with_its_line() -> None:
    seen = finish(start(scenario(LLAMA | {"num_key_value_heads": 3})))  # 4 heads share them unevenly
    assert seen.reason is ExitReason.REFUSED
    assert [(remark.field, remark.code) for remark in seen.remarks] == [("model", "step_failed")]
    detail = str(seen.remarks[0].params["detail"])
    assert "RuntimeError" in detail
    assert "modeling_llama.py:" in detail


def test_stopping_in_the_middle() -> None:
    deep = LLAMA | {"num_hidden_layers": 400}
    job = start(scenario(deep))
    until(lambda: job.is_over or job.snapshot().progress is not None)
    pid = job.snapshot().pid
    job.stop()
    seen = finish(job)
    assert seen.reason is ExitReason.STOPPED
    assert job.trace is None
    assert pid is not None
    assert not is_running(pid)


@pytest.mark.parametrize("line", [b"{}\n", b"nonsense\n", b""])
def test_a_bad_request_ends_at_once(line: bytes) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "profiler.trace.child"],
        cwd=ROOT,
        input=line,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert json.loads(done.stdout)["reason"] == "bad_request"


def test_a_report_that_is_no_trace_is_told() -> None:
    runner = TraceRunner((sys.executable, "-S", "-E", str(STUB), "good"))
    job = runner.start(scenario(GPT2), GPT2, TraceOptions())
    seen = finish(job)
    assert (seen.reason, seen.detail) == (ExitReason.CRASHED, "not a trace")
    assert job.trace is None


def command(tmp_path: Path, document: dict[str, Any], *more: str) -> "subprocess.CompletedProcess[str]":
    file = tmp_path / "scenario.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "profiler", "trace", str(file), *more],
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def on_card(document: dict[str, Any], gpu: str = "rtx-4090-24gb") -> dict[str, Any]:
    return document | {"hardware": {"devices": [{"gpu": gpu}]}}


def test_the_command_line_prints_json(tmp_path: Path) -> None:
    done = command(tmp_path, on_card(scenario(LLAMA, **BF16, **SDPA)), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.keys() >= {"peak_allocated_bytes", "peak_reserved_bytes", "phase", "categories", "seconds"}
    assert 0 < found["peak_tensor_bytes"] < found["peak_allocated_bytes"] < found["peak_reserved_bytes"]
    assert found["ran_out"] is None
    assert found["phase"] in found["phases"]


@pytest.mark.parametrize(
    ("document", "more", "code", "word"),
    [
        (on_card(scenario(LLAMA)), ["--allocator", "max_split_size_mb:1"], 2, "max_split_size_mb"),
        (
            on_card(scenario(LLAMA, **{"training.activation_offload": True})),
            [],
            3,
            "training.activation_offload",
        ),
        ({"version": 1}, [], 2, "task"),
    ],
)
def test_the_command_line_refuses_by_field(
    tmp_path: Path, document: dict[str, Any], more: list[str], code: int, word: str
) -> None:
    done = command(tmp_path, document, *more)
    assert done.returncode == code, done.stderr
    assert word in done.stderr
    assert done.stdout == ""
