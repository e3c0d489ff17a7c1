"""Mixtures of experts with grouped-query attention.

Source: the modeling files of transformers 5.24; for Grok-1 and the first DeepSeek-MoE, the code in their
repositories. Routed experts carry the names of the checkpoints' modules (`experts.w1`,
`experts.gate_proj`), also where newer classes hold them in one tensor.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from planner.model.decoder import (
    build_decoder,
    decoder_spec,
    read_dense_feed,
    read_mixers,
    read_trunk,
    stack,
)
from planner.model.fields import EXPERTS, LAYERS, WIDTH, Fields
from planner.model.parts import (
    Feed,
    Mixer,
    MlpNames,
    moe_feed,
)
from planner.model.spec import ModelSpec
from planner.model.style import QkNorm, Slides, Style

_W123 = MlpNames(gate="w1", up="w3", down="w2")
_GATE_UP = MlpNames(fused="gate_up_proj")
_EXPERT_KEYS = ("num_experts", "num_local_experts", "n_routed_experts")


def read_routing(f: Fields, experts_keys: tuple[str, ...], top_keys: tuple[str, ...]) -> tuple[int, int]:
    """Routed experts and how many of them a token visits."""
    experts = f.size(*experts_keys, span=EXPERTS)
    top = f.size(*top_keys, span=EXPERTS)
    f.at_most(f.raw(*top_keys)[0], top, f.raw(*experts_keys)[0], experts)
    return experts, top


def sparse_layers(f: Fields, num_layers: int, *, dense_prefix: int | None) -> Sequence[bool]:
    """Which layers route to experts.

    Args:
        f: The config: `mlp_layer_types`, else `first_k_dense_replace` and `moe_layer_freq`.
        num_layers: Layers.
        dense_prefix: The class's default of `first_k_dense_replace`; None if the config must have it.
    """
    types = f.texts("mlp_layer_types", num_layers, ("dense", "sparse", "moe", "hash_moe"), padded=True)
    if types is not None:
        return [kind != "dense" for kind in types]
    if isinstance(f.config.get("moe_layer_freq"), list):
        marks = f.sizes("moe_layer_freq", num_layers, span=(0, 1), padded=True) or ()
        return [bool(mark) for mark in marks]
    first = f.size("first_k_dense_replace", span=(0, LAYERS[1]), default=dense_prefix)
    step = f.size("moe_layer_freq", span=LAYERS, default=1)
    return [index >= first and index % step == 0 for index in range(num_layers)]


def mix_feeds(sparse: Sequence[bool], dense: Callable[[], Feed], experts: Callable[[], Feed]) -> list[Feed]:
    """One feed-forward part per layer; a kind that no layer uses is not read."""
    dense_feed = dense() if not all(sparse) else None
    expert_feed = experts() if any(sparse) else None
    feeds = []
    for routed in sparse:
        feed = expert_feed if routed else dense_feed
        if feed is not None:
            feeds.append(feed)
    return feeds


def all_sparse(read: Callable[[Fields, Style], Feed]) -> Callable[[Fields, Style, int], Sequence[Feed]]:
    """Experts in every layer."""

    def feeds(f: Fields, style: Style, num_layers: int) -> Sequence[Feed]:
        return (read(f, style),) * num_layers

    return feeds


def _simple_experts(
    f: Fields, style: Style, names: MlpNames, *, width_key: str = "intermediate_size", router: str = "gate"
) -> Feed:
    experts, top = read_routing(f, _EXPERT_KEYS, ("num_experts_per_tok",))
    return moe_feed(
        f.size("hidden_size"),
        experts=experts,
        experts_per_token=top,
        width=f.size(width_key),
        names=names,
        gated=f.flag("gated_mlp", default=style.gated),
        bias=f.flag("mlp_bias", default=style.mlp_bias),
        router_name=router,
    )


def mixtral(f: Fields) -> ModelSpec:
    """Mixtral."""
    return build_decoder(
        f, Style(slides=Slides.ALWAYS), all_sparse(lambda g, style: _simple_experts(g, style, _W123))
    )


def phimoe(f: Fields) -> ModelSpec:
    """Phi-3.5-MoE: layer norms, and biases on attention and head where the config says so."""
    style = Style(norm="layer_norm", head_bias_key="lm_head_bias", slides=Slides.ALWAYS)
    return build_decoder(f, style, all_sparse(lambda g, s: _simple_experts(g, s, _W123, router="router")))


def olmoe(f: Fields) -> ModelSpec:
    """OLMoE."""
    style = Style(qk_norm=QkNorm.WIDTH, qk_norm_default=True)
    return build_decoder(f, style, all_sparse(lambda g, s: _simple_experts(g, s, MlpNames())))


def minimax_m2(f: Fields) -> ModelSpec:
    """MiniMax-M2."""
    style = Style(qk_norm=QkNorm.WIDTH, qk_norm_default=True)
    return build_decoder(f, style, all_sparse(lambda g, s: _simple_experts(g, s, _W123)))


def grok1(f: Fields) -> ModelSpec:
    """Grok-1: four norms in a layer."""
    names = MlpNames(gate="linear", up="linear_v", down="linear_1")
    return build_decoder(
        f, Style(tie=True, norms=4, hidden_act="gelu"), all_sparse(lambda g, s: _simple_experts(g, s, names))
    )


def granitemoe(f: Fields) -> ModelSpec:
    """Granite-MoE: gate and up in one matrix."""
    names = MlpNames(fused="input_linear", down="output_linear")
    return build_decoder(f, Style(), all_sparse(lambda g, s: _simple_experts(g, s, names, router="router")))


def granitemoeshared(f: Fields) -> ModelSpec:
    """Granite-MoE with a shared MLP."""
    names = MlpNames(fused="input_linear", down="output_linear")

    def read(g: Fields, style: Style) -> Feed:
        del style
        experts, top = read_routing(g, _EXPERT_KEYS, ("num_experts_per_tok",))
        return moe_feed(
            g.size("hidden_size"),
            experts=experts,
            experts_per_token=top,
            width=g.size("intermediate_size"),
            shared_width=g.size("shared_intermediate_size", span=(0, WIDTH[1])),
            names=names,
            shared_names=names,
            router_name="router",
            shared_prefix="shared_mlp.",
        )

    return build_decoder(f, Style(), all_sparse(read))


def gpt_oss(f: Fields) -> ModelSpec:
    """GPT-OSS: biases everywhere, a sink per head, every other layer sliding."""
    style = Style(qkv_bias=True, output_bias=True, mlp_bias=True, slides=Slides.MOST, period=2, window=128)
    trunk = read_trunk(f, style)
    made: dict[int, Mixer] = {}
    mixers = []
    for mixer in read_mixers(f, style, trunk):
        key = id(mixer)
        if key not in made:
            made[key] = replace(mixer, vector_params=mixer.shape.num_heads)
        mixers.append(made[key])
    experts = _simple_experts(f, style, _GATE_UP, router="router")
    router = replace(experts.linears[0], bias_features=experts.shape.num_experts)
    feed = replace(experts, linears=(router, *experts.linears[1:]))
    layers = stack(mixers, (feed,) * trunk.num_layers, 2 * trunk.norm_params)
    return decoder_spec(f, style, trunk, layers)


def qwen_sparse_layers(f: Fields, num_layers: int) -> Sequence[bool]:
    """Which layers of a Qwen mixture route to experts."""
    step = f.size("decoder_sparse_step", span=LAYERS, default=1)
    dense = f.sizes("mlp_only_layers", None, span=(0, LAYERS[1])) or ()
    return [index not in dense and (index + 1) % step == 0 for index in range(num_layers)]


def qwen_experts(f: Fields, *, shared: bool) -> Feed:
    """Routed experts and, with `shared`, one gated shared expert."""
    experts, top = read_routing(f, _EXPERT_KEYS, ("num_experts_per_tok",))
    return moe_feed(
        f.size("hidden_size"),
        experts=experts,
        experts_per_token=top,
        width=f.size("moe_intermediate_size"),
        shared_width=f.size("shared_expert_intermediate_size", span=(0, WIDTH[1])) if shared else 0,
        shared_prefix="shared_expert.",
        shared_gate=shared,
    )


def qwen_feeds(*, shared: bool) -> Callable[[Fields, Style, int], Sequence[Feed]]:
    """The feed-forward parts of a Qwen mixture."""

    def feeds(f: Fields, style: Style, num_layers: int) -> Sequence[Feed]:
        return mix_feeds(
            qwen_sparse_layers(f, num_layers),
            lambda: read_dense_feed(f, style, f.size("hidden_size")),
            lambda: qwen_experts(f, shared=shared),
        )

    return feeds


def qwen2_moe(f: Fields) -> ModelSpec:
    """Qwen1.5-MoE and Qwen2-MoE."""
    style = Style(qkv_bias=True, bias_key="qkv_bias", output_follows=False, slides=Slides.FLAGGED)
    return build_decoder(f, style, qwen_feeds(shared=True))


def qwen3_moe(f: Fields) -> ModelSpec:
    """Qwen3-MoE."""
    return build_decoder(f, Style(qk_norm_default=True, slides=Slides.FLAGGED), qwen_feeds(shared=False))


def qwen3_vl_moe_text(f: Fields) -> ModelSpec:
    """The text part of Qwen3-VL-MoE."""
    style = Style(qk_norm_default=True, tie=True)
    return build_decoder(f, style, qwen_feeds(shared=False))


def read_shared_experts(f: Fields, hidden_size: int, *, vector_params: int = 0) -> Feed:
    """Routed and shared experts from the keys that DeepSeek's configs use."""
    experts, top = read_routing(
        f,
        ("n_routed_experts", "num_experts", "num_local_experts"),
        ("num_experts_per_tok", "num_experts_per_token"),
    )
    width = f.size("moe_intermediate_size")
    shared = f.size("n_shared_experts", "num_shared_experts", span=(0, EXPERTS[1]), default=0)
    return moe_feed(
        hidden_size,
        experts=experts,
        experts_per_token=top,
        width=width,
        shared_width=shared * width,
        gated=f.flag("gated_mlp", default=True),
        vector_params=vector_params,
    )


def deepseek_feeds(dense_prefix: int | None) -> Callable[[Fields, Style, int], Sequence[Feed]]:
    """A dense prefix, then routed and shared experts."""

    def feeds(f: Fields, style: Style, num_layers: int) -> Sequence[Feed]:
        hidden_size = f.size("hidden_size")
        return mix_feeds(
            sparse_layers(f, num_layers, dense_prefix=dense_prefix),
            lambda: read_dense_feed(f, style, hidden_size),
            lambda: read_shared_experts(f, hidden_size),
        )

    return feeds


def deepseek_moe(f: Fields) -> ModelSpec:
    """The first DeepSeek-MoE, with plain attention."""
    return build_decoder(f, Style(), deepseek_feeds(None))


def dots1(f: Fields) -> ModelSpec:
    """dots.llm1."""
    return build_decoder(f, Style(qk_norm_default=True, slides=Slides.FLAGGED), deepseek_feeds(None))


def glm4_moe(f: Fields) -> ModelSpec:
    """GLM-4.5 to 4.7."""
    style = Style(output_follows=False, qk_norm_key="use_qk_norm")
    return build_decoder(f, style, deepseek_feeds(1))


BUILDERS: dict[str, Callable[[Fields], ModelSpec]] = {
    "mixtral": mixtral,
    "phimoe": phimoe,
    "olmoe": olmoe,
    "minimax_m2": minimax_m2,
    "grok1": grok1,
    "granitemoe": granitemoe,
    "granitemoeshared": granitemoeshared,
    "gpt_oss": gpt_oss,
    "qwen2_moe": qwen2_moe,
    "qwen3_moe": qwen3_moe,
    "qwen3_vl_moe_text": qwen3_vl_moe_text,
    "deepseek": deepseek_moe,
    "dots1": dots1,
    "glm4_moe": glm4_moe,
}
