"""A U-Net's memory in a training step or while it makes a picture: the entries of its fullest moments."""

from functools import lru_cache
from typing import Final

from planner.diffusion.moments import Moment
from planner.diffusion.network import Passes
from planner.diffusion.operations import Trains
from planner.diffusion.unet import amount, unet_passes
from planner.diffusion.unet_tape import ONCE, Runs
from planner.lazy import once
from planner.ledger import Category, Entry, Phase
from planner.memory.adapters import PROMPT_METHODS, adapter_rank, layer_sites
from planner.memory.terms import PerToken, Terms, add, item, scaled, summed, whole
from planner.model.spec import Layer, ModelSpec
from planner.scenario import Adapter
from planner.training.backward_gradients import come_now, gradients_so_far
from planner.training.gather import gathered_entries, unit_gradient_entries
from planner.training.saved import cast_entries, casts_weights
from planner.training.setup import Setup
from planner.training.step import BACKWARD, FORWARD, FORWARD_AND_LOSS, Step

REFERENCE: Final = "unet_blocks"
GATHERED_BACKWARD: Final = 2


def passes_of(model: ModelSpec, runs: Runs) -> Passes:
    """The network's passes.

    Args:
        model: A U-Net.
        runs: How it runs.
    """
    if model.unet is None:
        return Passes({}, (), (), ())
    return unet_passes(model.unet, model.layers, runs)


def runs_of(model: ModelSpec, setup: Setup) -> Runs:
    """How a training step runs the network."""
    adapter = setup.adapter
    return Runs(
        compute_bytes=setup.compute_bytes,
        given_bytes=setup.param_bytes if setup.autocast else setup.compute_bytes,
        autocast=setup.autocast,
        casts_weights=casts_weights(setup) and adapter is None,
        checkpointed=setup.checkpointed,
        eager=setup.training.attention == "eager",
        upcasts=model.unet is not None and model.unet.upcasts,
        rank=adapter_rank(adapter) if adapter else 0,
        trains=_trains(model, setup),
    )


def _trains(model: ModelSpec, setup: Setup) -> Trains:
    adapter = setup.adapter
    if adapter is None:
        return Trains(full=True)
    if adapter.method in PROMPT_METHODS:
        return Trains()
    return Trains(
        sites=_sites(model.layers, adapter),
        adapter_bytes=setup.compute_bytes if setup.autocast else setup.train_bytes,
        dora=adapter.method == "dora",
        dropout=bool(adapter.dropout),
    )


@lru_cache(maxsize=32)
def _sites(layers: tuple[Layer, ...], adapter: Adapter) -> frozenset[str]:
    return frozenset(site.name for layer in set(layers) for site in layer_sites(layer, adapter))


def plain_runs(model: ModelSpec, e: int) -> Runs:
    """How the network runs while it makes a picture.

    Args:
        model: A U-Net.
        e: Bytes of an element.
    """
    return Runs(
        compute_bytes=e, given_bytes=e, upcasts=model.unet is not None and model.unet.upcasts, trains=Trains()
    )


def worked_out(terms: Terms, cells: int, text: int, batch: int) -> PerToken:
    """Bytes of places as a sum over a batch.

    Args:
        terms: Bytes for each cell, token or score of a place; `ONCE` counts once, not for each picture.
        cells: Cells of the latents.
        text: Tokens of the text.
        batch: Pictures.
    """
    each = {_symbol(place): size for place, size in sorted(terms.items()) if place != ONCE and size}
    counts = {_symbol(place): amount(place, cells, text) for place in terms if place != ONCE}
    part = summed(each, counts)
    once = terms.get(ONCE, 0)
    shown = f"b*({part.text}) + W" if once else f"b*({part.text})"
    symbols = {"b": batch, **part.symbols, **({"W": int(once)} if once else {})}
    return PerToken(batch * part.bytes + once, f"ceil({shown})", symbols)


def _symbol(place: str) -> str:
    """`P0` for the cells of a resolution, `S0` and `X0` for scores to cells and to the text, `T` for the text."""
    if place[0].isdigit():
        return f"P{place}"
    return place.upper() if place[0] in "sxt" else place


def entry_of(name: str, amount_of: PerToken, phases: frozenset[Phase]) -> Entry:
    """An entry of activations."""
    return item(
        Category.ACTIVATIONS,
        name,
        whole(amount_of.bytes),
        amount_of.text,
        amount_of.symbols,
        REFERENCE,
        phases=phases,
    )


def _entries(step: Step, parts: dict[str, Terms], phases: frozenset[Phase]) -> list[Entry]:
    setup, latents = step.setup, step.model.latents
    text = latents.text_tokens if latents is not None else 0
    return [
        entry_of(name, worked_out(terms, setup.sequence, text, setup.batch), phases)
        for name, terms in parts.items()
        if any(terms.values())
    ]


@once
def _passes(step: Step) -> Passes:
    return passes_of(step.model, runs_of(step.model, step.setup))


def forward_entries(step: Step) -> list[Entry]:
    """What the forward pass leaves, and what its fullest moment has beside that."""
    found, times = _passes(step), step.share.in_flight
    saved = _entries(step, {"saved_activations": scaled(found.kept, times)}, FORWARD_AND_LOSS)
    casts = [] if step.setup.adapter is None else cast_entries(step, FORWARD)
    if not found.forward:
        return [*saved, *casts]
    best = max((moment.terms for moment in found.forward), key=lambda terms: _bytes(step, terms))
    return [*saved, *casts, *_entries(step, {"block_working": add(best, scaled(found.kept, -1))}, FORWARD)]


def _bytes(step: Step, terms: Terms) -> float:
    latents = step.model.latents
    text = latents.text_tokens if latents is not None else 0
    return worked_out(terms, step.setup.sequence, text, step.setup.batch).bytes


def backward_moments(step: Step) -> list[list[Entry]]:
    """The entries of every moment of the backward pass that may be the fullest."""
    return [_moment(step, moment) for moment in _passes(step).backward]


def _moment(step: Step, moment: Moment) -> list[Entry]:
    parts = {
        "saved_activations": moment.held,
        "recomputed_layer": moment.again,
        "block_working": moment.working,
    }
    return [
        *_entries(step, parts, BACKWARD),
        *gradients_so_far(step, min(moment.come, step.trained_params)),
        *come_now(step, moment.fresh),
        *gathered_entries(step, GATHERED_BACKWARD, BACKWARD),
        *unit_gradient_entries(step, BACKWARD),
    ]


def plain_entry(model: ModelSpec, e: int, cells: int, batch: int, phases: frozenset[Phase]) -> Entry:
    """The fullest moment of a pass without gradients.

    Args:
        model: A U-Net.
        e: Bytes of an element.
        cells: Cells of the latents.
        batch: Pictures in one pass.
        phases: When it works.
    """
    text = model.latents.text_tokens if model.latents is not None else 0
    found = [
        worked_out(moment.terms, cells, text, batch)
        for moment in passes_of(model, plain_runs(model, e)).plain
    ]
    return entry_of("block_working", max(found, key=lambda one: one.bytes), phases)
