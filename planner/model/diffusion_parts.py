"""Pieces of denoisers: matrices by row, embedders, and the model put together."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from planner.model.decoder import grouped
from planner.model.fields import Fields
from planner.model.spec import (
    Block,
    Latents,
    Layer,
    Linear,
    Mlp,
    MlpKind,
    ModelSpec,
    Part,
    Split,
    Structure,
)

CLASS_TYPES: Final = {
    "FluxTransformer2DModel": "flux",
    "Flux2Transformer2DModel": "flux2",
    "SD3Transformer2DModel": "sd3",
    "QwenImageTransformer2DModel": "qwen_image",
    "HunyuanVideoTransformer3DModel": "hunyuan_video",
    "WanTransformer3DModel": "wan",
    "LTXVideoTransformer3DModel": "ltx_video",
    "CogVideoXTransformer3DModel": "cogvideox",
    "ZImageTransformer2DModel": "z_image",
    "MochiTransformer3DModel": "mochi",
    "UNet2DConditionModel": "unet_2d_condition",
}
"""diffusers' config.json names its class, and no `model_type`."""


class Row(NamedTuple):
    """One matrix of a block."""

    name: str
    columns: int
    rows: int
    part: Part
    split: Split = Split.NONE
    bias: bool = False


def text_matrix(name: str, columns: int, rows: int, *, bias: bool = False) -> Row:
    """A matrix that the image's tokens do not pass: the text's own, and those of the time step."""
    return Row(name, columns, rows, Part.OTHER, Split.NONE, bias)


def joint_attention(hidden: int, width: int, *, bias: bool) -> Iterator[Row]:
    """The image's four matrices, and the text's."""
    for name in ("to_q", "to_k", "to_v"):
        yield Row(f"attn.{name}", hidden, width, Part.ATTENTION, Split.COLUMN, bias)
    yield Row("attn.to_out.0", width, hidden, Part.ATTENTION, Split.ROW, bias)
    for name in ("add_q_proj", "add_k_proj", "add_v_proj"):
        yield text_matrix(f"attn.{name}", hidden, width, bias=bias)
    yield text_matrix("attn.to_add_out", width, hidden, bias=bias)


def layer(
    program: str,
    rows: list[Row],
    heads: tuple[int, int],
    inner: int,
    *,
    norm_params: int,
    vector_params: int = 0,
    kind_of: MlpKind = MlpKind.PLAIN,
) -> Layer:
    """A block of matrices.

    Args:
        program: Its kind in `planner.diffusion.blocks`.
        rows: Its matrices.
        heads: Number of heads and their width.
        inner: Width of the feed-forward part.
        norm_params: Weights of its norms.
        vector_params: Other vectors.
        kind_of: Whether the feed-forward part is gated.
    """
    gated = kind_of is MlpKind.GATED
    return Layer(
        attention=grouped(heads[0], heads[0], heads[1]),
        mlp=Mlp(kind=kind_of, intermediate_size=inner, gated=gated),
        linears=tuple(
            Linear(
                name=row.name,
                in_features=row.columns,
                out_features=row.rows,
                bias_features=row.rows if row.bias else 0,
                part=row.part,
                split=row.split,
            )
            for row in rows
        ),
        norm_params=norm_params,
        vector_params=vector_params,
        program=program,
    )


def embedder(columns: int, hidden: int) -> int:
    """Elements of two matrices with biases (diffusers `TimestepEmbedding`, `PixArtAlphaTextProjection`)."""
    return (columns + 1) * hidden + (hidden + 1) * hidden


def times(params: int) -> Iterator[Block]:
    """What makes the vector of the time step."""
    yield Block(name="timestep_embedding", params=params)


def block(name: str, columns: int, rows: int, stage: str = "first") -> Block:
    """A matrix with a bias outside the blocks."""
    return Block(name=name, params=(columns + 1) * rows, stage=stage)


def denoiser(
    f: Fields, hidden: int, layers: tuple[Layer, ...], ends: tuple[Block, ...], latents: Latents
) -> ModelSpec:
    """The model of blocks and ends."""
    return ModelSpec(
        model_type=f.model_type,
        structure=Structure.DENOISER,
        hidden_size=hidden,
        vocab_size=0,
        layers=layers,
        embedding_params=0,
        blocks=merged(ends),
        norm="layer_norm",
        hidden_act="silu" if layers[0].mlp.gated else "gelu_new",
        position_embedding="rope",
        latents=latents,
    )


def merged(ends: tuple[Block, ...]) -> tuple[Block, ...]:
    """One block a name."""
    sizes: dict[tuple[str, str], int] = {}
    for one in ends:
        sizes[one.name, one.stage] = sizes.get((one.name, one.stage), 0) + one.params
    return tuple(Block(name=name, params=params, stage=stage) for (name, stage), params in sizes.items())
