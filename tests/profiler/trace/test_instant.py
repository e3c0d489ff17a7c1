"""Instant mode against full mode: every event, every peak, to the byte; and why it is not used."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from profiler.job_types import ExitReason
from profiler.trace.documents import TraceOptions
from profiler.trace.runner import TraceRunner
from tests.profiler.jobs import finish
from tests.profiler.scenarios import LLAMA, scenario
from tests.profiler.trace.cases import BF16, SDPA
from tests.profiler.trace.child_cases import run_cases, trace_command
from tests.profiler.trace.instant_cases import LONG, SHORT

ROOT = Path(__file__).resolve().parents[3]


def check(case: dict[str, Any]) -> None:
    assert case["differences"] == []
    assert case["instant"]["code"] == ""
    assert sum(case["instant"]["layers"]) < case["layers"]


@pytest.fixture(scope="module")
def short_cases() -> dict[str, dict[str, Any]]:
    return run_cases("instant_referee", list(SHORT))


@pytest.mark.parametrize("name", SHORT)
def test_instant_mode_is_full_mode(name: str, short_cases: dict[str, dict[str, Any]]) -> None:
    check(short_cases[name])


@pytest.mark.long
@pytest.mark.parametrize("name", LONG)
def test_and_so_it_is_on_large_models(name: str) -> None:
    check(run_cases("instant_referee", [name])[name])


def test_there_are_as_many_models_as_promised() -> None:
    experts = [name for name in LONG if name.startswith("moe")]
    assert len(experts) >= 2
    assert len(LONG) - len(experts) >= 12


def instantly(config: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """What instant mode says of itself."""
    document = scenario(config, **BF16, **SDPA, **changes)
    job = TraceRunner().start(document, config, TraceOptions(instant=True))
    seen = finish(job)
    assert seen.reason is ExitReason.DONE, (seen.reason, seen.detail, seen.remarks, seen.stderr)
    assert job.trace is not None
    assert job.trace.instant is not None
    assert job.trace.config == config
    return job.trace.instant.model_dump()


def test_few_layers_are_all_run_and_the_command_line_says_so(tmp_path: Path) -> None:
    document = scenario(LLAMA, **BF16, **SDPA) | {"hardware": {"devices": [{"gpu": "rtx-4090-24gb"}]}}
    file = tmp_path / "scenario.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    done = trace_command(str(file), "--instant", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.keys() >= {"peak_allocated_bytes", "peak_reserved_bytes", "phase", "categories", "seconds"}
    assert found["instant"]["code"] == "few_layers"
    assert found["instant"]["layers"] == []


def test_layers_checkpointed_in_groups_repeat_by_the_group() -> None:
    changes = {"training.checkpointing": "every_k", "training.checkpoint_every": 3}
    said = instantly(LLAMA | {"num_hidden_layers": 23}, **changes)
    assert said["code"] == ""
    assert said["period"] == 3


def test_the_smallest_pair_of_models_is_chosen() -> None:
    """All alike, the first three dense, every third full; too few, too few of a pattern, no pattern."""
    kinds = ["sliding", "sliding", "full"] * 8
    program = (
        "import json, sys\n"
        "from profiler.trace.child.instant import FullModeError, choose\n"
        "for kinds in json.loads(sys.argv[1]):\n"
        "    try:\n"
        "        print(json.dumps(list(choose(kinds))))\n"
        "    except FullModeError as error:\n"
        "        print(json.dumps(error.code))\n"
    )
    given = [["a"] * 32, ["d"] * 3 + ["a"] * 58, kinds, ["a"] * 9, ["a", "b"] * 3, list("abacadaeafag")]
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(given)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        [4, 1, 32],
        [7, 1, 61],
        [9, 3, 24],
        "few_layers",
        "few_layers",
        "no_repeating_layers",
    ]
