"""A plan as plain JSON values: what `plan --json` prints and what a program may read."""

from dataclasses import asdict
from typing import Any

from planner.issues import Issue
from planner.ledger import LAYER_ORDER, Entry, Layer, Phase
from planner.plan_types import DevicePlan, Plan
from planner.scenario import to_document


def plan_document(plan: Plan) -> dict[str, Any]:
    """Every figure of a plan, each device group's ledger with every entry, in bytes."""
    return {
        "verdict": str(plan.verdict),
        "known": str(plan.known),
        "fullest": plan.fullest,
        "scenario": to_document(plan.scenario),
        "defaults": dict(plan.defaults),
        "model": {
            "id": plan.model.id,
            "model_type": plan.model.model_type,
            "parameters": plan.model.params_total,
            "trainable_parameters": plan.trainable_params if plan.scenario.is_training else None,
            "layers": plan.model.num_layers,
            "approximate": list(plan.model.approximate),
        },
        "devices": [_device(device) for device in plan.devices],
        "serving": None if plan.serving is None else asdict(plan.serving),
        "host": asdict(plan.host),
        "issues": [issue_document(issue) for issue in plan.issues],
    }


def issue_document(issue: Issue) -> dict[str, Any]:
    """An issue: code, field, severity and parameters."""
    return {
        "code": issue.code,
        "field": issue.field,
        "severity": str(issue.severity),
        "params": dict(issue.params),
    }


def _device(device: DevicePlan) -> dict[str, Any]:
    ledger = device.ledger
    return {
        "indices": list(device.indices),
        "gpu": device.gpu_id,
        "stage": device.stage,
        "layers": list(device.layers),
        "usable_bytes": device.usable_bytes,
        "usable_source": device.usable_source,
        "peak_bytes": device.peak_bytes,
        "peak_phase": str(device.peak_phase),
        "band": None if device.band is None else asdict(device.band),
        "headroom_bytes": device.headroom_bytes,
        "verdict": str(device.verdict),
        "phases": {str(phase): _phase(device, phase) for phase in ledger.phases},
        "entries": [_entry(entry) for entry in ledger.entries],
    }


def _phase(device: DevicePlan, phase: Phase) -> dict[str, int]:
    return {str(layer): device.ledger.phase_bytes(phase, layer) for layer in LAYER_ORDER}


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "category": str(entry.category),
        "name": entry.name,
        "bytes": entry.bytes,
        "phases": [str(phase) for phase in Phase if phase in entry.phases],
        "layer": str(Layer(entry.layer)),
        "formula": entry.formula,
        "symbols": [[name, value] for name, value in entry.symbols],
        "reference": entry.reference,
        "estimate": entry.estimate,
    }
