"""Commands that start a server: what is in them, and that nothing in them can be more than a word."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.exports.serving_flags import PLACEHOLDER, REFERENCES, WRITERS, Command, command_for
from planner.references import REFERENCES as KNOWN
from planner.scenario import ModelChoice
from tests.planner.serving.cases import QWEN3_30B_A3B, llama, serve

if TYPE_CHECKING:
    from planner.plan_types import Plan

EVIL = "x; rm -rf ~ #$(reboot)`id`\n\"' --trust-remote-code"


def named(plan: Plan, name: str) -> Plan:
    """The plan of the same question about a model of another name."""
    choice = ModelChoice(id=name)
    return replace(
        plan,
        scenario=plan.scenario.model_copy(update={"model": choice}),
        resolved=plan.resolved.model_copy(update={"model": choice}),
    )


def command(runtime: str = "vllm", config: dict[str, Any] | None = None, **settings: Any) -> Command:
    """The command for a question."""
    found = command_for(named(serve(config or llama(), runtime, **settings), "meta-llama/Llama-3.1-8B"))
    assert found is not None
    return found


def test_vllm_says_what_was_asked_and_what_the_plan_rests_on() -> None:
    found = command(
        count=4, parallel={"tensor": 4}, weights="fp8", kv_cache="fp8", max_model_len=8192,
        memory_utilization=0.85, max_sequences=64, cuda_graphs=False, prefix_caching=False,
    )  # fmt: skip
    assert found.words == (
        "vllm", "serve", "meta-llama/Llama-3.1-8B", "--tensor-parallel-size", "4", "--max-model-len", "8192",
        "--gpu-memory-utilization", "0.85", "--max-num-seqs", "64", "--quantization", "fp8",
        "--kv-cache-dtype", "fp8", "--enforce-eager", "--no-enable-prefix-caching",
    )  # fmt: skip
    assert found.remarks == ()


def test_what_nobody_asked_is_left_to_the_engine() -> None:
    found = command(max_model_len=4096)
    assert found.words[3:] == ("--max-model-len", "4096", "--gpu-memory-utilization", "0.9")


def test_a_quantized_checkpoint_is_asked_for() -> None:
    assert command(weights="awq4").remarks == (("checkpoint_format", "awq4"),)
    assert ("no_flag", "serving.speculative") in command(speculative="draft").remarks


def test_a_checkpoint_that_names_the_format_needs_no_flag() -> None:
    fp8 = llama(quantization_config={"quant_method": "fp8"})
    assert "--quantization" not in command(config=fp8, weights="fp8").words
    awq = llama(quantization_config={"quant_method": "awq", "bits": 4})
    assert command(config=awq, weights="awq4").remarks == ()


def test_experts_in_parallel() -> None:
    found = command(config=QWEN3_30B_A3B, count=2, parallel={"tensor": 2, "expert": 2})
    assert "--enable-expert-parallel" in found.words


def test_sglang() -> None:
    found = command(
        "sglang", max_model_len=8192, batched_tokens=4096, kv_cache="fp8", max_total_tokens=50_000
    )
    assert found.words[:5] == (
        "python",
        "-m",
        "sglang.launch_server",
        "--model-path",
        "meta-llama/Llama-3.1-8B",
    )
    pairs = dict(zip(found.words[5::2], found.words[6::2], strict=False))
    assert pairs["--context-length"] == "8192"
    assert pairs["--chunked-prefill-size"] == "4096"
    assert pairs["--kv-cache-dtype"] == "fp8_e4m3"
    assert pairs["--max-total-tokens"] == "50000"
    assert 0.5 < float(pairs["--mem-fraction-static"]) < 1


def test_tensorrt_llm() -> None:
    found = command("tensorrt_llm", count=2, parallel={"tensor": 2}, max_model_len=8192)
    assert found.words[:4] == ("trtllm-serve", "meta-llama/Llama-3.1-8B", "--tp_size", "2")


def test_llama_cpp() -> None:
    found = command(
        "llama_cpp", config=QWEN3_30B_A3B, weights="q4_k_m", kv_cache="q8_0", max_model_len=16384, host_experts=True,
        devices=[{"gpu": "rtx-4090-24gb"}, {"gpu": "rtx-3090-24gb"}], tensor_split=[60, 40],
    )  # fmt: skip
    text = shlex.join(found.words)
    assert text.startswith("llama-server -m Llama-3.1-8B-Q4_K_M.gguf --ctx-size 16384 --parallel")
    assert "--cache-type-k q8_0 --cache-type-v q8_0" in text
    assert "--tensor-split 60,40" in text
    assert "--n-gpu-layers 49" in text
    assert text.endswith("--flash-attn on --cpu-moe")
    assert found.remarks == (("model_file", "Llama-3.1-8B-Q4_K_M.gguf"),)


def test_its_fork_has_other_words() -> None:
    found = command(
        "ik_llama_cpp", config=QWEN3_30B_A3B, weights="iq4_ks", max_model_len=4096, host_experts=True
    )
    assert found.words[-3:] == ("-fa", "-ot", "exps=CPU")


def test_ollama_divides_the_context_among_its_slots() -> None:
    found = command("ollama", gpu="rtx-4090-24gb", max_model_len=16384, max_sequences=4, kv_cache="q8_0")
    assert found.words == ("ollama", "serve")
    assert ("ollama_create", "ollama create planned -f Modelfile") in found.remarks
    assert found.file_text.splitlines()[:2] == [
        "FROM ./Llama-3.1-8B-Q4_K_M.gguf",
        "PARAMETER num_ctx 4096",
    ]
    assert dict(found.environment)["OLLAMA_NUM_PARALLEL"] == "4"
    assert dict(found.environment)["OLLAMA_KV_CACHE_TYPE"] == "q8_0"


def test_a_library_is_no_server() -> None:
    assert command_for(serve(llama(), "transformers")) is None


@pytest.mark.parametrize("runtime", sorted(WRITERS))
@pytest.mark.parametrize("name", [EVIL, "--help", "a/b/c", "../../etc/passwd", "", "a\nPARAMETER x 1"])
def test_a_name_that_is_none_never_gets_in(runtime: str, name: str) -> None:
    plan = serve(llama(), runtime, max_model_len=4096)
    found = command_for(named(plan, name) if name else plan)
    assert found is not None
    assert ("model_name", name) in found.remarks
    everything = found.text + found.file_text
    assert PLACEHOLDER in everything
    assert not name or name not in everything
    assert "rm -rf" not in everything
    assert len(found.file_text.splitlines()) <= 4


@given(
    words=st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1), min_size=1, max_size=8
    )
)
def test_a_shell_reads_back_the_same_words(words: list[str]) -> None:
    text = Command(words=tuple(words)).text
    assert (
        shlex.split(text.replace(" \\\n  ", " ") if "\n" not in "".join(words) else shlex.join(words))
        == words
    )


def test_every_writer_has_a_reference_and_survives_json() -> None:
    assert REFERENCES.keys() == WRITERS.keys()
    assert set(REFERENCES.values()) <= KNOWN.keys()
    for runtime in WRITERS:
        found = command(runtime, max_model_len=4096)
        assert json.loads(json.dumps(found.words)) == list(found.words)
