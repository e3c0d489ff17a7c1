"""Folders and files on disk, and headers that were made to do harm."""

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from hardware_db.checkpoint import CheckpointError, model_document, parse_source, read_checkpoint
from hardware_db.checkpoint.formats import FILE_TYPES, GGML
from hardware_db.checkpoint.found import CODES
from hardware_db.checkpoint.gguf import read_header
from hardware_db.checkpoint.tally import part_of, tally
from planner.model import model_from_config
from tests.hardware_db.checkpoint.written import gguf_bytes, write_gguf

CONFIG = {"model_type": "llama", "num_hidden_layers": 2}


def code_of(path: Path) -> str:
    with pytest.raises(CheckpointError) as problem:
        read_checkpoint(str(path))
    assert problem.value.params.keys() == set(CODES[problem.value.code])
    return problem.value.code


def test_a_folder_of_safetensors(tmp_path: Path) -> None:
    tensors: dict[str, np.ndarray[Any, Any]] = {
        "model.embed_tokens.weight": np.zeros((300, 16), np.float16),
        "model.layers.0.mlp.experts.3.up_proj.weight": np.zeros((8, 16), np.int8),
        "model.layers.0.self_attn.rotary_emb.inv_freq": np.zeros(4, np.float32),
    }
    save_file(tensors, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    found = read_checkpoint(str(tmp_path))
    assert found.config == CONFIG
    assert found.source == tmp_path.name
    assert tally(found) == {("embedding", "fp16", False): 9_600, ("experts", "int8", False): 128}


def test_a_folder_of_the_hubs_cache(tmp_path: Path) -> None:
    home = tmp_path / "models--org--name"
    for commit, size in (("aaa", 2), ("bbb", 4)):
        (home / "snapshots" / commit).mkdir(parents=True)
        tensors: dict[str, np.ndarray[Any, Any]] = {"lm_head.weight": np.zeros(size, np.float16)}
        save_file(tensors, home / "snapshots" / commit / "model.safetensors")
    assert read_checkpoint(str(home)).total_bytes in {4, 8}
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text("aaa", encoding="utf-8")
    found = read_checkpoint(str(home))
    assert (found.source, found.total_bytes) == ("org/name", 4)


def test_a_gguf_reads_as_the_library_reads_it(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "a.gguf")
    ours, theirs = read_checkpoint(str(path)), gguf.GGUFReader(path)
    assert {t.name: t.bytes for t in ours.tensors} == {t.name: t.n_bytes for t in theirs.tensors}
    assert {t.name: t.elements for t in ours.tensors} == {t.name: t.n_elements for t in theirs.tensors}
    assert ours.file_type == "q4_k_m"


def test_a_gguf_describes_its_model(tmp_path: Path) -> None:
    found = read_checkpoint(str(write_gguf(tmp_path / "a.gguf")))
    assert found.config is not None
    assert found.config["vocab_size"] == 300
    model = model_from_config(dict(found.config))
    assert model.params_total == sum(tensor.elements for tensor in found.tensors)


def test_an_architecture_without_a_table_still_has_its_sizes(tmp_path: Path) -> None:
    found = read_checkpoint(str(write_gguf(tmp_path / "a.gguf", architecture="rwkv7")))
    assert (found.architecture, found.config) == ("rwkv7", None)
    assert found.total_bytes > 0


def test_block_sizes_are_those_of_the_library() -> None:
    theirs = {int(kind): sizes for kind, sizes in gguf.GGML_QUANT_SIZES.items()}
    assert {kind: row[1:] for kind, row in GGML.items() if kind != 9} == {
        kind: sizes for kind, sizes in theirs.items() if kind != 9
    }
    assert FILE_TYPES.keys() <= {int(kind) for kind in gguf.LlamaFileType}


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("model.layers.3.mlp.gate_proj.weight", "mlp"),
        ("model.layers.3.mlp.gate.weight", "router"),
        ("model.layers.3.mlp.shared_experts.up_proj.weight", "shared_experts"),
        ("model.layers.3.mlp.experts.7.w1.weight", "experts"),
        ("model.layers.3.mlp.experts.gate_up_proj_blocks", "experts"),
        ("model.layers.3.post_attention_layernorm.weight", "norm"),
        ("model.layers.3.self_attn.q_norm.weight", "norm"),
        ("model.layers.3.linear_attn.A_log", "attention"),
        ("model.layers.61.mlp.experts.0.up_proj.weight", "draft"),
        ("mtp.fc.weight", "draft"),
        ("visual.blocks.70.attn.qkv.weight", "other"),
        ("vision_tower.encoder.layers.1.mlp.fc1.weight", "other"),
        ("transformer.h.0.attn.c_attn.weight", "attention"),
        ("transformer.wte.weight", "embedding"),
        ("lm_head.weight", "head"),
        ("model.norm.weight", "norm"),
        ("encoder.block.0.layer.0.SelfAttention.v.weight", "attention"),
        ("encoder.block.0.layer.1.DenseReluDense.wo.weight", "mlp"),
        ("token_embd.weight", "embedding"),
        ("output.weight", "head"),
        ("blk.0.attn_output.weight", "attention"),
        ("blk.0.ffn_norm.weight", "norm"),
        ("blk.0.ffn_down_exps.weight", "experts"),
        ("blk.0.ffn_down_shexp.weight", "shared_experts"),
        ("blk.0.ffn_gate_inp.weight", "router"),
    ],
)
def test_names_and_their_parts(name: str, part: str) -> None:
    assert part_of(name, 61) == part


def test_pieces_of_one_gguf_belong_together(tmp_path: Path) -> None:
    write_gguf(tmp_path / "a-00001-of-00002.gguf")
    assert code_of(tmp_path / "a-00001-of-00002.gguf") == "no_such_file"
    write_gguf(tmp_path / "a-00002-of-00002.gguf")
    assert read_checkpoint(str(tmp_path)).files == 2


def test_what_is_wrong_with_a_folder(tmp_path: Path) -> None:
    assert code_of(tmp_path) == "no_weights"
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    assert code_of(tmp_path) == "only_pickles"
    for name in ("a-Q4_0.gguf", "a-Q8_0.gguf"):
        (tmp_path / name).write_bytes(b"GGUF")
    assert code_of(tmp_path) == "several_files"
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", 2**62) + b"{}")
    assert code_of(tmp_path) == "broken"
    index = {"weight_map": {"a": "missing.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    assert code_of(tmp_path) == "no_such_file"


def test_a_config_alone_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}', encoding="utf-8")
    for path in (tmp_path, tmp_path / "config.json"):
        found = read_checkpoint(str(path))
        assert (found.files, found.config, found.tensors) == (0, {"model_type": "llama"}, ())
        assert model_document(found, "2026-11-30") == {"config": {"model_type": "llama"}}


def test_a_download_that_was_cut_short(tmp_path: Path) -> None:
    whole = gguf_bytes()
    (tmp_path / "a.gguf").write_bytes(whole[:-1000])
    assert code_of(tmp_path / "a.gguf") == "cut_short"
    save_file({"a": np.zeros(1000, np.float32)}, tmp_path / "b.safetensors")
    path = tmp_path / "b.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    assert code_of(path) == "cut_short"


def test_a_version_of_gguf_that_is_not_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 99, 0, 0))
    with pytest.raises(CheckpointError) as caught:
        read_checkpoint(str(tmp_path / "a.gguf"))
    assert caught.value.code == "gguf_version"
    assert caught.value.params == {"given": "a.gguf", "version": 99, "allowed": "2, 3"}


@pytest.mark.parametrize(
    ("head", "length", "code", "detail"),
    [
        (b"{}", 2**62, "broken", "header_length 4611686018427387904; 2 to 100000000"),
        (b"", 1, "broken", "header_length 1; 2 to"),
        (b"{}", 90, "cut_short", None),
        (b"junk", 4, "broken", 'header "junk"; JSON'),
        (b'{"a": 5}', 8, "broken", "a: 5; {dtype, shape, data_offsets}"),
        (b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[4]}}', 52, "broken", "a.data_offsets: [4]; "),
        (b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', 54, "cut_short", None),
    ],
)
def test_what_is_wrong_with_a_safetensors_file(
    head: bytes, length: int, code: str, detail: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(struct.pack("<Q", length) + head)
    with pytest.raises(CheckpointError) as caught:
        read_checkpoint(str(path))
    assert caught.value.code == code
    assert caught.value.params["given"] == "m.safetensors"
    assert str(caught.value.params.get("detail")).startswith(str(detail))


def header(*, tensors: int = 0, values: int = 0, rest: bytes = b"") -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, values) + rest


KEY = struct.pack("<Q", 1) + b"k"


@pytest.mark.parametrize(
    "raw",
    [
        b"GGUF",
        header(tensors=2**63),
        header(values=2**63),
        header(values=1, rest=struct.pack("<Q", 2**63)),
        header(values=1, rest=KEY + struct.pack("<IQ", 8, 2**62)),
        header(values=1, rest=KEY + struct.pack("<IIQ", 9, 0, 2**62)),
        header(values=1, rest=KEY + struct.pack("<IIQ", 9, 8, 2**62)),
        header(values=1, rest=KEY + struct.pack("<IIQ", 9, 9, 4)),
        header(values=1, rest=KEY + struct.pack("<I", 77)),
        header(tensors=1, rest=KEY + struct.pack("<I", 2**31)),
        header(tensors=1, rest=KEY + struct.pack("<IQQIQ", 2, 2**40, 2**40, 0, 0)),
        header(tensors=1, rest=KEY + struct.pack("<IQIQ", 1, 100, 12, 0)),
        header(tensors=1, rest=KEY + struct.pack("<IQIQ", 1, 256, 12, 2**63)),
    ],
    ids=lambda raw: raw.hex()[-64:],
)
def test_lengths_that_cannot_be_are_refused(raw: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(raw)
    assert code_of(tmp_path / "a.gguf") == "broken"


def test_a_type_of_the_future_is_named(tmp_path: Path) -> None:
    raw = header(tensors=1, rest=KEY + struct.pack("<IQIQ", 1, 100, 99, 0))
    (tmp_path / "a.gguf").write_bytes(raw)
    assert code_of(tmp_path / "a.gguf") == "unknown_type"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 1200), value=st.integers(0, 255), end=st.integers(0, 20_000))
def test_a_damaged_header_is_read_or_refused(whole: bytes, place: int, value: int, end: int) -> None:
    raw = bytearray(whole[: len(whole) - end])
    raw[min(place, len(raw) - 1)] = value
    code, sizes = "", [0]
    try:
        found = read_header(lambda offset, size: bytes(raw[offset : offset + size]), "a.gguf")
        sizes = [tensor.bytes for tensor in found.tensors]
    except CheckpointError as problem:
        code = problem.code
    assert code in {"", "broken", "unknown_type", "gguf_version"}
    assert min(sizes, default=0) >= 0


@pytest.fixture(scope="module")
def whole() -> bytes:
    return gguf_bytes()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("./nowhere", "no_such_path"),
        ("C:\\models\\nowhere", "no_such_path"),
        ("https://example.com/a/b", "other_host"),
        ("ftp://huggingface.co/a/b", "other_host"),
        ("https://huggingface.co/", "not_a_source"),
        ("https://huggingface.co/datasets/a/b", "not_a_source"),
        ("a/b/c", "not_a_source"),
        ("a b", "not_a_source"),
        ("a/..", "not_a_source"),
        ("x" * 5000, "not_a_source"),
        ("http://[", "not_a_source"),
        ("a\0b", "not_a_source"),
    ],
)
def test_texts_that_name_nothing(text: str, code: str) -> None:
    with pytest.raises(CheckpointError) as problem:
        parse_source(text)
    assert problem.value.code == code
    assert problem.value.params.keys() == set(CODES[code])


def test_texts_that_name_a_repository() -> None:
    for text in ("org/name", "https://huggingface.co/org/name", "hf.co/org/name/", "'org/name' "):
        assert parse_source(text).repo == "org/name"
    source = parse_source("https://huggingface.co/org/name/blob/v1/sub/a-Q4_0.gguf?download=true")
    assert (source.revision, source.file) == ("v1", "sub/a-Q4_0.gguf")
    tagged = parse_source("org/name@v2:UD-Q4_K_XL")
    assert (tagged.repo, tagged.revision, tagged.tag) == ("org/name", "v2", "UD-Q4_K_XL")


def test_reading_brings_no_torch_into_the_process(tmp_path: Path) -> None:
    save_file({"a": np.zeros(4, np.float32)}, tmp_path / "model.safetensors")
    code = (
        "import sys; from hardware_db.checkpoint import read_checkpoint; "
        "import hardware_db.checkpoint.hub, huggingface_hub, huggingface_hub.hf_api; "
        "read_checkpoint(sys.argv[1]); print(sorted({'torch', 'transformers'} & sys.modules.keys()))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True, timeout=120
    )
    assert ran.stdout.strip() == "[]"
