"""Dense decoders that follow Llama's layout, each with what its class changes. Source: transformers 5.24 modeling files."""

from collections.abc import Callable
from functools import partial

from planner.model.decoder import build_decoder
from planner.model.fields import Fields
from planner.model.parts import AttentionNames, MlpNames
from planner.model.spec import ModelSpec
from planner.model.style import QkNorm, Slides, Style

_PHI_ATTENTION = AttentionNames(output="dense")
_PHI3_ATTENTION = AttentionNames(fused="qkv_proj")
_FC = MlpNames(up="fc1", down="fc2")
_C_FC = MlpNames(up="c_fc", down="c_proj")
_GATE_UP = MlpNames(fused="gate_up_proj")

STYLES: dict[str, Style] = {
    "llama": Style(),
    "granite": Style(),
    "mistral": Style(slides=Slides.ALWAYS),
    "ministral3": Style(slides=Slides.ALWAYS),
    "qwen2": Style(qkv_bias=True, output_follows=False, slides=Slides.FLAGGED),
    "qwen3": Style(qk_norm_default=True, slides=Slides.FLAGGED),
    "seed_oss": Style(qkv_bias=True, output_bias_key="attention_out_bias"),
    "smollm3": Style(tie=True, slides=Slides.FLAGGED),
    "gemma": Style(tie=True, hidden_act="gelu_pytorch_tanh"),
    "gemma2": Style(
        tie=True, norms=4, hidden_act="gelu_pytorch_tanh", slides=Slides.MOST, period=2, window=4096
    ),
    "gemma3_text": Style(
        tie=True,
        norms=4,
        hidden_act="gelu_pytorch_tanh",
        qk_norm_default=True,
        slides=Slides.MOST,
        period=6,
        window=4096,
    ),
    "glm": Style(qkv_bias=True, output_follows=False, mlp_names=_GATE_UP),
    "glm4": Style(qkv_bias=True, output_follows=False, norms=4, mlp_names=_GATE_UP),
    "olmo": Style(norm="layer_norm", norm_weight=False),
    "olmo2": Style(qk_norm=QkNorm.WIDTH, qk_norm_default=True),
    "olmo3": Style(qk_norm=QkNorm.WIDTH, qk_norm_default=True, slides=Slides.MOST, period=4, window=4096),
    "phi3": Style(attention_names=_PHI3_ATTENTION, mlp_names=_GATE_UP, slides=Slides.ALWAYS),
    "internlm3": Style(bias_key="qkv_bias", output_bias_key="bias", mlp_bias_key="bias"),
    "cohere": Style(
        tie=True, norm="layer_norm", norm_bias=False, norms=1, parallel=True,
        qk_norm=QkNorm.EACH_HEAD, qk_norm_key="use_qk_norm",
    ),
    "cohere2": Style(
        tie=True, norm="layer_norm", norm_bias=False, norms=1, parallel=True,
        slides=Slides.MOST, period=4, window=4096,
    ),
    "nemotron": Style(gated=False, norm="layer_norm", hidden_act="relu2"),
    "starcoder2": Style(
        gated=False, tie=True, norm="layer_norm", qkv_bias=True, output_bias=True, mlp_bias=True,
        bias_key="use_bias", mlp_bias_key="use_bias", mlp_names=_C_FC, hidden_act="gelu_pytorch_tanh",
        slides=Slides.ALWAYS,
    ),
    "phi": Style(
        gated=False, norm="layer_norm", norms=1, parallel=True, qkv_bias=True, output_bias=True, mlp_bias=True,
        head_bias=True, attention_names=_PHI_ATTENTION, mlp_names=_FC, hidden_act="gelu_new",
    ),
}

BUILDERS: dict[str, Callable[[Fields], ModelSpec]] = {
    name: partial(build_decoder, style=style) for name, style in STYLES.items()
}
