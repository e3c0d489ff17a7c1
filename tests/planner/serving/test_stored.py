"""Plans from the sizes of a checkpoint: exact where one card holds it all, divided like the shapes elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from planner.estimate import plan
from planner.link import decode, encode
from planner.memory.weight_formats import FORMATS
from planner.validation import parse_scenario
from tests.planner.serving.cases import DEEPSEEK_V3, QWEN3_4B, llama, tables

if TYPE_CHECKING:
    from planner.plan_types import Plan
    from planner.scenario import Scenario

LAYERS = 32
PLAIN = {
    "embedding": 128256 * 4096,
    "head": 128256 * 4096,
    "attention": LAYERS * (2 * 4096 * 4096 + 2 * 4096 * 1024),
    "mlp": LAYERS * 3 * 4096 * 14336,
    "norm": LAYERS * 2 * 4096 + 4096,
}
"""Llama-3.1-8B: 8,030,261,248 parameters."""


def stored(parts: list[dict[str, Any]], *, container: str = "safetensors", **more: Any) -> dict[str, Any]:
    return {"source": "org/name@1", "date": "2026-11-30", "container": container, "parts": parts, **more}


def in_format(parts: dict[str, int], name: str) -> list[dict[str, Any]]:
    kind = FORMATS[name]
    return [
        {"part": part, "format": name, "bytes": round(count * kind.bytes / kind.elements)}
        for part, count in parts.items()
    ]


def question(
    held: dict[str, Any], runtime: str = "vllm", *, config: Any = None, count: int = 1, **serving: Any
) -> Scenario:
    document = {
        "version": 1,
        "task": "serve",
        "model": {"config": config or llama(), "stored": held},
        "hardware": {"devices": [{"gpu": "h100-sxm-80gb", "count": count}]},
        "runtime": {"name": runtime},
        "parallel": {"tensor": count},
        "serving": serving,
    }
    scenario, issues = parse_scenario(document)
    assert scenario is not None, issues
    return scenario


def weights(answer: Plan, device: int = 0) -> int:
    """Weights by part, without tables and allocator ends."""
    ledger = answer.devices[device].ledger
    return sum(e.bytes for e in ledger.entries if e.reference == "checkpoint_headers")


def codes(answer: Plan) -> set[str]:
    return {issue.code for issue in answer.issues}


def test_one_card_holds_what_the_files_hold() -> None:
    answer = plan(question(stored(in_format(PLAIN, "bf16"))), tables())
    assert weights(answer) == 2 * 8_030_261_248
    assert not codes(answer) & {"stored_not_loaded", "stored_differs"}


def test_a_checkpoint_with_layers_in_two_formats_weighs_what_it_says() -> None:
    """No format of the menu describes it; the headers do, scales included."""
    config = llama(quantization_config={"quant_method": "fp8"})
    parts = [
        *in_format({part: PLAIN[part] for part in ("embedding", "head", "norm", "attention")}, "bf16"),
        {"part": "mlp", "format": "fp8", "bytes": PLAIN["mlp"]},
        {"part": "mlp", "format": "fp32", "scales": True, "bytes": 1_000_003},
    ]
    answer = plan(question(stored(parts), config=config), tables())
    assert weights(answer) == sum(part["bytes"] for part in parts)
    assert "stored_differs" not in codes(answer)


def test_two_cards_divide_it_as_they_divide_shapes() -> None:
    held = plan(question(stored(in_format(PLAIN, "bf16")), count=2), tables())
    shapes = plan(question(stored(in_format(PLAIN, "bf16")), count=2, weights="fp16"), tables())
    assert "stored_not_loaded" in codes(shapes)
    names = [e.name for e in held.devices[0].ledger.entries if e.reference == "checkpoint_headers"]
    assert weights(held) == shapes.devices[0].ledger.total(*names)


def test_parts_under_other_names_are_taken_together() -> None:
    one = {"attention": PLAIN["attention"] + PLAIN["mlp"] + PLAIN["norm"]}
    parts = in_format({"embedding": PLAIN["embedding"], "head": PLAIN["head"]} | one, "bf16")
    assert weights(plan(question(stored(parts)), tables())) == pytest.approx(2 * 8_030_261_248, abs=4)


def test_a_tower_without_shapes_is_counted() -> None:
    parts = [*in_format(PLAIN, "bf16"), {"part": "other", "format": "bf16", "bytes": 800_000_000}]
    answer = plan(question(stored(parts)), tables())
    assert weights(answer) == 2 * 8_030_261_248 + 800_000_000
    assert "stored_differs" in codes(answer)


def test_32_bit_files_are_cast_as_the_engine_casts_them() -> None:
    answer = plan(question(stored(in_format(PLAIN, "fp32")), config=llama(torch_dtype="float32")), tables())
    assert weights(answer) == 2 * 8_030_261_248


def test_draft_layers_wait_until_they_are_asked_for() -> None:
    config = DEEPSEEK_V3 | {"num_nextn_predict_layers": 1}
    parts = [
        {"part": "experts", "format": "bf16", "bytes": 10**9},
        {"part": "draft", "format": "bf16", "bytes": 7},
    ]
    with_draft = plan(question(stored(parts), config=config, speculative="mtp"), tables())
    without = plan(question(stored(parts), config=config), tables())
    assert with_draft.devices[0].ledger.total("draft_weights") == 7
    assert without.devices[0].ledger.total("draft_weights") == 0


@pytest.mark.parametrize("layers", [10, 37])
def test_a_gguf_is_divided_between_card_and_host(layers: int) -> None:
    """The tied embedding stays on the host and its copy goes with the output."""
    per_layer = 36 * (2 * 2560 * 4096 + 2 * 2560 * 1024)
    counts = {
        "embedding": 151936 * 2560, "attention": per_layer, "mlp": 36 * 3 * 2560 * 9728,
        "norm": 36 * (2 * 2560 + 256) + 2560,
    }  # fmt: skip
    parts = in_format({name: counts[name] for name in ("embedding", "attention", "mlp")}, "iq4_xs")
    parts += in_format({"norm": counts["norm"]}, "fp32")
    held = stored(parts, container="gguf", weights="iq4_xs")
    answer = plan(question(held, "llama_cpp", config=QWEN3_4B, gpu_layers=layers), tables())
    assert answer.serving is not None
    total = sum(part["bytes"] for part in parts)
    copied = answer.devices[0].ledger.total("weights_head")
    assert weights(answer) - copied + answer.serving.host.weights_bytes == pytest.approx(total, abs=4)
    assert "stored_not_loaded" not in codes(answer)


@pytest.mark.parametrize(
    ("runtime", "container", "serving"),
    [
        ("vllm", "gguf", {}),
        ("llama_cpp", "safetensors", {}),
        ("llama_cpp", "gguf", {"weights": "q8_0"}),
        ("vllm", "safetensors", {"weights": "fp8"}),
    ],
)
def test_sizes_that_do_not_count_are_said(runtime: str, container: str, serving: dict[str, Any]) -> None:
    held = stored(in_format(PLAIN, "bf16"), container=container, weights="q4_k_m")
    answer = plan(question(held, runtime, **serving), tables())
    assert "stored_not_loaded" in codes(answer)
    assert weights(answer) == 0


def test_a_link_carries_the_sizes() -> None:
    asked = question(stored(in_format(PLAIN, "bf16")))
    assert decode(encode(asked)) == (asked, ())
