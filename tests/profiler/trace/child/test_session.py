"""What a trace says of the techniques: owners in the backward pass, and what each technique changes."""

import json
from typing import Any

import pytest

from planner.scenario import Scenario
from profiler.trace.child.session import make_trace
from profiler.trace.documents import Target
from profiler.trace.record import Trace
from profiler.worker.storages import RECOMPUTED
from profiler.worker.workloads import CannotBuildError
from tests.profiler.scenarios import LLAMA, scenario
from tests.profiler.trace.cases import (
    AUTOCAST,
    BF16,
    BY_ATTENTION,
    BY_OPERATOR,
    CHECKPOINTED,
    CHUNKED,
    EVERY_TWO,
    FUSED_LINEAR,
    MIXTRAL,
    REENTRANT,
    SCALED,
    SDPA,
)
from tests.profiler.trace.peaks import tensor_peaks

WIDE = LLAMA | {"vocab_size": 8_000, "num_hidden_layers": 2}
"""Most of its memory is the logits' while the loss is worked out."""

DEEP = LLAMA | {"vocab_size": 64, "num_hidden_layers": 8}
"""Most of its memory is the layers'."""


def _traced(config: dict[str, Any], changes: dict[str, Any]) -> Trace:
    document = scenario(config, **changes)
    target = Target(compute_capability=(8, 0))
    return make_trace(Scenario.model_validate(document), document, config, target)


_PEAKS: dict[str, dict[str, int]] = {}


def _deep_peaks(changes: dict[str, Any]) -> dict[str, int]:
    """Peaks of tensors on the deep model, of which several tests compare the same ones; the trace itself goes."""
    key = json.dumps(changes, sort_keys=True)
    if key not in _PEAKS:
        _PEAKS[key] = tensor_peaks(_traced(DEEP, changes))
    return _PEAKS[key]


def _made_in_backward(trace: Trace) -> set[tuple[str, str, str]]:
    return {
        (one.module, one.op, one.detail)
        for one in trace.storages.storages()
        if one.phase == "backward" and not one.kind
    }


def test_owners_in_the_backward_pass_are_modules() -> None:
    made = _made_in_backward(_traced(LLAMA, BF16 | SDPA))
    for layer in range(3):
        assert (f"model.layers.{layer}.mlp.down_proj", "aten::mm", "") in made
        assert (f"model.layers.{layer}.mlp.act_fn", "aten::silu_backward", "") in made
    unknown = {op for module, op, _ in made if not module}
    assert unknown <= {"aten::nll_loss_backward", "aten::_log_softmax_backward_data", "aten::_to_copy"}


def test_what_is_computed_again_has_its_module_too() -> None:
    made = _made_in_backward(_traced(LLAMA, BF16 | SDPA | CHECKPOINTED))
    assert ("model.layers.1.mlp.up_proj", "aten::mm", RECOMPUTED) in made
    assert ("model.layers.1.mlp.down_proj", "aten::mm", "") in made


def test_losses_in_pieces_take_less_while_the_loss_is_worked_out() -> None:
    peaks = {
        name: tensor_peaks(_traced(WIDE, BF16 | SDPA | {"training.micro_batch": 8} | loss))["loss"]
        for name, loss in {"standard": {}, "chunked": CHUNKED, "fused_linear": FUSED_LINEAR}.items()
    }
    assert peaks["fused_linear"] < peaks["chunked"] < peaks["standard"]
    logits = 8 * 40 * 8_000
    assert peaks["standard"] - peaks["chunked"] > 4 * logits  # at least one fp32 copy of the whole


def test_the_head_of_a_fused_loss_adds_up_in_one_kernel() -> None:
    """Under autocast CUDA adds 16-bit products to the fp32 gradient; no fp32 temporary of the head's size."""
    trace = _traced(WIDE, AUTOCAST | SDPA | FUSED_LINEAR)
    heads = [one for one in trace.storages.storages() if one.shape == (8_000, 96) and one.phase == "loss"]
    assert {(one.op, one.dtype) for one in heads} == {
        ("aten::zeros_like", "float32"),
        ("aten::_to_copy", "bfloat16"),
    }


@pytest.mark.parametrize(
    ("less", "more"),
    [
        (CHECKPOINTED, {}),
        (EVERY_TWO, BY_OPERATOR),
        (CHECKPOINTED, BY_OPERATOR),
        (BY_OPERATOR, {}),
        (REENTRANT, {}),
    ],
)
def test_what_checkpointing_saves_on_a_deep_model(less: dict[str, Any], more: dict[str, Any]) -> None:
    small, large = (_deep_peaks(BF16 | SDPA | changes) for changes in (less, more))
    assert small["forward"] < large["forward"]


def test_attention_that_is_computed_again_keeps_no_scores() -> None:
    scores = 2 * 4 * 40 * 40 * 4  # rows, heads, positions twice, fp32
    plain, again = (_deep_peaks(changes)["forward"] for changes in ({}, BY_ATTENTION))
    assert plain - again > 7 * scores


@pytest.mark.parametrize("precision", [BF16, AUTOCAST])
def test_a_reentrant_checkpoint_computes_a_layer_to_its_end(precision: dict[str, Any]) -> None:
    """The other kind stops once nothing more is missing, and leaves out the layer's last product and sum."""
    one, other = (_deep_peaks(precision | SDPA | changes) for changes in (REENTRANT, CHECKPOINTED))
    assert one["forward"] == other["forward"]
    output = 2 * 40 * 96 * (2 if precision is BF16 else 4)
    assert one["backward"] - other["backward"] == 2 * output


def test_a_scaler_has_its_own_small_tensors() -> None:
    trace = _traced(LLAMA, SCALED | SDPA)
    words = set(trace.storages.words)
    assert "float16" in words
    kept = [
        one
        for one in trace.storages.storages()
        if one.shape == () and one.dtype in {"float32", "int32"} and one.died_in is None and not one.kind
    ]
    assert len(kept) >= 2  # the scale, and the steps since it grew


@pytest.mark.parametrize("precision", [BF16, AUTOCAST])
def test_experts_in_a_loop_depend_on_values_and_are_refused(precision: dict[str, Any]) -> None:
    """Which tokens an expert gets is a matter of values; the grouped product, the default, takes all at once."""
    with pytest.raises(CannotBuildError) as refused:
        _traced(MIXTRAL | {"experts_implementation": "eager"}, precision)
    remark = refused.value.remark
    assert (remark.field, remark.code, remark.params["given"]) == ("model", "depends_on_values", "mixtral")
    assert "nonzero" in str(remark.params["detail"])
