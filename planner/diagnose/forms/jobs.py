"""Memory lines of training frameworks: DeepSpeed, Megatron-LM and NeMo. MB and GB are powers of 1024 in all of them."""

import json
import re
from collections.abc import Iterator
from typing import Final

from planner.diagnose.passage import Passage
from planner.diagnose.record import Record, facts, integer, known
from planner.diagnose.sizes import amount, size

NUMBER: Final = r"\d{1,9}(?:\.\d{1,6})?"

_PATTERNS: Final = (
    ("deepspeed_usage", (rf"(?<![A-Za-z_])MA{amount('allocated')}Max_MA{amount('peak_allocated')}CA{amount('reserved')}"
     rf"(?:Max_CA{amount('peak_reserved')})?")),
    ("deepspeed_host", rf"CPUVirtualMemory:used={amount('host_used')},percent=(?P<host_percent>{NUMBER})%"),
    ("deepspeed_allocated", rf"MemAllocated={amount('allocated')},MaxMemAllocated={amount('peak_allocated')}"),
    ("deepspeed_estimate", (r"(?P<host>\d{1,9}\.\d\d)GB\|(?P<gpu>\d{1,9}\.\d\d)GB\|offload_param=(?P<offload_param>"
     r"none|OffloadDeviceEnum\.cpu),(?:offload_optimizer=(?P<offload_optimizer>none|OffloadDeviceEnum\.cpu),)?")),
    ("megatron", (rf"(?:\[Rank(?P<rank>\d{{1,6}})\])?\(after(?P<iteration>\d{{1,12}})iterations\)memory\(MB\)"
     rf"\|allocated:(?P<allocated>{NUMBER})\|maxallocated:(?P<peak_allocated>{NUMBER})"
     rf"(?:\|reserved:(?P<reserved>{NUMBER}))?(?:\|maxreserved:(?P<peak_reserved>{NUMBER}))?")),
    ("megatron_theory", (rf"Theoreticalmemoryfootprints:weightandoptimizer=(?P<states>{NUMBER})MB"
     rf"(?:,activation=(?P<activations>{NUMBER})MB)?(?:,total=(?P<needed>{NUMBER})MB)?")),
    ("nemo", rf"\[(?P<moment>[A-Za-z]{{1,20}})\]Allocated:(?P<allocated>{NUMBER})MB,Reserved:(?P<reserved>{NUMBER})MB"),
)  # fmt: skip
_FORMS: Final = tuple((form, re.compile(pattern)) for form, pattern in _PATTERNS)
_SIZES: Final = {
    "allocated", "peak_allocated", "reserved", "peak_reserved", "host_used", "host", "gpu", "states",
    "activations", "needed",
}  # fmt: skip
_UNIT: Final = {"deepspeed_estimate": "GB", "megatron": "MB", "megatron_theory": "MB", "nemo": "MB"}
_AUTO: Final = re.compile(r'"([\w.]{2,60})"\s{0,8}:\s{0,8}"auto"')
_CONFIG_MARK: Final = '"zero_optimization"'


def find(passage: Passage) -> Iterator[Record]:
    """Every memory line of the passage, and a DeepSpeed configuration with values left to the Trainer."""
    for form, pattern in _FORMS:
        for found in pattern.finditer(passage.dense):
            yield _record(passage, form, found)
    if _CONFIG_MARK in passage.text:
        yield _config(passage)


def _record(passage: Passage, form: str, found: re.Match[str]) -> Record:
    groups = {name: text for name, text in found.groupdict().items() if text is not None}
    here = passage.line_of(found.start())
    percent = groups.get("host_percent")
    rank = integer(groups.get("rank"))
    return Record(
        form=form,
        failure=False,
        sizes=known(
            {name: size(text, _UNIT.get(form, "")) for name, text in groups.items() if name in _SIZES}
        ),
        facts=facts(
            iteration=integer(groups.get("iteration")),
            host_frac=float(percent) / 100 if percent else None,
            moment=groups.get("moment"),
            offload_param=groups.get("offload_param"),
            offload_optimizer=groups.get("offload_optimizer"),
        ),
        rank=here.rank if rank is None else rank,
        line=here.number,
    )


def _config(passage: Passage) -> Record:
    text = passage.text
    autos = sorted({found[1] for found in _AUTO.finditer(text)})
    stage = None
    try:
        values = json.loads(text)
        block = values.get("zero_optimization") if isinstance(values, dict) else None
        stage = block.get("stage") if isinstance(block, dict) else None
    except (ValueError, RecursionError):
        pass
    line = next((line.number for line in passage.lines if _CONFIG_MARK in line.text), 1)
    return Record(
        form="deepspeed_config",
        failure=False,
        facts=facts(auto=" ".join(autos) or None, stage=stage if type(stage) is int else None),
        line=line,
    )
