"""The simple rules that the speed model is held against, under the same cross-validation.

Each rule divides an ideal time by one share, the median of the rows it may see, by a key; a key without rows falls
back to all of them.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.speed_rows import ServingRow, TrainingRow
from planner.throughput.serving_work import TokenWork

Vector = NDArray[np.float64]
Keys = NDArray[np.str_]

RULES: Final = {
    "train": "one MFU per GPU and precision",
    "decode": "one bandwidth share per runtime and 16-bit or quantized",
    "served_batch": "one roofline share per runtime and GPU count",
    "offline": "one compute share",
    "prefill": "one compute share per runtime",
}


def training_rule(rows: Sequence[TrainingRow]) -> tuple[Vector, Vector, Keys]:
    """Ideal and measured step time, and the key."""
    ideal = np.array([row.ideal_s for row in rows])
    return ideal, np.array([row.step_s for row in rows]), np.array([str(row.card) for row in rows])


def serving_rule(rows: Sequence[ServingRow]) -> tuple[Vector, Vector, Keys]:
    """Ideal and measured time of the figure a row is scored on, and the key of its kind."""
    ideal, seen, keys = [], [], []
    for row in rows:
        token = row.token
        read_s = token.weight_s + token.kv_s
        step = max(read_s, token.product_s)
        first = row.prompt.product_s + row.prompt.attention_s
        latency = (first * row.has_prompt + row.output_tokens * step) * row.waves
        sequences = row.replicas * row.running * row.waves * row.output_tokens
        time = {"tpot": step, "latency": latency, "ttft": first, "rate": latency}[row.metric]
        observed = sequences / row.observed if row.metric == "rate" else row.observed
        if row.kind == "offline":
            time, observed = row.ideal_flops_s, 1 / row.observed
        ideal.append(time)
        seen.append(observed)
        keys.append(_key(row, token))
    return np.array(ideal), np.array(seen), np.array(keys)


def _key(row: ServingRow, token: TokenWork) -> str:
    if row.kind == "offline":
        return "offline"
    if row.kind == "served_batch":
        return f"served_batch {row.runtime} {row.cards}"
    if row.kind == "prefill":
        return f"prefill {row.runtime}"
    return f"decode {row.runtime} {token.is_packed}"


def left_out(ideal: Vector, seen: Vector, keys: Keys, groups: NDArray[Any], kinds: Keys) -> Vector:
    """log(predicted / observed) of every row from shares of rows outside its group."""
    share, found = ideal / seen, np.zeros(len(ideal))
    for i in range(len(ideal)):
        others = groups != groups[i]
        same = others & (keys == keys[i])
        if not same.any():
            same = others & (kinds == kinds[i])
        if not same.any():
            same = others
        found[i] = np.log(ideal[i] / np.median(share[same]) / seen[i])
    return found
