"""Repositories of the Hub: the client library as it is, against recorded answers; nothing here reaches a network."""

import json
from pathlib import Path

import httpx2
import pytest

from hardware_db.checkpoint import CheckpointError, model_document, read_checkpoint
from hardware_db.checkpoint.found import CODES
from hardware_db.checkpoint.tally import tally
from planner.validation import parse_scenario
from tests.hardware_db.checkpoint.recorded import (
    COMMIT,
    Answer,
    answering,
    refusing,
    repository,
    safetensors_bytes,
)
from tests.hardware_db.checkpoint.written import gguf_bytes

REPO = "someone/small-llama"
CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 256,
    "max_position_embeddings": 512,
}
FIRST = safetensors_bytes(
    {
        "model.embed_tokens.weight": ("BF16", [256, 64], 32_768),
        "model.layers.0.self_attn.q_proj.weight": ("F8_E4M3", [64, 64], 4_096),
        "model.layers.0.self_attn.q_proj.weight_scale_inv": ("F32", [1, 1], 4),
        "model.layers.0.input_layernorm.weight": ("BF16", [64], 128),
    }
)
SECOND = safetensors_bytes(
    {
        "model.layers.1.mlp.down_proj.weight": ("F8_E4M3", [64, 128], 8_192),
        "model.layers.2.eh_proj.weight": ("BF16", [64, 128], 16_384),
        "lm_head.weight": ("BF16", [256, 64], 32_768),
    }
)
INDEX = {"metadata": {"total_size": 1}, "weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}}
FILES = {
    "config.json": json.dumps(CONFIG).encode(),
    "model.safetensors.index.json": json.dumps(INDEX).encode(),
    "m-1.safetensors": FIRST,
    "m-2.safetensors": SECOND,
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of this reaches the user's cache or uses their token."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_IMPLICIT_TOKEN", True)


def test_config_and_bytes_by_part_and_format() -> None:
    with answering(repository(REPO, FILES)):
        found = read_checkpoint(f"https://huggingface.co/{REPO}/tree/main")
    assert (found.repo, found.source, found.files) == (REPO, f"{REPO}@{COMMIT[:12]}", 2)
    assert found.config == CONFIG
    assert tally(found) == {
        ("embedding", "bf16", False): 32_768,
        ("attention", "fp8", False): 4_096,
        ("attention", "fp32", True): 4,
        ("norm", "bf16", False): 128,
        ("mlp", "fp8", False): 8_192,
        ("draft", "bf16", False): 16_384,
        ("head", "bf16", False): 32_768,
    }


def test_it_becomes_the_model_of_a_scenario() -> None:
    with answering(repository(REPO, FILES)):
        block = model_document(read_checkpoint(REPO), "2026-11-30")
    scenario, issues = parse_scenario(
        {"version": 1, "task": "serve", "model": block, "hardware": {"devices": [{"gpu": "unknown"}]}}
    )
    assert scenario is not None, issues
    assert scenario.model.id == REPO
    assert scenario.model.stored is not None
    assert sum(row.bytes for row in scenario.model.stored.parts) == 94_340


def test_a_repository_with_a_config_alone_is_the_model_without_sizes() -> None:
    with answering(repository(REPO, {"config.json": json.dumps(CONFIG).encode()})):
        found = read_checkpoint(REPO)
    assert (found.files, found.tensors) == (0, ())
    assert model_document(found, "2026-11-30") == {"id": REPO, "config": CONFIG}


def test_of_a_gguf_only_the_header_is_fetched() -> None:
    header = gguf_bytes()
    files = {"small-Q4_K_M.gguf": header + bytes(40_000_000), "small-Q8_0.gguf": header, "README.md": b""}
    with answering(repository(REPO, files)) as made:
        found = read_checkpoint(f"{REPO}:Q4_K_M")
    assert found.container == "gguf"
    assert found.source == f"{REPO}@{COMMIT[:12]}/small-Q4_K_M.gguf"
    sizes = [request.headers["range"] for request in made if "range" in request.headers]
    assert sizes == ["bytes=0-2097151"]


REFUSALS = {
    "gated": (refusing(401, "GatedRepo"), "gated"),
    "gated_refused": (refusing(403, "GatedRepo"), "gated"),
    "private": (refusing(401, "RepoNotFound"), "missing_or_private"),
    "missing": (refusing(404, "RepoNotFound"), "missing_or_private"),
    "revision": (refusing(404, "RevisionNotFound"), "no_such_revision"),
    "too_many_requests": (refusing(429, ""), "busy"),
    "hub_down": (refusing(503, ""), "busy"),
    "teapot": (refusing(418, ""), "hub_refused"),
    "nothing": (repository(REPO, {"README.md": b""}), "no_weights"),
    "pickles": (repository(REPO, {"pytorch_model.bin": b""}), "only_pickles"),
    "config_broken": (repository(REPO, {**FILES, "config.json": b"["}), "bad_config"),
    "config_list": (repository(REPO, {**FILES, "config.json": b"[]"}), "bad_config"),
    "config_huge": (repository(REPO, {**FILES, "config.json": bytes(6_000_000)}), "too_large"),
    "header_broken": (repository(REPO, {**FILES, "m-1.safetensors": b"\xff" * 200}), "broken"),
    "index_empty": (repository(REPO, {**FILES, "model.safetensors.index.json": b"{}"}), "broken"),
    "index_climbs": (
        repository(REPO, {**FILES, "model.safetensors.index.json": b'{"weight_map": {"a": "../../b"}}'}),
        "broken",
    ),
    "two_files": (repository(REPO, {"a-Q4_0.gguf": b"GGUF", "a-Q8_0.gguf": b"GGUF"}), "several_files"),
    "gguf_broken": (repository(REPO, {"a.gguf": b"GGUF"}), "broken"),
}


@pytest.mark.parametrize(("answer", "code"), REFUSALS.values(), ids=REFUSALS)
def test_what_cannot_be_read_is_said_with_a_code(answer: Answer, code: str) -> None:
    with answering(answer), pytest.raises(CheckpointError) as problem:
        read_checkpoint(REPO)
    assert problem.value.code == code
    assert problem.value.params.keys() == set(CODES[code])


def test_without_a_network() -> None:
    def unreachable(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("no route", request=request)

    with answering(unreachable), pytest.raises(CheckpointError) as problem:
        read_checkpoint(REPO)
    assert problem.value.code == "offline"


def test_a_server_that_knows_no_ranges_is_left_before_it_sends_a_whole_file() -> None:
    files = {"a.gguf": gguf_bytes() + bytes(5_000_000)}
    whole = repository(REPO, files)

    def deaf(request: httpx2.Request) -> httpx2.Response:
        request.headers.pop("range", None)
        return whole(request)

    with answering(deaf), pytest.raises(CheckpointError) as problem:
        read_checkpoint(REPO)
    assert problem.value.code == "not_ranged"
