"""Weights by format and by device, against closed forms and what engines print."""

from __future__ import annotations

from typing import Any

import pytest

from planner.estimate import plan
from planner.ledger import Category, Layer, Ledger, Phase
from planner.memory.serving_gguf import MIXTURES, linear_type, mixture, more_bits
from planner.memory.serving_llama import files_of
from planner.memory.serving_weights import divided_weights
from planner.memory.weight_formats import (
    FORMATS,
    UNMEASURED,
    base_type,
    declared_format,
    engine_format,
    weight_format,
)
from planner.model.from_config import model_from_config
from planner.model.spec import Linear, Part, Split
from planner.serving.readings import serving_readings
from planner.units import MIB
from tests.planner.serving.cases import (
    DEEPSEEK_V3,
    QWEN3_4B,
    QWEN3_30B_A3B,
    Config,
    gpt_oss,
    llama,
    scenario,
    serve,
    tables,
    truth,
    truth_scenario,
)
from tests.planner.serving.test_architectures import MIXTRAL

EIGHT_B = 8_030_261_248
LINEARS = 32 * (4096 * (4096 + 2 * 1024 + 4096) + 3 * 4096 * 14336)
EDGES = 2 * 128_256 * 4096
NORMS = 65 * 4096
ROPE = 131_072 * 128 * 2


def weights(ledger: Ledger, *names: str) -> int:
    return sum(
        e.bytes for e in ledger.entries if e.category is Category.WEIGHTS and (not names or e.name in names)
    )


def test_the_parts_of_llama_add_up_to_its_parameters() -> None:
    assert LINEARS + EDGES + NORMS == EIGHT_B


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("fp32", EIGHT_B * 4 + 2 * ROPE),
        ("bf16", EIGHT_B * 2 + ROPE),
        ("fp16", EIGHT_B * 2 + ROPE),
        # one scale of 4 bytes per output row
        ("fp8", LINEARS + 4 * 32 * (4096 + 2 * 1024 + 4096 + 2 * 14336 + 4096) + (EDGES + NORMS) * 2 + ROPE),
        ("awq4", LINEARS * 66.5 / 128 + (EDGES + NORMS) * 2 + ROPE),
        ("gptq8", LINEARS * 131 / 128 + (EDGES + NORMS) * 2 + ROPE),
        ("nf4", LINEARS * 36 / 64 + (EDGES + NORMS) * 2 + ROPE),
        ("nvfp4", LINEARS * 9 / 16 + (EDGES + NORMS) * 2 + ROPE),
    ],
)
def test_weights_of_llama_by_format(name: str, size: float) -> None:
    """Page ends aside: they depend on the allocator, not on the format."""
    ledger = serve(llama(), weights=name).devices[0].ledger
    tails = ledger.total("weights_allocator_tail")
    assert weights(ledger) - tails == pytest.approx(size, abs=8)


@pytest.mark.parametrize(
    ("elements", "size"),
    [
        pytest.param(n, b, id=f"{name}-{b}-bytes-a-{n}")
        for name, n, b in [
            ("q4_0", 32, 18), ("q4_1", 32, 20), ("q5_0", 32, 22), ("q5_1", 32, 24), ("q8_0", 32, 34),
            ("q2_k", 256, 84), ("q3_k", 256, 110), ("q4_k", 256, 144), ("q5_k", 256, 176), ("q6_k", 256, 210),
            ("iq1_s", 256, 50), ("iq2_xxs", 256, 66), ("iq3_xxs", 256, 98), ("iq4_xs", 256, 136),
        ]
    ],
)  # fmt: skip
def test_ggml_blocks(elements: int, size: int, request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.id.rsplit("-bytes", 1)[0].rsplit("-", 1)[0]
    assert (FORMATS[name].elements, FORMATS[name].bytes) == (elements, size)


@pytest.mark.parametrize(
    ("name", "bits"),
    [("iq2_k", 2.375), ("iq3_k", 3.4375), ("iq4_k", 4.5), ("iq4_ks", 4.25), ("iq5_k", 5.5), ("iq6_k", 6.625)],
)
def test_bits_of_iks_types(name: str, bits: float) -> None:
    assert FORMATS[name].bits == bits


def test_interleaved_rows_take_the_same_bytes() -> None:
    assert base_type("iq3_k_r4") == "iq3_k"
    assert base_type("q8_0_r8") == "q8_0"
    assert base_type("iq1_s_r4") == "iq1_s_r4"  # a layout of its own, 1.5 bits


def test_every_mixture_names_types_that_exist() -> None:
    for name, mix in MIXTURES.items():
        roles = (
            mix.base,
            mix.output,
            mix.embedding,
            mix.value,
            mix.value_wide,
            mix.value_more,
            mix.value_first,
        )
        more = (mix.down, mix.down_more, mix.down_first, mix.attention_output, mix.fused)
        assert {role for role in (*roles, *more) if role} <= set(FORMATS), name


@pytest.mark.parametrize("name", sorted(UNMEASURED))
def test_a_type_without_a_documented_size_is_none(name: str) -> None:
    assert weight_format(name) is None
    assert mixture(name) is None


def test_layers_that_the_medium_mixtures_raise() -> None:
    assert [i for i in range(32) if more_bits(i, 32)] == [
        0,
        1,
        2,
        3,
        6,
        9,
        12,
        15,
        18,
        21,
        24,
        27,
        28,
        29,
        30,
        31,
    ]


@pytest.mark.parametrize(
    ("config", "name", "file_bytes"),
    [
        # llama.cpp prints 2375.91 MiB on the card and 304.28 on the host, where the tied embedding stays
        pytest.param(QWEN3_4B, "q4_k_m", 2_491_296_768, id="qwen3-4b-q4_k_m-2375.91-MiB-on-the-card"),
        pytest.param(llama(), "q4_0", 4_357_871_370, id="llama-3.1-8b-q4_0-4156.00-MiB-on-the-card"),
        pytest.param(
            llama(), "q8_0", 34 * (EIGHT_B - EDGES // 2 - NORMS) // 32 + 4 * NORMS, id="llama-3.1-8b-q8_0"
        ),
    ],
)
def test_gguf_weights_on_the_card(config: Config, name: str, file_bytes: int) -> None:
    ledger = serve(config, "llama_cpp", weights=name, gpu_layers=99, max_model_len=4096).devices[0].ledger
    assert weights(ledger) == pytest.approx(file_bytes, rel=2e-5)


def test_ik_r1_without_experts_on_the_card() -> None:
    """Published: 17744.00 MiB for all but routed experts and the embedding, in Q8_0, routers in F32."""
    plan = serve(
        DEEPSEEK_V3, "ik_llama_cpp", gpu="rtx-6000-ada-48gb", weights="q8_0", expert_weights="iq4_k_r4",
        weights_file_bytes=414_660_838_818, host_experts=True, gpu_layers=62, mla_mode=3, max_model_len=32768,
    )  # fmt: skip
    assert weights(plan.devices[0].ledger) / MIB == pytest.approx(17744.0, abs=0.5)


def test_a_file_size_settles_an_undocumented_type() -> None:
    plan = serve(llama(), "llama_cpp", weights="pq2_0", weights_file_bytes=3_000_000_000, max_model_len=4096)
    assert plan.serving is not None
    on_card = weights(plan.devices[0].ledger)
    assert on_card + plan.serving.host.weights_bytes == pytest.approx(3_000_000_000, abs=16)
    assert not any(issue.code == "not_modelled" for issue in plan.issues)


def test_an_undocumented_type_without_a_file_size_warns() -> None:
    plan = serve(llama(), "llama_cpp", weights="pq2_0", max_model_len=4096)
    assert ("not_modelled", "serving.weights") in {(i.code, i.field) for i in plan.issues}


# --- what the config says about itself


@pytest.mark.parametrize(
    ("quantization", "name"),
    [
        ({"quant_method": "awq", "bits": 4, "group_size": 64}, "awq4"),
        ({"quant_method": "gptq", "bits": 4}, "gptq4"),
        ({"quant_method": "gptq", "bits": 8}, "gptq8"),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "nf4"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8"),
        ({"quant_method": "something new"}, None),
    ],
)
def test_declared_formats(quantization: dict[str, Any], name: str | None) -> None:
    assert declared_format(model_from_config(llama(quantization_config=quantization))) == name


def test_declared_group_and_block_sizes_count() -> None:
    awq = model_from_config(llama(quantization_config={"quant_method": "awq", "bits": 4, "group_size": 64}))
    found = engine_format("awq4", awq)
    assert found is not None
    assert (found.elements, found.bytes) == (64, 34.5)
    block = model_from_config(
        llama(quantization_config={"quant_method": "fp8", "weight_block_size": [128, 128]})
    )
    scaled = engine_format("fp8", block)
    assert scaled is not None
    assert scaled.bytes - scaled.elements == 4


def test_the_default_format_is_the_configs_own() -> None:
    assert serve(llama(torch_dtype="float16")).resolved.serving.weights == "fp16"
    assert serve(llama(torch_dtype="float32")).resolved.serving.weights == "bf16"
    assert serve(llama(torch_dtype="float32"), "transformers").resolved.serving.weights == "fp32"
    quantized = llama(quantization_config={"quant_method": "gptq", "bits": 4})
    assert serve(quantized).resolved.serving.weights == "gptq4"


@pytest.mark.parametrize(
    ("version", "tensor", "inner"), [("0.11.0", 1, 2880), ("0.11.0", 2, 1472), ("0.19.0", 2, 1536)]
)
def test_mxfp4_is_for_experts_only(version: str, tensor: int, inner: int) -> None:
    """Triton on Hopper: a rank's inner size padded, and the scales a second time in tiles of 256 rows."""
    made = serve(gpt_oss(24, 32), weights="mxfp4", version=version, count=tensor, parallel={"tensor": tensor})
    ledger = made.devices[0].ledger
    experts, count = 3 * inner * 2880, 24 * 32
    biases = count * (2 * 2880 // tensor + 2880)
    assert ledger.total("weights_experts") == count * experts * 17 // 32 + 2 * biases
    tiles = -(-2 * inner // 256) * 256 * 2880 + 3072 * inner
    assert ledger.total("expert_scales") == count * tiles // 32 + 2 * biases
    assert ledger.total("weights_embedding") == 201_088 * 2880 * 2 // tensor
    assert made.worst.ledger.phase_bytes(Phase.LOAD, Layer.ALLOCATED) < ledger.phase_bytes(
        Phase.REST, Layer.ALLOCATED
    )


# --- division


def test_two_ranks_hold_half_each_and_norms_twice() -> None:
    ledger = serve(llama(), count=2, parallel={"tensor": 2}, weights="bf16").devices[0].ledger
    assert weights(ledger) - ROPE - ledger.total("weights_allocator_tail") == (EIGHT_B - NORMS) + 2 * NORMS


@pytest.mark.parametrize("tensor", [1, 2, 4, 8, 16, 32])
def test_key_and_value_heads_are_repeated_beyond_their_number(tensor: int) -> None:
    key = next(la for la in model_from_config(llama()).layers[0].linears if la.name == "k_proj")
    held = divided_weights(key, model_from_config(llama()).layers[0], tensor)
    assert held == 4096 * 128 * max(1, 8 // tensor)


def test_a_divided_vocabulary_is_padded_first() -> None:
    head = Linear(name="lm_head", in_features=8, out_features=130, part=Part.HEAD, split=Split.VOCAB)
    assert divided_weights(head, None, 1) == 130 * 8
    assert divided_weights(head, None, 4) == 192 // 4 * 8


def test_pipeline_stages_hold_their_own_ends() -> None:
    plan = serve(llama(), count=4, parallel={"pipeline": 4}, weights="bf16")
    first, second, third, last = (device.ledger for device in plan.devices)
    assert first.total("weights_embedding") == last.total("weights_head") == EDGES
    assert (
        second.total("weights_embedding", "weights_head")
        == third.total("weights_embedding", "weights_head")
        == 0
    )
    together = sum(
        weights(ledger) - ledger.total("rope_cache", "weights_allocator_tail")
        for ledger in (first, second, third, last)
    )
    assert together == EIGHT_B * 2


def test_a_tied_head_is_held_twice_over_a_pipeline() -> None:
    one = serve(QWEN3_4B, weights="bf16").devices[0].ledger
    assert one.total("weights_head") == 0
    plan = serve(QWEN3_4B, count=2, parallel={"pipeline": 2}, weights="bf16")
    assert plan.devices[1].ledger.total("weights_head") == 151_936 * 2560 * 2


def test_experts_are_divided_by_whole_experts() -> None:
    divided = (
        serve(QWEN3_30B_A3B, count=4, parallel={"tensor": 4, "expert": 4}, weights="bf16").devices[0].ledger
    )
    alone = serve(QWEN3_30B_A3B, weights="bf16").devices[0].ledger
    assert divided.total("weights_experts") * 4 == alone.total("weights_experts")


def test_a_vision_tower_is_divided_and_its_projector_is_not() -> None:
    record = next(r for r in truth("serving.jsonl") if "llama-4-scout" in r["id"])
    model = record["scenario"]["model"]["config"]
    blocks = {block.name: block.params for block in model_from_config(model).blocks}
    ledger = serve(model, count=4, parallel={"tensor": 4}, weights="bf16").devices[0].ledger
    expected = (-(-blocks["vision_tower"] // 4) + blocks["projector"]) * 2
    assert ledger.total("weights_other") == expected


# --- beside the checkpoint


@pytest.mark.parametrize(
    ("config", "layers"),
    [
        # gemma-2-2b prints 26 MiB, Qwen2.5-3B 36 MiB more than its parameters: 1 MiB a layer
        pytest.param(llama(hidden_size=2304, intermediate_size=9216, num_hidden_layers=26, head_dim=256,
                           num_attention_heads=8, num_key_value_heads=4), 26, id="gate-up-of-81-MiB"),
        pytest.param(llama(hidden_size=2048, intermediate_size=11008, num_hidden_layers=36,
                           num_attention_heads=16, num_key_value_heads=2), 36, id="down-of-43-MiB"),
        pytest.param(llama(), 0, id="llama-3.1-8b-all-in-whole-pages"),
    ],
)  # fmt: skip
def test_page_ends_that_are_not_split_off(config: Config, layers: int) -> None:
    ledger = serve(config, weights="bf16").devices[0].ledger
    assert ledger.total("weights_allocator_tail") == layers * MIB


def test_linear_scaling_stretches_the_rotary_table() -> None:
    plain = serve(llama()).devices[0].ledger.total("rope_cache")
    scaled = (
        serve(llama(rope_scaling={"rope_type": "linear", "factor": 8.0}))
        .devices[0]
        .ledger.total("rope_cache")
    )
    yarn = (
        serve(llama(rope_scaling={"rope_type": "yarn", "factor": 8.0})).devices[0].ledger.total("rope_cache")
    )
    assert (plain, scaled, yarn) == (ROPE, 8 * ROPE, ROPE)


def test_latent_attention_keeps_its_decompression_twice() -> None:
    ledger = serve(DEEPSEEK_V3, count=8, parallel={"tensor": 8}, weights="fp8").devices[0].ledger
    assert ledger.total("absorbed_latent") == 61 * 16 * (128 + 128) * 512 * 2
    old = serve(DEEPSEEK_V3, count=8, parallel={"tensor": 8}, version="0.6.0").devices[0].ledger
    assert old.total("absorbed_latent") == 0


def types_of(config: Config, name: str, runtime: str = "llama_cpp") -> dict[tuple[str, int], str]:
    """GGUF type by name and layer of every matrix but routers."""
    model = model_from_config(config)
    mix = files_of(scenario(config, runtime, weights=name), model).base
    return {
        (linear.name, index): linear_type(linear, layer, index, model, mix).id
        for index, layer in enumerate(model.layers)
        for linear in layer.linears
    }


def test_eight_experts_raise_keys_values_and_the_attention_output() -> None:
    """`llama_tensor_get_type`: of Mixtral Q8_0 and Q5_K, of others what the file type says."""
    config = MIXTRAL | {"num_hidden_layers": 8}
    found = types_of(config, "q4_k_m")
    assert {found[name, 1] for name in ("k_proj", "v_proj")} == {"q8_0"}
    assert found["o_proj", 1] == "q5_k"
    assert types_of(config, "q5_k_m")["o_proj", 1] == "q5_k"
    assert types_of(config, "q6_k")["v_proj", 1] == "q8_0"
    assert types_of(config, "iq2_xs")["k_proj", 1] == "q4_k"
    other = types_of(config | {"num_local_experts": 16}, "q4_k_m")
    assert (other["k_proj", 2], other["o_proj", 2]) == ("q4_k", "q4_k")


def test_values_of_a_70b_model_are_never_below_5_bits() -> None:
    config = llama(num_hidden_layers=80)
    assert {types_of(config, "q4_k_m")["v_proj", index] for index in range(80)} == {"q5_k", "q6_k"}
    assert {types_of(config, "q3_k_s")["v_proj", index] for index in range(80)} == {"q5_k"}
    assert "q4_k" in {types_of(llama(), "q4_k_m")["v_proj", index] for index in range(32)}


def test_three_bit_types_lower_queries_and_keys() -> None:
    small, larger = types_of(llama(), "iq3_xxs"), types_of(llama(), "iq3_xs")
    assert {small[name, 9] for name in ("q_proj", "k_proj")} == {"iq2_s"}
    assert {larger[name, 9] for name in ("q_proj", "k_proj", "gate_proj", "up_proj")} == {"iq3_xxs"}
    assert {larger[name, index] for name in ("gate_proj", "up_proj") for index in (0, 3, 28, 31)} == {"iq3_s"}


def test_ollama_raises_all_values_and_down_projections_of_delta_nets() -> None:
    """`qwen3LinearAttnQuantType` of Ollama's quantizer; published for Qwen3-Coder-Next: 19.9 and 28.3 GiB."""
    record = next(r for r in truth("serving.jsonl") if r["id"] == "ollama-qwen3-coder-next-24g")
    found = types_of(record["scenario"]["model"]["config"], "q4_k_m", "ollama")
    assert {kind for (name, _), kind in found.items() if "down" in name or name == "v_proj"} == {"q6_k"}
    assert {kind for (name, _), kind in found.items() if "gate_up" in name or name == "o_proj"} <= {"q4_k"}
    readings = serving_readings(plan(truth_scenario(record), tables()), 0)
    for name in ("weights_bytes", "host_weights_bytes"):
        assert readings[name] == pytest.approx(record["observed"][name], rel=0.002)
