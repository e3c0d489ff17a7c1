"""Every published message is read as it should be, however it arrives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from planner.diagnose import read_whole
from planner.diagnose.sizes import size
from planner.units import GB, GIB, KIB, MIB
from tests.planner.diagnose.cases import (
    MESSAGES,
    TORCH,
    colored,
    hard_wrapped,
    in_other_units,
    only,
    prefixed,
    soft_wrapped,
    wrong,
)

if TYPE_CHECKING:
    from collections.abc import Callable

IDS = [f"{number}-{message['tag']}" for number, message in enumerate(MESSAGES)]
PREFIXES = {
    "rank": "[rank3]: ",
    "torchrun": "[default5]:",
    "mpi": "[1,6]<stderr>:",
    "vllm": "(EngineCore_DP0 pid=77) ",
    "vllm-log": "(Worker_TP1 pid=9) ERROR 11-29 12:00:00 [core.py:700] ",
    "ray": "(RayWorkerWrapper pid=4242, ip=10.0.0.7) ",
    "compose": "trainer-1  | ",
    "kubernetes": "2026-05-01T10:00:00.123456Z stderr F ",
    "logging": "2026-05-01 10:00:00,123 ",
    "two": "trainer-1  | [rank2]: ",
}
DAMAGE: dict[str, Callable[[str], str]] = {
    **{name: lambda text, p=prefix: prefixed(text, p) for name, prefix in PREFIXES.items()},  # type: ignore[misc]
    "ansi": colored,
    "ansi-words": lambda text: text.replace("allocate", "allo\x1b[31mcate\x1b[0m").replace(
        "free", "\x1b[1mfree"
    ),
    "caret": lambda text: f"^[[0;31m{text}^[[0m",
    "wrap-80": lambda text: hard_wrapped(text, 80),
    "wrap-37": lambda text: hard_wrapped(text, 37),
    "soft-60": lambda text: soft_wrapped(text, 60),
    "soft-20": lambda text: soft_wrapped(text, 20),
    "wrap-rank": lambda text: prefixed(soft_wrapped(text, 70), "[rank1]: "),
    "wrap-compose": lambda text: prefixed(hard_wrapped(text, 90), "web-1  | "),
    "crlf": lambda text: soft_wrapped(text, 50).replace("\n", "\r\n"),
    "escaped": lambda text: soft_wrapped(text, 50).replace("\n", "\\n"),
    "quoted": lambda text: f'> "{text}"',
    "indented": lambda text: prefixed(soft_wrapped(text, 66), "        "),
    "traceback": lambda text: (
        f'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n{text}\n'
    ),
    "nonbreaking": lambda text: text.replace(" ", "\u00a0"),
}


@pytest.mark.parametrize("message", MESSAGES, ids=IDS)
def test_a_published_message_is_read(message: dict[str, Any]) -> None:
    assert wrong(only(message["text"]), message["expected"]) == []


@pytest.mark.parametrize("damage", DAMAGE)
def test_pytorch_messages_survive(damage: str) -> None:
    for message in TORCH:
        if message["tag"] in {"1h", "6b"}:
            continue
        text = DAMAGE[damage](message["text"])
        assert wrong(only(text), message["expected"]) == [], (message["tag"], text[:200])


SENTENCES = {"3a", "3c", "4d", "4e", "4g", "5b", "7a", "8a"}


@pytest.mark.parametrize(
    "damage", ["rank", "compose", "vllm-log", "ansi", "wrap-37", "soft-20", "crlf", "wrap-rank"]
)
def test_other_sentences_survive(damage: str) -> None:
    for message in MESSAGES:
        if message["tag"] in SENTENCES:
            record = only(DAMAGE[damage](message["text"]))
            assert wrong(record, message["expected"]) == [], message["tag"]


@pytest.mark.parametrize("damage", ["rank", "compose", "ansi", "logging"])
def test_lines_of_tables_survive_prefixes(damage: str) -> None:
    for message in MESSAGES:
        if message["tag"] in {"6b", "9e"}:
            assert wrong(only(DAMAGE[damage](message["text"])), message["expected"]) == [], message["tag"]


def test_units_are_those_of_each_figure() -> None:
    for message in TORCH:
        if message["tag"] == "6b":
            continue
        record = only(in_other_units(message["text"]))
        for name, value in message["expected"].items():
            read = record.bytes(name)
            if isinstance(value, int) and read is not None and name != "gpu":
                assert abs(read - value) <= MIB // 50, name


def test_every_rank_is_told_apart_and_the_same_is_counted() -> None:
    text = next(m["text"] for m in MESSAGES if m["tag"] == "1d")
    log = "\n".join(f"[rank{rank}]: {text}" for rank in (0, 1, 0, 3))
    records = read_whole(log).records
    assert sorted((record.rank, record.count) for record in records) == [(0, 2), (1, 1), (3, 1)]


def test_several_cards_of_a_query() -> None:
    text = (
        "index, name, memory.total [MiB], memory.used [MiB], memory.free [MiB]\n"
        "0, NVIDIA GeForce RTX 3090, 24576 MiB, 1204 MiB, 23064 MiB\n"
        "1, NVIDIA GeForce RTX 3090, 24576 MiB, 20480 MiB, 3788 MiB\n"
    )
    records = read_whole(text).records
    assert [(r.device, r.bytes("total"), r.bytes("used")) for r in records] == [
        (0, 24576 * MIB, 1204 * MIB),
        (1, 24576 * MIB, 20480 * MIB),
    ]


SMI = """\
|   0  NVIDIA A100-SXM4-80GB           On  |   00000000:07:00.0 Off |                    0 |
| N/A   41C    P0             72W /  400W |   61442MiB /  81920MiB |      0%      Default |
|                                         |                        |             Disabled |
|   1  NVIDIA GB10                    On  |   0000000F:01:00.0 Off |                  N/A |
| N/A   38C    P8              5W /  N/A  | Not Supported          |      0%      Default |
|    0   N/A  N/A     24680      C   python                                   12034MiB |
|    0   N/A  N/A       112      C   /python3.11                                  N/A  |
"""


def test_the_table_of_nvidia_smi() -> None:
    first, second = read_whole(SMI).records
    assert (first.device, first.bytes("used"), first.bytes("total")) == (0, 61442 * MIB, 81920 * MIB)
    held = [(process.pid, process.size.bytes if process.size else None) for process in first.processes]
    assert held == [(24680, 12034 * MIB), (112, None)]
    assert (second.device, second.fact("name"), second.sizes) == (1, "NVIDIA GB10", ())


SUMMARY = """\
|===========================================================================|
|                  PyTorch CUDA memory summary, device ID 3                 |
|---------------------------------------------------------------------------|
|            CUDA OOMs: 1            |        cudaMalloc retries: 3         |
|===========================================================================|
|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |
|---------------------------------------------------------------------------|
| Allocated memory      |  15360 MiB |  18944 MiB |    812 GiB |    797 GiB |
|       from large pool |  15302 MiB |  18880 MiB |    810 GiB |    795 GiB |
| GPU reserved memory   |  21504 MiB |  21504 MiB |  43008 MiB |  21504 MiB |
| Non-releasable memory |   6144 KB  |   6500 MiB |    402 GiB |    396 GiB |
"""


def test_a_memory_summary() -> None:
    record = only(SUMMARY)
    assert (record.device, record.fact("ooms"), record.fact("retries")) == (3, 1, 3)
    assert record.bytes("allocated") == 15360 * MIB
    assert record.bytes("peak_reserved") == 21504 * MIB
    assert record.bytes("inactive") == 6144 * KIB


LINES: dict[str, tuple[str, str, dict[str, float]]] = {
    "4a": (
        (
            "INFO [worker.py:267] model weights take 14.99GiB; non_torch_memory takes 0.30GiB; PyTorch activation peak "
            "memory takes 1.25GiB; the rest of the memory reserved for KV Cache is 18.90GiB."
        ),
        "vllm_profile",
        {"weights": 14.99 * GIB, "kv_cache": 18.9 * GIB},
    ),
    "4b": (
        "(EngineCore_DP0 pid=77) INFO [gpu_worker.py:298] Available KV cache memory: 12.50 GiB",
        "vllm_kv",
        {"kv_cache": 12.5 * GIB},
    ),
    "5a": (
        (
            "[2026-05-01 10:00:00 TP1] Load weight end. elapsed=12.40 s, type=Qwen3ForCausalLM, avail mem=62.10 GB, "
            "mem usage=15.30 GB."
        ),
        "sglang_weights",
        {"available": 62.1 * GIB, "weights": 15.3 * GIB},
    ),
    "6a": (
        "load_tensors:        CUDA0 model buffer size =  4403.50 MiB",
        "llama_cpp",
        {"weights": 4403.5 * MIB},
    ),
    "6b": (
        "ggml_gallocr_reserve_n: failed to allocate CUDA1 buffer of size 1610612736",
        "llama_cpp_buffer",
        {"request": 1610612736},
    ),
    "7b": ("MemAllocated=21.50GB, MaxMemAllocated=48.25GB", "deepspeed_allocated", {"allocated": 21.5 * GIB}),
    "7c": (
        "  23.47GB |  18.78GB | offload_param=none, offload_optimizer=none, zero_init=1",
        "deepspeed_estimate",
        {"host": 23.47 * GIB, "gpu": 18.78 * GIB},
    ),
    "8b": (
        "Theoretical memory footprints: weight and optimizer=18345.67 MB, activation=9216.00 MB, total=27561.67 MB",
        "megatron_theory",
        {"states": 18345.67 * MIB, "needed": 27561.67 * MIB},
    ),
    "8c": ("[Start] Allocated: 30100.25 MB, Reserved: 30720.00 MB", "nemo", {"allocated": 30100.25 * MIB}),
    "mps": (
        (
            "RuntimeError: MPS backend out of memory (MPS allocated: 17.66 GB, other allocations: 412.00 MB, "
            "max allowed: 18.13 GB). Tried to allocate 256.00 MB on private pool."
        ),
        "torch_mps",
        {"request": 256 * MIB, "allocated": 17.66 * GIB, "allowed": 18.13 * GIB},
    ),
    "host": (
        (
            "RuntimeError: [enforce fail at alloc_cpu.cpp:114] . DefaultCPUAllocator: can't allocate memory: "
            "you tried to allocate 103079215104 bytes. Error code 12 (Cannot allocate memory)"
        ),
        "host_allocator",
        {"request": 103079215104},
    ),
    "tf": (
        (
            "ResourceExhaustedError: OOM when allocating tensor with shape[8,2048,32000] and type float on "
            "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc"
        ),
        "tensorflow",
        {"request": 8 * 2048 * 32000 * 4},
    ),
}


@pytest.mark.parametrize("tag", LINES)
def test_a_line_of_another_program(tag: str) -> None:
    text, form, sizes = LINES[tag]
    record = only(text, form)
    for name, value in sizes.items():
        read = record.size(name)
        assert read is not None
        assert abs(read.bytes - value) <= max(1, read.tolerance_bytes)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("RuntimeError: CUDA error: out of memory", "torch_driver"),
        (
            "CUDA error: out of memory\n  current device: 1, in function alloc at ggml-cuda.cu:97",
            "ggml_driver",
        ),
        ("Failed to initialize NVML: Driver/library version mismatch", "nvml_mismatch"),
        ("Failed to initialize NVML: Unknown Error", "nvml_lost"),
        ("No devices were found", "nvml_none"),
        ("    Reason:       OOMKilled", "host_kubernetes"),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=7.0", "host_slurm"),
        ("torch.distributed.elastic: failed (exitcode: -9) local_rank: 0", "host_signal"),
        ("Killed", "host_killed"),
        ("ValueError: No available memory for the cache blocks.", "vllm_no_blocks"),
    ],
)
def test_failures_without_figures(text: str, form: str) -> None:
    record = only(text)
    assert (record.form, record.failure) == (form, True)


@pytest.mark.parametrize(
    ("printed", "unit", "bytes_", "tolerance"),
    [
        ("1.50GiB", "", 3 * GIB // 2, 5368710),
        ("0bytes", "", 0, 0),
        ("512.00", "MiB", 512 * MIB, 5243),
        ("13GB", "", 13 * GIB, GIB // 2),
        ("7.83GiB", "", 8407398482, 5368710),
    ],
)
def test_sizes_are_whole_bytes_with_half_the_last_digit(
    printed: str, unit: str, bytes_: int, tolerance: int
) -> None:
    found = size(printed, unit)
    assert found is not None
    assert (found.bytes, found.tolerance_bytes) == (bytes_, tolerance)


def test_what_is_no_size_is_none() -> None:
    assert [size(text) for text in ("", "GiB", "1.2.3GiB", "-1GiB", "9" * 20 + "GiB", "1PiB")] == [None] * 6


def test_a_vendor_gigabyte_is_asked_for() -> None:
    found = size("5.0", "GB", decimal=True)
    assert found is not None
    assert found.bytes == 5 * GB
