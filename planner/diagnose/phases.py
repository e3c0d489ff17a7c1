"""Where in the program it was, from the lines of the traceback above the message."""

import re
from collections.abc import Sequence
from typing import Final

PHASES: Final = (
    ("save", re.compile(
        r"state_dict\(\)|_save\b|save_model|save_checkpoint|save_pretrained|_unshard_fsdp_state|_state_dict_utils"
        r"|full_state_dict|\.clone\(\)\.detach\(\)"
    )),
    ("optimizer_step", re.compile(
        r"optimizer\.step|exp_avg|\bdenom\b|_foreach_|_multi_tensor|optim/adam|single_grad_partition|stage_1_and_2.*step"
    )),
    ("evaluation", re.compile(r"preds_host|nested_concat|evaluation_loop|evaluate\(|prediction_step")),
    ("load", re.compile(
        r"load_state_dict|from_pretrained|CONVERSION|load_model|load_weights|loading model|_load_pretrained"
        r"|load_checkpoint_shard|\.to\(device\)|\.cuda\(\)"
    )),
    ("loss", re.compile(r"cross_entropy|log_softmax|logits\.float|logits = .*\.float|ForCausalLMLoss|lm_head\(")),
    ("attention", re.compile(
        r"baddbmm|softmax\(attn|attn_weights|scores = |torch\.matmul\(q|query_states, key_states"
    )),
    ("graphs", re.compile(r"capture_model|cuda_graph|CUDAGraph|capture_begin")),
    ("kv_cache", re.compile(r"initialize_kv_cache|allocate_kv_cache|init_memory_pool|KVCache")),
    ("backward", re.compile(r"\.backward\(|run_backward|_engine")),
    ("forward", re.compile(r"modeling_\w{1,40}\.py|_call_impl|forward\(")),
)  # fmt: skip
_TRACEBACK: Final = "Traceback (most recent call last)"
LONGEST_LINE: Final = 400


def phase_of(context: Sequence[str]) -> str | None:
    """The phase that the newest traceback names, the telling ones before backward and forward; None without."""
    starts = [number for number, line in enumerate(context) if _TRACEBACK in line]
    lines = [line[:LONGEST_LINE] for line in (context[starts[-1] :] if starts else context[-40:])]
    for phase, pattern in PHASES:
        if any(pattern.search(line) for line in lines):
            return phase
    return None
