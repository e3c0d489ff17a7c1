"""GPT-2 and its relatives: plain MLPs, layer norms, fused projections, learned positions or ALiBi.

Source: the modeling files of transformers 5.24; for MPT's positions and biases, llm-foundry.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from planner.model.decoder import FULL, Window, grouped, read_norm, stack, with_window
from planner.model.fields import HEADS, LAYERS, POSITIONS, VOCAB, Fields
from planner.model.parts import AttentionNames, Feed, Mixer, MlpNames, attention_matrices, dense_feed, head
from planner.model.spec import Attention, AttentionKind, Layer, ModelSpec
from planner.model.style import Style

STYLE = Style(norm="layer_norm")
_C_ATTN = AttentionNames(fused="c_attn", output="c_proj")
_C_FC = MlpNames(up="c_fc", down="c_proj")
OUT_PROJ = AttentionNames(output="out_proj")
QUERY_KEY_VALUE = AttentionNames(fused="query_key_value", output="dense")
_H_TO_4H = MlpNames(up="dense_h_to_4h", down="dense_4h_to_h")


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A GPT without what its class fixes for positions and head."""

    hidden: int
    vocab: int
    layers: tuple[Layer, ...]
    norm: str
    norm_params: int

    def spec(
        self,
        f: Fields,
        *,
        positions: int | None,
        act: str,
        position: str,
        tie: bool,
        position_params: int = 0,
        head_name: str = "lm_head",
        head_bias: bool = False,
        parallel: bool = False,
    ) -> ModelSpec:
        """The whole model."""
        return ModelSpec(
            model_type=f.model_type,
            hidden_size=self.hidden,
            vocab_size=self.vocab,
            max_position_embeddings=positions,
            layers=self.layers,
            embedding_params=self.hidden * self.vocab,
            position_params=position_params,
            final_norm_params=self.norm_params,
            head=head(self.hidden, self.vocab, name=head_name, bias=head_bias),
            tie_word_embeddings=f.flag("tie_word_embeddings", default=tie),
            norm=self.norm,
            hidden_act=f.text("hidden_act", "activation_function", "activation", default=act),
            position_embedding=position,
            parallel_residual=parallel,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The names a config uses for its sizes, the class's own first."""

    hidden: tuple[str, ...] = ("hidden_size", "n_embd", "n_embed")
    heads: tuple[str, ...] = ("num_attention_heads", "n_head", "num_heads")
    layers: tuple[str, ...] = ("num_hidden_layers", "n_layer", "num_layers")
    width: tuple[str, ...] = ("intermediate_size", "n_inner", "ffn_hidden_size", "ffn_dim")


NEW_KEYS = Keys()
_OLD = Keys(
    hidden=("n_embd", "hidden_size"),
    heads=("n_head", "num_attention_heads"),
    layers=("n_layer", "num_hidden_layers"),
    width=("n_inner", "intermediate_size"),
)


def read_body(
    f: Fields,
    keys: Keys,
    names: AttentionNames,
    mlp_names: MlpNames,
    *,
    qkv_bias: bool,
    output_bias: bool,
    mlp_bias: bool,
    norms: int = 2,
    kv_heads: Callable[[int], int] | None = None,
    width_factor: int | None = 4,
    style: Style = STYLE,
    windows: Callable[[int], Sequence[Window]] | None = None,
) -> Body:
    """Read the sizes and build the layers.

    Args:
        f: The config.
        keys: Names of the sizes.
        names: Names of the attention matrices.
        mlp_names: Names of the MLP matrices.
        qkv_bias: Biases on query, key and value.
        output_bias: Bias on the attention output.
        mlp_bias: Biases in the MLP.
        norms: Norms in a layer.
        kv_heads: Key and value heads from the number of heads, where the config has no `num_key_value_heads`.
        width_factor: MLP width over hidden width where the config has none; None if it must have one.
        style: The norms.
        windows: The window of every layer, from their number.
    """
    hidden = f.size(*keys.hidden)
    heads = f.size(*keys.heads, span=HEADS)
    vocab = f.size("vocab_size", span=VOCAB)
    count = f.size(*keys.layers, span=LAYERS)
    width = f.size(*keys.width, default=width_factor * hidden if width_factor else None)
    kv = f.size("num_key_value_heads", span=HEADS, default=kv_heads(heads) if kv_heads else heads)
    f.divides("num_key_value_heads", kv, keys.heads[0], heads)
    norm, norm_params = read_norm(f, style, hidden)
    head_dim = f.divides(keys.heads[0], heads, keys.hidden[0], hidden)
    if f.size("head_dim", default=head_dim) != head_dim:
        f.refuse("head_dim", f.config["head_dim"], str(head_dim))
    shape = grouped(heads, kv, head_dim)
    qkv_bias = f.flag("attention_bias", default=qkv_bias)
    output_bias = f.flag("attention_bias", default=output_bias)
    feed = dense_feed(
        hidden,
        width,
        mlp_names,
        gated=f.flag("gated_mlp", default=False),
        bias=f.flag("mlp_bias", default=mlp_bias),
    )

    def mixer(window: Window) -> Mixer:
        seen: Attention = with_window(shape, window)
        return Mixer(
            shape=seen,
            linears=attention_matrices(hidden, seen, names, qkv_bias=qkv_bias, output_bias=output_bias),
        )

    seen = windows(count) if windows else (FULL,) * count
    made = {window: mixer(window) for window in dict.fromkeys(seen)}
    feeds: list[Feed] = [feed] * count
    layers = stack([made[window] for window in seen], feeds, norms * norm_params)
    return Body(hidden=hidden, vocab=vocab, layers=layers, norm=norm, norm_params=norm_params)


def gpt2(f: Fields) -> ModelSpec:
    """GPT-2."""
    return _biased_gpt2(f, "gelu_new")


def gpt_bigcode(f: Fields) -> ModelSpec:
    """SantaCoder and StarCoder: GPT-2 with one key and value head."""
    multi_query = f.flag("multi_query", default=True)
    return _biased_gpt2(f, "gelu_pytorch_tanh", lambda heads: 1 if multi_query else heads)


def _biased_gpt2(f: Fields, act: str, kv_heads: Callable[[int], int] | None = None) -> ModelSpec:
    """GPT-2's matrices with biases, learned positions and a tied head; `kv_heads` as for `read_body`."""
    body = read_body(
        f, _OLD, _C_ATTN, _C_FC, qkv_bias=True, output_bias=True, mlp_bias=True, kv_heads=kv_heads
    )
    positions = f.size("n_positions", "max_position_embeddings", span=POSITIONS)
    return body.spec(
        f,
        positions=positions,
        act=act,
        position="learned",
        tie=True,
        position_params=positions * body.hidden,
    )


def gpt_neo(f: Fields) -> ModelSpec:
    """GPT-Neo: every other layer sees 256 tokens."""
    body = read_body(
        f,
        NEW_KEYS,
        OUT_PROJ,
        _C_FC,
        qkv_bias=False,
        output_bias=True,
        mlp_bias=True,
        windows=lambda count: _gpt_neo_windows(f, count),
    )
    positions = f.size("max_position_embeddings", span=POSITIONS)
    return body.spec(
        f,
        positions=positions,
        act="gelu_new",
        position="learned",
        tie=True,
        position_params=positions * body.hidden,
    )


def _gpt_neo_windows(f: Fields, count: int) -> Sequence[Window]:
    local = (AttentionKind.SLIDING, f.size("window_size", span=POSITIONS, default=256))
    types = f.texts("attention_layers", count, ("global", "local"))
    if types is None:
        if f.has("attention_types") and f.config["attention_types"] != [[["global", "local"], count // 2]]:
            f.unsupported("attention_types", f.config["attention_types"])
        types = tuple("local" if index % 2 else "global" for index in range(count))
    return [local if name == "local" else FULL for name in types]


def gptj(f: Fields) -> ModelSpec:
    """GPT-J: attention and MLP side by side, a head with a bias."""
    body = read_body(
        f,
        _OLD,
        OUT_PROJ,
        MlpNames(up="fc_in", down="fc_out"),
        qkv_bias=False,
        output_bias=False,
        mlp_bias=True,
        norms=1,
    )
    return body.spec(
        f,
        positions=f.optional_size("n_positions", "max_position_embeddings", span=POSITIONS),
        act="gelu_new",
        position="rope",
        tie=False,
        head_bias=True,
        parallel=True,
    )


def gpt_neox(f: Fields) -> ModelSpec:
    """GPT-NeoX and Pythia."""
    body = read_body(
        f,
        NEW_KEYS,
        QUERY_KEY_VALUE,
        _H_TO_4H,
        qkv_bias=True,
        output_bias=True,
        mlp_bias=True,
        width_factor=None,
    )
    return body.spec(
        f,
        positions=f.optional_size("max_position_embeddings", span=POSITIONS),
        act="gelu",
        position="rope",
        tie=False,
        parallel=f.flag("use_parallel_residual", default=True),
    )


def bloom(f: Fields) -> ModelSpec:
    """BLOOM: ALiBi and a norm on the embedding."""
    body = read_body(f, NEW_KEYS, QUERY_KEY_VALUE, _H_TO_4H, qkv_bias=True, output_bias=True, mlp_bias=True)
    return body.spec(
        f,
        positions=f.optional_size("max_position_embeddings", "seq_length", span=POSITIONS),
        act="gelu",
        position="alibi",
        tie=True,
        position_params=body.norm_params,
    )


def falcon(f: Fields) -> ModelSpec:
    """Falcon: three layouts, told apart by `new_decoder_architecture`, `parallel_attn` and `multi_query`."""
    new = f.flag("new_decoder_architecture", default=False)
    parallel = new or f.flag("parallel_attn", default=True)
    multi_query = f.flag("multi_query", default=True)
    bias = f.flag("bias", default=False)
    two_norms = not parallel or (new and f.size("num_ln_in_parallel_attn", span=(1, 2), default=2) == 2)

    def kv_heads(heads: int) -> int:
        if new:
            return f.size("num_kv_heads", "n_head_kv", span=HEADS, default=heads)
        return 1 if multi_query else heads

    body = read_body(
        f,
        NEW_KEYS,
        QUERY_KEY_VALUE,
        _H_TO_4H,
        qkv_bias=bias,
        output_bias=bias,
        mlp_bias=bias,
        norms=2 if two_norms else 1,
        kv_heads=kv_heads,
    )
    return body.spec(
        f,
        positions=f.optional_size("max_position_embeddings", span=POSITIONS),
        act="gelu",
        position="alibi" if f.flag("alibi", default=False) else "rope",
        tie=True,
        parallel=parallel,
    )


BUILDERS: dict[str, Callable[[Fields], ModelSpec]] = {
    "gpt2": gpt2,
    "gpt_bigcode": gpt_bigcode,
    "gpt_neo": gpt_neo,
    "gptj": gptj,
    "gpt_neox": gpt_neox,
    "bloom": bloom,
    "falcon": falcon,
}
