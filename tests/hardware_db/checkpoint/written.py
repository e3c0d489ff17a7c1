"""Small checkpoints, written by the libraries that others write them with."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np

LLAMA: Mapping[str, int | float | list[str]] = {
    "context_length": 512,
    "embedding_length": 256,
    "block_count": 2,
    "feed_forward_length": 512,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
    "rope.freq_base": 10_000.0,
    "attention.layer_norm_rms_epsilon": 1e-5,
}
Q4_K, F32, Q6_K = (
    gguf.GGMLQuantizationType.Q4_K,
    gguf.GGMLQuantizationType.F32,
    gguf.GGMLQuantizationType.Q6_K,
)


def write_gguf(path: Path, *, architecture: str = "llama", **more: int) -> Path:
    """A Llama of two layers with a vocabulary of 300, its matrices in Q4_K but for the output in Q6_K."""
    writer = gguf.GGUFWriter(str(path), architecture)
    for key, value in {**LLAMA, **more}.items():
        if isinstance(value, float):
            writer.add_float32(f"{architecture}.{key}", value)
        elif isinstance(value, int):
            writer.add_uint32(f"{architecture}.{key}", value)
    writer.add_file_type(15)
    writer.add_token_list([f"token{i}" for i in range(300)])
    writer.add_token_scores([0.0] * 300)
    layer = {
        "attn_q": (256, 256), "attn_k": (128, 256), "attn_v": (128, 256), "attn_output": (256, 256),
        "ffn_gate": (512, 256), "ffn_up": (512, 256), "ffn_down": (256, 512),
    }  # fmt: skip
    _quantized(writer, "token_embd.weight", (300, 256), Q4_K)
    _quantized(writer, "output.weight", (300, 256), Q6_K)
    writer.add_tensor("output_norm.weight", np.ones(256, np.float32))
    for index in range(2):
        for name, shape in layer.items():
            _quantized(writer, f"blk.{index}.{name}.weight", shape, Q4_K)
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{index}.{name}.weight", np.ones(256, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _quantized(
    writer: gguf.GGUFWriter, name: str, shape: tuple[int, int], kind: gguf.GGMLQuantizationType
) -> None:
    block, size = gguf.GGML_QUANT_SIZES[kind]
    raw = np.zeros((shape[0], shape[1] // block * size), np.uint8)
    writer.add_tensor(name, raw, raw_dtype=kind)


def gguf_bytes() -> bytes:
    """The same file as bytes."""
    with tempfile.TemporaryDirectory() as folder:
        return write_gguf(Path(folder) / "a.gguf").read_bytes()
