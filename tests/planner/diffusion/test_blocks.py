"""What blocks keep and work with, held against the classes of diffusers themselves."""

import json
from pathlib import Path
from typing import Any

import pytest

from planner.diffusion.forms import merged, widths_of
from planner.diffusion.operations import Trace, Trains
from planner.diffusion.programs import PROGRAMS
from planner.diffusion.tape import Tape
from planner.memory.terms import per_token
from planner.model.decoder import grouped
from planner.model.spec import Latents, Layer, Linear, Mlp, MlpKind, ModelSpec, Part, Structure

MEASURED = json.loads((Path(__file__).parent / "blocks.json").read_text(encoding="utf-8"))["rows"]
CROSSED = {"wan", "ltx"}
ADAPTED = ("to_q", "to_k", "to_v", "to_out.0")
NOT_FUSED = {"cogvideox"}
"""Blocks whose layer norms of heads keep 16-bit statistics on a CPU, fp32 ones on a GPU."""


def _layer(row: dict[str, Any]) -> tuple[Layer, ModelSpec]:
    layer = Layer(
        attention=grouped(row["heads"], row["heads"], row["hidden"] // row["heads"]),
        mlp=Mlp(kind=MlpKind.PLAIN, intermediate_size=row["inner"], gated=False),
        linears=_text_matrices(row),
        program=row["program"],
    )
    latents = Latents(
        pixels_per_token=16,
        channels=64,
        text_tokens=row["text_tokens"],
        text_width=64,
        joint=row["program"] not in CROSSED,
    )
    model = ModelSpec(
        model_type="flux",
        structure=Structure.DENOISER,
        hidden_size=row["hidden"],
        vocab_size=0,
        layers=(layer,),
        embedding_params=0,
        latents=latents,
    )
    return layer, model


def _text_matrices(row: dict[str, Any]) -> tuple[Linear, ...]:
    """Those that tell how wide the text's stream is."""
    if "text_hidden" not in row:
        return ()
    widths = {"attn1.add_q_proj": row["text_hidden"], "ff_context.net.2": row["text_inner"]}
    return tuple(
        Linear(name=name, in_features=width, out_features=row["hidden"], part=Part.OTHER)
        for name, width in widths.items()
    )


def _sites() -> frozenset[str]:
    prefixes = ("attn", "attn1", "attn2", "attention")
    return frozenset(f"{prefix}.{name}" for prefix in prefixes for name in ADAPTED)


TRAINS = {
    "full": Trains(full=True),
    "lora": Trains(sites=_sites()),
    "lorabf": Trains(sites=_sites(), adapter_bytes=2),
    "nograd": Trains(),
}


def _worked_out(row: dict[str, Any], trains: Trains) -> tuple[Trace, dict[str, float]]:
    layer, model = _layer(row)
    sequence = row["image_tokens"] + (0 if row["program"] in CROSSED else row["text_tokens"])
    widths = widths_of(layer, model, sequence, batch=2, rank=16)
    tape = Tape(2, trains)
    write, shape = PROGRAMS[row["program"]]
    return tape.worked_out(write(tape, shape), widths), widths


def _name(row: dict[str, Any]) -> str:
    return f"{row['program']}-{row['mode']}"


@pytest.mark.parametrize("row", MEASURED, ids=_name)
def test_a_block_keeps_what_its_class_keeps(row: dict[str, Any]) -> None:
    trace, widths = _worked_out(row, TRAINS[row["mode"]])
    unit = row["hidden"] * 2
    if row["mode"] == "nograd":
        assert trace.plain.bytes / unit == pytest.approx(row["plain"], rel=0.11)
        return
    tolerance = 0.007 if row["program"] in NOT_FUSED else 0.0015
    assert per_token(trace.kept, widths) / unit == pytest.approx(row["kept"], rel=tolerance)
    if "backward" in row:
        assert trace.backward.bytes / unit == pytest.approx(row["backward"], rel=0.04)


def test_every_width_can_stand_in_a_formula() -> None:
    for row in MEASURED:
        assert all(name.isidentifier() for name in _worked_out(row, TRAINS["full"])[1] if name)


def test_every_program_is_measured() -> None:
    alike = {"joint_normed": "joint_normed_last"}
    measured = {row["program"] for row in MEASURED}
    assert {alike.get(name, name) for name in PROGRAMS} == measured


def test_nothing_is_kept_where_nothing_is_trained_and_no_gradient_comes() -> None:
    tape = Tape(2, Trains())
    x = tape.given("h", flows=False)
    y = tape.linear(tape.activation(x), "up", "i", "w_up")
    trace = tape.worked_out([y], {"h": 4, "i": 16, "": 1})
    assert trace.kept == {}
    assert trace.plain.bytes == 2 * 4 + 2 * 16


def test_dora_keeps_the_base_and_the_adapter_beside_lora() -> None:
    row = next(row for row in MEASURED if row["program"] == "flux_single")
    lora, widths = _worked_out(row, Trains(sites=_sites()))
    dora, _ = _worked_out(row, Trains(sites=_sites(), dora=True))
    more = per_token(dora.kept, widths) - per_token(lora.kept, widths)
    assert more == 3 * row["hidden"] * (2 + 4)


def test_streams_that_keep_alike_are_shown_as_one() -> None:
    assert merged({"h_image": 2, "h_text": 2, "i_image": 4, "": 0}) == {"h": 2, "i_image": 4}
    assert merged({"h_image": 2, "h_text": 6}) == {"h_image": 2, "h_text": 6}
