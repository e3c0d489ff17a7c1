"""Real CPU steps beside the formulas.

`python -m benchmarks.real_steps` prints the recorded steps beside today's formulas; `--record [NAME ...]` runs them
again (a child process with PyTorch, one thread, minutes) and writes `tests/data/real_steps/NAME.json`.
"""

import argparse
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hardware_db import load_tables
from planner.estimate import plan
from planner.hardware import Tables
from planner.ledger import TRAINING_PHASES, Phase
from planner.plan_types import Plan
from planner.scenario import Scenario
from profiler.compare import as_on_cpu, comparable
from profiler.cpu_kernels import cpu_kernels
from profiler.documents import Options
from profiler.plan_request import prepare
from profiler.report import Report
from profiler.runner import Runner

FOLDER: Final = Path(__file__).parent.parent / "tests" / "data" / "real_steps"
Document = dict[str, Any]

GPT2: Final[Document] = {
    "model_type": "gpt2",
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "vocab_size": 50257,
    "n_positions": 1024,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
LLAMA: Final[Document] = {
    "model_type": "llama",
    "hidden_size": 512,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "intermediate_size": 1408,
    "vocab_size": 32000,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
}
QWEN2: Final = {**LLAMA, "model_type": "qwen2", "num_hidden_layers": 4, "tie_word_embeddings": True}
GEMMA: Final = {
    **QWEN2,
    "model_type": "gemma",
    "head_dim": 64,
    "hidden_act": "gelu_pytorch_tanh",
    "hidden_activation": "gelu_pytorch_tanh",
    "pad_token_id": 0,
}
MIXTRAL: Final = {
    **LLAMA,
    "model_type": "mixtral",
    "num_hidden_layers": 3,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "intermediate_size": 512,
    "vocab_size": 8000,
}
MODELS: Final = {"gpt2": GPT2, "llama": LLAMA, "qwen2": QWEN2, "gemma": GEMMA, "mixtral": MIXTRAL}
QUERY_VALUE: Final = ("q_proj", "v_proj")

NAMES: Final = tuple(
    """
    gpt2-fp32-eager gpt2-fp32-eager-checkpointed gpt2-fp32-sdpa gpt2-bf16-eager gpt2-bf16-sdpa
    gpt2-bf16-sdpa-checkpointed gpt2-fp32-eager-dropout gpt2-bf16-eager-dropout gpt2-fp32-eager-two
    gpt2-autocast-eager-trainer gpt2-bf16-eager-two-trainer gpt2-bf16-sdpa-accumulated
    llama-fp32-eager llama-fp32-eager-checkpointed llama-fp32-sdpa llama-bf16-eager llama-bf16-sdpa
    llama-bf16-sdpa-checkpointed llama-bf16-sdpa-trainer llama-bf16-eager-checkpointed-trainer
    llama-autocast-eager llama-autocast-sdpa llama-autocast-sdpa-checkpointed llama-autocast-eager-trainer
    llama-autocast-sdpa-checkpointed-trainer llama-autocast-sdpa-accumulated-trainer llama-bf16-sdpa-accumulated
    llama-fp32-eager-checkpointed-accumulated-trainer
    llama-fp32-eager-qv llama-bf16-eager-qv llama-bf16-sdpa-qv llama-bf16-sdpa-qv-checkpointed-trainer
    llama-autocast-sdpa-qv-trainer llama-fp32-eager-all llama-bf16-eager-all llama-bf16-sdpa-all
    llama-autocast-sdpa-all-trainer llama-autocast-sdpa-all-checkpointed-trainer
    qwen2-fp32-eager qwen2-bf16-sdpa qwen2-autocast-sdpa-trainer gemma-fp32-eager gemma-bf16-sdpa
    gemma-bf16-sdpa-checkpointed mixtral-fp32-eager mixtral-bf16-sdpa mixtral-autocast-sdpa-trainer
    """.split()  # noqa: SIM905  # a table of words
)
"""Model, number format, attention, and what is special, joined by dashes; see `scenario_of`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One measured step.

    Attributes:
        name: One of `NAMES`.
        scenario: What was asked.
        measured_at: UTC, ISO 8601.
        versions: Library versions and the system.
        phases: Bytes of live tensors at each phase's fullest moment, and of their kinds.
    """

    name: str
    scenario: Document
    measured_at: str
    versions: dict[str, str]
    phases: dict[str, Document]

    def phase_bytes(self, phase: Phase) -> int:
        """Bytes of live tensors at the phase's fullest moment."""
        return int(self.phases[phase.value]["bytes"])


def scenario_of(name: str) -> Document:
    """The scenario that a name stands for.

    `autocast` is fp32 (for adapters: bf16) parameters under bf16 autocast; `two` are two sequences; `qv` and `all` are
    adapters on query and value, or on every matrix.
    """
    words = name.split("-")
    model, dtype, attention = words[:3]
    more = frozenset(words[3:])
    adapted, autocast = bool(more & {"qv", "all"}), dtype == "autocast"
    stored = ("bf16" if adapted else "fp32") if autocast else dtype
    document: Document = {
        "version": 1,
        "task": "lora" if adapted else "full",
        "model": {"config": dict(MODELS[model])},
        "hardware": {"devices": [{"gpu": "unknown"}]},
        "runtime": {"name": "hf_trainer" if "trainer" in more else "generic"},
        "training": {
            "micro_batch": 2 if model != "gpt2" or "two" in more else 1,
            "sequence_length": 96 if "two" in more else 128,
            "gradient_accumulation": 2 if "accumulated" in more else 1,
            "attention": attention,
            "checkpointing": "full" if "checkpointed" in more else "none",
            "dropout": 0.1 if "dropout" in more else 0.0,
            "precision": {
                "parameters": stored,
                "compute": "bf16" if autocast else dtype,
                "autocast": autocast,
            },
            "optimizer": {"name": "adamw", "implementation": "foreach"},
        },
    }
    if adapted:
        targets: Any = "all_linear" if "all" in more else list(QUERY_VALUE)
        document["adapter"] = {
            "method": "lora", "rank": 8, "dropout": 0.0, "dtype": "fp32", "base": stored, "targets": targets,
        }  # fmt: skip
    return document


def recorded() -> Iterator[Recorded]:
    """Every recorded step, in order of its name."""
    for path in sorted(FOLDER.glob("*.json")):
        yield Recorded(**json.loads(path.read_text(encoding="utf-8")))


def predicted(scenario: Mapping[str, Any], tables: Tables) -> dict[Phase, int]:
    """Bytes of live tensors by phase, as the formulas have them, with what CPU kernels keep otherwise."""
    answer = plan(Scenario.model_validate(scenario), tables)
    ledger = as_on_cpu(answer.worst.ledger, cpu_kernels(answer.resolved, answer.model))
    return {
        phase: sum(entry.bytes for entry in comparable(ledger, phase, on_cpu=True))
        for phase in TRAINING_PHASES
    }


def run(answer: Plan, threads: int = 1) -> Report:
    """Measure a plan's step in a child process.

    Raises:
        RuntimeError: The step could not be measured.
    """
    prepared = prepare(answer, "cpu", None)
    if prepared.refused:
        raise RuntimeError(str(prepared.refused))
    options = Options(device="cpu", steps=1, threads=threads)
    job = Runner().start(prepared.scenario, options, config=prepared.config)
    job.wait()
    seen = job.snapshot()
    if seen.report is None:
        raise RuntimeError(f"{seen.reason}: {seen.detail} {seen.remarks} {seen.stderr[-5:]}")
    return seen.report


def record(name: str, tables: Tables) -> Recorded:
    """Measure one step and write it down."""
    scenario = scenario_of(name)
    report = run(plan(Scenario.model_validate(scenario), tables))
    where = report.environment
    step = Recorded(
        name=name,
        scenario=scenario,
        measured_at=report.created_at,
        versions={
            "torch": where.torch,
            "transformers": where.transformers,
            "peft": where.peft,
            "python": where.python,
        },
        phases={
            figures.phase: {
                "bytes": figures.peak_allocated_bytes,
                "kinds": {f"{group.category}.{group.name}": group.bytes for group in figures.groups},
            }
            for figures in report.phases
        },
    )
    FOLDER.mkdir(parents=True, exist_ok=True)
    fields = {field: getattr(step, field) for field in Recorded.__slots__}
    (FOLDER / f"{name}.json").write_text(_as_text(fields), encoding="utf-8")
    return step


def _as_text(fields: Document) -> str:
    """JSON with one line for a phase and for each block of the scenario."""
    text = json.dumps(fields, indent=1, ensure_ascii=False)
    return re.sub(r"\n {3,}|(?<=[\w\"\]}])\n {2}(?=[}\]])", " ", text) + "\n"


def main() -> None:
    """Print the table, or record steps."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_steps", description=__doc__)
    parser.add_argument(
        "--record", nargs="*", metavar="NAME", help="measure these steps anew, or all of them"
    )
    options = parser.parse_args()
    tables = load_tables()
    if options.record is not None:
        for name in options.record or NAMES:
            print(_line(record(name, tables), tables), flush=True)
        return
    print(f"{'measured less predicted':52}" + "".join(f"{phase.value:>16}" for phase in TRAINING_PHASES))
    for step in recorded():
        print(_line(step, tables))


def _line(step: Recorded, tables: Tables) -> str:
    expected = predicted(step.scenario, tables)
    shares = (step.phase_bytes(phase) / expected[phase] - 1 for phase in TRAINING_PHASES)
    return f"{step.name:52}" + "".join(f"{share:16.4%}" for share in shares)


if __name__ == "__main__":
    main()
