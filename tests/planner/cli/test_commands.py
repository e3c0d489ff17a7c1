"""The command line: real processes where streams and exit codes matter, `main` itself for the rest."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from planner.__main__ import main
from planner.checks.codes import CODES
from planner.cli.diagnose import CAUSES, IDENTITIES
from planner.cli.words import CATEGORIES, PHASES, SENTENCES, VERDICTS, names_in, sentence
from planner.diagnose.causes import Cause
from planner.diagnose.layers import Identity
from planner.issues import Issue
from planner.ledger import Category, Phase
from planner.plan_types import Verdict
from planner.scenario import json_schema
from tests.hardware_db.checkpoint.written import write_gguf

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "examples").glob("*.json"))
TRAINING = ROOT / "examples" / "llama-3.1-8b-lora-rtx4090.json"


def run(*words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "planner", *words]
    return subprocess.run(command, cwd=ROOT, input=stdin, capture_output=True, check=False, timeout=60)


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*words: str) -> tuple[int, str, str]:
        code = main(words)
        out = capsys.readouterr()
        return code, out.out, out.err

    return call


def changed(tmp_path: Path, **blocks: Any) -> str:
    document = json.loads(TRAINING.read_text(encoding="utf-8")) | blocks
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return str(path)


# --- answers


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_answered_as_text(path: Path, said: Any) -> None:
    code, out, err = said("plan", str(path))
    assert (code, err) == (0, "")
    assert "GiB on one device of each group" in out
    assert any(word in out for word in VERDICTS.values())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_answered_as_json(path: Path, said: Any) -> None:
    code, out, _ = said("plan", str(path), "--json")
    document = json.loads(out)
    assert code == 0
    for device in document["devices"]:
        alive = [e for e in device["entries"] if device["peak_phase"] in e["phases"]]
        assert sum(entry["bytes"] for entry in alive) == device["peak_bytes"]
        assert all(entry["reference"] for entry in device["entries"])


@pytest.mark.parametrize(
    ("gpu", "where"),
    [("apple-m4-max-128gb", "the same memory on the host's side"), ("rtx-4090-24gb", "host memory")],
)
def test_unified_memory_is_not_asked_for_twice(gpu: str, where: str, tmp_path: Path, said: Any) -> None:
    path = tmp_path / "scenario.json"
    asked = {
        "version": 1,
        "task": "serve",
        "model": {"id": "meta-llama/Llama-3.1-8B"},
        "hardware": {"devices": [{"gpu": gpu}]},
        "runtime": {"name": "llama_cpp"},
        "serving": {"max_model_len": 4096},
    }
    path.write_text(json.dumps(asked), encoding="utf-8")
    assert f"GiB of {where} besides" in said("plan", str(path))[1]


def test_a_process_reads_standard_input_and_writes_utf8() -> None:
    document = json.loads(TRAINING.read_text(encoding="utf-8")) | {"name": "größer → kleiner"}
    done = run("plan", "-", stdin=b"\xef\xbb\xbf" + json.dumps(document, ensure_ascii=False).encode())
    assert done.returncode == 0
    assert "größer → kleiner" in done.stdout.decode("utf-8")


def test_schema_models_gpus_and_link(said: Any) -> None:
    code, out, _ = said("schema")
    assert (code, json.loads(out)) == (0, json_schema())
    code, out, _ = said("models", "llama-3.1")
    assert code == 0
    assert "meta-llama/Llama-3.1-8B" in out
    assert "Qwen" not in out
    code, out, _ = said("models", "mochi")
    assert code == 0
    assert "genmo/mochi-1-preview  diffusion" in out
    code, out, _ = said("gpus", "RTX 4090")
    assert code == 0
    assert "rtx-4090-24gb" in out
    code, out, _ = said("link", str(TRAINING))
    assert (code, out.startswith("1.")) == (0, True)


def test_what_an_engine_takes_is_one_figure(tmp_path: Path, said: Any) -> None:
    path = tmp_path / "scenario.json"
    asked = {
        "version": 1,
        "task": "serve",
        "model": {"id": "Qwen/Qwen3-8B"},
        "hardware": {"devices": [{"gpu": "h100-sxm-80gb"}]},
        "runtime": {"name": "vllm"},
    }
    path.write_text(json.dumps(asked), encoding="utf-8")
    served = json.loads(said("plan", str(path), "--json")[1])["serving"]
    taken, budget = (served[name] / 2**30 for name in ("reserves_bytes", "budget_bytes"))
    text = said("plan", str(path))[1]
    assert f"takes {taken:.1f} GiB a device: its budget of {budget:.1f}," in text


def test_a_model_is_read_from_its_own_files(tmp_path: Path, said: Any) -> None:
    file = str(write_gguf(tmp_path / "a.gguf"))
    code, out, _ = said("model", file)
    assert code == 0
    assert "parameters in the files: 1,334,528" in out
    assert "parameters by its config: 1,334,528" in out
    onto = json.loads(said("model", file, "--onto", str(TRAINING))[1])
    assert onto["training"] == json.loads(TRAINING.read_text(encoding="utf-8"))["training"]
    assert onto["model"] == json.loads(said("model", file, "--json")[1])
    assert said("model", str(tmp_path / "nothing")) == (
        2,
        "",
        f"model: {tmp_path / 'nothing'}: no such folder or file\n",
    )


def test_score_prints_a_table_and_one_json_object(tmp_path: Path, said: Any) -> None:
    source = (
        (ROOT / "tests" / "data" / "truth" / "training.jsonl").read_text(encoding="utf-8").splitlines()[:20]
    )
    path = tmp_path / "records.jsonl"
    path.write_text("\n".join(source) + "\n", encoding="utf-8")
    code, out, _ = said("score", str(path))
    assert code == 0
    assert "20 records" in out
    code, out, _ = said("score", str(path), "--json")
    document = json.loads(out)
    assert code == 0
    answered = {row["id"] for row in document["rows"]} | {item["id"] for item in document["unsupported"]}
    assert len(answered) == 20


def test_score_says_which_records_contradict_each_other(tmp_path: Path, said: Any) -> None:
    first = (ROOT / "tests" / "data" / "truth" / "training.jsonl").read_text(encoding="utf-8").splitlines()[0]
    record = json.loads(first)
    metric = next(name for name in record["observed"] if name.endswith("_bytes"))
    other = record | {
        "id": "other",
        "observed": record["observed"] | {metric: record["observed"][metric] * 2},
    }
    path = tmp_path / "records.jsonl"
    path.write_text(f"{first}\n{json.dumps(other)}\n", encoding="utf-8")
    code, _, err = said("score", str(path))
    assert code == 0
    assert err.splitlines() == [f"{record['id']} and other ask the same, and their {metric} is 50.0% apart"]


# --- bad input: exit code 2, and field, value and what is allowed on stderr


@pytest.mark.parametrize(
    ("blocks", "words"),
    [
        ({"task": "lorra"}, ("task", "lorra", "lora")),
        (
            {"hardware": {"devices": [{"gpu": "rtx-4090", "count": 1}]}},
            ("hardware.devices.0.gpu", "rtx-4090-24gb"),
        ),
        (
            {"hardware": {"devices": [{"gpu": "rtx-4090-24gb", "count": 0}]}},
            ("hardware.devices.0.count", "0", "1.."),
        ),
        ({"training": {"micro_bach": 1}}, ("training.micro_bach", "micro_batch")),
        ({"model": {"id": "meta-llama/Llama-3.1-8"}}, ("model.id", "meta-llama/Llama-3.1-8B")),
        ({"model": {"config": {"model_type": "lama"}}}, ("model.config.model_type", "lama", "llama")),
        ({"parallel": {"tensor": 2}}, ("parallel.tensor", "= 2", "1 GPU")),
        ({"version": 9}, ("version", "9", "1")),
    ],
)
def test_bad_input_names_field_value_and_allowed(
    blocks: dict[str, Any], words: tuple[str, ...], tmp_path: Path, said: Any
) -> None:
    code, out, err = said("plan", changed(tmp_path, **blocks))
    assert (code, out) == (2, "")
    for word in words:
        assert word in err


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b"NaN", b'{"task": 1e999}'])
def test_what_is_no_scenario_file_is_refused(content: bytes, tmp_path: Path, said: Any) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    for command in ("plan", "link"):
        code, out, err = said(command, str(path))
        assert (code, out) == (2, "")
        assert err


def test_files_that_are_not_there(said: Any, tmp_path: Path) -> None:
    for command in ("plan", "score", "link"):
        code, _, err = said(command, str(tmp_path / "nothing.json"))
        assert code == 2
        assert "nothing.json" in err
    assert said("plan", str(tmp_path))[0] == 2


def test_a_bad_record_names_file_line_and_field(said: Any, tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text('\n{"id": "a"}\n', encoding="utf-8")
    code, _, err = said("score", str(path))
    assert code == 2
    assert "records.jsonl:2: family" in err


def test_a_filter_that_matches_nothing(said: Any) -> None:
    for command in ("models", "gpus"):
        code, out, err = said(command, "zzzz")
        assert (code, out) == (2, "")
        assert "zzzz" in err


def test_an_unknown_command_exits_with_2() -> None:
    done = run("dance")
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="pipes close differently there")
def test_a_reader_that_leaves_early_is_no_error() -> None:
    command = [sys.executable, "-m", "planner", "schema"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_a_plan_starts_without_what_it_does_not_need() -> None:
    heavy = ("numpy", "pandas", "torch", "streamlit", "difflib", "planner.accuracy.score", "planner.link")
    code = (
        "import sys; from planner.__main__ import main; main(['plan', sys.argv[1]]);"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    command = [sys.executable, "-c", code, str(TRAINING)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=True)
    assert done.stdout.splitlines()[-1] == "[]"


# --- the words


def test_every_code_has_one_sentence_that_asks_for_its_own_parameters() -> None:
    assert SENTENCES.keys() == CODES.keys()
    for code, text in SENTENCES.items():
        assert set(names_in(text)) <= set(CODES[code].params), code


def test_every_code_reads_well_with_and_without_values() -> None:
    for code, entry in CODES.items():
        full = Issue(code, "field", entry.severity, tuple((name, "x") for name in entry.params))
        empty = Issue(code, "field", entry.severity, tuple((name, None) for name in entry.params))
        for issue in (full, empty):
            text = sentence(issue)
            assert text
            assert "None" not in text
            assert "{" not in text


def test_categories_phases_and_verdicts_have_words() -> None:
    assert CATEGORIES.keys() == {str(category) for category in Category}
    assert PHASES.keys() == {str(phase) for phase in Phase}
    assert VERDICTS.keys() == {str(verdict) for verdict in Verdict}


def test_warnings_are_in_the_text(tmp_path: Path, said: Any) -> None:
    training = {"sequence_length": 200_000, "micro_batch": 1}
    code, out, _ = said("plan", changed(tmp_path, training=training))
    assert code == 0
    assert "warning: training.sequence_length: 200,000 tokens; the model was made for 131,072" in out


# --- diagnose

OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB. GPU 5 has a total capacity of 39.39 GiB "
    "of which 1.21 GiB is free. Process 21877 has 38.18 GiB memory in use. Of the allocated memory 37.23 GiB is "
    "allocated by PyTorch, and 430.00 MiB is reserved by PyTorch but unallocated."
)


def test_a_message_is_diagnosed_beside_its_question(tmp_path: Path, said: Any) -> None:
    path = tmp_path / "run.log"
    path.write_text(OOM, encoding="utf-8")
    scenario = str(ROOT / "examples" / "llama-8b-six-unequal-cards.json")
    code, out, err = said("diagnose", str(path), "--scenario", scenario)
    assert (code, err) == (0, "")
    assert out.startswith("Demand:")
    assert "b*s*V*4 = 2,101,346,304 bytes" in out
    assert "equals the capacity" in out
    assert "Checklist, from the plan:\n  ? PyTorch, CUDA and cuDNN go together: " in out
    code, out, _ = said("diagnose", str(path), "--scenario", scenario, "--json")
    assert json.loads(out)["tensor"]["name"] == "logits_fp32"


def test_nccl_lines_are_counted_and_laid_beside_the_plan(tmp_path: Path, said: Any) -> None:
    path = tmp_path / "nccl.log"
    path.write_text(
        "node-a:9:11 [0] NCCL INFO Using network Socket\n"
        "node-a:9:11 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/1\n",
        encoding="utf-8",
    )
    scenario = str(ROOT / "examples" / "llama-3.1-8b-full-8xh100.json")
    code, out, _ = said("diagnose", str(path), "--scenario", scenario)
    assert code == 0
    assert "NCCL, network Socket. Channels: 1 over sockets." in out
    assert "  ! NCCL goes between nodes over TCP sockets (1 channels)." in out
    assert "of a step is spent waiting for other cards" in out


def test_a_log_comes_by_pipe_in_any_encoding() -> None:
    done = run("diagnose", "-", "--json", stdin=b"\xff\xfa\n" * 1000 + OOM.encode())
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["record"]["line"] == 1001


def test_a_log_that_is_not_there_is_said(tmp_path: Path, said: Any) -> None:
    code, out, err = said("diagnose", str(tmp_path / "none.log"))
    assert (code, out) == (2, "")
    assert "can't be read" in err


def test_every_cause_and_layer_has_its_words() -> None:
    assert {cause.value for cause in Cause} == set(CAUSES)
    assert set(Identity) == set(IDENTITIES)


@pytest.mark.parametrize(
    ("topic", "name", "said"),
    [
        ("layouts", "llama-13b-two-a100-four-3090", "fastest pipeline that fits: fits"),
        ("layouts", "refused/llama-13b-two-a100-four-3090", "parallel.stages.0.tensor: 2 does not divide"),
        ("elastic", "llama-3.1-8b-full-8xh100", "Fits from"),
        ("elastic", "llama-3.1-8b-lora-rtx4090", "Does not surely fit even on 2 workers."),
        ("trial", "llama-3.1-8b-full-8xh100", "of 32 layers"),
    ],
)
def test_questions_about_cards(topic: str, name: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([topic, str(ROOT / "examples" / f"{name}.json")]) == 0
    assert said in capsys.readouterr().out


def test_layouts_of_a_question_that_is_refused_whole(tmp_path: Path, said: Any) -> None:
    for hardware in ([{"gpu": "rtx-9999"}], [{"gpu": "rtx-9999"}, {"gpu": "rtx-4090-24gb"}]):
        code, out, err = said("layouts", changed(tmp_path, hardware={"devices": hardware}))
        assert (code, out) == (2, "")
        assert "rtx-9999" in err


def test_the_link_of_a_refused_question_comes_with_the_reason(tmp_path: Path, said: Any) -> None:
    code, out, err = said("link", changed(tmp_path, hardware={"devices": [{"gpu": "rtx-9999"}]}))
    assert (code, out.startswith("1.")) == (0, True)
    assert "rtx-9999" in err
    assert said("link", str(TRAINING))[2] == ""


def test_budget_prints_the_curve_of_a_compiled_job(tmp_path: Path, said: Any) -> None:
    code, out, _ = said("budget", changed(tmp_path, runtime={"name": "torchtitan", "compile": True}))
    assert code == 0
    assert len(out.splitlines()) == 12
    code, out, _ = said(
        "budget", changed(tmp_path, runtime={"name": "torchtitan", "compile": True}), "--json"
    )
    points = json.loads(out)
    assert [point["budget_frac"] for point in points][::10] == [1.0, 0.0]
    code, _, err = said("budget", str(TRAINING))
    assert code != 0
    assert "runtime.compile" in err
