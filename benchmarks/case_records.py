"""Traces a list of steps and keeps what was traced: shared by the lists that have records of their own."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.formula_cases import Case
from benchmarks.formula_records import Traced, read_records, write_records
from benchmarks.formula_trace import compare, line, traces
from hardware_db import load_tables


def trace_and_record(cases: Iterable[Case], words: Sequence[str], records: Path) -> int:
    """Trace every step, or those whose name has one of the words, and write what was traced.

    Args:
        cases: All steps of the list; records of others are dropped.
        words: Parts of names; none for all.
        records: The file.

    Returns:
        1 where a step has no trace, else 0.
    """
    every = tuple(cases)
    tables, found, missing = load_tables(), dict(read_records(records)[0]), 0
    for case, trace in traces([x for x in every if not words or any(w in x.name for w in words)]):
        if isinstance(trace, Traced):
            found[case.name] = trace
            print(line(compare(case, trace, tables)), flush=True)
        else:
            missing += 1
            print(f"no trace: {trace}", flush=True)
    names = {case.name for case in every}
    write_records({name: trace for name, trace in found.items() if name in names}, records)
    return int(bool(missing))
