"""A diagnosis as plain JSON values."""

from dataclasses import asdict
from typing import Any

from planner.diagnose.diagnosis import Diagnosis
from planner.diagnose.record import Record
from planner.diagnose.sizes import Size


def as_json(found: Diagnosis) -> dict[str, Any]:
    """Everything that was found, sizes in bytes, codes as they are."""
    layers = found.layers
    return {
        "cause": found.why.cause.value,
        "certain": found.why.certain,
        "failed": found.failed,
        "phase": found.phase,
        "missing_bytes": found.missing_bytes,
        "layers": None
        if layers is None
        else {
            "held": [asdict(held) for held in layers.held],
            "total_bytes": layers.total_bytes,
            "identity": layers.identity.value,
            "residue_bytes": layers.residue_bytes,
            "tolerance_bytes": layers.tolerance_bytes,
            "own_inferred": layers.own_inferred,
        },
        "tensor": None if found.tensor is None else asdict(found.tensor),
        "matches": [asdict(match) for match in found.matches],
        "tensors_compared": found.num_tensors,
        "plan_phase_bytes": found.plan_phase_bytes,
        "fixes": [asdict(fix) for fix in found.fixes],
        "would_not_help": [asdict(vain) for vain in found.vain],
        "remarks": [{"code": remark.code, **dict(remark.params)} for remark in found.remarks],
        "figures": dict(found.figures),
        "links": None if found.links is None else asdict(found.links),
        "record": None if found.record is None else record_json(found.record),
        "records": [record_json(record) for record in found.reading.records],
        "read": {
            "chars": found.reading.num_chars,
            "lines": found.reading.num_lines,
            "stretches_left_out": found.reading.left_out,
        },
    }


def record_json(record: Record) -> dict[str, Any]:
    """A record as plain values."""
    return {
        "form": record.form,
        "failure": record.failure,
        "line": record.line,
        "count": record.count,
        "rank": record.rank,
        "device": record.device,
        "sizes": {name: _size(size) for name, size in record.sizes},
        "facts": dict(record.facts),
        "processes": [
            {"pid": process.pid, "size": None if process.size is None else _size(process.size)}
            for process in record.processes
        ],
    }


def _size(size: Size) -> dict[str, Any]:
    return {"bytes": size.bytes, "tolerance_bytes": size.tolerance_bytes, "printed": size.printed}
