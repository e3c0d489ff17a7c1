"""Steps measured in this process: against PyTorch's own allocator, and what happens when memory runs out."""

import dataclasses
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from planner.scenario import Scenario
from profiler.documents import Options
from profiler.worker.measure import Outcome, Run, with_groups
from profiler.worker.meters import TensorMeter, is_out_of_memory
from profiler.worker.steps import Clock
from profiler.worker.workloads import CannotBuildError, Workload, build
from tests.profiler.reports import LOGITS, SAVED, phase
from tests.profiler.scenarios import GPT2, LLAMA, scenario
from tests.profiler.worker.allocator import allocator_peaks

BF16 = {"training.precision.parameters": "bf16", "training.precision.compute": "bf16"}
AUTOCAST = {"training.precision.compute": "bf16", "training.precision.autocast": True}
LORA = {"task": "lora", "adapter": {"rank": 4, "targets": ["q_proj", "v_proj"], "dtype": "fp32"}}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def workload(config: dict[str, Any], **changes: Any) -> Workload:
    document = scenario(config, **changes)
    torch.manual_seed(0)
    return build(Scenario.model_validate(document), config, "cpu")


def tracked(work: Workload, steps: int = 1) -> Outcome:
    run = Run(work, TensorMeter(work, "cpu"), Clock(time.perf_counter), lambda _: None, lambda _: None)
    return run.steps(Options(steps=steps))


def short(changes: dict[str, Any]) -> str:
    return "-".join(f"{path.rpartition('.')[2]}_{value}"[:30] for path, value in changes.items()) or "plain"


LONG = pytest.mark.long
RNG_STATE_BYTES = 5056
"""Checkpointing keeps the generator's state of every layer; it is made without an operator."""

BF16_SCRATCH_BYTES = 90_000
"""Two packing buffers that CPU's 16-bit matrix products allocate inside the kernel, at these sizes."""


@pytest.mark.parametrize(
    ("config", "changes", "unseen_bytes"),
    [
        (GPT2, {}, 0),
        (LLAMA, {"training.checkpointing": "full", "training.gradient_accumulation": 2}, 4 * RNG_STATE_BYTES),
        (LLAMA, BF16, BF16_SCRATCH_BYTES),
        (LLAMA, LORA, 0),
        pytest.param(GPT2, {"training.checkpointing": "full"}, 4 * RNG_STATE_BYTES, marks=LONG),
        pytest.param(GPT2, {"training.dropout": 0.1}, 0, marks=LONG),
        pytest.param(LLAMA, {}, 0, marks=LONG),
        pytest.param(LLAMA, {"training.attention": "sdpa"}, 0, marks=LONG),
        pytest.param(LLAMA, {"training.optimizer.implementation": "fused"}, 0, marks=LONG),
        pytest.param(LLAMA, {"training.optimizer.implementation": "single"}, 0, marks=LONG),
        pytest.param(LLAMA, {"training.optimizer.name": "sgd_momentum"}, 0, marks=LONG),
        pytest.param(LLAMA, {"training.optimizer.name": "adafactor"}, 0, marks=LONG),
        pytest.param(LLAMA, {"training.optimizer.in_backward": True}, 0, marks=LONG),
        pytest.param(LLAMA, AUTOCAST, BF16_SCRATCH_BYTES, marks=LONG),
    ],
    ids=lambda value: "" if isinstance(value, int) else value.get("model_type") or short(value),
)
def test_the_tracker_counts_what_the_allocator_counts(
    config: dict[str, Any], changes: dict[str, Any], unseen_bytes: int
) -> None:
    """The tracker could change what it watches; the allocator's own events say that it does not."""
    peaks = allocator_peaks(workload(config, **changes))
    figures = tracked(workload(config, **changes)).figures
    assert set(figures) == set(peaks)
    for name, figure in figures.items():
        missing = peaks[name] - figure.peak_allocated_bytes
        assert -100 <= missing <= 1000 + unseen_bytes, name


def test_the_resting_bytes_are_weights_and_states() -> None:
    work = workload(LLAMA)
    params = sum(parameter.numel() for parameter in work.model.parameters())
    tensors = len(list(work.model.parameters()))
    rest = tracked(work).figures["rest"]
    kinds = {group.name: group.bytes for group in rest.groups}
    assert kinds["parameters"] == kinds["exp_avg"] == kinds["exp_avg_sq"] == 4 * params
    assert kinds["step"] == 4 * tensors
    assert rest.peak_allocated_bytes == sum(kinds.values())


def test_a_loop_that_holds_its_outputs_shows_them() -> None:
    kept = tracked(workload(LLAMA, **{"runtime.name": "generic"})).figures["rest"]
    dropped = tracked(workload(LLAMA)).figures["rest"]
    cache = 2 * 3 * 80 * 48 * 4
    logits = 80 * 1013 * 4
    scalar = 4
    assert kept.peak_allocated_bytes - dropped.peak_allocated_bytes == cache + logits + scalar
    assert {group.name: group.bytes for group in kept.groups}["kept_outputs"] == cache


def test_groups_add_up_and_the_largest_come_first() -> None:
    outcome = tracked(workload(GPT2), steps=2)
    for figure in outcome.with_times():
        assert sum(group.bytes for group in figure.groups) == figure.peak_allocated_bytes
        sizes = [note.bytes for note in figure.largest]
        assert sizes == sorted(sizes, reverse=True)
        assert sum(sizes) <= figure.peak_allocated_bytes
    assert {time.step for time in outcome.times} == {2, 3}
    assert {time.phase for time in outcome.times} == {"forward", "loss", "backward", "optimizer_step"}


def test_logits_are_told_from_activations() -> None:
    figures = tracked(workload(LLAMA)).figures
    forward = {group.name: group for group in figures["forward"].groups}
    assert forward["logits"].bytes == 80 * 1013 * 4
    assert forward["logits"].category == "logits_and_loss"
    loss = {
        group.name: group.bytes for group in figures["loss"].groups if group.category == "logits_and_loss"
    }
    assert loss["loss"] == pytest.approx(3 * 80 * 1013 * 4, abs=100)


def _runs_out_at(work: Workload, call: int, error: Exception) -> Workload:
    calls = iter(range(1, 1000))
    original = work.make_batch

    def make() -> dict[str, Any]:
        if next(calls) == call:
            raise error
        return original()

    return dataclasses.replace(work, make_batch=make)


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory"), MemoryError()])
def test_running_out_of_memory_is_a_result(error: Exception) -> None:
    outcome = tracked(_runs_out_at(workload(GPT2), 3, error), steps=3)
    assert outcome.out_of_memory is not None
    assert (outcome.out_of_memory.step, outcome.out_of_memory.phase) == (3, "forward")
    assert list(outcome.figures) == ["rest", "forward", "loss", "backward", "optimizer_step"]


def test_running_out_in_the_first_step_shows_how_far_it_came() -> None:
    work = workload(GPT2)
    work.model.get_input_embeddings().register_forward_hook(_fail)
    outcome = tracked(work)
    assert outcome.out_of_memory is not None
    assert list(outcome.figures) == ["forward"]


def _fail(*_: object) -> None:
    raise RuntimeError(
        "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes"
    )


def test_other_errors_are_errors() -> None:
    assert not is_out_of_memory(RuntimeError("shape mismatch"))
    with pytest.raises(RuntimeError, match="shape"):
        tracked(_runs_out_at(workload(GPT2), 2, RuntimeError("shape mismatch")))


def test_cuda_figures_keep_the_allocators_peak_and_name_the_rest() -> None:
    measured = phase("forward", reserved=2000).model_copy(update={"peak_allocated_bytes": 1000})
    joined = with_groups(measured, phase("forward", SAVED, LOGITS))
    assert {(group.name, group.bytes, group.layer) for group in joined.groups} == {
        ("saved_activations", 500, "allocated"),
        ("logits", 300, "allocated"),
        ("not_followed", 200, "allocated"),
        ("cache", 1000, "reserved"),
    }
    assert (joined.peak_allocated_bytes, joined.peak_reserved_bytes) == (1000, 2000)
    assert with_groups(measured, None).groups[0].name == "not_followed"


def test_the_loss_function_is_put_back() -> None:
    work = workload(GPT2)
    before = work.model.loss_function
    tracked(work)
    assert work.model.loss_function is before


def test_a_class_that_computes_its_own_loss() -> None:
    bert = {
        "model_type": "bert", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 64, "vocab_size": 501, "max_position_embeddings": 64,
    }  # fmt: skip
    figures = tracked(workload(bert)).figures
    assert list(figures) == ["rest", "forward", "loss", "backward", "optimizer_step"]


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "no_such_model"},
        {"model_type": "gpt2", "n_embd": 97, "n_head": 4},
        {"model_type": "vit"},
    ],
)
def test_a_model_without_a_class_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(CannotBuildError) as caught:
        workload(config)
    assert caught.value.remark.field == "model"
    assert caught.value.remark.params["given"] == config["model_type"]


def test_code_that_comes_with_a_model_is_never_run() -> None:
    config = GPT2 | {
        "auto_map": {"AutoModelForCausalLM": "evil--modeling.Evil"},
        "quantization_config": {"a": 1},
    }
    assert type(workload(config).model).__module__ == "transformers.models.gpt2.modeling_gpt2"


def test_adapters_train_and_the_base_does_not() -> None:
    model = workload(LLAMA, **LORA).model
    trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    assert trained
    assert all("lora_" in name for name in trained)
    assert len(trained) == 3 * 2 * 2


def test_adapter_targets_that_are_not_there() -> None:
    with pytest.raises(CannotBuildError) as caught:
        workload(LLAMA, task="lora", adapter={"targets": ["c_attn"]})
    assert caught.value.remark.field == "adapter"
