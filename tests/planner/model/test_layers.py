"""What is inside a model: names, shapes, splits, windows, states, blocks."""

from collections import Counter

import pytest

from planner.model import ModelSpec, linears, model_from_config, model_from_row
from planner.model.spec import Attention, AttentionKind, Layer, MlpKind, Part, Split, Structure
from tests.planner.model.samples import DEEPSEEK_V3, LLAMA, MEGATRON, MIXTRAL, ROOT, catalogue, read_lines

ROWS = {str(row["id"]): row for row in catalogue()}
QWEN35_27B = "Qwen/Qwen3.5-27B"


def _row(name: str) -> ModelSpec:
    return model_from_row(ROWS[name])


def _shapes(layer: Layer) -> dict[str, tuple[int, int, Split]]:
    return {linear.name: (linear.in_features, linear.out_features, linear.split) for linear in layer.linears}


def test_llama_matrices() -> None:
    spec = model_from_config(LLAMA, model_id="x/y")
    assert spec.id == "x/y"
    assert _shapes(spec.layers[0]) == {
        "q_proj": (4096, 4096, Split.COLUMN),
        "k_proj": (4096, 1024, Split.COLUMN),
        "v_proj": (4096, 1024, Split.COLUMN),
        "o_proj": (4096, 4096, Split.ROW),
        "gate_proj": (4096, 14336, Split.COLUMN),
        "up_proj": (4096, 14336, Split.COLUMN),
        "down_proj": (14336, 4096, Split.ROW),
    }
    assert spec.layers[0].norm_params == 2 * 4096
    assert spec.layers[0].vector_params == 0
    assert spec.params_total == 8_030_261_248
    assert spec.head is not None
    assert (spec.head.name, spec.head.split, spec.head.quantizable) == ("lm_head", Split.VOCAB, False)


def test_equal_layers_are_one_object() -> None:
    assert len({id(layer) for layer in _row("meta-llama/Llama-3.1-405B").layers}) == 1
    assert len({id(layer) for layer in model_from_config(DEEPSEEK_V3).layers}) == 2
    assert len({id(layer) for layer in _row("google/gemma-3-27b-pt").layers}) == 2
    distinct = model_from_config(DEEPSEEK_V3).distinct_layers()
    assert [count for _, count in distinct] == [3, 58]


def test_linears_count_what_the_layers_hold() -> None:
    spec = model_from_config(DEEPSEEK_V3)
    in_linears = sum(linear.params for _, linear in linears(spec))
    small = sum(layer.norm_params + layer.vector_params for layer in spec.layers)
    assert in_linears + small == sum(layer.params for layer in spec.layers)
    assert {index for index, _ in linears(spec)} == set(range(61))


def test_the_linears_of_both_sides_are_numbered_through() -> None:
    spec = _row("google-t5/t5-small")
    assert spec.structure is Structure.ENCODER_DECODER
    found = list(linears(spec))
    assert {index for index, _ in found} == set(range(12))
    assert {name.name for index, name in found if index == 0} == {"q", "k", "v", "o", "wi", "wo"}
    assert "EncDecAttention.k" in {name.name for index, name in found if index == 11}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("distilgpt2", {"c_attn", "c_proj", "c_fc"}),
        ("EleutherAI/pythia-70m", {"query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"}),
        ("baichuan-inc/Baichuan2-7B-Base", {"W_pack", "o_proj", "gate_proj", "up_proj", "down_proj"}),
        ("microsoft/Phi-3-mini-4k-instruct", {"qkv_proj", "o_proj", "gate_up_proj", "down_proj"}),
        ("mosaicml/mpt-7b", {"Wqkv", "out_proj", "up_proj", "down_proj"}),
        ("internlm/internlm2-7b", {"wqkv", "wo", "w1", "w2", "w3"}),
        ("THUDM/chatglm3-6b", {"query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"}),
        ("answerdotai/ModernBERT-base", {"Wqkv", "Wo", "Wi"}),
        ("facebook/opt-125m", {"q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"}),
        ("microsoft/phi-1_5", {"q_proj", "k_proj", "v_proj", "dense", "fc1", "fc2"}),
        ("bigcode/starcoder2-3b", {"q_proj", "k_proj", "v_proj", "o_proj", "c_fc", "c_proj"}),
    ],
)
def test_matrices_have_their_own_names(name: str, expected: set[str]) -> None:
    assert {linear.name for linear in _row(name).layers[0].linears} == expected


def test_fused_projections_are_as_wide_as_their_parts() -> None:
    shape = _row("microsoft/Phi-3-medium-4k-instruct").layers[0]
    assert _shapes(shape)["qkv_proj"][1] == shape.attention.q_width + 2 * shape.attention.k_width
    assert _shapes(shape)["gate_up_proj"][1] == 2 * shape.mlp.intermediate_size


def test_experts_are_copies_and_the_router_is_not_quantized() -> None:
    layer = model_from_config(MIXTRAL).layers[0]
    assert (layer.mlp.kind, layer.mlp.num_experts, layer.mlp.experts_per_token) == (MlpKind.MOE, 8, 2)
    experts = [linear for linear in layer.linears if linear.part is Part.EXPERTS]
    assert {linear.name for linear in experts} == {"experts.w1", "experts.w2", "experts.w3"}
    assert {linear.copies for linear in experts} == {8}
    (router,) = [linear for linear in layer.linears if linear.part is Part.ROUTER]
    assert (router.name, router.out_features, router.quantizable) == ("gate", 8, False)
    assert layer.idle_expert_params == 6 * 3 * 4096 * 14336


def test_latent_attention_keeps_its_down_projections_whole() -> None:
    layer = model_from_config(DEEPSEEK_V3).layers[-1]
    shapes = _shapes(layer)
    assert shapes["q_a_proj"] == (7168, 1536, Split.NONE)
    assert shapes["kv_a_proj_with_mqa"] == (7168, 576, Split.NONE)
    assert shapes["q_b_proj"] == (1536, 128 * 192, Split.COLUMN)
    assert shapes["kv_b_proj"] == (512, 128 * 256, Split.COLUMN)
    assert shapes["o_proj"] == (128 * 128, 7168, Split.ROW)
    attention = layer.attention
    assert (attention.kind, attention.kv_lora_rank, attention.qk_rope_head_dim) == (
        AttentionKind.MLA,
        512,
        64,
    )
    assert layer.part_params(Part.SHARED_EXPERTS) == 3 * 7168 * 2048
    assert layer.part_params(Part.NORM) == 2 * 7168 + 1536 + 512


def test_layers_that_are_in_the_checkpoint_only() -> None:
    spec = model_from_config(DEEPSEEK_V3)
    (block,) = spec.blocks
    assert (block.name, block.stage, block.counted) == ("mtp", "last", False)
    assert block.params == spec.layers[-1].params + 2 * 7168 * 7168 + 3 * 7168
    assert spec.params_total == 671_026_404_352


def _windows(spec: ModelSpec) -> list[int | None]:
    return [layer.attention.window for layer in spec.layers]


def test_windows() -> None:
    assert _windows(_row("mistralai/Mistral-7B-v0.1")) == [4096] * 32
    assert _windows(_row("openai/gpt-oss-20b")) == [128, None] * 12
    assert _windows(_row("google/gemma-2-2b")) == [4096, None] * 13
    assert _windows(_row("google/gemma-3-270m")) == ([512] * 5 + [None]) * 3
    assert _windows(_row("CohereForAI/c4ai-command-r7b-12-2024")) == ([4096] * 3 + [None]) * 8
    assert _windows(_row("Qwen/Qwen2.5-7B")) == [None] * 28
    llama4 = _row("meta-llama/Llama-4-Scout-17B-16E-Instruct")
    assert _windows(llama4) == ([8192] * 3 + [None]) * 12
    assert llama4.layers[0].attention.kind is AttentionKind.CHUNKED


def test_a_list_of_layer_types_decides() -> None:
    types = ["sliding_attention", "full_attention"] * 16
    spec = model_from_config({**LLAMA, "layer_types": types, "sliding_window": 77})
    assert _windows(spec) == [77, None] * 16


def test_qwen2_slides_only_where_told_to() -> None:
    config = {**LLAMA, "model_type": "qwen2", "sliding_window": 64, "max_window_layers": 30}
    assert _windows(model_from_config({**config, "use_sliding_window": False})) == [None] * 32
    assert _windows(model_from_config({**config, "use_sliding_window": True})) == [None] * 30 + [64] * 2


def test_keys_and_values_of_every_kind() -> None:
    heads = {name: _row(name).layers[-1].attention for name in ("tiiuae/falcon-7b", "EleutherAI/gpt-j-6b")}
    assert heads["tiiuae/falcon-7b"].num_kv_heads == 1
    assert heads["EleutherAI/gpt-j-6b"].num_kv_heads == 16
    assert _row("bigcode/santacoder").layers[0].attention.k_width == 128
    mimo = _row("XiaomiMiMo/MiMo-V2-Flash")
    assert [layer.attention.num_kv_heads for layer in mimo.layers[:3]] == [4, 8, 8]
    assert (mimo.layers[0].attention.k_width, mimo.layers[0].attention.v_width) == (4 * 192, 4 * 128)


def test_gated_delta_net_state_is_what_llama_cpp_prints() -> None:
    """149.6 MiB a slot for the 64-layer 27B: 48 layers of state and three inputs each, in 32 bits."""
    spec = _row(QWEN35_27B)
    linear = [layer.attention for layer in spec.layers if layer.attention.kind is AttentionKind.LINEAR]
    assert len(linear) == 48
    assert linear[0].state_elements == 48 * 128 * 128
    assert linear[0].conv_state_elements == (2 * 16 * 128 + 48 * 128) * 3
    slot_bytes = 4 * sum(shape.state_elements + shape.conv_state_elements for shape in linear)
    assert slot_bytes / 2**20 == pytest.approx(149.6, abs=0.05)


def test_other_states() -> None:
    mamba = _row("state-spaces/mamba-2.8b-hf").layers[0].attention
    assert (mamba.kind, mamba.state_elements, mamba.conv_state_elements) == (
        AttentionKind.STATE_SPACE,
        5120 * 16,
        5120 * 3,
    )
    nemotron = _states("nvidia/Nemotron-H-56B-Base-8K", AttentionKind.STATE_SPACE)
    assert nemotron.state_elements == 256 * 64 * 256
    assert nemotron.conv_state_elements == (256 * 64 + 2 * 8 * 256) * 3
    assert _states("MiniMaxAI/MiniMax-Text-01", AttentionKind.LINEAR).state_elements == 64 * 128 * 128
    kimi = _states("moonshotai/Kimi-Linear-48B-A3B-Instruct", AttentionKind.LINEAR)
    assert (kimi.state_elements, kimi.conv_state_elements) == (32 * 128 * 128, 3 * 32 * 128 * 3)
    lfm2 = _states("LiquidAI/LFM2-8B-A1B", AttentionKind.CONVOLUTION)
    assert (lfm2.state_elements, lfm2.conv_state_elements) == (0, 2048 * 2)


def _states(name: str, kind: AttentionKind) -> Attention:
    return next(layer.attention for layer in _row(name).layers if layer.attention.kind is kind)


def test_attention_layers_keep_no_state() -> None:
    for layer in _row(QWEN35_27B).layers:
        attention = layer.attention
        assert (attention.kind is AttentionKind.LINEAR) == (attention.state_elements > 0)


def test_the_gate_of_qwen35_doubles_the_query_projection() -> None:
    layer = _row(QWEN35_27B).layers[3]
    assert layer.attention.q_width == 24 * 256
    assert _shapes(layer)["q_proj"][1] == 2 * 24 * 256
    assert _shapes(layer)["o_proj"][0] == 24 * 256


def test_compressed_attention() -> None:
    layers = _row("deepseek-ai/DeepSeek-V4-Flash").layers
    ratios = Counter(layer.attention.compress_ratio for layer in layers)
    assert ratios == {0: 2, 4: 21, 128: 20}
    for layer in layers:
        shape = layer.attention
        assert (shape.window, shape.num_kv_heads, shape.head_dim, shape.kv_tied) == (128, 1, 512, True)
        assert shape.index_head_dim == (128 if shape.compress_ratio == 4 else 0)


def test_an_indexer_in_every_layer_or_in_some() -> None:
    assert all(layer.attention.index_head_dim == 128 for layer in _row("zai-org/GLM-5").layers)
    some = [layer.attention.index_head_dim for layer in _row("zai-org/GLM-5.2").layers]
    assert some[:7] == [128, 128, 128, 0, 0, 0, 128]
    assert some.count(128) == 21


def test_layers_that_reuse_a_cache() -> None:
    spec = _row("google/gemma-3n-E4B")
    assert [layer.attention.shares_kv for layer in spec.layers] == [False] * 20 + [True] * 15
    assert "k_proj" not in _shapes(spec.layers[-1])
    assert {block.name for block in spec.blocks} == {"per_layer_embeddings", "altup"}


def test_gemma4_full_layers_have_wider_heads() -> None:
    spec = _row("google/gemma-4-31B-it")
    sliding, full = spec.layers[0], spec.layers[5]
    assert (sliding.attention.head_dim, sliding.attention.num_kv_heads) == (256, 16)
    assert (full.attention.head_dim, full.attention.num_kv_heads) == (512, 4)
    assert "v_proj" in _shapes(sliding)
    assert "v_proj" not in _shapes(full)


def test_longcat_layers_count_as_they_cache() -> None:
    spec = _row("meituan-longcat/LongCat-Flash-Chat")
    assert spec.num_layers == 56
    assert [layer.mlp.kind for layer in spec.layers[:2]] == [MlpKind.MOE, MlpKind.GATED]
    assert spec.layers[0].mlp.experts_per_token == 8  # of 12 visits a third falls on identity experts


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"gated_mlp": False}, -32 * 4096 * 14336),
        ({"mlp_bias": True}, 32 * (2 * 14336 + 4096)),
        ({"attention_bias": True}, 32 * (4096 + 2 * 1024 + 4096)),
        ({"qk_norm": True}, 32 * 2 * 128),
        ({"norm": "layer_norm"}, (2 * 32 + 1) * 4096),
        ({"tie_word_embeddings": True}, -4096 * 128256),
    ],
)
def test_keys_of_the_config_beat_the_class(changes: dict[str, object], difference: int) -> None:
    plain = model_from_config(LLAMA).params_total
    assert model_from_config({**LLAMA, **changes}).params_total - plain == difference


def test_qwen2_has_biases_of_its_own() -> None:
    plain = model_from_config({**LLAMA, "model_type": "qwen2"})
    none = model_from_config({**LLAMA, "model_type": "qwen2", "attention_bias": False})
    assert plain.params_total - none.params_total == 32 * (4096 + 2 * 1024)


def test_megatron() -> None:
    spec = model_from_config(MEGATRON)
    layer = 4 * 512 * 512 + 4 * 512 + 2 * 512 * 2048 + 2048 + 512 + 4 * 512
    assert spec.params_total == 4 * layer + 1000 * 512 + 128 * 512 + 2 * 512
    assert set(_shapes(spec.layers[0])) == {"linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"}
    assert spec.position_embedding == "learned"
    rope = model_from_config({**MEGATRON, "position_embedding": "rope", "norm": "rms_norm"})
    assert spec.params_total - rope.params_total == 128 * 512 + (2 * 4 + 1) * 512
    normed = model_from_config({**MEGATRON, "qk_layernorm": True})
    assert normed.params_total - spec.params_total == 4 * 2 * 2 * 64


def test_megatron_with_experts() -> None:
    config = {**MEGATRON, "model_type": "megatron_moe", "num_experts": 4, "num_experts_per_tok": 2}
    layer = model_from_config(config).layers[0]
    assert layer.mlp.num_experts == 4
    assert layer.part_params(Part.EXPERTS) == 4 * (2 * 512 * 2048 + 2048 + 512)
    assert layer.part_params(Part.ROUTER) == 4 * 512


def test_megatron_latent_attention() -> None:
    latent = {
        "q_lora_rank": 192,
        "kv_lora_rank": 64,
        "qk_nope_head_dim": 16,
        "qk_rope_head_dim": 8,
        "v_head_dim": 16,
    }
    layer = model_from_config({**MEGATRON, **latent}).layers[0]
    shapes = _shapes(layer)
    assert shapes["linear_q_down_proj"] == (512, 192, Split.NONE)
    assert shapes["linear_kv_down_proj"] == (512, 72, Split.NONE)
    assert shapes["linear_kv_up_proj"] == (64, 8 * 32, Split.COLUMN)
    assert layer.norm_params == 2 * 2 * 512


def test_megatron_t5_and_bert() -> None:
    t5 = model_from_config({**MEGATRON, "model_type": "megatron_t5", "num_decoder_layers": 3})
    assert (len(t5.encoder_layers), len(t5.layers)) == (4, 3)
    assert t5.layers[0].cross_attention is not None
    assert t5.head_params == 1000
    bert = model_from_config({**MEGATRON, "model_type": "megatron_bert"})
    assert bert.structure is Structure.ENCODER
    assert {block.name for block in bert.blocks} == {"lm_head", "pooler"}


def test_nested_config() -> None:
    text = {key: value for key, value in LLAMA.items() if key != "tie_word_embeddings"}
    spec = model_from_config({"model_type": "llava", "text_config": text, "tie_word_embeddings": True})
    assert spec.model_type == "llava"
    assert spec.tie_word_embeddings
    assert spec.approximate == ("vision_tower_not_counted",)
    assert spec.params_total == 8_030_261_248 - 4096 * 128256


def test_an_unknown_tower_is_left_out_and_said_so() -> None:
    spec = model_from_config(
        {
            "model_type": "llava",
            "text_config": LLAMA,
            "vision_config": {"model_type": "next_tower", "hidden_size": 3},
        }
    )
    assert spec.blocks == ()
    assert spec.approximate == ("vision_tower_not_counted",)


def test_towers_of_published_configs_are_the_catalogues() -> None:
    compared = set()
    for name in ("serving", "serving_fits"):
        for record in read_lines(ROOT / "tests" / "data" / "truth" / f"{name}.jsonl"):
            scenario = record["scenario"]
            assert isinstance(scenario, dict)
            row = ROWS.get(scenario["model"].get("id"))
            config = scenario["model"].get("config") or {}
            if row is None or not row["vision_params"] or "vision_config" not in config:
                continue
            around = [block for block in model_from_config(config).blocks if block.counted]
            assert sum(block.params for block in around) == row["vision_params"]
            compared.add(row["id"])
    assert len(compared) >= 3


def test_the_config_is_kept_as_text() -> None:
    config = model_from_config({**LLAMA, "rope_scaling": {"factor": 8.0}}).config
    assert list(config) == sorted(config)
    assert dict(config)["rope_scaling"] == '{"factor": 8.0}'
    assert dict(config)["hidden_size"] == "4096"
