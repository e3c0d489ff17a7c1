"""Multi-head latent attention with experts: DeepSeek V2 and V3 and the families built on them."""

from collections.abc import Callable
from dataclasses import dataclass

from planner.model.decoder import decoder_spec, read_dense_feed, read_trunk
from planner.model.fields import EXPERTS, HEADS, LAYERS, Fields
from planner.model.moe import read_routing
from planner.model.parts import Feed, Mixer, join, matrix, moe_feed
from planner.model.spec import Attention, AttentionKind, Layer, ModelSpec, Part, Split
from planner.model.style import Style

_DEEPSEEK = Style()


def latent_mixer(
    hidden_size: int,
    *,
    heads: int,
    q_lora_rank: int,
    kv_lora_rank: int,
    nope: int,
    rope: int,
    value: int,
    bias: bool = False,
) -> Mixer:
    """Multi-head latent attention (DeepSeek-V2 paper, section 2.1; transformers `DeepseekV3Attention`).

    Args:
        hidden_size: Residual width.
        heads: Query heads.
        q_lora_rank: Width of the compressed query, 0 for a plain query projection.
        kv_lora_rank: Width of the compressed key and value.
        nope: Width of a head's part without rotary positions.
        rope: Width of a head's rotary part; the key's is shared by all heads.
        value: Width of a value head.
        bias: Biases on the down projections and the output.
    """
    shape = Attention(
        kind=AttentionKind.MLA,
        num_heads=heads,
        num_kv_heads=heads,
        head_dim=nope + rope,
        v_head_dim=value,
        kv_lora_rank=kv_lora_rank,
        qk_rope_head_dim=rope,
        q_lora_rank=q_lora_rank,
    )
    if q_lora_rank:
        query = (
            matrix("q_a_proj", hidden_size, q_lora_rank, Part.ATTENTION, bias=bias),
            matrix("q_b_proj", q_lora_rank, shape.q_width, Part.ATTENTION, Split.COLUMN),
        )
    else:
        query = (matrix("q_proj", hidden_size, shape.q_width, Part.ATTENTION, Split.COLUMN),)
    rest = (
        matrix("kv_a_proj_with_mqa", hidden_size, kv_lora_rank + rope, Part.ATTENTION, bias=bias),
        matrix("kv_b_proj", kv_lora_rank, heads * (nope + value), Part.ATTENTION, Split.COLUMN),
        matrix("o_proj", heads * value, hidden_size, Part.ATTENTION, Split.ROW, bias=bias),
    )
    return Mixer(shape=shape, linears=query + rest, norm_params=q_lora_rank + kv_lora_rank)


def read_latent_mixer(f: Fields, hidden_size: int) -> Mixer:
    """Multi-head latent attention from the keys that DeepSeek's configs use."""
    return latent_mixer(
        hidden_size,
        heads=f.size("num_attention_heads", span=HEADS),
        q_lora_rank=f.optional_size("q_lora_rank") or 0,
        kv_lora_rank=f.size("kv_lora_rank"),
        nope=f.size("qk_nope_head_dim"),
        rope=f.size("qk_rope_head_dim"),
        value=f.size("v_head_dim"),
        bias=f.flag("attention_bias", default=False),
    )


def read_shared_expert_feed(f: Fields, hidden_size: int) -> Feed:
    """Routed and shared experts from the keys that DeepSeek's configs use."""
    experts, top = read_routing(f, ("n_routed_experts", "num_experts"), ("num_experts_per_tok",))
    width = f.size("moe_intermediate_size")
    shared = f.size("n_shared_experts", "num_shared_experts", span=(0, EXPERTS[1]), default=0)
    return moe_feed(
        hidden_size,
        experts=experts,
        experts_per_token=top,
        width=width,
        shared_width=shared * width,
        gated=f.flag("gated_mlp", default=True),
    )


def read_dense_prefix(f: Fields, num_layers: int, default: int | None = None) -> int:
    """How many layers at the start are dense."""
    count = f.size("first_k_dense_replace", span=(0, LAYERS[1]), default=default)
    return min(count, num_layers)


def deepseek(f: Fields) -> ModelSpec:
    """DeepSeek V2 and V3."""
    trunk = read_trunk(f, _DEEPSEEK)
    mixer = read_latent_mixer(f, trunk.hidden_size)
    dense_layers = read_dense_prefix(f, trunk.num_layers)
    norm_params = 2 * trunk.norm_params
    layers: tuple[Layer, ...] = ()
    if dense_layers:
        feed = read_dense_feed(f, _DEEPSEEK, trunk.hidden_size)
        layers = (join(mixer, feed, norm_params),) * dense_layers
    if dense_layers < trunk.num_layers:
        experts = read_shared_expert_feed(f, trunk.hidden_size)
        layers += (join(mixer, experts, norm_params),) * (trunk.num_layers - dense_layers)
    return decoder_spec(f, _DEEPSEEK, trunk, layers)


BUILDERS: dict[str, Callable[[Fields], ModelSpec]] = {"deepseek_v2": deepseek, "deepseek_v3": deepseek}
