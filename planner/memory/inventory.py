"""The tensors one device holds, by shape: what is counted for weights, gradients and optimizer states."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from planner.model.spec import Layer, Linear, ModelSpec, Part, Split
from planner.placement import Share
from planner.units import ceil_div, round_up

Place = Literal["embedding", "layers", "experts", "head", "other", "adapter"]

MEGATRON_VOCAB_MULTIPLE = 128


@dataclass(frozen=True, slots=True)
class Tensor:
    """Equal tensors on one device, before they are sharded over data-parallel ranks.

    Attributes:
        rows: Rows of a matrix (output features), or the length of a vector.
        columns: Columns of a matrix (input features), 1 for a vector.
        count: How many of them.
        place: Which entry of the ledger they are counted in.
        quantizable: Whether weight-only formats pack it.
        name: Linear's name, `""` for everything else.
        stack: How many of them lie in one parameter.
    """

    rows: int
    columns: int
    count: int
    place: Place
    quantizable: bool = False
    name: str = ""
    stack: int = 1

    @property
    def parameter(self) -> int:
        """Elements of one parameter."""
        return self.rows * self.columns * self.stack

    @property
    def params(self) -> int:
        """Elements of all of them."""
        return self.rows * self.columns * self.count

    @property
    def is_matrix(self) -> bool:
        """Whether it has two dimensions."""
        return self.columns > 1


@dataclass(frozen=True, kw_only=True)
class Division:
    """How wide tensors are cut before data-parallel sharding.

    Attributes:
        tensor: Tensor-parallel ranks.
        expert: Ranks the routed experts are spread over.
        expert_tensor: Tensor-parallel ranks of one expert.
        vocab_multiple: Rows of embedding and head are padded to a multiple of this times `tensor`; 1 for none.
        copies_tied_head: A pipeline's last stage keeps its own copy of a tied embedding.
        known: Layers that were cut before, with their tensors, by the layer's identity and number.
    """

    tensor: int = 1
    expert: int = 1
    expert_tensor: int = 1
    vocab_multiple: int = 1
    copies_tied_head: bool = False
    known: dict[tuple[int, int], tuple[Layer, list[Tensor]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )


def vocab_rows(vocab: int, division: Division) -> int:
    """Vocabulary rows on one rank: padded to a multiple (Megatron `_vocab_size_with_padding`), then divided."""
    return ceil_div(round_up(vocab, division.vocab_multiple * division.tensor), division.tensor)


def cut_linear(linear: Linear, division: Division, count: int) -> Iterator[Tensor]:
    """A linear of `count` layers as one rank holds it: matrix, and bias if any (whole for row-split ones)."""
    experts = linear.part is Part.EXPERTS
    ranks = division.expert_tensor if experts else division.tensor
    copies = ceil_div(linear.copies, division.expert) if experts else linear.copies
    rows, columns, bias = linear.out_features, linear.in_features, linear.bias_features
    if linear.split in {Split.COLUMN, Split.VOCAB}:
        rows, bias = ceil_div(rows, ranks), ceil_div(bias, ranks)
    elif linear.split is Split.ROW:
        columns = ceil_div(columns, ranks)
    place: Place = "experts" if experts else "layers"
    yield Tensor(rows, columns, copies * count, place, linear.quantizable, linear.name)
    if bias:
        yield Tensor(bias, 1, copies * count, place)


def cut_layer(layer: Layer, division: Division, hidden: int, count: int) -> Iterator[Tensor]:
    """Every tensor of `count` equal layers. Norms count as vectors of the hidden size, whole on every rank."""
    for linear in layer.linears:
        yield from cut_linear(linear, division, count)
    yield from _vectors(layer.norm_params, hidden, count, "layers")
    yield from _vectors(ceil_div(layer.vector_params, division.tensor), hidden, count, "layers")


def _cut_once(layer: Layer, division: Division, hidden: int, count: int) -> list[Tensor]:
    """The same as a list; stages that hold as many of a layer share it. Keeping the layer keeps its identity."""
    key = id(layer), count
    if key not in division.known:
        division.known[key] = layer, [*cut_layer(layer, division, hidden, count)]
    return division.known[key][1]


def inventory(share: Share, model: ModelSpec, division: Division) -> list[Tensor]:
    """Every tensor of this device's share, before data-parallel sharding."""
    hidden = model.hidden_size
    tensors = [
        tensor
        for layer, count in (*share.distinct_layers, *share.distinct_encoder_layers)
        for tensor in _cut_once(layer, division, hidden, count)
    ]
    if share.holds_embedding:
        tensors += _embedding(model, division)
        tensors += _table(model.position_params, hidden, "embedding")
    if share.holds_head:
        tensors += _head(share, model, division)
        tensors += _vectors(model.final_norm_params, hidden, 1, "head")
    for block in model.blocks:
        here = share.holds_embedding if block.stage == "first" else share.holds_head
        if here and block.counted:
            tensors += _table(block.params, hidden, "other")
    return tensors


def stacked(tensors: Iterable[Tensor], experts: int) -> list[Tensor]:
    """Tensors of routed experts as the parameters that hold `experts` of them; gate and up projection are one.

    transformers 5 has `gate_up_proj` and `down_proj` for all experts of a layer (`MixtralExperts` and its kin).
    """
    found: list[Tensor] = []
    for tensor in tensors:
        if tensor.place != "experts" or not tensor.is_matrix:
            found.append(tensor)
            continue
        one = replace(tensor, stack=experts, name="")
        if found and found[-1] == one:
            found[-1] = replace(one, rows=2 * one.rows)
        else:
            found.append(one)
    return found


def _embedding(model: ModelSpec, division: Division) -> list[Tensor]:
    if not model.embedding_params:
        return []
    width, rest = divmod(model.embedding_params, model.vocab_size)
    tensors = [Tensor(vocab_rows(model.vocab_size, division), width, 1, "embedding")] if width else []
    return [*tensors, Tensor(rest, 1, 1, "embedding")] if rest else tensors


def _table(params: int, width: int, place: Place) -> Iterator[Tensor]:
    """Parameters known only by their number, as a matrix of the hidden size and a rest."""
    rows, rest = divmod(params, width)
    if rows:
        yield Tensor(rows, width, 1, place)
    if rest:
        yield Tensor(rest, 1, 1, place)


def _head(share: Share, model: ModelSpec, division: Division) -> list[Tensor]:
    head = model.head
    if head is None:
        return []
    own = not model.tie_word_embeddings or (division.copies_tied_head and not share.holds_embedding)
    rows = vocab_rows(head.out_features, division) if head.split is Split.VOCAB else head.out_features
    tensors = [Tensor(rows, head.in_features, 1, "head", name=head.name)] if own else []
    if head.bias_features:
        tensors.append(Tensor(rows, 1, 1, "head"))
    return tensors


def _vectors(params: int, length: int, count: int, place: Place) -> Iterator[Tensor]:
    whole, rest = divmod(params, length)
    if whole:
        yield Tensor(length, 1, whole * count, place)
    if rest:
        yield Tensor(rest, 1, count, place)
