"""What the caching allocator holds beyond live tensors: blocks cut for one set of tensors that another can't use.

A block is cut to the tensor that first asked for it and is given to a later one only if that fits; the rest of it stays
behind. So the sets that come and go one after the other in a step (the layers' tensors, the logits, the optimizer's
temporaries) each keep their own blocks, and what is reserved is nearer to their sum than to the fullest moment.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from planner.hardware import Tables
from planner.ledger import Category, Entry, Layer, Ledger, Phase
from planner.memory import runtime
from planner.memory.terms import item
from planner.moments import size_of
from planner.placement import Share, usable_bytes
from planner.scenario import Scenario
from planner.training.gather import stays_gathered
from planner.training.loss import REBINDS_BEFORE
from planner.training.setup import Setup
from planner.training.titan import NAME

RETAINED: Final = "retained_gradients"
PACKED: Final = "quantized_weights"
RECORDS_STREAMS: Final = frozenset({"generic", "hf_trainer", "litgpt"})
"""Runtimes on PyTorch's first FSDP, which hands tensors from stream to stream (`record_stream`), unlike the second."""
MAKES_IN_STREAMS: Final = frozenset({"torchtitan", "torchtune"})
"""Runtimes on the second FSDP: sharded gradients are made in the reduce-scatter's stream (`foreach_reduce`)."""
GATHER_BUFFERS: Final = "gather_buffers"
"""Where a pipeline keeps units whole, what they are gathered through: blocks of that stream's own, used once a step."""
UNIT_GRADIENTS: Final = ("scatter_input", "unit_gradients", "root_gradients", "tied_gradients")
"""What the backward pass makes in its own stream, beside what is gathered in another."""
SETS: Final = (
    "max(ceil(p*A), R + W - T + max(Q, T) + O + Z - ceil(h*min(max(Q, T), O + Z))"
    " + ceil(g*T) + S + ceil(l*D) - A)"
)
POOLS: Final = "ceil(f*A) + max(0, B + S - A)"
ROOM: Final = "max(ceil(f*A), U - M)"
PINNED: Final = "max(ceil(f*A), K, U - M)"

Amount = Any
"""Bytes: a number, or an array of them in a sweep."""


class Sums(Protocol):
    """What is read from a ledger; a sweep answers with arrays."""

    def phase_bytes(self, phase: Phase, layer: Layer = ...) -> Amount:
        """Bytes alive in a phase up to a layer."""

    def peak(self, layer: Layer = ...) -> tuple[Any, Amount]:
        """The fullest phase and its bytes."""

    def category_bytes(self, phase: Phase, category: Category, but: Phase | None = None) -> Amount:
        """Allocated bytes of one category alive in a phase."""

    def total(self, *names: str) -> Amount:
        """Bytes of the entries with these names."""


class Parts(NamedTuple):
    """The sets of blocks of a step, in allocated bytes.

    Attributes:
        peak: Fullest moment (A).
        rest: Between steps (R).
        step: The optimizer step's own temporaries (O).
        working: What the layers add to the rest, forward or backward, logits left out (W).
        logits: Logits and loss at their fullest, with the 16-bit logits that made room before (Q).
        retained: Gradients that FSDP holds to the end of the backward pass, counted in `working` (T). They come when
            the logits have gone and are cut from their blocks, as far as those go.
        renewed: Gradients that are there between steps but not in the forward pass, made anew in every step (Z).
        streams: What has blocks of its own in FSDP's streams (S): gathered units, or where they stay whole the buffers
            they are gathered through; of the second FSDP also gradients. A graph that runs in one stream has those
            too: states settle around the first gradients, and what these leave is too small for the logits.
        plain: The fullest moment without those, for the second FSDP (B); 0 elsewhere. Where segments grow, the place
            of 16-bit logits that are gone when the loss is fullest counts too: nothing of its tensors fits there.
        loaded: Packed weights of the other ranks, which were loaded here before they were divided (D).
        block: The largest tensor of the loss where its length changes from step to step (K): on a full card one such
            block is pinned by something small that was cut from it. Simulated: `profiler.allocator`, a loop over
            batches padded to their longest text.
    """

    peak: Amount
    rest: Amount
    step: Amount
    working: Amount
    logits: Amount
    retained: Amount
    renewed: Amount
    streams: Amount
    plain: Amount
    loaded: Amount
    block: Amount


def is_bare(category: Category, layer: Layer, name: str) -> bool:
    """Whether an entry counts among what the layers need by themselves: live, no logits, not retained by FSDP."""
    return layer is Layer.ALLOCATED and category is not Category.LOGITS and name != RETAINED


def is_in_streams(category: Category, layer: Layer, name: str) -> bool:
    """Whether an entry is live and has blocks of its own in the streams of the second FSDP."""
    return layer is Layer.ALLOCATED and category is Category.COMMUNICATION and name not in UNIT_GRADIENTS


def is_hidden(category: Category, layer: Layer, name: str, *, in_streams: bool) -> bool:
    """Whether an entry counts in what other moments of the backward pass have more of than its fullest.

    Of the second FSDP it is what has blocks of its own; of all else what the layers need.
    """
    return is_in_streams(category, layer, name) if in_streams else is_bare(category, layer, name)


def makes_in_streams(setup: Setup) -> bool:
    """Whether sharded gradients are made in a stream of their own."""
    return setup.parallel.sharding == "fsdp" and setup.shard_weights > 1 and setup.runtime in MAKES_IN_STREAMS


def hidden_bytes(setup: Setup, moments: Sequence[Sequence[Entry]]) -> int:
    """What there is at the backward pass's other moments (`is_hidden`), beyond what there is at its fullest.

    Where the logits are large the fullest moment is the head's, and the working layer does not show in the ledger.
    """
    if not moments:
        return 0
    streams = makes_in_streams(setup)
    sizes = [size_of(entries) for entries in moments]
    shown = _hidden(moments[sizes.index(max(sizes))], in_streams=streams)
    others = [
        _hidden(entries, in_streams=streams)
        for entries, size in zip(moments, sizes, strict=True)
        if size > shown
    ]
    return max([shown, *others]) - shown


def _hidden(entries: Sequence[Entry], *, in_streams: bool) -> int:
    counts = is_in_streams if in_streams else is_bare
    return sum([e.bytes for e in entries if counts(e.category, e.layer, e.name)])


def parts_of(
    ledger: Sums,
    setup: Setup,
    shard: int,
    hidden: Amount,
    larger: Callable[[Amount, Amount], Amount] = max,
) -> Parts:
    """The parts from the sums of a ledger without its cache, and what its fullest backward moment hides."""
    rest = ledger.phase_bytes(Phase.REST, Layer.ALLOCATED)
    sharded = setup.parallel.sharding == "fsdp" and shard > 1
    own_streams = sharded and setup.runtime in RECORDS_STREAMS
    gradients = ledger.category_bytes(Phase.OPTIMIZER_STEP, Category.GRADIENTS, but=Phase.REST)
    logits = ledger.category_bytes(Phase.LOSS, Category.LOGITS)
    if rebinds_logits(setup):
        logits = logits + ledger.category_bytes(Phase.FORWARD, Category.LOGITS)
    renewed = ledger.category_bytes(Phase.REST, Category.GRADIENTS, but=Phase.FORWARD)
    made = makes_in_streams(setup)
    whole = setup.whole_graph or stays_gathered(setup, setup.parallel.pipeline)
    moves = own_streams or (made and not whole)
    streams = ledger.category_bytes(Phase.BACKWARD, Category.COMMUNICATION) if moves else 0
    if made and whole and not setup.whole_graph:
        streams = ledger.total(GATHER_BUFFERS)
    if made and moves:
        streams = streams + hidden - ledger.total(*UNIT_GRADIENTS)
    without, plain = [], rest if made else 0
    for phase in (Phase.FORWARD, Phase.LOSS, Phase.BACKWARD):
        whole, own = ledger.phase_bytes(phase, Layer.ALLOCATED), 0
        if made:
            own = ledger.category_bytes(phase, Category.GRADIENTS)
            place = logits_place(ledger, setup) if phase is Phase.LOSS else 0
            plain = larger(plain, whole - own + place)
        without.append(whole - own - ledger.category_bytes(phase, Category.LOGITS))
    forward, _, backward = without
    backward = backward if made else backward + hidden
    return Parts(
        peak=ledger.peak(Layer.ALLOCATED)[1],
        rest=rest,
        step=larger(0, ledger.phase_bytes(Phase.OPTIMIZER_STEP, Layer.ALLOCATED) - rest - gradients),
        working=larger(larger(forward, backward) - rest, 0),
        logits=logits,
        retained=ledger.total(RETAINED),
        renewed=renewed,
        streams=streams + gradients if made else streams,
        plain=plain,
        loaded=(shard - 1) * ledger.total(PACKED) if sharded and setup.runtime == "hf_trainer" else 0,
        block=(4 // setup.compute_bytes) * ledger.category_bytes(Phase.FORWARD, Category.LOGITS)
        if pads_to_longest(setup)
        else 0,
    )


def logits_place(ledger: Sums, setup: Setup) -> Amount:
    """16-bit logits that the loop drops before the loss's backward pass (`del pred`), unless that is compiled."""
    whole = setup.training.loss in {None, "standard"}
    drops = setup.runtime == NAME and whole and not (setup.compiles_loss or setup.whole_graph)
    return ledger.category_bytes(Phase.FORWARD, Category.LOGITS) if drops and setup.compute_bytes < 4 else 0


def pads_to_longest(setup: Setup) -> bool:
    """Whether batches differ in length, so that the logits' fp32 copies do: Trainer's collators without packing."""
    training = setup.training
    whole = training.loss in {None, "standard", "fused"}
    return setup.runtime == "hf_trainer" and training.packing in {None, "none"} and whole


def rebinds_logits(setup: Setup) -> bool:
    """Whether the 16-bit logits are gone when the loss is fullest (their block stays)."""
    old = setup.runtime == "hf_trainer" and bool(setup.version) and setup.version < REBINDS_BEFORE
    return old and setup.compute_bytes < 4 and setup.training.loss != "fused_linear"


def cache_bytes(
    parts: Parts,
    fracs: runtime.SlackFracs,
    room: Amount | None,
    *,
    ceil: Callable[[Amount], Amount],
    larger: Callable[[Amount, Amount], Amount] = max,
    smaller: Callable[[Amount, Amount], Amount] = min,
) -> Amount:
    """Cached bytes: the sets' sum less the fullest moment, as far as the card has room.

    A full card does not end the step: what is cached is given back first (`release_cached_blocks`), but for a share of
    the fullest moment that stays in pieces between live tensors.

    Args:
        parts: The sets.
        fracs: Shares from the tables.
        room: Usable less process bytes; None where the card's size is not known.
        ceil: Rounds up.
        larger: The larger of two amounts.
        smaller: The smaller of two.
    """
    pieces = ceil(fracs.least * parts.peak)
    p = parts
    if not fracs.keeps_sets:
        size = pieces + larger(p.plain + p.streams - p.peak, 0)
        return size if room is None else smaller(size, larger(pieces, room))
    pieces = larger(pieces, p.block)
    after, before = larger(p.logits, p.retained), p.step + p.renewed
    total = p.rest + p.working - p.retained + after + before + p.streams
    total = total - ceil(fracs.shared * smaller(after, before))
    size = total + ceil(fracs.retained * p.retained) + ceil(fracs.loaded * p.loaded) - p.peak
    size = larger(size, ceil(fracs.rounding * p.peak))
    return size if room is None else smaller(size, larger(pieces, room))


def cache_entry(
    share: Share, setup: Setup, live: Ledger, scenario: Scenario, tables: Tables, hidden: int
) -> Entry:
    """The cache as a ledger entry."""
    fracs = runtime.slack_fracs(scenario.runtime.allocator, tables)
    parts = parts_of(live, setup, share.shard, hidden)
    usable, used = usable_bytes(share)[0], live.peak(Layer.PROCESS)[1]
    room = None if usable is None else usable - used
    size = cache_bytes(parts, fracs, room, ceil=_ceil)
    formula, symbols = "ceil(f*A)", {"f": fracs.least, "A": parts.peak}
    if parts.plain and not fracs.keeps_sets:
        formula = POOLS if usable is None else f"min({POOLS}, {ROOM})"
        symbols |= {"B": parts.plain, "S": parts.streams}
        symbols |= {} if usable is None else {"U": usable, "M": used}
    if fracs.keeps_sets:
        formula, symbols = SETS, {"A": parts.peak, "p": fracs.rounding}
        symbols |= {
            "R": parts.rest,
            "O": parts.step,
            "W": parts.working,
            "Q": parts.logits,
            "T": parts.retained,
        }
        symbols |= {
            "g": fracs.retained,
            "Z": parts.renewed,
            "S": parts.streams,
            "h": fracs.shared,
            "l": fracs.loaded,
            "D": parts.loaded,
        }
        if usable is not None:
            formula = f"min({SETS}, {PINNED})"
            symbols |= {"f": fracs.least, "K": parts.block, "U": usable, "M": used}
    return item(
        Category.ALLOCATOR, "allocator_cache", size, formula, symbols, "allocator_slack",
        layer=Layer.RESERVED, estimate=True,
    )  # fmt: skip


def _ceil(amount: float) -> int:
    return int(-(-amount // 1))
