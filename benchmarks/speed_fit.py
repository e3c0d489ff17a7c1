"""Fits the speed constants to published runs, and cross-validates them.

Every constant is positive and fitted in logarithms, with a weak pull towards a round physical value. A family
counts with the root of its number of rows. Errors over 10 % count linearly.
"""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.simplex import minimise
from benchmarks.speed_rows import ServingRow, TrainingRow, picked, stacked
from planner.throughput.serving_time import (
    ServingRates,
    offline_tokens_per_s,
    prompt_s,
    request_s,
    token_parts,
)
from planner.throughput.serving_work import PromptWork, TokenWork
from planner.throughput.step_work import StepWork
from planner.throughput.training_time import TrainingRates, step_parts

Vector = NDArray[np.float64]
Mask = NDArray[np.bool_]
LARGE: Final = 0.1
TRAINING_PULL: Final = 0.06
SERVING_PULL: Final = 0.01
"""Weight of the pull towards the round values, chosen among six by the error on families left out."""
SHARE_STEEP: Final = 10.0
SHARE_MOST: Final = 0.95
STEPS: Final = (0.3, -0.3, 0.2)
ROUNDS: Final = 2500
FACTOR_ROWS: Final = 10
"""Fewest rows for a constant of a runtime's own."""
FACTOR_PULL: Final = 10.0
"""Weight of the pull of a family's median towards 1, in rows."""
FAMILY_PULL: Final = 1.0
"""Weight of the pull of a runtime's factor towards 1, in families: sources of one runtime differ as runtimes do."""
FOLDS: Final = 5

TRAINING_START: Final = TrainingRates(
    product_frac=0.85, joule_per_tflop=0.35, low_joule_frac=0.7, expert_slow=0.4, attention_slow=1.5,
    attention_slow_hopper=0.7, moved_scale=1.5, eager_scale=1.0, layer_s=2e-4, hop_s=5e-6, fabric_frac=0.7,
    pcie_frac=0.5, network_frac=0.6, state_leak=0.1, step_scale=1.2, host_frac=0.6,
    host_optimizer_bytes_per_s=3e10,
)  # fmt: skip
SERVING_START: Final = ServingRates(
    read_frac=0.9, port_bytes=64, ggml_port=0.5, packed_slow=1.1, unpacked_slow=0.5, ggml_packed_slow=1.1,
    ops_per_element=3.0, kv_frac=0.6, eager_kv_slow=3.0, product_frac=0.6, layer_s=4e-5, eager_layer_s=8e-4,
    unpacked_layer_s=3e-4, ggml_layer_s=3e-5, step_s=2e-4, scripted_step_s=5e-4, sequence_s=2e-5,
    scripted_sequence_s=1e-4, reduce_frac=0.5, hop_s=5e-6, prompt_frac=0.8, prompt_joule=0.3,
    prompt_attention_slow=1.5, prompt_packed_slow=0.1, prompt_ggml_slow=0.8, prompt_moved=1.0, prompt_step_s=3e-3,
    offline_frac=0.8,
)  # fmt: skip
SHARES: Final = frozenset(
    {"fabric_frac", "pcie_frac", "network_frac", "state_leak", "host_frac", "read_frac", "kv_frac", "reduce_frac",
     "prompt_frac", "offline_frac", "product_frac"}
)  # fmt: skip
"""Constants that are shares of a rate and can't pass it."""


class Data:
    """Rows of one kind of job as arrays. `predict` gives the logarithm of predicted over observed time."""

    start: Any
    weight: float
    families: NDArray[np.str_]
    kinds: NDArray[np.str_]
    runtimes: NDArray[np.str_]

    def log_ratio(self, rates: Any, mask: Mask) -> Vector:
        """log(predicted time / observed time) of some rows."""
        raise NotImplementedError


class TrainingData(Data):
    """Training runs."""

    def __init__(self, rows: Sequence[TrainingRow]) -> None:
        self.start = TRAINING_START
        self.weight = TRAINING_PULL
        self.work: StepWork = stacked(StepWork, [row.work for row in rows])
        self.observed = np.array([row.step_s for row in rows])
        self.families = np.array([row.record.family for row in rows])
        self.kinds = np.array([row.kind for row in rows])
        self.runtimes = np.array([row.runtime for row in rows])

    def log_ratio(self, rates: TrainingRates, mask: Mask) -> Vector:
        """See `Data`."""
        total: Any = step_parts(picked(self.work, mask), rates).total
        return np.asarray(np.log(total / self.observed[mask]))


class ServingData(Data):
    """Serving runs."""

    def __init__(self, rows: Sequence[ServingRow]) -> None:
        self.start = SERVING_START
        self.weight = SERVING_PULL
        self.token: TokenWork = stacked(TokenWork, [row.token for row in rows])
        self.prompt: PromptWork = stacked(PromptWork, [row.prompt for row in rows])
        self.numbers = {
            name: np.array([float(getattr(row, name)) for row in rows])
            for name in (
                "observed",
                "running",
                "waves",
                "replicas",
                "output_tokens",
                "together",
                "has_prompt",
            )
        }
        self.metrics = np.array([row.metric for row in rows])
        self.families = np.array([row.record.family for row in rows])
        self.kinds = np.array([row.kind for row in rows])
        self.runtimes = np.array([row.runtime for row in rows])

    def log_ratio(self, rates: ServingRates, mask: Mask) -> Vector:
        """See `Data`; a rate counts as its inverse."""
        n: dict[str, Any] = {name: values[mask] for name, values in self.numbers.items()}
        metric, kind = self.metrics[mask], self.kinds[mask]
        step: Any = token_parts(picked(self.token, mask), rates).total
        first: Any = prompt_s(picked(self.prompt, mask), rates)
        each = first / n["together"]
        latency = request_s(step, first, n["output_tokens"], n["has_prompt"], n["waves"])
        sequences = n["replicas"] * n["running"] * n["waves"]
        rate = sequences * n["output_tokens"] / latency
        queued: Any = n["replicas"] * offline_tokens_per_s(
            step, each, n["output_tokens"], n["running"], rates
        )
        rate = np.where(kind == "offline", queued, rate)
        times = {"tpot": step, "latency": latency, "ttft": first}
        found = np.log(n["observed"] / rate)
        for name, time in times.items():
            found = np.where(metric == name, np.log(time / n["observed"]), found)
        return np.asarray(found)


def names_of(start: Any) -> tuple[str, ...]:
    """Names of the constants."""
    return tuple(item.name for item in fields(start))


def weights(data: Data, mask: Mask) -> Vector:
    """A family's rows of a kind share the root of their number; all add up to 1."""
    keys = np.char.add(np.char.add(data.families[mask], "/"), data.kinds[mask])
    names, place, count = np.unique(keys, return_inverse=True, return_counts=True)
    del names
    found = 1 / np.sqrt(count[place])
    return np.asarray(found / found.sum())


def fit(data: Data, mask: Mask, start: Vector | None = None, restarts: int = len(STEPS)) -> Vector:
    """Logarithms of the constants that suit some rows best."""
    names = names_of(data.start)
    pull = np.log([getattr(data.start, name) for name in names])
    shares = np.array([name in SHARES for name in names])
    weight = weights(data, mask)

    def loss(at: Vector) -> float:
        error = np.abs(data.log_ratio(rates_of(data, at), mask))
        cost = np.where(error < LARGE, error**2 / (2 * LARGE), error - LARGE / 2)
        over = np.clip(at - np.log(SHARE_MOST), 0, None)[shares].sum()
        return float((weight * cost).sum() + data.weight * ((at - pull) ** 2).sum() + SHARE_STEEP * over)

    found = pull if start is None else start
    for step in STEPS[:restarts]:
        found = minimise(loss, found, step, ROUNDS)
    return found


def rates_of(data: Data, at: Vector) -> Any:
    """The constants as the formulas take them."""
    return type(data.start)(**dict(zip(names_of(data.start), np.exp(at), strict=True)))


def factors_of(data: Data, at: Vector, mask: Mask) -> dict[str, float]:
    """Each runtime's own factor on time: the mean of its families' medians, drawn towards 1.

    A family's median is drawn by ten rows' weight, the mean of families by one family's.
    """
    if isinstance(data, ServingData):
        return {}
    error, runtimes, families = (
        data.log_ratio(rates_of(data, at), mask),
        data.runtimes[mask],
        data.families[mask],
    )
    found = {}
    for runtime in np.unique(runtimes):
        own = runtimes == runtime
        if own.sum() >= FACTOR_ROWS:
            drawn = [_drawn_median(error[own & (families == f)]) for f in np.unique(families[own])]
            found[str(runtime)] = float(np.exp(-sum(drawn) / (len(drawn) + FAMILY_PULL)))
    return found


def _drawn_median(error: Vector) -> float:
    return float(np.median(error)) * len(error) / (len(error) + FACTOR_PULL)


def errors(data: Data, at: Vector, factors: dict[str, float], mask: Mask) -> Vector:
    """log(predicted / observed) time with the runtimes' own factors."""
    own = np.array([np.log(factors.get(str(name), 1.0)) for name in data.runtimes[mask]])
    return np.asarray(data.log_ratio(rates_of(data, at), mask) + own)


def cross_validated(data: Data, groups: NDArray[Any], whole: Vector) -> tuple[Vector, list[Vector]]:
    """Errors of every row from constants fitted without its group, and those constants."""
    found, points = np.zeros(len(groups)), []
    for group in np.unique(groups):
        out = groups == group
        at = fit(data, ~out, whole, 1)
        found[out] = errors(data, at, factors_of(data, at, ~out), out)
        points.append(at)
    return found, points


def fold_of(rows: Sequence[Any]) -> NDArray[np.int_]:
    """Fold of every row: rows of one family go round the folds in order."""
    seen: dict[str, int] = {}
    folds = []
    for row in rows:
        family = row.record.family
        seen[family] = seen.get(family, -1) + 1
        folds.append(seen[family] % FOLDS)
    return np.array(folds)
