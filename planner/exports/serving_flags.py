"""The command that starts a server as it was planned: vLLM, SGLang, TensorRT-LLM, llama.cpp, Ollama.

What a user gave is said, and what the plan's memory rests on: context, share of the card, layers on the cards.
The rest stays with the engine. A command is a list of words; `Command.text` quotes each for a shell, and a name
that is no plain model name is left out.
"""

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from planner.memory.serving_demand import version_of
from planner.memory.serving_weights import expert_replicas
from planner.memory.weight_formats import declared_format
from planner.model.spec import ModelSpec
from planner.plan_types import Plan
from planner.scenario import Scenario, Serving

REFERENCES: Final = {
    "vllm": "vllm_engine_args",
    "sglang": "sglang_server_args",
    "tensorrt_llm": "tensorrt_llm_args",
    "llama_cpp": "llama_server_options",
    "ik_llama_cpp": "ik_llama_options",
    "ollama": "ollama_options",
}

PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?")
DTYPES: Final = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
QUANTIZED_ON_LOAD: Final = {"fp8": "fp8", "nf4": "bitsandbytes"}
"""What an engine makes of a 16-bit checkpoint itself; any other format has to be in the checkpoint."""
CACHE_TYPES: Final = {"bf16": "bf16", "fp16": "f16", "fp32": "f32"}
PLACEHOLDER: Final = "MODEL"
MODELFILE: Final = "Modelfile"
GRAPH_SIZE_FROM: Final = (0, 12)
"""First vLLM whose largest captured batch has a flag of its own."""

Remark = tuple[str, str]
"""A code and the value it is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """How a server is started.

    Attributes:
        words: Program and arguments.
        environment: Variables to set first.
        file_name: Name of a file to write, "" where there is none.
        file_text: What goes into it.
        remarks: What the user must see to: `checkpoint_format`, `model_file`, `model_name`, `no_flag`,
            `ollama_create`.
    """

    words: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    file_name: str = ""
    file_text: str = ""
    remarks: tuple[Remark, ...] = ()

    @property
    def text(self) -> str:
        """For a POSIX shell: one option a line, every word quoted."""
        lines = [f"export {name}={shlex.quote(value)}" for name, value in self.environment]
        if self.words:
            lines.append(" \\\n  ".join(_grouped(self.words)))
        return "\n".join(lines)


def command_for(plan: Plan) -> Command | None:
    """The command for a plan; None where its runtime is no server that is started like that.

    Args:
        plan: A plan whose task is `serve`.
    """
    writer = WRITERS.get(plan.resolved.runtime.name)
    return None if writer is None or plan.serving is None else writer(plan)


def _grouped(words: tuple[str, ...]) -> list[str]:
    """Each option with its values; the program with what stands before the first option."""
    groups: list[list[str]] = [[]]
    for word in words:
        if word.startswith("-") and not re.fullmatch(r"-\d.*|-m", word):
            groups.append([])
        groups[-1].append(word)
    return [shlex.join(group) for group in groups]


def _name(scenario: Scenario) -> tuple[str, list[Remark]]:
    """The model's name where it is a plain one, else a placeholder and a remark."""
    given = scenario.model.id or ""
    return (given, []) if PLAIN_NAME.fullmatch(given) else (PLACEHOLDER, [("model_name", given)])


# --- engines with a share of the card


def _vllm(plan: Plan) -> Command:
    asked, held = plan.scenario, plan.resolved
    name, remarks = _name(asked)
    given, words = asked.serving, ["vllm", "serve", name]
    graphs = version_of(asked) >= GRAPH_SIZE_FROM
    words += _options(
        ("--tensor-parallel-size", _above_one(held.parallel.tensor)),
        ("--pipeline-parallel-size", _above_one(held.parallel.pipeline)),
        ("--data-parallel-size", _above_one(held.parallel.data)),
        ("--max-model-len", held.serving.max_model_len),
        ("--gpu-memory-utilization", held.serving.memory_utilization),
        ("--max-num-seqs", given.max_sequences),
        ("--max-num-batched-tokens", given.batched_tokens),
        ("--block-size", given.block_size),
        ("--dtype", DTYPES.get(given.weights or "")),
        ("--quantization", _quantized_on_load(plan)),
        ("--kv-cache-dtype", "fp8" if given.kv_cache == "fp8" else None),
        ("--max-cudagraph-capture-size", given.cuda_graph_max_batch if graphs else None),
    )
    words += ["--enable-expert-parallel"] if held.parallel.expert > 1 else []
    words += ["--enforce-eager"] if given.cuda_graphs is False else []
    drafting = _speculative_config(given)
    words += ["--speculative-config", json.dumps(drafting)] if drafting else []
    if given.prefix_caching is not None:
        words.append("--enable-prefix-caching" if given.prefix_caching else "--no-enable-prefix-caching")
    missing = ("max_total_tokens", *(() if graphs else ("cuda_graph_max_batch",)))
    missing += () if drafting else ("speculative",)
    return Command(words=tuple(words), remarks=(*remarks, *_checkpoint(plan), *_without(asked, *missing)))


def _sglang(plan: Plan) -> Command:
    asked, held = plan.scenario, plan.resolved
    name, remarks = _name(asked)
    given, words = asked.serving, ["python", "-m", "sglang.launch_server", "--model-path", name]
    replicas = expert_replicas(held.parallel, held.parallel.tensor) if plan.model.has_experts else 1
    words += _options(
        ("--tp-size", _above_one(held.parallel.tensor * replicas)),
        ("--pp-size", _above_one(held.parallel.pipeline)),
        ("--dp-size", _above_one(held.parallel.data)),
        ("--ep-size", _above_one(held.parallel.expert)),
        ("--context-length", held.serving.max_model_len),
        ("--mem-fraction-static", _rounded(held.serving.memory_utilization)),
        ("--max-running-requests", given.max_sequences),
        ("--chunked-prefill-size", given.batched_tokens),
        ("--max-total-tokens", given.max_total_tokens),
        ("--page-size", given.block_size),
        ("--dtype", DTYPES.get(given.weights or "")),
        ("--quantization", _quantized_on_load(plan)),
        ("--kv-cache-dtype", "fp8_e4m3" if given.kv_cache == "fp8" else None),
        ("--cuda-graph-max-bs", given.cuda_graph_max_batch),
    )
    words += ["--enable-dp-attention"] if replicas > 1 else []
    drafting = _sglang_drafting(given)
    words += drafting
    words += ["--disable-cuda-graph"] if given.cuda_graphs is False else []
    words += ["--disable-radix-cache"] if given.prefix_caching is False else []
    return Command(
        words=tuple(words),
        remarks=(*remarks, *_checkpoint(plan), *_without(asked, *(() if drafting else ("speculative",)))),
    )


def _draft_name(given: Serving) -> str | None:
    """The draft's name; None where it has none that a command could carry."""
    name = given.draft_model.id if given.draft_model is not None else None
    return name if name is not None and PLAIN_NAME.fullmatch(name) else None


def _speculative_config(given: Serving) -> dict[str, str | int]:
    """What vLLM is told of a draft; empty where there is none, or one without a name."""
    name, tokens = _draft_name(given), given.draft_tokens or 1
    if given.speculative == "mtp":
        return {"method": "mtp", "num_speculative_tokens": tokens}
    if given.speculative is None or name is None:
        return {}
    method = {"method": "eagle3"} if given.speculative == "eagle3" else {}
    return {**method, "model": name, "num_speculative_tokens": tokens}


def _sglang_drafting(given: Serving) -> list[str]:
    """What SGLang is told of a draft."""
    name = _draft_name(given)
    if given.speculative is None or (given.speculative != "mtp" and name is None):
        return []
    algorithm = {"mtp": "EAGLE", "eagle3": "EAGLE3", "draft": "STANDALONE"}[given.speculative]
    return _options(
        ("--speculative-algorithm", algorithm),
        ("--speculative-draft-model-path", name if given.speculative != "mtp" else None),
        ("--speculative-num-draft-tokens", given.draft_tokens),
    )


def _tensorrt_llm(plan: Plan) -> Command:
    asked, held = plan.scenario, plan.resolved
    name, remarks = _name(asked)
    words = ["trtllm-serve", name]
    words += _options(
        ("--tp_size", _above_one(held.parallel.tensor)),
        ("--pp_size", _above_one(held.parallel.pipeline)),
        ("--ep_size", _above_one(held.parallel.expert)),
        ("--max_seq_len", held.serving.max_model_len),
        ("--max_batch_size", asked.serving.max_sequences),
        ("--max_num_tokens", asked.serving.batched_tokens),
        ("--kv_cache_free_gpu_memory_fraction", held.serving.memory_utilization),
    )
    missing = ("max_total_tokens", "block_size", "kv_cache", "speculative")
    return Command(words=tuple(words), remarks=(*remarks, *_checkpoint(plan), *_without(asked, *missing)))


def _quantized_on_load(plan: Plan) -> str | None:
    """The flag's value where the engine has to quantize; None where the checkpoint is in the format already."""
    weights = plan.scenario.serving.weights
    return None if weights == declared_format(plan.model) else QUANTIZED_ON_LOAD.get(weights or "")


def _checkpoint(plan: Plan) -> list[Remark]:
    """A format that the checkpoint itself must have and that its config does not name."""
    weights = plan.resolved.serving.weights
    known = weights is None or weights in DTYPES or weights in QUANTIZED_ON_LOAD
    return [] if known or weights == declared_format(plan.model) else [("checkpoint_format", weights or "")]


def _without(asked: Scenario, *fields: str) -> list[Remark]:
    """Fields that were given and have no flag here."""
    return [("no_flag", f"serving.{name}") for name in fields if getattr(asked.serving, name) is not None]


# --- the llama.cpp family


def _llama(plan: Plan) -> Command:
    held, given = plan.resolved.serving, plan.scenario.serving
    fork = plan.resolved.runtime.name == "ik_llama_cpp"
    file, remarks = _gguf(plan)
    words = ["llama-server", "-m", file]
    words += _options(
        ("--ctx-size", held.max_model_len),
        ("--parallel", held.max_sequences),
        ("--n-gpu-layers", _gpu_layers(held.gpu_layers, plan.model)),
        ("--ubatch-size", given.batched_tokens),
        ("--cache-type-k", _cache_type(given.kv_cache)),
        ("--cache-type-v", _cache_type(given.kv_cache_v or given.kv_cache)),
        ("--split-mode", given.split_mode),
        ("--tensor-split", _split(given.tensor_split)),
        ("-mla" if fork else "", given.mla_mode),
        ("-amb" if fork else "", given.attention_max_batch_mib),
    )
    if fork:
        words += ["-fa"] if held.flash_attention else []
        words += ["-ot", "exps=CPU"] if held.host_experts else []
    else:
        words += ["--flash-attn", "on" if held.flash_attention else "off"]
        words += ["--cpu-moe"] if held.host_experts else []
    words += ["--no-kv-offload"] if held.no_kv_offload else []
    missing = ("expert_layers", "pipeline_copies", "speculative")
    return Command(words=tuple(words), remarks=(*remarks, *_without(plan.scenario, *missing)))


def _ollama(plan: Plan) -> Command:
    held, given = plan.resolved.serving, plan.scenario.serving
    file, remarks = _gguf(plan)
    slots = held.max_sequences or 1
    lines = [f"FROM ./{file}"]
    if held.max_model_len is not None:
        lines.append(f"PARAMETER num_ctx {max(1, held.max_model_len // slots)}")
    if held.gpu_layers is not None:
        lines.append(f"PARAMETER num_gpu {held.gpu_layers}")
    if given.batched_tokens is not None:
        lines.append(f"PARAMETER num_batch {given.batched_tokens}")
    environment = [("OLLAMA_NUM_PARALLEL", str(slots))]
    environment.append(("OLLAMA_FLASH_ATTENTION", "1" if held.flash_attention else "0"))
    cache = _cache_type(given.kv_cache)
    if cache is not None:
        environment.append(("OLLAMA_KV_CACHE_TYPE", cache))
    missing = ("kv_cache_v", "tensor_split", "host_experts", "speculative")
    return Command(
        words=("ollama", "serve"),
        environment=tuple(environment),
        file_name=MODELFILE,
        file_text="\n".join(lines) + "\n",
        remarks=(
            *remarks,
            ("ollama_create", f"ollama create planned -f {MODELFILE}"),
            *_without(plan.scenario, *missing),
        ),
    )


def _gguf(plan: Plan) -> tuple[str, list[Remark]]:
    """A file name made of the model's and the format's; the file itself is the user's."""
    name, remarks = _name(plan.scenario)
    weights = plan.resolved.serving.weights or "q4_k_m"
    stem = name.rpartition("/")[2]
    file = f"{stem}-{weights.upper()}.gguf"
    return file, [*remarks, ("model_file", file)]


def _gpu_layers(given: int | None, model: ModelSpec) -> int:
    """All layers and the output layer, unless told otherwise."""
    return model.num_layers + 1 if given is None else given


def _cache_type(name: str | None) -> str | None:
    return None if name is None else CACHE_TYPES.get(name, name)


def _split(parts: tuple[float, ...] | None) -> str | None:
    return None if parts is None else ",".join(f"{part:g}" for part in parts)


# --- words


def _options(*pairs: tuple[str, object]) -> list[str]:
    """Options with a value, those without one left out."""
    return [word for name, value in pairs if name and value is not None for word in (name, _value(value))]


def _value(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _above_one(degree: int | None) -> int | None:
    return degree if degree is not None and degree > 1 else None


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 3)


WRITERS: Final[dict[str, Callable[[Plan], Command]]] = {
    "vllm": _vllm,
    "sglang": _sglang,
    "tensorrt_llm": _tensorrt_llm,
    "llama_cpp": _llama,
    "ik_llama_cpp": _llama,
    "ollama": _ollama,
}
