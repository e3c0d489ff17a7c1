"""One rank of a divided job: what it holds follows from shapes and degrees alone, worked out here by hand."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hardware_db import load_tables
from planner.estimate import plan
from planner.scenario import Scenario
from planner.units import MIB
from profiler.trace.cache import key_of
from profiler.trace.division import part_of
from profiler.trace.documents import Part, Target
from profiler.trace.request import ask
from profiler.trace.traceable import why_not_traceable
from tests.profiler.scenarios import LLAMA, scenario
from tests.profiler.trace.child_cases import run_cases, trace_command
from tests.profiler.trace.rank_cases import CASES, EVEN, LONG, REFUSED, SHARDS, UNEVEN, WIDE

ROOT = Path(__file__).resolve().parents[3]
FP32 = 4
BF16 = 2
Shape = tuple[int, ...]


@pytest.fixture(scope="module")
def seen() -> dict[str, dict[str, Any]]:
    return run_cases("rank_traces", [*CASES, *REFUSED])


def layer(config: dict[str, Any]) -> Iterator[Shape]:
    """Shapes of a layer's parameters, rows first."""
    h, i, d = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    q, k = config["num_attention_heads"] * d, config["num_key_value_heads"] * d
    yield from ((q, h), (k, h), (k, h), (h, q), (i, h), (i, h), (h, i), (h,), (h,))


def root(config: dict[str, Any]) -> Iterator[Shape]:
    """Shapes outside the layers: embedding, head, last norm."""
    h, v = config["hidden_size"], config["vocab_size"]
    yield from ((v, h), (v, h), (h,))


def whole(config: dict[str, Any]) -> list[Shape]:
    return [*root(config), *(shape for _ in range(config["num_hidden_layers"]) for shape in layer(config))]


def elements(shapes: Iterator[Shape] | list[Shape], rows: Any = lambda rows: rows) -> int:
    return sum(rows(shape[0]) * (shape[1] if len(shape) > 1 else 1) for shape in shapes)


def padded(rows: int) -> int:
    """Rows that every rank keeps room for."""
    return -(-rows // SHARDS)


def held(rank: int) -> Any:
    """Rows that a rank really has: the last ones may have fewer, or none."""
    return lambda rows: max(0, min(padded(rows), rows - rank * padded(rows)))


def most(seen: dict[str, dict[str, Any]], case: str, phase: str, kind: str) -> int:
    return int(seen[case]["most"][phase].get(kind, 0))


def test_a_rank_of_eight_has_an_eighth_of_everything(seen: dict[str, dict[str, Any]]) -> None:
    total = elements(whole(EVEN))
    assert seen["even"]["params_total"] == total
    for kind in ("parameter", "exp_avg", "exp_avg_sq", "gradient"):
        assert most(seen, "even", "optimizer_step", kind) * SHARDS == total * FP32


@pytest.mark.parametrize("rank", range(SHARDS))
def test_rows_that_do_not_divide_are_padded_on_every_rank(rank: int, seen: dict[str, dict[str, Any]]) -> None:
    case = f"uneven-{rank}"
    room, own = elements(whole(UNEVEN), padded), elements(whole(UNEVEN), held(rank))
    assert room * SHARDS > elements(whole(UNEVEN))
    assert most(seen, case, "optimizer_step", "parameter") == room * FP32
    assert most(seen, case, "optimizer_step", "gradient") == room * FP32
    assert most(seen, case, "optimizer_step", "exp_avg") == own * FP32


def test_the_ranks_states_together_are_the_model(seen: dict[str, dict[str, Any]]) -> None:
    states = [most(seen, f"uneven-{rank}", "optimizer_step", "exp_avg") for rank in range(SHARDS)]
    assert sum(states) == elements(whole(UNEVEN)) * FP32


def test_units_are_gathered_one_by_one_and_freed(seen: dict[str, dict[str, Any]]) -> None:
    """Root and one layer, each first in a buffer and then parameter by parameter."""
    unit, rest = elements(layer(EVEN)) * FP32, elements(root(EVEN)) * FP32
    assert most(seen, "even", "forward", "gathered_parameters") == rest + unit
    assert most(seen, "even", "forward", "gather_buffers") == rest + unit
    assert most(seen, "even", "loss", "gather_buffers") == unit
    assert most(seen, "even", "backward", "scatter_inputs") == rest
    assert most(seen, "even", "optimizer_step", "gathered_parameters") == 0


def test_units_that_are_kept_are_all_there_at_once(seen: dict[str, dict[str, Any]]) -> None:
    assert most(seen, "kept", "loss", "gathered_parameters") == elements(whole(EVEN)) * FP32
    assert most(seen, "kept", "backward", "gather_buffers") == 0


def test_units_sharded_over_fewer_ranks_keep_their_part(seen: dict[str, dict[str, Any]]) -> None:
    layers = EVEN["num_hidden_layers"] * elements(layer(EVEN)) * FP32
    assert most(seen, "halves", "loss", "gather_inputs") == layers // 2
    assert most(seen, "even", "loss", "gather_inputs") == 0


def test_each_unit_gathered_ahead_is_one_more_buffer(seen: dict[str, dict[str, Any]]) -> None:
    unit = elements(layer(EVEN)) * FP32
    assert most(seen, "even", "backward", "gather_buffers") == unit
    assert most(seen, "ahead", "backward", "gather_buffers") == 2 * unit


def test_mixed_precision_gathers_in_16_bit_and_reduces_in_32(seen: dict[str, dict[str, Any]]) -> None:
    unit, rest = elements(layer(EVEN)), elements(root(EVEN))
    assert most(seen, "mixed", "optimizer_step", "parameter") * SHARDS == elements(whole(EVEN)) * FP32
    assert most(seen, "mixed", "forward", "gathered_parameters") == (rest + unit) * BF16
    assert most(seen, "mixed", "backward", "scatter_inputs") == rest * FP32
    assert most(seen, "mixed", "optimizer_step", "gradient") * SHARDS == elements(whole(EVEN)) * FP32


def test_copies_of_shards_shard_within_a_copy(seen: dict[str, dict[str, Any]]) -> None:
    assert most(seen, "copies-of-shards", "optimizer_step", "parameter") * 4 == elements(whole(EVEN)) * FP32


def test_ddp_has_a_second_copy_of_all_gradients_in_buckets(seen: dict[str, dict[str, Any]]) -> None:
    total = elements(whole(WIDE)) * FP32
    sizes = seen["buckets"]["buckets"]
    assert sum(sizes) == total
    assert most(seen, "buckets", "optimizer_step", "gradient") == total
    assert most(seen, "buckets", "optimizer_step", "ddp_buckets") == total


def test_buckets_close_at_their_size(seen: dict[str, dict[str, Any]]) -> None:
    """The first holds the head, which came first and is past 1 MiB at once; others close past 25 MiB."""
    first, *others, _ = seen["buckets"]["buckets"]
    assert first == WIDE["vocab_size"] * WIDE["hidden_size"] * FP32
    matrix = WIDE["hidden_size"] * WIDE["intermediate_size"] * FP32
    assert all(25 * MIB <= size < 25 * MIB + matrix for size in others)


def test_gradients_that_are_views_of_buckets_take_nothing_more(seen: dict[str, dict[str, Any]]) -> None:
    assert seen["bucket-views"]["buckets"] == seen["buckets"]["buckets"]
    assert most(seen, "bucket-views", "optimizer_step", "gradient") == 0


@pytest.mark.parametrize(("case", "rank"), [("cut", 0), ("cut-last", 1)])
def test_matrices_are_cut_and_norms_are_whole(case: str, rank: int, seen: dict[str, dict[str, Any]]) -> None:
    h, v = LLAMA["hidden_size"], LLAMA["vocab_size"]
    matrices = [shape for shape in layer(LLAMA) if len(shape) > 1]
    norms = LLAMA["num_hidden_layers"] * 2 * h + h
    rows = [-(-v // 2), v // 2][rank]
    total = LLAMA["num_hidden_layers"] * elements(matrices) // 2 + norms + 2 * rows * h
    assert most(seen, case, "optimizer_step", "parameter") == total * FP32
    assert most(seen, case, "optimizer_step", "exp_avg") == total * FP32


def test_the_cut_embeddings_gradient_is_a_part_of_a_whole_one(seen: dict[str, dict[str, Any]]) -> None:
    """DTensor makes it for the whole vocabulary and keeps a view of its rows."""
    h, v = LLAMA["hidden_size"], LLAMA["vocab_size"]
    own = most(seen, "cut", "optimizer_step", "parameter")
    assert most(seen, "cut", "optimizer_step", "gradient") - own == (v - -(-v // 2)) * h * FP32


def test_a_cut_sequence_and_a_cut_loss_take_less(seen: dict[str, dict[str, Any]]) -> None:
    plain, less = seen["cut"]["peaks"], seen["cut-sequence"]["peaks"]
    assert less["optimizer_step"] == plain["optimizer_step"]
    assert all(less[phase] < plain[phase] for phase in ("forward", "loss", "backward"))


@pytest.mark.parametrize("code", REFUSED)
def test_models_that_cannot_be_cut_are_refused(code: str, seen: dict[str, dict[str, Any]]) -> None:
    assert seen[code]["refused"] == code
    assert seen[code]["field"] == "parallel.tensor"


@pytest.fixture(scope="module")
def more() -> dict[str, dict[str, Any]]:
    return run_cases("rank_traces", list(LONG))


@pytest.mark.long
@pytest.mark.parametrize("case", LONG)
def test_techniques_can_be_divided(case: str, more: dict[str, dict[str, Any]]) -> None:
    assert set(more[case]["peaks"]) == {"rest", "forward", "loss", "backward", "optimizer_step"}
    part = LONG[case][2]
    if part.tensor == 1:
        held = most(more, case, "optimizer_step", "parameter")
        assert held * part.shards >= more[case]["params_total"] * BF16


def resolved(**changes: Any) -> Scenario:
    count = changes.pop("count", 8)
    hardware = {"devices": [{"gpu": "a100-sxm-80gb", "count": count}]}
    return Scenario.model_validate(scenario(LLAMA, **changes) | {"hardware": hardware})


@pytest.mark.parametrize(
    ("changes", "code", "field"),
    [
        ({"parallel.sharding": "zero1"}, "zero_not_traced", "parallel.sharding"),
        ({"parallel.sharding": "zero2"}, "zero_not_traced", "parallel.sharding"),
        ({"parallel.sharding": "zero3"}, "zero_not_traced", "parallel.sharding"),
        (
            {"parallel.sharding": "fsdp", "task": "qlora", "adapter": {"rank": 4, "base": "nf4"}},
            "packed_shards_not_traced",
            "parallel.sharding",
        ),
        ({"parallel.pipeline": 2}, "division_not_traced", "parallel.pipeline"),
        ({"parallel.context": 2}, "division_not_traced", "parallel.context"),
        ({"parallel.expert": 2}, "division_not_traced", "parallel.expert"),
        ({"parallel.data_parallel": "dp"}, "division_not_traced", "parallel.data_parallel"),
        (
            {"parallel.sharding": "fsdp", "parallel.sharding_degree": 3},
            "shards_do_not_divide",
            "parallel.sharding_degree",
        ),
        (
            {"parallel.sharding": "fsdp", "training.optimizer.name": "adafactor"},
            "optimizer_not_divided",
            "training.optimizer.name",
        ),
        (
            {"parallel.tensor": 2, "task": "lora", "adapter": {"rank": 4}},
            "adapter_with_tensor_not_traced",
            "parallel.tensor",
        ),
        (
            {"parallel.tensor": 8, "parallel.sequence": True, "training.sequence_length": 41},
            "sequence_does_not_divide",
            "training.sequence_length",
        ),
    ],
)
def test_what_cannot_be_followed_is_refused_by_field(changes: dict[str, Any], code: str, field: str) -> None:
    assert (code, field) in {(one.code, one.field) for one in why_not_traceable(resolved(**changes))}


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({}, Part(copies=8, finds_unused=True)),
        ({"training.checkpointing": "full"}, Part(copies=8)),
        ({"parallel.sharding": "fsdp"}, Part(shards=8, compute="fp32")),
        (
            {"parallel.sharding": "fsdp", "parallel.sharding_degree": 4},
            Part(copies=2, shards=4, compute="fp32"),
        ),
        (
            {"parallel.sharding": "fsdp", "runtime.name": "generic", "training.precision.compute": "bf16"},
            Part(shards=8, compute="bf16", reduce="fp32"),
        ),
        (
            {"parallel.sharding": "fsdp", "training.precision.compute": "bf16"},
            Part(shards=8, compute="bf16"),
        ),
        (
            {"parallel.sharding": "fsdp", "parallel.reshard_after_forward": False},
            Part(shards=8, reshard=False, compute="fp32"),
        ),
        (
            {"parallel.tensor": 8, "parallel.sequence": True},
            Part(tensor=8, sequence=True),
        ),
        ({"parallel.tensor": 8, "runtime.name": "generic"}, Part(tensor=8, loss=True)),
        ({"count": 1}, Part()),
    ],
)
def test_the_part_follows_from_the_scenario(changes: dict[str, Any], part: Part) -> None:
    assert part_of(resolved(**changes)) == part
    assert why_not_traceable(resolved(**changes)) == ()


@pytest.mark.parametrize("rank", [-1, 8])
def test_a_rank_that_the_job_has_not_is_refused(rank: int) -> None:
    with pytest.raises(ValueError, match=rf"--rank: {rank} given; 0 to 7"):
        part_of(resolved(**{"parallel.sharding": "fsdp"}), rank)


def test_a_trace_is_asked_for_with_its_rank_and_kept_by_it() -> None:
    document = scenario(LLAMA, **{"parallel.sharding": "fsdp"})
    document["hardware"] = {"devices": [{"gpu": "a100-sxm-80gb", "count": 8}]}
    made = plan(Scenario.model_validate(document), load_tables())
    one, other = (ask(made, (8, 0), rank=rank) for rank in (3, 4))
    assert one.refused == ()
    assert one.options.target.part.rank == 3
    keys = {key_of(a.scenario, a.config, a.options.target) for a in (one, other)}
    assert len(keys) == 2
    assert key_of(one.scenario, one.config, Target()) not in keys


def test_the_command_line_follows_one_rank(tmp_path: Path) -> None:
    document = scenario(UNEVEN, **{"parallel.sharding": "fsdp", "training.attention": "sdpa"})
    document["hardware"] = {"devices": [{"gpu": "a100-sxm-80gb", "count": SHARDS}]}
    file = tmp_path / "sharded.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    done = trace_command(str(file), "--json", "--rank", "7")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["target"]["part"]["rank"] == 7
    rest = {group["name"]: group["bytes"] for group in told["phases"]["rest"]["groups"]}
    assert rest["parameters"] == elements(whole(UNEVEN), padded) * FP32
    assert rest["exp_avg"] == elements(whole(UNEVEN), held(7)) * FP32
