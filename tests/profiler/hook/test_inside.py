"""`watch_training` around loops in this process."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional
from transformers import AutoConfig, AutoModelForCausalLM

import profiler
from hardware_db import load_tables
from planner.estimate import plan
from planner.scenario import Scenario
from profiler.compare import compare
from profiler.hook.lines import Lines
from profiler.hook.settings import HookSettings
from profiler.hook.watcher import Watcher
from profiler.outside import with_question
from profiler.report import Report, load_report
from tests.profiler.scenarios import GPT2, LLAMA, scenario

BACKWARD = torch.autograd.backward


def small(width: int = 16) -> tuple[Any, Any]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.Tanh(), torch.nn.Linear(width, 4))
    return model, torch.optim.AdamW(model.parameters())


def train(model: Any, optimizer: Any, steps: int, width: int = 16) -> list[float]:
    losses = []
    for _ in range(steps):
        logits = model(torch.randn(8, width))
        loss = functional.cross_entropy(logits, torch.zeros(8, dtype=torch.long))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def report_of(watched: Any) -> Report:
    assert isinstance(watched.report, Report)
    return watched.report


@pytest.mark.parametrize("follow_step", [0, 2])
def test_losses_are_the_same_to_the_bit(follow_step: int) -> None:
    bare = train(*small(), 5)
    model, optimizer = small()
    with profiler.watch_training(model, optimizer, follow_step=follow_step) as watched:
        assert train(model, optimizer, 5) == bare
    assert len(report_of(watched).memory_by_step) == 5


def test_everything_is_as_before_afterwards() -> None:
    model, optimizer = small()
    with profiler.watch_training(model, optimizer):
        assert torch.autograd.backward is not BACKWARD
        train(model, optimizer, 2)
    assert torch.autograd.backward is BACKWARD
    assert not model._forward_hooks
    assert not model._forward_pre_hooks
    assert not optimizer._optimizer_step_pre_hooks
    assert not any(parameter._post_accumulate_grad_hooks for parameter in model.parameters())


@pytest.mark.parametrize(("config", "attention"), [(LLAMA, "eager"), (GPT2, "eager")], ids=["llama", "gpt2"])
def test_a_followed_step_is_what_is_predicted(config: dict[str, Any], attention: str) -> None:
    """A user's own loop around a transformers model beside the plan of its scenario: within 1 % in every phase."""
    made = plan(Scenario.model_validate(scenario(config)), load_tables())
    settings = AutoConfig.for_model(**config)
    settings.use_cache = False
    for name in ("attn_pdrop", "embd_pdrop", "resid_pdrop", "attention_dropout"):
        if hasattr(settings, name):
            setattr(settings, name, 0.0)
    model = AutoModelForCausalLM.from_config(
        settings, dtype=torch.float32, attn_implementation=attention
    ).train()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    with profiler.watch_training(model, optimizer, follow_step=2) as watched:
        for _ in range(2):
            tokens = torch.randint(0, config["vocab_size"], (2, 40))
            out = model(input_ids=tokens, labels=tokens)
            loss = out["loss"]
            del out
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    report = with_question(report_of(watched), made)
    assert report.params_total == made.model.params_total
    for phase in compare(made.worst.ledger, report).phases:
        assert phase.total.residual_frac == pytest.approx(0, abs=0.01), (
            phase.phase,
            phase.total,
            phase.bundles,
        )


def test_a_block_that_raises_leaves_a_report(tmp_path: Path) -> None:
    model, optimizer = small()
    out = tmp_path / "report.json"
    watched = profiler.watch_training(model, optimizer, report=out)

    def run() -> None:
        with watched:
            train(model, optimizer, 3)
            raise KeyError("data")

    with pytest.raises(KeyError, match="data"):
        run()
    report = load_report(out.read_bytes())
    assert (report.outcome, len(report.memory_by_step)) == ("failed", 3)
    assert report.remarks[0].params["detail"] == "KeyError: 'data'"
    assert torch.autograd.backward is BACKWARD


def test_running_out_of_memory_is_a_result() -> None:
    model, optimizer = small()
    watched = profiler.watch_training(model, optimizer)

    def run() -> None:
        with watched:
            train(model, optimizer, 2)
            model(torch.randn(8, 16)).sum()
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")

    with pytest.raises(RuntimeError, match="allocate"):
        run()
    report = report_of(watched)
    assert report.outcome == "out_of_memory"
    assert report.out_of_memory is not None
    assert report.out_of_memory.step == 3


def test_evaluation_is_no_step() -> None:
    model, optimizer = small()
    with profiler.watch_training(model, optimizer) as watched:
        for _ in range(3):
            train(model, optimizer, 1)
            model.eval()
            with torch.no_grad():
                model(torch.randn(8, 16))
            model.train()
    assert [memory.step for memory in report_of(watched).memory_by_step] == [1, 2, 3]


def test_micro_batches_and_several_optimizers_are_one_step() -> None:
    model, _ = small()
    first, second = (torch.optim.SGD(part.parameters(), 0.1) for part in (model[0], model[2]))
    with profiler.watch_training(model, [first, second]) as watched:
        for _ in range(4):
            for _ in range(3):
                model(torch.randn(8, 16)).sum().backward()
            first.step()
            second.step()
    report = report_of(watched)
    assert [memory.step for memory in report.memory_by_step] == [1, 2, 3, 4]
    assert {time.phase for time in report.steps} >= {"forward", "backward", "optimizer_step"}


def test_a_broken_hook_never_reaches_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("the hook's own mistake")

    bare = train(*small(), 3)
    monkeypatch.setattr(Watcher, "_enter", broken)
    model, optimizer = small()
    with profiler.watch_training(model, optimizer) as watched:
        assert train(model, optimizer, 3) == bare
    assert {remark.code for remark in report_of(watched).remarks} == {"hook_problem"}


def test_a_compiled_model_is_watched_and_not_followed() -> None:
    model, optimizer = small()
    compiled = torch.compile(model, backend="eager")
    with profiler.watch_training(compiled, optimizer, follow_step=2) as watched:
        train(compiled, optimizer, 3)
    report = report_of(watched)
    assert len(report.memory_by_step) == 3
    assert "compiled_not_followed" in {remark.code for remark in report.remarks}


@pytest.mark.parametrize(("name", "value"), [("follow_step", -1), ("every", 0)])
def test_a_number_out_of_range_is_told(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{name}: {value} given"):
        profiler.watch_training(*small(), **{name: value})


def test_dear_sampling_is_spaced_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock of our own: steps of 1 ms of which the hook takes a fifth are sampled ever more rarely."""
    now = {"s": 0.0}
    monkeypatch.setattr("profiler.hook.watcher.time.perf_counter", lambda: now["s"])
    lines = Lines(str(tmp_path / "1.lines"))
    watcher = Watcher(lines, HookSettings(folder=str(tmp_path)))
    enter = watcher._enter

    def dear(phase: str) -> None:
        enter(phase)
        now["s"] += 0.00005

    monkeypatch.setattr(watcher, "_enter", dear)
    model, optimizer = small()
    for _ in range(400):
        watcher.forward_begins((), trains=True)
        watcher.backward_begins()
        watcher.optimizer_begins(optimizer)
        now["s"] += 0.001
        watcher.optimizer_ends()
    watcher.close()
    written = [json.loads(text) for text in (tmp_path / "1.lines").read_text(encoding="utf-8").splitlines()]
    steps = [one["step"] for one in written if one["e"] == "step"]
    end = written[-1]
    assert (end["seen"], end["sampled"]) == (400, len(steps))
    assert end["own_s"] / end["steps_s"] / end["every"] <= 0.02
    assert 8 <= end["every"] <= 16
    assert len(steps) < 120
    del model
