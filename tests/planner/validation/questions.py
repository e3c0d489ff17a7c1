"""Questions about a plain job with fields changed, and the issues that they get."""

from pathlib import Path
from typing import Any

from hardware_db import load_tables
from planner.issues import Issue, Severity
from planner.resolve import resolve
from planner.validation import check, model_for, parse_scenario

ROOT = Path(__file__).parents[3]
TABLES = load_tables()
LLAMA = {
    "model_type": "llama",
    "hidden_size": 8192,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "intermediate_size": 28672,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
}
MIXTRAL = {
    "model_type": "mixtral",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 32000,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "max_position_embeddings": 32768,
}


def document(**changes: Any) -> dict[str, Any]:
    """A plain question with fields set by dotted path (`__` for the dots)."""
    base: dict[str, Any] = {
        "version": 1,
        "task": "pretrain",
        "model": {"config": dict(LLAMA)},
        "hardware": {"devices": [{"gpu": "a100-sxm-80gb", "count": 8}]},
    }
    for path, value in changes.items():
        node: Any = base
        *parents, leaf = path.split("__")
        for part in parents:
            node = node.setdefault(part, {}) if isinstance(node, dict) else node[int(part)]
        node[leaf] = value
    return base


def refused(**changes: Any) -> Issue:
    """The one issue of a document that can't be read."""
    scenario, issues = parse_scenario(document(**changes))
    assert scenario is None
    assert len(issues) == 1, issues
    return issues[0]


def found(**changes: Any) -> dict[str, Issue]:
    """The issues of a question that can be read, by code."""
    scenario, issues = parse_scenario(document(**changes))
    assert scenario is not None, issues
    model = model_for(scenario, TABLES)
    resolved, _ = resolve(scenario, model)
    return {issue.code: issue for issue in check(scenario, resolved, model, TABLES)}


def errors(**changes: Any) -> dict[str, Issue]:
    return {code: issue for code, issue in found(**changes).items() if issue.severity is Severity.ERROR}
