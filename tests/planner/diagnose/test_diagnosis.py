"""Layers, identity, cause, tensor, fixes and what would not help, on messages made to measure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import run
from hardware_db import load_tables
from planner.diagnose import diagnose
from planner.diagnose.causes import Cause
from planner.diagnose.document import as_json
from planner.diagnose.fixes import Effect, Fix, ranked
from planner.diagnose.layers import Identity
from planner.diagnose.tensors import SOURCES, segment_bytes, tensors_of
from planner.estimate import plan
from planner.plan_types import Plan, Verdict
from planner.references import REFERENCES
from planner.units import GIB, MIB
from planner.validation import parse_scenario
from tests.planner.diagnose.cases import MESSAGES

if TYPE_CHECKING:
    from collections.abc import Callable

MOCK = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB. GPU 5 has\n"
    "a total capacity of 39.39 GiB of which 1.21 GiB is free. Process 21877 has 38.18\n"
    "GiB memory in use. Of the allocated memory 37.23 GiB is allocated by PyTorch, and\n"
    "430.00 MiB is reserved by PyTorch but unallocated."
)


def message(
    request: str = "1.00 GiB",
    total: str = "80.00 GiB",
    free: str = "0.50 GiB",
    others: str = "",
    own: str = "79.50 GiB",
    allowed: str = "",
    allocated: str = "78.00 GiB",
    unallocated: str = "0.90 GiB",
) -> str:
    return (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {request}. GPU 0 has a total capacity of "
        f"{total} of which {free} is free. {others}"
        f"Including non-PyTorch memory, this process has {own} memory in use. {allowed}Of the allocated memory "
        f"{allocated} is allocated by PyTorch, and {unallocated} is reserved by PyTorch but unallocated."
    )


def planned(document: dict[str, Any]) -> Plan:
    scenario, issues = parse_scenario(document)
    assert scenario is not None, issues
    return plan(scenario, load_tables())


@pytest.fixture(scope="module")
def six_cards() -> Plan:
    path = run.ROOT / "examples" / "llama-8b-six-unequal-cards.json"
    return planned(json.loads(path.read_text(encoding="utf-8")))


def llama(**training: Any) -> Plan:
    return planned(
        {
            "version": 1,
            "task": "full",
            "model": {"id": "huggyllama/llama-7b"},
            "hardware": {"devices": [{"gpu": "a100-sxm-80gb", "count": 1}]},
            "runtime": {"name": "hf_trainer"},
            "training": {"sequence_length": 2048} | training,
        }
    )


# --- layers


def test_the_layers_sum_to_the_capacity(six_cards: Plan) -> None:
    found = diagnose(MOCK, six_cards)
    assert found.layers is not None
    sizes = {held.name: round(held.bytes / GIB, 2) for held in found.layers.held}
    assert sizes == {"allocated": 37.23, "unallocated": 0.42, "context": 0.53, "free": 1.21}
    assert found.layers.identity is Identity.EQUAL
    assert found.layers.own_inferred
    assert found.layers.used_bytes + (found.layers.bytes("free") or 0) == found.layers.total_bytes


def test_layers_that_do_not_sum_are_said_to_be_off() -> None:
    layers = diagnose(message(own="60.00 GiB", allocated="59.00 GiB")).layers
    assert layers is not None
    assert layers.identity is Identity.OFF
    assert layers.bytes("unnamed") == round(19.5 * GIB)


def test_without_a_process_the_rest_is_outside() -> None:
    layers = diagnose(next(m["text"] for m in MESSAGES if m["tag"] == "2a")).layers
    assert layers is not None
    assert layers.identity is Identity.UNCHECKED
    assert layers.residue_bytes is None
    assert layers.bytes("outside") == 21453361644 - 524288000 - 17179869184 - 167772160


# --- causes


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (message(), Cause.DEMAND),
        (message(request="4.00 GiB", allocated="70.00 GiB", unallocated="9.00 GiB"), Cause.FRAGMENTATION),
        (
            message(others="Process 7 has 60.00 GiB memory in use. ", own="19.50 GiB", allocated="18.00 GiB"),
            Cause.ANOTHER_PROCESS,
        ),
        (message(allowed="78.50 GiB allowed; "), Cause.FRACTION_CAP),
        (message(request="120.00 GiB"), Cause.SHAPE),
        (
            message(request="50.00 GiB", free="60.00 GiB", own="20.00 GiB", allocated="18.00 GiB"),
            Cause.SHAPE,
        ),
        (message(free="40.00 GiB", own="40.00 GiB", allocated="38.00 GiB"), Cause.DRIVER_LIMIT),
        (
            message(
                request="1.00 GiB",
                total="1.40 GiB",
                own="0.90 GiB",
                allocated="0.01 GiB",
                unallocated="0.01 GiB",
            ).replace("1.00 GiB", "0.60 GiB"),
            Cause.CONTEXT_ONLY,
        ),
        (message(allocated="90.00 GiB"), Cause.DRIVER_SPILL),
        ("RuntimeError: CUDA error: out of memory", Cause.CONTEXT_ONLY),
        ("Failed to initialize NVML: Unknown Error", Cause.DRIVER_UNREADABLE),
        ("DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes", Cause.HOST_MEMORY),
        ("ValueError: No available memory for the cache blocks.", Cause.BUDGET_SPENT),
        ("all is well", Cause.NOTHING),
        ("", Cause.NOTHING),
    ],
)
def test_the_cause_follows_from_the_figures(text: str, cause: Cause) -> None:
    assert diagnose(text).why.cause is cause


@pytest.mark.parametrize(
    ("tag", "cause"),
    [
        ("1a", Cause.FRAGMENTATION),
        ("1b", Cause.FRAGMENTATION),
        ("1c", Cause.FRAGMENTATION),
        ("1d", Cause.DEMAND),
        ("1e", Cause.ANOTHER_PROCESS),
        ("1f", Cause.FRACTION_CAP),
        ("1g", Cause.DEMAND),
        ("1w", Cause.DRIVER_SPILL),
        ("2a", Cause.ANOTHER_PROCESS),
        ("2b", Cause.FRACTION_CAP),
        ("4d", Cause.KV_TOO_SMALL),
        ("4e", Cause.KV_TOO_SMALL),
        ("4g", Cause.ANOTHER_PROCESS),
        ("5b", Cause.BUDGET_SPENT),
        ("7a", Cause.CACHED_NOT_USED),
    ],
)
def test_the_cause_of_each_published_message(tag: str, cause: Cause) -> None:
    assert diagnose(next(m["text"] for m in MESSAGES if m["tag"] == tag)).why.cause is cause


def test_an_echo_does_not_hide_the_message() -> None:
    log = f"{message()}\nRuntimeError: Engine core initialization failed\nexitcode: -9\nCUDA error: out of memory\n"
    found = diagnose(log)
    assert found.record is not None
    assert found.record.bytes("request") == GIB


def test_of_one_request_the_card_with_the_least_free_is_judged() -> None:
    log = "\n".join(
        message(free=f"0.{free} GiB").replace("GPU 0", f"GPU {gpu}")
        for gpu, free in ((0, 50), (1, 20), (2, 70))
    )
    record = diagnose(log).record
    assert record is not None
    assert record.device == 1


# --- tensors


@pytest.mark.parametrize(
    ("tensor_bytes", "segment"),
    [
        (1, 2 * MIB),
        (MIB, 2 * MIB),
        (MIB + 1, 20 * MIB),
        (10 * MIB - 1, 20 * MIB),
        (10 * MIB, 10 * MIB),
        (21 * MIB, 22 * MIB),
    ],
)
def test_what_the_message_prints_is_the_segment(tensor_bytes: int, segment: int) -> None:
    assert segment_bytes(tensor_bytes) == segment


def test_the_logits_are_named_by_their_size(six_cards: Plan) -> None:
    found = diagnose(MOCK, six_cards)
    assert found.tensor is not None
    assert (found.tensor.name, found.tensor.bytes) == ("logits_fp32", 4096 * 128256 * 4)
    assert dict(found.tensor.symbols) == {"b": 1, "s": 4096, "V": 128256}
    assert found.matches[0].exact
    assert found.device is not None
    assert 5 in found.device.indices


@pytest.mark.parametrize(
    ("make", "name", "request_"),
    [
        (lambda: llama(micro_batch=4, attention="eager"), "attention_scores", 4 * 32 * 2048**2 * 4),
        (llama, "optimizer_temporary", 4 * 6738415616),
        (llama, "vocabulary_matrix", 32000 * 4096 * 2),
        (lambda: llama(micro_batch=8), "hidden_states", 8 * 2048 * 4096 * 2),
        (llama, "matrix", 11008 * 4096 * 2),
        (lambda: llama(micro_batch=2), "logits_fp32", 2 * 2048 * 32000 * 4),
    ],
)
def test_a_request_is_matched_to_a_tensor(make: Callable[[], Plan], name: str, request_: int) -> None:
    printed = segment_bytes(request_)
    text = message(
        request=f"{printed / GIB:.2f} GiB" if printed >= GIB else f"{printed / MIB:.2f} MiB", free="0.01 GiB"
    )
    found = diagnose(text, make())
    names = {match.tensor.name for match in found.matches}
    assert name in names or (found.tensor is not None and found.tensor.bytes == request_)


def test_a_small_segment_names_no_tensor() -> None:
    found = diagnose(message(request="20.00 MiB", free="0.01 GiB"), llama())
    assert found.tensor is None
    assert "small_request" in {remark.code for remark in found.remarks}


def test_a_request_of_no_tensor_has_no_match(six_cards: Plan) -> None:
    found = diagnose(MOCK.replace("1.96 GiB", "1.57 GiB"), six_cards)
    assert found.matches == ()
    assert found.tensor is None


def test_tensors_have_the_size_their_formula_says(six_cards: Plan) -> None:
    for made in (six_cards, llama(micro_batch=3)):
        for tensor in tensors_of(made, made.worst):
            if tensor.name != "entry" and "/" not in tensor.formula:
                value = 1
                for factor in tensor.formula.split("*"):
                    value *= int(factor) if factor.isdecimal() else dict(tensor.symbols)[factor]
                assert value == tensor.bytes, tensor


def test_every_tensor_names_its_source(six_cards: Plan) -> None:
    assert set(SOURCES.values()) <= set(REFERENCES)
    assert {tensor.reference for tensor in tensors_of(six_cards, six_cards.worst)} <= set(REFERENCES)


# --- phases, fixes


@pytest.mark.parametrize(
    ("above", "phase"),
    [
        ('File "adamw.py", in _multi_tensor_adamw\n    exp_avg_sq_sqrt = torch._foreach_sqrt(x)', "optimizer_step"),
        ('File "loss.py", line 9\n    return F.cross_entropy(logits, labels)', "loss"),
        ('File "trainer.py", line 2773, in _save\n    state_dict = self.model.state_dict()', "save"),
        ('File "trainer.py", in evaluation_loop\n    preds_host = nested_concat(preds_host, logits)', "evaluation"),
        ('File "modeling_utils.py", in from_pretrained\n    model = cls(config)', "load"),
        ('File "llama.py"\n    attn = torch.baddbmm(a, b, c)', "attention"),
        ('File "train.py"\n    loss.backward()', "backward"),
        ("nothing that tells", None),
    ],
)  # fmt: skip
def test_the_traceback_tells_the_phase(above: str, phase: str | None) -> None:
    assert diagnose(f"Traceback (most recent call last):\n  {above}\n{message()}").phase == phase


def test_an_older_traceback_does_not_count() -> None:
    old = "Traceback (most recent call last):\n  x = load_state_dict(y)\nValueError: no\n"
    new = f"Traceback (most recent call last):\n    loss.backward()\n{message()}"
    assert diagnose(old + new).phase == "backward"


def vain(found: Any) -> dict[str, str]:
    return {vain.code: vain.reason for vain in found.vain}


def test_a_smaller_batch_is_the_wrong_answer_where_it_is() -> None:
    other = message(others="Process 7 has 60.00 GiB memory in use. ", own="19.50 GiB", allocated="18.00 GiB")
    assert vain(diagnose(other))["smaller_batch"] == "another_process"
    assert vain(diagnose(message(request="120.00 GiB")))["smaller_batch"] == "shape"
    free = message(free="40.00 GiB", own="40.00 GiB", allocated="38.00 GiB")
    assert vain(diagnose(free))["smaller_batch"] == "driver_limit"
    assert vain(diagnose(message(), llama()))["smaller_batch"] == "already_one"
    assert "smaller_batch" not in vain(diagnose(message(), llama(micro_batch=8)))
    assert "half_micro_batch" in {fix.code for fix in diagnose(message(), llama(micro_batch=8)).fixes}


def test_fixes_point_at_the_tensor(six_cards: Plan) -> None:
    found = diagnose(MOCK, six_cards)
    assert found.fixes[0] == Fix(code="fused_loss", change="fused_loss")
    assert "half_micro_batch" not in {fix.code for fix in found.fixes}
    assert vain(found)["expandable_segments"] == "too_little_cached"
    assert vain(found)["more_data_parallel"] == "each_card_keeps_its_batch"


def test_fixes_are_ranked_by_what_they_do() -> None:
    fixes = (
        Fix(code="stop_other_process"),
        Fix(code="a", change="a"),
        Fix(code="b", change="b"),
        Fix(code="c", change="c"),
        Fix(code="gone", change="gone"),
    )
    effects = {
        "a": Effect(verdict=Verdict.DOES_NOT_FIT, delta_bytes=-1, time_frac=0.0),
        "b": Effect(verdict=Verdict.FITS, delta_bytes=-5, time_frac=0.3),
        "c": Effect(verdict=Verdict.FITS, delta_bytes=-5, time_frac=0.1),
    }
    assert [fix.code for fix in ranked(fixes, effects)] == ["stop_other_process", "c", "b", "a"]
    without_time = {name: Effect(verdict=e.verdict, delta_bytes=e.delta_bytes) for name, e in effects.items()}
    assert [fix.code for fix in ranked(fixes, without_time)] == ["stop_other_process", "b", "c", "a"]


def test_the_document_holds_everything(six_cards: Plan) -> None:
    document = json.loads(json.dumps(as_json(diagnose(MOCK, six_cards))))
    assert document["cause"] == "demand"
    assert document["tensor"]["name"] == "logits_fp32"
    assert document["layers"]["identity"] == "equal"
    assert document["record"]["sizes"]["request"] == {
        "bytes": 2104533975,
        "tolerance_bytes": 5368710,
        "printed": "1.96GiB",
    }
