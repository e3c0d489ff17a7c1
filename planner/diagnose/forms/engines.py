"""Start-up lines and failures of vLLM and SGLang, failures of TensorRT-LLM and of Triton's server."""

import re
from collections.abc import Iterator
from typing import Final

from planner.diagnose.passage import Passage
from planner.diagnose.record import Record, decimal, facts, integer, known
from planner.diagnose.sizes import amount, size

NUMBER: Final = r"\d{1,12}(?:\.\d{1,6})?"
COUNT: Final = r"\d{1,3}(?:,\d{3}){1,4}|\d{1,12}"

_PATTERNS: Final = (
    ("vllm_length", True, (rf"maxseqlen\((?P<max_len>{COUNT})\)islargerthanthemaximumnumberoftokensthatcanbestoredin"
     rf"(?:the)?KVcache\((?P<kv_tokens>{COUNT})\)")),
    ("vllm_kv_needed", True, (rf"maxseqlen\((?P<max_len>{COUNT})\),\(?{amount('needed')}KVcacheisneeded,"
     rf"whichislargerthantheavailableKVcachememory\({amount('available')}\)"
     rf"(?:.{{0,60}}?estimatedmaximummodellengthis(?P<max_fit_len>{COUNT}))?")),
    ("vllm_no_blocks", True, r"Noavailablememoryforthecacheblocks"),
    ("vllm_startup_free", True, (rf"Freememoryondevice(?:\w{{2,8}}:(?P<device>\d{{1,4}}))?\((?P<free>{NUMBER})/"
     rf"(?P<total>{NUMBER})GiB\)onstartupislessthandesiredGPUmemoryutilization\((?P<util>{NUMBER}),"
     rf"(?P<wanted>{NUMBER})GiB\)")),
    ("vllm_warm_up", True, (rf"CUDAoutofmemoryoccurredwhenwarmingup\w{{1,40}}?with(?P<dummy_requests>{COUNT})"
     r"dummyrequests")),
    ("triton_load", True, (r"failedtoload'(?P<model>[\w.\-]{1,80})'version\d{1,9}:.{0,200}?"
     r"(?:outofmemory|unabletoallocatememory)")),
    ("trtllm_malloc", True, r"CUDAruntimeerrorin(?:::)?(?P<call>cudaMalloc\w{0,12})\(.{0,200}?\):outofmemory"),
    ("vllm_load", True, r"Failedtoloadmodel-notenoughGPUmemory"),
    ("vllm_budget", False, (rf"total_gpu_memory\({amount('total')}\)xgpu_memory_utilization\((?P<util>{NUMBER})\)="
     rf"{amount('budget')}")),
    ("vllm_profile", False, (rf"modelweightstake{amount('weights')};non_torch_memorytakes{amount('outside')};"
     rf"PyTorchactivationpeakmemorytakes{amount('activations')};therestofthememoryreservedforKVCacheis"
     rf"{amount('kv_cache')}")),
    ("vllm_weights", False, rf"Modelloadingtook{amount('weights')}(?:memory)?"),
    ("vllm_graphs", False, rf"EstimatedCUDAgraphmemory:{amount('graphs')}"),
    ("vllm_kv", False, rf"AvailableKVcachememory:{amount('kv_cache')}"),
    ("vllm_tokens", False, rf"GPUKVcachesize:(?P<kv_tokens>{COUNT})tokens"),
    ("vllm_concurrency", False, (rf"Maximumconcurrencyfor(?P<max_len>{COUNT})tokensperrequest:"
     rf"(?P<concurrency>{NUMBER})x")),
    ("vllm_captured", False, rf"Graphcapturingfinishedin\d{{1,6}}secs?,took{amount('graphs')}"),
    ("vllm_blocks", False, rf"#(?:GPU|cuda)blocks:(?P<gpu_blocks>{COUNT}),#CPUblocks:(?P<cpu_blocks>{COUNT})"),
    ("sglang_init", True, (rf"Notenoughmemory\.Pleasetrytoincrease--mem-fraction-static\."
     rf"(?:Currentvalue:(?:self\.)?(?:server_args\.)?mem_fraction_static=(?P<mem_fraction_static>{NUMBER}))?")),
    ("sglang_weights", False, (rf"Loadweightend\..{{0,120}}?availmem={amount('available')}"
     rf"(?:,memusage={amount('weights')})?")),
    ("sglang_kv", False, (rf"KVCacheisallocated\.(?:dtype:[\w.]{{1,30}}?,)?#tokens:(?P<kv_tokens>{COUNT}),Ksize:"
     rf"{amount('kv_key')},Vsize:{amount('kv_value')}")),
    ("sglang_pool", False, rf"Memorypoolend\.availmem={amount('available')}"),
    ("sglang_graphs", False, rf"Capturecudagraph(?P<moment>begin|end)\..{{0,80}}?availmem={amount('available')}"),
)  # fmt: skip
_FORMS: Final = tuple((form, failure, re.compile(pattern)) for form, failure, pattern in _PATTERNS)
_PLAIN_GIB: Final = frozenset({"free", "total", "wanted"})
_COUNTS: Final = frozenset(
    {"max_len", "kv_tokens", "max_fit_len", "gpu_blocks", "cpu_blocks", "dummy_requests"}
)
_TEXTS: Final = frozenset({"moment", "model", "call"})
_RATIOS: Final = frozenset({"util", "concurrency", "mem_fraction_static"})


def find(passage: Passage) -> Iterator[Record]:
    """Every line of the passage that one of the engines printed."""
    for form, failure, pattern in _FORMS:
        for found in pattern.finditer(passage.dense):
            yield _record(passage, form, found, failure=failure)


def _record(passage: Passage, form: str, found: re.Match[str], *, failure: bool) -> Record:
    groups = {name: text for name, text in found.groupdict().items() if text is not None}
    sizes = {}
    values: dict[str, int | float | str | None] = {}
    for name, text in groups.items():
        if name in _COUNTS:
            values[name] = integer(text)
        elif name in _RATIOS:
            values[name] = decimal(text)
        elif name in _TEXTS:
            values[name] = text
        elif name != "device":
            is_plain = form == "vllm_startup_free" and name in _PLAIN_GIB
            sizes[name] = size(text, "GiB") if is_plain else size(text)
    needed, length = sizes.get("needed"), values.get("max_len")
    if form == "vllm_kv_needed" and needed is not None and isinstance(length, int) and length:
        values["bytes_per_token"] = round(needed.bytes / length)
    if form == "sglang_init":
        values["phase"] = "init"
    here = passage.line_of(found.start())
    return Record(
        form=form,
        failure=failure,
        sizes=known(sizes),
        facts=facts(**values),
        device=integer(groups.get("device")),
        rank=here.rank,
        line=here.number,
    )
