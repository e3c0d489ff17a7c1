"""Units of PyTorch's second FSDP: which there are, their parameters, buffers, whole gradients and scattered ones."""

from dataclasses import dataclass
from typing import Final

from planner.lazy import once
from planner.ledger import Category, Entry, Phase
from planner.memory.formats import packed_bits
from planner.memory.terms import item, whole
from planner.model.spec import MlpKind
from planner.training.gather import root_unit, stays_gathered, units, whole_layers
from planner.training.step import BACKWARD, Kind, Step

REFERENCE: Final = "fsdp_second"
REDUCES_IN_FP32: Final = frozenset({"torchtitan"})
"""torchtitan `training.mixed_precision_reduce`; others reduce in fp32 where the shards are fp32."""
SPLITS_SINCE: Final = (2025, 8)
"""torchtitan pull request 1094: the embedding, and the last norm with the output matrix, became units of their own;
before, the last block stayed gathered after its forward."""
TORCHTUNE_SPLITS_FROM: Final = 65_000_000_000
"""Parameters from which torchtune's own configs name `custom_sharded_layers: ['tok_embeddings', 'output']`: those of
70B and 405B do (`recipes/configs/llama3_1/70B_full.yaml`), those of 8B do not."""


@dataclass(frozen=True, slots=True)
class Outside:
    """Elements outside the layers.

    Attributes:
        embedding: Of the embedding's own unit, 0 where it is in the root.
        head: Of the unit that the output matrix is in; all there are where that is the root.
        split: Whether these are two units.
    """

    embedding: int
    head: int
    split: bool


@dataclass(frozen=True, slots=True)
class Sizes:
    """Trained elements and bytes.

    Attributes:
        layer: Of an average layer.
        embedding: Of the embedding.
        head: Of all else outside the layers.
        down: Of the matrices that end a layer's feed-forward part.
        feed_forward: Of all its matrices.
        e: Bytes of a gradient as it is made.
        r: Bytes of a gradient as it is reduced.
    """

    layer: int
    embedding: int
    head: int
    down: int
    feed_forward: int
    e: int
    r: int


@once
def outside(step: Step) -> Outside:
    """The units outside the layers."""
    root = units(step).root
    if not _splits(step) or step.model.tie_word_embeddings:
        return Outside(0, root, split=False)
    embedding = sum(t.params for t in step.held if t.place == "embedding")
    return Outside(embedding, root - embedding, split=True)


def _splits(step: Step) -> bool:
    setup = step.setup
    if setup.runtime == "torchtune":
        return step.model.params_total >= TORCHTUNE_SPLITS_FROM
    return setup.runtime == "torchtitan" and (not setup.version or setup.version >= SPLITS_SINCE)


def keeps_last(step: Step) -> bool:
    """Whether the last layer stays gathered from its forward to its backward pass, where the others do not."""
    setup = step.setup
    old = setup.runtime == "torchtitan" and bool(setup.version) and setup.version < SPLITS_SINCE
    return old and not is_kept(step)


def is_kept(step: Step) -> bool:
    """Whether layers stay gathered from their forward to their backward pass; nothing is gathered ahead then."""
    return stays_gathered(step.setup, step.share.num_stages)


@once
def sizes(step: Step) -> Sizes:
    """What is trained, by unit."""
    setup, layers = step.setup, max(1, step.num_layers)
    wide = setup.runtime in REDUCES_IN_FP32 or setup.train_bytes > setup.compute_bytes
    e = setup.compute_bytes
    r = 4 if wide else e
    if setup.adapter is not None:
        return Sizes(-(-step.trained_at["adapter"] // layers), 0, 0, 0, 0, e, r)
    inside, embedding = step.trained_at["layers"] + step.trained_at["experts"], step.trained_at["embedding"]
    down = _down(step, step.largest) if step.kinds else 0
    gated = bool(step.kinds) and step.largest.layer.mlp.gated
    head = step.trained_params - inside - embedding
    return Sizes(-(-inside // layers), embedding, head, down, down * (3 if gated else 2), e, r)


def _down(step: Step, kind: Kind) -> int:
    mlp = kind.layer.mlp
    if mlp.kind is MlpKind.MOE:
        return step.trained_at["experts"] // (max(1, step.num_layers) * (3 if mlp.gated else 2))
    return int(kind.form.widths["i"]) * step.model.hidden_size if mlp.kind is not MlpKind.NONE else 0


def gathered(
    step: Step, root: int, alive: int, phases: frozenset[Phase], kept: int | None = None
) -> list[Entry]:
    """A unit outside the layers and `alive` layers; where layers stay gathered, `kept` of them (all if None)."""
    if is_kept(step):
        alive = step.num_layers if kept is None else kept
    return [*gathered_root(step, root, phases), *whole_layers(step, alive, phases)]


def gathered_root(step: Step, root: int, phases: frozenset[Phase]) -> list[Entry]:
    """Parameters of a unit outside the layers."""
    return [root_unit(step, root, phases)] if root else []


def buffers(step: Step, count: int, phases: frozenset[Phase]) -> list[Entry]:
    """Flat buffers that layers were gathered into."""
    size, e = units(step), step.setup.compute_bytes
    if not count:
        return []
    symbols: dict[str, int | float] = {"k": count, "U": size.layer, "e": e}
    if not size.packed:
        return [_entry("gather_buffers", count * size.layer * e, "k*U*e", symbols, phases)]
    bits = packed_bits(step.setup.base)
    amount = whole(count * (size.layer * e + size.packed * bits / 8))
    symbols |= {"Q": size.packed, "bits": bits}
    return [_entry("gather_buffers", amount, "ceil(k*(U*e + Q*bits/8))", symbols, phases)]


def buffer_of(step: Step, params: int, phases: frozenset[Phase]) -> list[Entry]:
    """The flat buffer of a unit outside the layers."""
    e = step.setup.compute_bytes
    return [_entry("gather_buffers", params * e, "R*e", {"R": params, "e": e}, phases)] if params else []


def scatter_input(params: int, r: int) -> Entry:
    """The copy of a unit's gradients that is reduced."""
    symbols = {"U": params, "r": r}
    return item(
        Category.COMMUNICATION, "scatter_input", params * r, "U*r", symbols, "fsdp_reduce", phases=BACKWARD
    )


def gradients_of_unit(name: str, amount: int, formula: str, symbols: dict[str, int]) -> Entry:
    """Whole gradients of a unit."""
    return _entry(name, amount, formula, symbols, BACKWARD)


def _entry(
    name: str,
    amount: int,
    formula: str,
    symbols: dict[str, int] | dict[str, int | float],
    phases: frozenset[Phase],
) -> Entry:
    return item(Category.COMMUNICATION, name, amount, formula, symbols, REFERENCE, phases=phases)
