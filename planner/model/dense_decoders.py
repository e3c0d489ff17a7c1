"""Dense decoders that follow Llama's layout, and what each class changes.

Source: the modeling files of transformers 5.24, and for Baichuan, InternLM and MiniCPM the code in their
repositories.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from planner.model.decoder import build_decoder
from planner.model.fields import Fields
from planner.model.parts import AttentionNames, MlpNames
from planner.model.spec import ModelSpec
from planner.model.style import QkNorm, Slides, Style

_PHI_ATTENTION = AttentionNames(output="dense")
_FUSED_QKV = AttentionNames(fused="qkv_proj")
_FC = MlpNames(up="fc1", down="fc2")
_C_FC = MlpNames(up="c_fc", down="c_proj")
_GATE_UP = MlpNames(fused="gate_up_proj")
_W123 = MlpNames(gate="w1", up="w3", down="w2")

_QWEN2 = Style(qkv_bias=True, output_follows=False, slides=Slides.FLAGGED)
_QWEN3 = Style(qk_norm_default=True, slides=Slides.FLAGGED)
_GEMMA2 = Style(tie=True, norms=4, hidden_act="gelu_pytorch_tanh", slides=Slides.MOST, period=2, window=4096)
_GLM4 = Style(qkv_bias=True, output_follows=False, norms=4, mlp_names=_GATE_UP)
_COHERE = Style(tie=True, norm="layer_norm", norm_bias=False, norms=1, parallel=True)
_OLMO2 = Style(qk_norm=QkNorm.WIDTH, qk_norm_default=True)

STYLES: dict[str, Style] = {
    "llama": Style(),
    "granite": Style(),
    "minicpm": Style(tie=True),
    "mistral": Style(slides=Slides.ALWAYS),
    "ministral3": Style(slides=Slides.ALWAYS),
    "ministral": Style(slides=Slides.ALWAYS),
    "qwen2": _QWEN2,
    "qwen2_vl_text": _QWEN2,
    "qwen2_5_vl_text": _QWEN2,
    "mimo": _QWEN2,
    "qwen3": _QWEN3,
    "qwen3_vl_text": _QWEN3,
    "seed_oss": Style(qkv_bias=True, output_bias_key="attention_out_bias"),
    "smollm3": Style(tie=True, slides=Slides.FLAGGED),
    "arcee": Style(gated=False, hidden_act="relu2"),
    "ernie4_5": Style(tie=True, bias_key="use_bias", mlp_bias_key="use_bias"),
    "exaone4": Style(qk_norm_default=True, slides=Slides.MOST, period=4),
    "hunyuan_v1_dense": Style(qk_norm_default=True),
    "gemma": Style(tie=True, hidden_act="gelu_pytorch_tanh"),
    "gemma2": _GEMMA2,
    "gemma3_text": replace(_GEMMA2, period=6, qk_norm_default=True),
    "glm": Style(qkv_bias=True, output_follows=False, mlp_names=_GATE_UP),
    "glm4": _GLM4,
    "glm4v_text": _GLM4,
    "olmo": Style(norm="layer_norm", norm_weight=False),
    "olmo2": _OLMO2,
    "olmo3": replace(_OLMO2, slides=Slides.MOST, period=4, window=4096),
    "phi3": Style(attention_names=_FUSED_QKV, mlp_names=_GATE_UP, slides=Slides.ALWAYS),
    "internlm3": Style(bias_key="qkv_bias", mlp_bias_key="bias"),
    "internlm2": Style(
        qkv_bias=True,
        output_bias=True,
        bias_key="bias",
        attention_names=AttentionNames(fused="wqkv", output="wo"),
        mlp_names=_W123,
        head_name="output",
    ),
    "internlm": Style(qkv_bias=True, output_bias=True, bias_key="bias"),
    "baichuan": Style(attention_names=AttentionNames(fused="W_pack")),
    "cohere": replace(_COHERE, qk_norm=QkNorm.EACH_HEAD, qk_norm_key="use_qk_norm"),
    "cohere2": replace(_COHERE, slides=Slides.MOST, period=4, window=4096),
    "nemotron": Style(gated=False, norm="layer_norm", hidden_act="relu2"),
    "starcoder2": Style(
        gated=False,
        tie=True,
        norm="layer_norm",
        qkv_bias=True,
        output_bias=True,
        mlp_bias=True,
        bias_key="use_bias",
        mlp_bias_key="use_bias",
        mlp_names=_C_FC,
        hidden_act="gelu_pytorch_tanh",
        slides=Slides.ALWAYS,
    ),
    "phi": Style(
        gated=False,
        norm="layer_norm",
        norms=1,
        parallel=True,
        qkv_bias=True,
        output_bias=True,
        mlp_bias=True,
        head_bias=True,
        qk_norm_key="qk_layernorm",
        qk_norm_scale=2,
        attention_names=_PHI_ATTENTION,
        mlp_names=_FC,
        hidden_act="gelu_new",
    ),
}


def stablelm(f: Fields) -> ModelSpec:
    """StableLM: one norm less where attention and MLP run side by side."""
    parallel = f.flag("use_parallel_residual", default=False)
    style = Style(
        norm="layer_norm",
        norms=1 if parallel else 2,
        parallel=parallel,
        bias_key="use_qkv_bias",
        output_follows=False,
        qk_norm=QkNorm.EACH_HEAD,
        qk_norm_key="qk_layernorm",
    )
    return build_decoder(f, style)


def apertus(f: Fields) -> ModelSpec:
    """Apertus: plain MLPs whose activation (xIELU) has two parameters a layer."""
    spec = build_decoder(f, Style(gated=False, qk_norm_default=True, hidden_act="xielu"))
    made = {id(layer): replace(layer, vector_params=2) for layer, _ in spec.distinct_layers()}
    return replace(spec, layers=tuple(made[id(layer)] for layer in spec.layers))


BUILDERS: dict[str, Callable[[Fields], ModelSpec]] = {
    **{name: partial(build_decoder, style=style) for name, style in STYLES.items()},
    "stablelm": stablelm,
    "apertus": apertus,
}
