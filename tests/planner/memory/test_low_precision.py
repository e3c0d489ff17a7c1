"""Transformer Engine's fp8 and fp4: what products keep of their inputs, and the copies of weights, by hand count."""

from typing import Any

import pytest

from planner.ledger import Phase
from planner.memory.low_precision import KEPT
from planner.training.gaps import not_modelled
from tests.planner.training import cases

T, H, Q, KV, INNER = 512, 4096, 4096, 1024, 14336
LAYERS = 32
MATRICES = 2 * H * Q + 2 * H * KV + 3 * H * INNER


def entries(name: str, runtime: str = "megatron_lm", **precision: Any) -> int:
    training = {"sequence_length": T, "precision": precision, "dropout": 0.0}
    found = cases.ledger(cases.LLAMA_8B, runtime={"name": runtime}, training=training).entries
    return sum(e.bytes for e in found if e.name == name and Phase.FORWARD in e.phases)


@pytest.mark.parametrize(("field", "kind"), [("fp8", "tensorwise"), ("fp8", "mxfp8"), ("fp4", "nvfp4")])
def test_inputs_of_products_are_kept_low_and_the_rest_in_16_bit(field: str, kind: str) -> None:
    e = KEPT[kind]
    norms = 2 * (2 + e) * H + 2 * 4
    attention = 2 * (Q + 2 * KV) + (2 + e) * Q + 4 * 32
    feed = (4 + e) * INNER
    assert entries("saved_activations", **{field: kind}) == T * LAYERS * (norms + attention + feed)


def test_without_it_an_output_that_is_an_input_too_is_one_tensor() -> None:
    per_token = 2 * (4 * H + 4) + 2 * (Q + 2 * KV + Q) + 4 * 32 + 6 * INNER
    assert entries("saved_activations") == T * LAYERS * per_token


@pytest.mark.parametrize(
    ("precision", "bytes_per_element"),
    [
        ({"fp8": "tensorwise"}, 2.0),
        ({"fp8": "tensorwise", "parameters": "fp8"}, 1.0),
        ({"fp8": "blockwise"}, 2 * (1 + 4 / 128)),
        ({"fp4": "nvfp4"}, 2 * (0.5 + 1 / 16)),
        ({}, 0.0),
    ],
)
def test_weights_have_a_copy_in_each_direction(precision: dict[str, str], bytes_per_element: float) -> None:
    assert entries("low_precision_weights", **precision) == LAYERS * MATRICES * bytes_per_element


@pytest.mark.parametrize(
    ("runtime", "said"), [("megatron_lm", False), ("torchtitan", False), ("hf_trainer", True)]
)
def test_only_fp8_of_an_unknown_library_is_approximate(runtime: str, *, said: bool) -> None:
    training = {"precision": {"fp8": "tensorwise"}}
    resolved, model, _ = cases.shares(cases.LLAMA_8B, runtime={"name": runtime}, training=training)
    assert (("training.precision.fp8", "fp8_as_compute_dtype") in not_modelled(resolved, model)) is said


def test_torchaos_products_keep_what_they_were_given() -> None:
    assert entries("saved_activations", "torchtitan", fp8="rowwise") == entries(
        "saved_activations", "torchtitan"
    )
