"""Failures of memory that is not the card's own, and of a model that was not put onto the card at all.

Sources: `transformers/quantizers/quantizer_bnb_4bit.py` (modules left for the CPU), `torch/utils/data/_utils/
signal_handling.py` (workers and `/dev/shm`), Triton's `runtime/errors.py` (shared memory of a kernel's block).
"""

import re
from collections.abc import Iterator
from typing import Final

from planner.diagnose.passage import Passage
from planner.diagnose.record import Record, facts, integer

_PATTERNS: Final = (
    ("bitsandbytes_dispatch", r"Somemodulesaredispatchedonthe(?:CPU|disk).{0,80}?GPURAM"),
    ("dataloader_shm", (r"DataLoaderworker\(pid(?:\(s\))?[\d,]{1,40}\)iskilledbysignal:Buserror"
     r"|Unexpectedbuserrorencounteredinworker")),
    ("kernel_shared_memory", (r"outofresource:sharedmemory,Required:(?P<required>\d{1,12}),"
     r"Hardwarelimit:(?P<limit>\d{1,12})")),
)  # fmt: skip
_FORMS: Final = tuple((form, re.compile(pattern)) for form, pattern in _PATTERNS)


def find(passage: Passage) -> Iterator[Record]:
    """Every such message of the passage."""
    for form, pattern in _FORMS:
        for found in pattern.finditer(passage.dense):
            here = passage.line_of(found.start())
            figures = {name: integer(text) for name, text in found.groupdict().items()}
            yield Record(form=form, failure=True, facts=facts(**figures), rank=here.rank, line=here.number)
