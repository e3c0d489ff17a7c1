"""Small reports for tests."""

from profiler.documents import Options
from profiler.report import DeviceReadings, Environment, Group, PhaseFigures, Report

CPU = Environment(device="cpu", device_name="test", python="3.11", torch="2", transformers="5", system="test")
CUDA = CPU.model_copy(update={"device": "cuda"})

WEIGHTS = Group(category="weights", name="parameters", bytes=1000, num_storages=2)
STATES = Group(category="optimizer_states", name="exp_avg", bytes=2000)
SAVED = Group(category="activations", name="saved_activations", bytes=500)
LOGITS = Group(category="logits_and_loss", name="logits", bytes=300)


def phase(name: str, *groups: Group, reserved: int | None = None) -> PhaseFigures:
    total = sum(group.bytes for group in groups if group.layer == "allocated")
    return PhaseFigures.model_validate(
        {
            "phase": name,
            "peak_allocated_bytes": total,
            "peak_reserved_bytes": reserved,
            "groups": groups,
            "time_s": 0.5,
        }
    )


def report(
    *phases: PhaseFigures, environment: Environment = CPU, readings: DeviceReadings | None = None
) -> Report:
    return Report(
        created_at="2026-01-01T00:00:00+00:00",
        scenario={"task": "full"},
        config={"model_type": "gpt2"},
        options=Options(device=environment.device),
        environment=environment,
        phases=phases,
        params_total=250,
        params_trainable=250,
        readings=readings or DeviceReadings(),
    )


TWO_PHASES = report(phase("rest", WEIGHTS, STATES), phase("forward", WEIGHTS, STATES, SAVED, LOGITS))
