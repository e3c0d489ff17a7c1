"""From the hook's lines to a report, whatever the file holds. No PyTorch."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from profiler.hook.collect import collect, read_process
from profiler.hook.lines import Lines
from profiler.hook.settings import HookSettings, settings_from
from profiler.hook.wrap import keep_snapshot
from profiler.report import Report, dump_report, load_report
from profiler.report_parts import MAX_STEPS, Program

BEGIN: dict[str, Any] = {"e": "begin", "pid": 7, "rank": 0, "world": 1, "host": "here", "torch": "2.13"}
END: dict[str, Any] = {
    "e": "end", "own_s": 0.01, "steps_s": 1.0, "sampled": 3, "seen": 3, "every": 1, "problem": "", "stats": {},
}  # fmt: skip
CUDA: dict[str, Any] = {"e": "model", "total": 10, "trainable": 8, "device": "cuda", "device_name": "Card"}


def step(number: int, allocated: int = 100, after: int = 50, **more: Any) -> dict[str, Any]:
    phases = {"forward": [0.1, allocated, 2 * allocated], "backward": [0.2, allocated + 5, 2 * allocated]}
    return {
        "e": "step", "step": number, "time_s": 0.4, "phases": phases, "after": [after, 80],
        "resident": 1000 + number, "followed": False, **more,
    }  # fmt: skip


def write(folder: Path, *lines: dict[str, Any] | bytes, name: str = "1") -> None:
    data = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    (folder / f"{name}.lines").write_bytes(b"\n".join(data) + b"\n")


def made(folder: Path, **more: Any) -> Report:
    report = collect(folder, Program(way="wrap", name="train.py"), **more)
    assert report is not None
    assert load_report(dump_report(report).encode()) == report
    return report


def test_a_whole_run(tmp_path: Path) -> None:
    write(tmp_path, BEGIN, CUDA, step(1, 900), step(2, 100), step(3, 120), END)
    report = made(tmp_path)
    assert (report.outcome, report.environment.device, report.params_trainable) == ("completed", "cuda", 8)
    peaks = {figures.phase: figures.peak_allocated_bytes for figures in report.phases}
    assert peaks == {"forward": 120, "backward": 125}, "the first step is no usual one"
    assert report.phases[1].peak_reserved_bytes == 240
    assert report.phases[0].time_s == pytest.approx(0.1)
    assert [memory.after_allocated_bytes for memory in report.memory_by_step] == [50, 50, 50]
    assert report.overhead is not None
    assert report.overhead.frac == pytest.approx(0.01)
    assert [remark.code for remark in report.remarks] == ["phase_times_on_host"]


def test_one_step_is_better_than_none(tmp_path: Path) -> None:
    write(tmp_path, BEGIN, CUDA, step(1, 900))
    report = made(tmp_path)
    assert report.outcome == "interrupted"
    assert report.phases[0].peak_allocated_bytes == 900
    assert made(tmp_path, running=True).outcome == "completed"


def test_a_file_that_breaks_off(tmp_path: Path) -> None:
    write(tmp_path, BEGIN, CUDA, step(1), step(2), b'{"e": "step", "step": 3, "time', b"[1, 2]", b"\xff{")
    report = made(tmp_path)
    assert [memory.step for memory in report.memory_by_step] == [1, 2]
    assert {remark.code: remark.params for remark in report.remarks}["lines_were_cut"] == {"lines": 3}


def test_out_of_memory_is_a_result(tmp_path: Path) -> None:
    oom = {"e": "oom", "step": 2, "phase": "backward", "detail": "CUDA out of memory"}
    write(tmp_path, BEGIN, CUDA, step(1), oom, END)
    report = made(tmp_path)
    assert report.outcome == "out_of_memory"
    assert report.out_of_memory is not None
    assert (report.out_of_memory.step, report.out_of_memory.phase) == (2, "backward")


def test_ranks_are_merged_and_the_missing_one_named(tmp_path: Path) -> None:
    world = BEGIN | {"world": 3}
    write(tmp_path, world, CUDA, step(1), step(2, 100), END, name="1")
    write(tmp_path, world | {"rank": 2}, CUDA, step(1), step(2, 300, time_s=0.9), name="2")
    report = made(tmp_path)
    assert [(rank.rank, rank.outcome, rank.peak_allocated_bytes) for rank in report.ranks] == [
        (0, "completed", 105),
        (1, "missing", None),
        (2, "silent", 305),
    ]
    assert report.ranks[2].step_s == pytest.approx(0.9)


def test_of_a_restarted_rank_the_longer_run_counts(tmp_path: Path) -> None:
    write(tmp_path, BEGIN, CUDA, step(1), step(2), step(3), END, name="1")
    write(tmp_path, BEGIN, CUDA, step(1), name="2")
    assert len(made(tmp_path).memory_by_step) == 3


def test_a_folder_without_training(tmp_path: Path) -> None:
    assert collect(tmp_path, Program()) is None
    write(tmp_path, BEGIN)  # PyTorch was loaded and nothing trained
    assert collect(tmp_path, Program()) is None


def test_a_long_run_is_thinned_evenly() -> None:
    lines = [json.dumps(step(number)).encode() for number in range(1, 3 * MAX_STEPS)]
    process = read_process(lines)
    numbers = [one["step"] for one in process.steps]
    assert MAX_STEPS / 4 <= len(numbers) < MAX_STEPS
    assert len({late - early for early, late in pairwise(numbers)}) == 1


def test_a_snapshot_outlives_the_hooks_folder(tmp_path: Path) -> None:
    hook, kept = tmp_path / "hook", tmp_path / "kept"
    hook.mkdir()
    kept.mkdir()
    assert keep_snapshot(hook, kept) == ""
    (hook / "snapshot.pickle").write_bytes(b"data")
    where = Path(keep_snapshot(hook, kept))
    assert (where.parent, where.read_bytes()) == (kept, b"data")
    write(hook, BEGIN, CUDA, step(1), {"e": "snapshot", "path": "/gone/snapshot.pickle", "problem": ""}, END)
    report = collect(hook, Program(way="wrap", snapshot=str(where)))
    assert report is not None
    assert report.program.snapshot == str(where)


def test_settings_pass_through_the_environment() -> None:
    settings = HookSettings(folder="/x", follow_step=3, snapshot_step=2, keep_peaks=True)
    assert settings_from(settings.to_text()) == settings


def test_lines_that_could_not_be_written_come_later(tmp_path: Path) -> None:
    """As on a disk that is full for a while; nothing is raised meanwhile."""
    folder = tmp_path / "later"
    lines = Lines(str(folder / "1.lines"))
    lines.write("begin", rank=0)
    assert lines.problem
    folder.mkdir()
    lines.write("step", step=1)
    written = (folder / "1.lines").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["e"] for line in written] == ["begin", "step"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_full_disk_raises_nothing() -> None:
    lines = Lines("/dev/full")
    lines.write("begin", rank=0)
    assert "space" in lines.problem.lower()
