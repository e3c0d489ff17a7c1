"""A diagnosis as text for a terminal."""

from collections.abc import Iterator
from typing import Final

from planner.cli import diagnose_words as said
from planner.cli.diagnose_sentences import FORMS
from planner.cli.report import gib_text
from planner.diagnose.checklist import checklist
from planner.diagnose.communication import signs
from planner.diagnose.diagnosis import Diagnosis
from planner.diagnose.layers import Basis, Identity, Layers
from planner.diagnose.links import Links
from planner.diagnose.record import Record
from planner.hardware import Tables
from planner.plan_types import Plan

CAUSES: Final = {
    "demand": "Demand: more is needed than the card has left",
    "fragmentation": "Fragmentation: the allocator holds enough, in pieces too small",
    "mixed": "Demand and fragmentation: free and cached memory together would do, but not in one piece",
    "another_process": "Another process holds the card",
    "fraction_cap": "A cap set on this process was reached, not the card's end",
    "shape": "Shape: one tensor of this size cannot be meant",
    "context_only": "Out of memory outside PyTorch's allocator: the driver refused, without figures of its own",
    "driver_limit": "Not capacity: several times the request was free",
    "driver_spill": "The driver had already spilled into the host's memory",
    "driver_unreadable": "The driver cannot be read",
    "timed_out": "A collective operation timed out: no failure of memory by itself",
    "host_memory": "The host's memory ran out, not the card's",
    "kv_too_small": "The KV cache cannot hold one request of the full length",
    "budget_spent": "The engine's share of the card is spent before the KV cache",
    "small_card": "The smallest card has no room for its own buffers",
    "recovered": "Recovered: it was tried again with less",
    "partial_offload": "Only part of the layers fits on the cards",
    "engine_minimum": "The engine's own minimum does not fit, though the model would",
    "pool_by_design": "By design: the engine fills its share of the card with the KV cache",
    "cached_not_used": "Nothing failed: the allocator keeps memory that no tensor uses",
    "config_auto": "A configuration with values left to the Trainer",
    "warm_up": "The engine's warm-up ran out: the largest batch does not fit beside what it has reserved",
    "dispatched": "The model does not fit on the cards: modules were left for the host or the disk",
    "workers_shared_memory": "The host's shared memory (/dev/shm) ran out under the data loader, not the card's memory",
    "kernel_shared_memory": "A kernel asks for more shared memory a block than the card has: no lack of device memory",
    "figures": "Figures, and nothing that failed",
    "nothing": "Nothing about memory was found in it",
}
HELD: Final = {
    "allocated": "allocated by PyTorch",
    "unallocated": "reserved, unallocated",
    "context": "CUDA context, libraries",
    "others": "another process",
    "outside": "outside PyTorch",
    "used": "in use",
    "driver": "the driver's own",
    "unnamed": "held by somebody the text does not name",
    "free": "free",
}
BASES: Final = {
    Basis.PRINTED: "printed",
    Basis.PROCESS_REST: "rest of the process figure",
    Basis.CAPACITY_REST: "rest of the capacity",
    Basis.RESERVED_REST: "reserved less allocated",
}
MARKS: Final = {"good": "+", "attention": "!", "unknown": "?"}
IDENTITIES: Final = {
    Identity.EQUAL: "equals the capacity",
    Identity.CLOSE: "equals the capacity to 0.1 GiB",
    Identity.OFF: "does not make up the capacity",
    Identity.UNCHECKED: "no process figure to check it with",
    Identity.SPILLED: "more allocated than the card has",
}


def diagnosis_lines(found: Diagnosis) -> Iterator[str]:
    """Cause, figures, layers with their check, tensor, fixes, what would not help, remarks."""
    sure = "" if found.why.certain else " (likely; the text does not prove it)"
    yield f"{CAUSES[found.why.cause.value]}{sure}."
    if found.record is not None:
        yield _where(found.record, found.phase)
        yield from _asked(found)
    if found.layers is not None:
        yield ""
        yield from _layers(found.layers)
    for title, lines in (
        ("Fixes, in order", [said.fix(fix) for fix in found.fixes]),
        ("Would not help", [said.vain(vain, found) for vain in found.vain]),
        ("Remarks", [said.remark(remark.code, remark.params) for remark in found.remarks]),
        ("Worked out", [said.worked_out(name, value) for name, value in found.figures]),
    ):
        if lines:
            yield ""
            yield f"{title}:"
            yield from (f"  {line}" for line in lines)
    if found.links is not None:
        yield ""
        yield _links(found.links)
    yield ""
    yield _read(found)


def waiting_lines(plan: Plan, tables: Tables, found: Diagnosis) -> Iterator[str]:
    """Signs that cards wait for each other, and the checklist, on the plan that was run."""
    told = signs(plan, tables, found.links)
    if told:
        yield ""
        yield "Between the cards:"
        for sign in told:
            yield f"  {MARKS[sign.state]} {said.sign(sign)}"
    yield ""
    yield "Checklist, from the plan:"
    for item in checklist(plan, tables):
        yield f"  {MARKS[item.planned]} {said.check(item)}"


def _links(links: Links) -> str:
    """NCCL's channels by their way."""
    ways = {
        "from card to card": links.p2p,
        "through host memory": links.shm,
        "over sockets": links.socket,
        "over a network card, staged": links.rdma,
        "by GPUDirect RDMA": links.direct,
    }
    counted = ", ".join(f"{number:,} {way}" for way, number in ways.items() if number)
    who = [f"NCCL {links.version}".strip(), *([f"network {links.network}"] if links.network else [])]
    who += [f"{links.ranks} ranks"] if links.ranks else []
    return f"{', '.join(who)}. Channels: {counted or 'none told'}."


def _where(record: Record, phase: str | None) -> str:
    parts = [f"line {record.line}", FORMS.get(record.form, record.form.replace("_", " "))]
    if record.device is not None:
        parts.append(f"device {record.device}")
    if record.rank is not None:
        parts.append(f"rank {record.rank}")
    if phase:
        parts.append(f"in {phase.replace('_', ' ')}")
    if record.count > 1:
        parts.append(f"said {record.count} times")
    return ", ".join(parts)


def _asked(found: Diagnosis) -> Iterator[str]:
    record = found.record
    request = record.size("request") if record is not None else None
    if request is not None:
        missing = found.missing_bytes
        short = f", {gib_text(missing, 2)} GiB more than was free" if missing and missing > 0 else ""
        yield f"Asked for {request.printed}, {request.bytes:,} bytes{short}."
    if record is not None:
        yield from _of_engine(record)
    tensor = found.tensor
    if tensor is not None:
        exact = found.matches[0].exact if found.matches else False
        how = ("the size asked for" if exact else "within 0.5 % of it") if found.matches else "the likeliest"
        values = ", ".join(f"{name} = {value:,}" for name, value in tensor.symbols)
        name = said.tensor(tensor)
        name = name[:1].upper() + name[1:]
        sum_ = f"{tensor.formula} = {tensor.bytes:,} bytes ({values})"
        yield f"{name}: {sum_}; {how}, of {found.num_tensors} tensors compared."


def _of_engine(record: Record) -> Iterator[str]:
    """What a server said that it needs and has."""
    needed, available = record.size("needed"), record.size("available")
    if needed is not None and available is not None:
        yield f"Needed: {needed.printed}; available: {available.printed}."
    tokens = [
        f"{title} {int(number):,}"
        for name, title in (
            ("max_len", "asked for in one request"),
            ("max_fit_len", "would fit"),
            ("kv_tokens", "in the KV cache"),
        )
        if (number := record.number(name)) is not None
    ]
    if tokens:
        yield f"Tokens: {', '.join(tokens)}."


def _layers(layers: Layers) -> Iterator[str]:
    for held in layers.held:
        yield f"{HELD[held.name]:42}{gib_text(held.bytes, 2):>10} GiB  {held.printed or BASES[held.basis]}"
    if layers.total_bytes is not None:
        yield f"{'total':42}{gib_text(layers.total_bytes, 2):>10} GiB  {IDENTITIES[layers.identity]}"


def _read(found: Diagnosis) -> str:
    reading = found.reading
    left = f", {reading.left_out} stretches in the middle passed over" if reading.left_out else ""
    return f"Lines read: {reading.num_lines:,}; messages and memory lines: {len(reading.records):,}{left}."
