"""Plans compared by the search and CPU seconds of one core: `python -m benchmarks.search`.

Llama-3-70B trained in full and by QLoRA, over every on-demand offer of the table and up to 64 cards: with techniques
that change nothing that is learned, with every one of the framework's, and with every framework. Then reduced spaces,
where each plan is also made on its own: the best has to be the same.
"""

import time
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any, Final

from hardware_db import load_tables
from planner.cost.run_cost import run_cost
from planner.estimate import plan
from planner.hardware import Tables
from planner.issues import ScenarioError
from planner.plan_types import Verdict
from planner.scenario import Scenario
from planner.search.engine import Engine
from planner.search.find import search
from planner.search.offers import machines_of
from planner.search.rigs import rents
from planner.search.space import variants
from planner.search.types import SAME_RESULT, Limits, Machine, Technique
from planner.throughput.training_speed import training_speed
from planner.validation import model_for, parse_scenario

MODEL: Final = "meta-llama/Meta-Llama-3-70B"
SMALL: Final = "meta-llama/Llama-3.1-8B"
RUNS: Final = 3
FORMATS: Final = frozenset({Technique.OPTIMIZER_8BIT, Technique.STATES_16BIT})
SPACES: Final[dict[str, frozenset[Technique]]] = {
    "what is learned stays": SAME_RESULT,
    "every technique": SAME_RESULT | FORMATS,
    "every framework": SAME_RESULT | FORMATS | {Technique.FRAMEWORKS},
}


def question(model: str, task: str, runtime: str) -> Scenario:
    """A job over sequences of 4,096 tokens."""
    document: dict[str, Any] = {
        "version": 1,
        "task": task,
        "model": {"id": model},
        "hardware": {"devices": [{"gpu": "unknown", "count": 1}]},
        "runtime": {"name": runtime},
        "training": {"sequence_length": 4096},
    }
    if task == "qlora":
        document["adapter"] = {"method": "lora", "rank": 16, "targets": "all_linear"}
    scenario, issues = parse_scenario(document)
    if scenario is None:
        raise SystemExit(str(issues))
    return scenario


def one_by_one(
    asked: Scenario, machines: Sequence[Machine], tables: Tables, limits: Limits
) -> list[tuple[float, float]]:
    """Dollars and days of every plan that fits, each planned on its own; nothing of the search but its space."""
    return [
        (cost.usd or 0.0, cost.days)
        for scenario, usd in every_plan(asked, machines, tables, limits)
        for speed in [_speed(scenario, tables)]
        if speed is not None
        for cost in [run_cost(tokens=limits.tokens, tokens_per_s=speed, usd_per_hour=usd)]
    ]


def every_plan(
    asked: Scenario, machines: Sequence[Machine], tables: Tables, limits: Limits
) -> Iterator[tuple[Scenario, float | None]]:
    """Every plan of a space with the price of its hour."""
    model = model_for(asked, tables)
    engine = Engine(asked, variants(asked, model, limits), model, tables, limits)
    for machine in machines:
        for rent in rents(machine, limits.most_cards, asked.hardware.links, tables):
            for index, variant in enumerate(engine.variants):
                data = rent.rig.devices // variant.copy
                if data * variant.copy != rent.rig.devices or variant.tensor > machine.devices:
                    continue
                for batch in engine.batches:
                    if limits.sequences % (data * batch) == 0:
                        choice = engine.choice((index, data, batch), rent.rig)
                        yield choice.scenario, rent.usd_per_hour


def _speed(scenario: Scenario, tables: Tables) -> float | None:
    """Tokens a second; None where the plan has errors, does not fit, or shards over nothing."""
    try:
        found = plan(scenario, tables)
    except ScenarioError:
        return None
    vain = any(
        issue.field == "parallel.sharding" and issue.code in ("no_effect", "not_modelled")
        for issue in found.issues
    )
    return None if vain or found.verdict is not Verdict.FITS else training_speed(found, tables).tokens_per_s


def reduced(tables: Tables) -> dict[str, tuple[Scenario, tuple[Machine, ...]]]:
    """Spaces small enough to be tried one by one."""

    def machine(gpu_id: str, devices: int, usd: float) -> Machine:
        return Machine(name=gpu_id, gpu=tables.gpus[gpu_id], devices=devices, usd_per_hour=usd)

    return {
        "8B in full": (
            question(SMALL, "full", "torchtitan"),
            (machine("h100-sxm-80gb", 8, 24.0), machine("l40s-48gb", 4, 4.0)),
        ),
        "8B, DeepSpeed": (
            question(SMALL, "full", "deepspeed"),
            (machine("a100-sxm-80gb", 8, 12.0),),
        ),
        "70B QLoRA": (
            question(MODEL, "qlora", "hf_trainer"),
            (machine("h200-sxm-141gb", 1, 3.0), machine("b200-sxm-180gb", 8, 40.0)),
        ),
    }


def _seconds(asked: Scenario, machines: Sequence[Machine], tables: Tables, limits: Limits) -> float:
    start = time.process_time()
    search(asked, machines, tables, limits)
    return time.process_time() - start


def main() -> None:
    """Print a line for each space."""
    tables = load_tables()
    machines, _ = machines_of(tables.offers, tables, "on_demand", today=date(2026, 11, 30))
    print(f"{len(machines)} on-demand offers, up to 64 cards")
    for task, runtime in (("full", "torchtitan"), ("qlora", "hf_trainer")):
        asked = question(MODEL, task, runtime)
        for name, techniques in SPACES.items():
            allowed = techniques | (
                {Technique.QLORA} if task == "qlora" and techniques != SAME_RESULT else set()
            )
            limits = Limits(techniques=frozenset(allowed))
            result = search(asked, machines, tables, limits)
            times = [_seconds(asked, machines, tables, limits) for _ in range(RUNS)]
            counts, best = result.counts, result.cheapest
            usd = "none" if best is None else f"{best.usd:,.0f} USD on {best.devices} x {best.machine.gpu.id}"
            print(
                f"{task}, {name}: {counts.offer_plans:,} plans ({counts.plans:,} on different machines, "
                f"{counts.ledgers:,} to the byte) in {min(times):.2f} s; cheapest {usd}"
            )
    limits = Limits(most_cards=8, sequences=16)
    for name, (asked, few) in reduced(tables).items():
        start = time.process_time()
        every = one_by_one(asked, few, tables, limits)
        took = time.process_time() - start
        best = search(asked, few, tables, limits).cheapest
        same = best is not None and abs((best.usd or 0.0) - min(usd for usd, _ in every)) < 1e-6
        print(f"{name}: {len(every)} plans that fit, one by one in {took:.2f} s; same best: {same}")


if __name__ == "__main__":
    main()
