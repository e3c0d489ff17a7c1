"""What the tests of the Measure page share: small questions, reports of both kinds, a child that does as told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from planner.ledger import Entry, Layer, Phase
from profiler.compare import BUNDLES
from profiler.documents import Options
from profiler.events import Sample
from profiler.plan_request import prepare
from profiler.report import DeviceReadings, Environment, Group, PhaseFigures, Report, StepTime, StorageNote
from tests.profiler.scenarios import LLAMA, scenario
from ui.answers import answer

if TYPE_CHECKING:
    from planner.plan_types import Plan
    from profiler.documents import DeviceKind
    from ui.document import Document

GIB = 1 << 30
WIDER: dict[str, Any] = {
    **LLAMA,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "vocab_size": 128_256,
    "max_position_embeddings": 8192,
}
NAMES = {
    "optimizer_states": "exp_avg",
    "step_temporary": "optimizer_temporaries",
    "recomputed_layer": "recomputed_activations",
    "kept_cache": "kept_outputs",
    "activation_gradients": "activation_gradients",
}
"""A measured kind of every bundle whose own name is none."""


def tiny(**changes: Any) -> Document:
    """A question that any machine can measure."""
    return scenario(LLAMA, **changes)


def on_a_card(**changes: Any) -> Document:
    """A question for one card with 80 GB."""
    given = {"training.sequence_length": 2048, "training.micro_batch": 2, **changes}
    return scenario(WIDER, **{"hardware.devices": [{"gpu": "h100-sxm-80gb"}], **given})


def planned(document: Document) -> Plan:
    """The plan of a question without errors."""
    found = answer(document)
    assert found.plan is not None, found.issues
    return found.plan


def report_of(document: Document, device: DeviceKind, *, factor: float = 1.0, **changes: Any) -> Report:
    """A report as a run would leave it, with what was predicted, activations off by a factor.

    Args:
        document: The question.
        device: Where it ran.
        factor: On every kind of activation.
        **changes: Fields of the report to set.
    """
    plan = planned(document)
    prepared = prepare(plan, device, None)
    ledger = plan.worst.ledger
    phases = tuple(_figures(phase, plan, device, factor) for phase in ledger.phases)
    order = [phase for phase in phases if phase.phase != "rest"]
    steps = [StepTime(step=step, phase=each.phase, time_s=each.time_s) for step in (2, 3) for each in order]
    return Report(
        created_at="2026-11-29T18:47:00+00:00",
        scenario=prepared.scenario,
        config=prepared.config,
        options=Options(device=device),
        environment=_environment(device),
        phases=phases,
        params_total=plan.model.params_total,
        params_trainable=plan.trainable_params,
        readings=_readings(plan, device),
        memory_summary="" if device == "cpu" else "|  PyTorch CUDA memory summary  |",
        samples=_samples(device),
        steps=tuple(steps),
        predicted_bytes=prepared.predicted_bytes,
    ).model_copy(update=changes)


def _figures(phase: Phase, plan: Plan, device: DeviceKind, factor: float) -> PhaseFigures:
    groups = [_group(entry, factor) for entry in plan.worst.ledger.alive(phase) if _counts(entry, device)]
    allocated = sum(group.bytes for group in groups)
    cache = sum(e.bytes for e in plan.worst.ledger.alive(phase) if e.layer is Layer.RESERVED)
    note = StorageNote(bytes=4096, category="activations", name="saved_activations", op="mm", shape=(4, 8))
    if device == "cuda":
        groups.append(Group(category="allocator_cache", name="cache", bytes=cache, layer="reserved"))
    return PhaseFigures.model_validate(
        {
            "phase": phase.value,
            "peak_allocated_bytes": allocated,
            "peak_reserved_bytes": allocated + cache if device == "cuda" else None,
            "groups": tuple(groups),
            "largest": (note,),
            "time_s": {Phase.FORWARD: 0.6, Phase.LOSS: 0.04, Phase.BACKWARD: 0.9, Phase.REST: 0.0}.get(
                phase, 0.27
            ),
        }
    )


def _counts(entry: Entry, device: DeviceKind) -> bool:
    on_card_only = entry.name in {"cublas_workspaces", "communication_buffers"}
    return entry.layer is Layer.ALLOCATED and not (device == "cpu" and on_card_only)


def _group(entry: Entry, factor: float) -> Group:
    bundle = next((b for b in BUNDLES if entry.category is b.category and entry.name in b.predicted), None)
    name = entry.category.value if bundle is None else NAMES.get(bundle.name, bundle.name)
    size = round(entry.bytes * factor) if entry.category.value == "activations" else entry.bytes
    return Group.model_validate({"category": entry.category.value, "name": name, "bytes": size})


def _environment(device: DeviceKind) -> Environment:
    return Environment(
        device=device,
        device_name="x86_64" if device == "cpu" else "NVIDIA H100 80GB HBM3",
        python="3.11.7",
        torch="2.13.0",
        transformers="5.24.0",
        driver="" if device == "cpu" else "580.65",
        cuda="" if device == "cpu" else "13.0",
        system="Linux",
    )


def _readings(plan: Plan, device: DeviceKind) -> DeviceReadings:
    if device == "cpu":
        return DeviceReadings(resident_peak_bytes=GIB)
    peak = plan.worst.peak_bytes
    return DeviceReadings(
        total_bytes=80 * GIB,
        before_bytes=GIB // 3,
        idle_bytes=GIB,
        peak_bytes=peak + GIB // 2,
        resident_peak_bytes=2 * GIB,
    )


def _samples(device: DeviceKind) -> tuple[Sample, ...]:
    used = 20 * GIB if device == "cuda" else None
    return tuple(
        Sample(at_s=0.1 * n, device_used_bytes=used, resident_bytes=GIB, phase="forward") for n in range(8)
    )


def as_file(report: Report) -> bytes:
    """The bytes of a report's file."""
    return json.dumps(report.model_dump(mode="json")).encode()
