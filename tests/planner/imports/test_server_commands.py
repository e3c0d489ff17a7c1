"""Commands that start llama.cpp and SGLang, and what is no command or config that is known."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from hardware_db import load_tables
from planner.exports.catalog import export
from planner.imports import Imported, ImportRefusedError, import_text
from planner.imports.gguf_names import catalog_model, split_name
from planner.scenario import to_document
from planner.validation import parse_scenario
from tests.planner.exports.cases import CASES, planned, planned_document, question

TABLES = load_tables()
BASE: dict[str, Any] = {
    "version": 1,
    "name": "LoRA on a small model",
    "task": "lora",
    "model": {"id": "meta-llama/Llama-3.1-8B"},
    "hardware": {"devices": [{"gpu": "rtx-4090-24gb", "count": 1}]},
    "runtime": {"name": "hf_trainer"},
    "training": {"micro_batch": 1, "sequence_length": 1024},
    "adapter": {"method": "lora", "rank": 16},
    "parallel": {"sharding": "fsdp"},
}
LLAMA = (
    "./llama-server -m Qwen3-30B-A3B-Q4_K_M.gguf -c 32768 -ngl 99 -fa --cache-type-k q8_0 --cache-type-v q8_0 "
    "-np 2 --n-cpu-moe 20"
)
SGLANG = (
    "python -m sglang.launch_server --model-path mistralai/Mixtral-8x7B-v0.1 --tp 2 --mem-fraction-static 0.85 "
    "--context-length 16384 | tee log.txt"
)
TGI = (
    "docker run --gpus all --shm-size 1g -p 8080:80 ghcr.io/huggingface/text-generation-inference:3.0 "
    "--model-id meta-llama/Llama-3.3-70B-Instruct --num-shard 4 --quantize eetq"
)
PROSE = "# A project\n\nStart it with `python -m thing --port 9000`.\nThen `vllm` or `--fast` may serve it.\n"


def read(text: str, base: dict[str, Any] = BASE) -> Imported:
    """An import whose document is a valid question."""
    found = import_text(text, base, None, TABLES.models)
    scenario, issues = parse_scenario(found.document)
    assert scenario is not None, issues
    return found


def reasons(found: Imported) -> dict[str, str]:
    return {remark.key: remark.reason for remark in found.trouble}


def test_a_llama_cpp_command_is_taken_over() -> None:
    found = read(LLAMA)
    made = found.document
    assert (found.source, made["task"], made["model"]) == ("llama_cpp", "serve", {"id": "Qwen/Qwen3-30B-A3B"})
    assert made["serving"] == {
        "weights": "q4_k_m", "max_model_len": 32768, "max_sequences": 2, "kv_cache": "q8_0",
        "flash_attention": True, "gpu_layers": 99, "host_experts": True, "expert_layers": [28],
    }  # fmt: skip
    assert not {"training", "adapter", "parallel", "name"} & made.keys()
    assert "serving.weights" not in {path for path, _, _ in found.own}
    assert found.trouble == ()


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("llama-cli -m gpt-oss-20b-mxfp4.gguf --n-gpu-layers all", "gpu_layers", 999),
        ("llama-server -hf ggml-org/gpt-oss-20b-GGUF:MXFP4 -c 0", "weights", "mxfp4"),
        ("llama-server -m x.gguf -ctk f16 -ctv q4_0 -c 100", "kv_cache_v", "q4_0"),
        ("./llama-cli -m x.gguf -ngl 40 -p 'say: this'", "gpu_layers", 40),
        ("llama-server -m x.gguf -ts 3,1 -sm row", "tensor_split", [3.0, 1.0]),
        ("llama-server -m x.gguf -ot exps=CPU -fa off", "host_experts", True),
        ("docker run --gpus all ghcr.io/ggml-org/llama.cpp:server-cuda -m /m/x.gguf -ub 2048", "batched_tokens", 2048),
    ],
)  # fmt: skip
def test_llama_cpp_in_its_spellings(text: str, field: str, value: object) -> None:
    found = read(text)
    assert found.source == "llama_cpp"
    assert found.document["serving"][field] == value


def test_a_file_of_no_one_model_is_said_and_the_model_stays() -> None:
    found = read("llama-server -m my-finetune-Q5_K_M.gguf -c 4096")
    assert reasons(found) == {"--m": "model_unclear"}
    assert found.document["model"] == BASE["model"]
    assert found.document["serving"]["weights"] == "q5_k_m"


def test_names_of_files() -> None:
    assert split_name("/m/Meta-Llama-3-70B.Q4_K_M-00001-of-00002.gguf") == ("Meta-Llama-3-70B", "q4_k_m")
    assert split_name("unsloth/Qwen3-30B-A3B-GGUF:UD-Q8_0") == ("Qwen3-30B-A3B", "q8_0")
    assert split_name("x-UD-Q4_K_XL.gguf") == ("x", None)
    assert catalog_model("Llama-3-70B", TABLES.models) == "meta-llama/Meta-Llama-3-70B"
    assert catalog_model("llama", TABLES.models) is None


def test_an_sglang_command_is_taken_over() -> None:
    found = read(SGLANG)
    made = found.document
    assert (found.source, made["model"]) == ("sglang", {"id": "mistralai/Mixtral-8x7B-v0.1"})
    assert made["serving"] == {"max_model_len": 16384, "memory_utilization": 0.85}
    assert (made["parallel"]["tensor"], made["hardware"]["devices"][0]["count"]) == (2, 2)
    assert found.trouble == ()


ROUND = {
    "sglang": CASES["sglang"],
    "sglang_more": question(
        "serve", "sglang", cards=8,
        serving={
            "kv_cache": "fp8", "weights": "fp8", "cuda_graphs": False, "batched_tokens": 4096, "max_sequences": 32,
        },
        parallel={"tensor": 2, "data": 2, "pipeline": 2},
    ),
    "tensorrt_llm": question(
        "serve", "tensorrt_llm", cards=8,
        serving={"batched_tokens": 4096, "max_sequences": 32, "max_model_len": 8192, "memory_utilization": 0.7},
        parallel={"tensor": 4, "pipeline": 2},
    ),
    "llama_cpp": CASES["llama_cpp"],
    "llama_cpp_more": question(
        "serve", "llama_cpp", cards=2,
        serving={
            "weights": "q8_0", "max_model_len": 16384, "max_sequences": 4, "kv_cache": "q8_0", "kv_cache_v": "q4_0",
            "tensor_split": [3, 1], "gpu_layers": 20, "flash_attention": True,
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROUND)
def test_a_command_that_is_written_reads_back_as_the_same_plan(name: str) -> None:
    plan = planned_document(ROUND[name])
    file = export(plan, "serve", TABLES)
    bare = {**deepcopy(to_document(plan.scenario)), "serving": {}, "parallel": {}, "model": {}}
    found = import_text(file.text, bare, None, TABLES.models)
    assert found.trouble == ()
    again = planned_document(found.document)
    assert [d.ledger.entries for d in again.devices] == [d.ledger.entries for d in plan.devices]


@pytest.mark.parametrize(
    "text",
    [
        PROSE,
        PROSE + "It doesn't matter.\n    torchrun x.py --port 1\n",
        "lmdeploy serve api_server m/x --cache-max-entry-count 0.5 --session-len 4096",
        "python train.py --config a.yml --port 3",
        "stage: test\nscript: x\nimage: y\nneeds: z\nrules: w",
    ],
)
def test_what_is_for_no_known_program_is_refused_by_name(text: str) -> None:
    with pytest.raises(ImportRefusedError) as refusal:
        import_text(text, BASE)
    assert refusal.value.code == "format_unsure"
    assert "llama_cpp" in str(refusal.value.params["allowed"])


def test_what_a_file_leaves_out_is_listed_with_what_stood_there() -> None:
    found = read('{"bf16": true, "gradient_checkpointing": true}')
    own = {path: (before, now) for path, before, now in found.own}
    assert own["training.micro_batch"] == (1, 8)
    assert own["parallel.sharding"] == ("fsdp", "none")
    assert "training.checkpointing" not in own
    assert found.document["training"]["sequence_length"] == 1024
    same = read('{"bf16": true, "per_device_train_batch_size": 8}')
    assert "training.micro_batch" not in {path for path, _, _ in same.own}


def test_a_name_stays_with_the_same_model_and_task_only() -> None:
    assert read('{"bf16": true, "optim": "adamw_torch"}').document["name"] == BASE["name"]
    assert "name" not in read('{"bf16": true, "model_name_or_path": "m/x"}').document
    assert "name" not in read(SGLANG).document


MEGATRON = (
    "torchrun --nproc_per_node 8 --nnodes 8 pretrain_gpt.py --tensor-model-parallel-size 8 "
    "--pipeline-model-parallel-size {pipeline} --num-layers 96 --hidden-size 12288 --num-attention-heads 96 "
    "--seq-length 2048 --micro-batch-size 1 --global-batch-size 1536 --bf16 {more}"
)


@pytest.mark.parametrize(("pipeline", "data", "steps"), [(8, 1, 1536), (4, 2, 768)])
def test_megatrons_data_parallelism_is_what_the_degrees_leave(pipeline: int, data: int, steps: int) -> None:
    base = {**BASE, "parallel": {"data": 4}}
    found = read(MEGATRON.format(pipeline=pipeline, more="--vocab-size 50257"), base)
    assert found.document["hardware"]["devices"][0]["count"] == 64
    assert found.document["parallel"]["data"] == data
    assert found.document["training"]["gradient_accumulation"] == steps
    assert found.trouble == ()


def test_a_vocabulary_that_is_missing_is_said() -> None:
    assert reasons(read(MEGATRON.format(pipeline=8, more=""))) == {"--vocab_size": "missing"}
    assert planned("megatron_llama").scenario.task == "pretrain"


def cards(*counts: int) -> dict[str, Any]:
    names = ("rtx-4090-24gb", "rtx-3090-24gb")
    rows = [{"gpu": name, "count": count} for name, count in zip(names, counts, strict=False)]
    return {**BASE, "hardware": {"devices": rows}}


@pytest.mark.parametrize(
    ("more", "base", "layers"),
    [
        ("", cards(2), [5, 23]),
        ("-ts 3,1", cards(2), [17, 11]),
        ("-ts 3,1", cards(1, 1), [17, 11]),
        ("-sm none", cards(2), [28, 0]),
        ("-ngl 20", cards(2), [10, 9]),
        ("", cards(4), [0, 5, 12, 11]),
    ],
)
def test_experts_of_the_first_layers_are_counted_card_by_card(
    more: str, base: dict[str, Any], layers: list[int]
) -> None:
    """48 layers and the output layer, divided by share; the experts of layers 0 to 19 stay on the host."""
    found = read(f"{LLAMA} {more}", base)
    assert reasons(found) == {}
    assert found.document["serving"]["expert_layers"] == layers
    assert planned_document(found.document).devices


def test_experts_of_the_first_layers_need_cards_of_one_kind_or_a_split() -> None:
    found = read(LLAMA, cards(1, 1))
    assert reasons(found) == {"--n_cpu_moe": "unlike_cards"}
    assert "expert_layers" not in found.document["serving"]


def test_a_tgi_command_is_taken_over() -> None:
    found = read(f"{TGI} --max-total-tokens 8192 --max-batch-prefill-tokens 8k --cuda-graphs 1,2,4,8")
    made = found.document
    assert (found.source, made["model"]) == ("tgi", {"id": "meta-llama/Llama-3.3-70B-Instruct"})
    assert made["serving"] == {
        "weights": "int8", "max_model_len": 8192, "batched_tokens": 8000, "cuda_graphs": True,
        "cuda_graph_max_batch": 8,
    }  # fmt: skip
    assert (made["parallel"]["tensor"], made["hardware"]["devices"][0]["count"]) == (4, 4)
    assert found.trouble == ()


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("text-generation-launcher --model-id m/x --max-batch-total-tokens 40000", "max_total_tokens", 40000),
        ("text-generation-launcher --model-id m/x --max-concurrent-requests 16", "max_sequences", 16),
        ("text-generation-launcher --model-id m/x --cuda-memory-fraction 0.6", "memory_utilization", 0.6),
        ("text-generation-launcher --model-id m/x --cuda-graphs 0", "cuda_graphs", False),
        ("text-generation-launcher --model-id m/x --kv-cache-dtype fp8_e4m3fn", "kv_cache", "fp8"),
        (
            "text-generation-launcher --model-id m/x --quantize bitsandbytes-nf4 --dtype float16",
            "weights",
            "nf4",
        ),
    ],
)
def test_tgi_in_its_options(text: str, field: str, value: object) -> None:
    found = read(text)
    assert (found.source, found.trouble) == ("tgi", ())
    assert found.document["serving"][field] == value


def test_a_trtllm_command_is_taken_over() -> None:
    found = read(
        "mpirun -n 1 trtllm-serve serve deepseek-ai/DeepSeek-V3 --backend pytorch --tp_size 8 --ep_size 8 --pp_size 2 "
        "--max_batch_size 64 --max_num_tokens 4096 --max_seq_len 16384 --kv_cache_free_gpu_memory_fraction 0.8 "
        "--kv_cache_dtype fp8 --extra_llm_api_options extra.yml > log.txt"
    )
    made = found.document
    assert (found.source, made["model"]) == ("tensorrt_llm", {"id": "deepseek-ai/DeepSeek-V3"})
    assert made["serving"] == {
        "max_model_len": 16384, "max_sequences": 64, "batched_tokens": 4096, "memory_utilization": 0.8,
        "kv_cache": "fp8",
    }  # fmt: skip
    assert made["parallel"] == {"tensor": 8, "pipeline": 2, "expert": 8}
    assert made["hardware"]["devices"][0]["count"] == 16
    assert reasons(found) == {"--extra_llm_api_options": "elsewhere"}
