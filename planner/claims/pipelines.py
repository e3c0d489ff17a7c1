"""Claims about stages and saved states."""

from typing import Final

from planner.claims.bytes_per_parameter import LLAMA_2_7B
from planner.claims.training import LLAMA_2_13B, activation_bytes, full_training, of_activations
from planner.claims.types import Claim, Figure, Outcome, planned, worked
from planner.hardware import Tables
from planner.ledger import Category, Phase
from planner.placement_fit import place_job
from planner.state_moves import saving

STAGES: Final = 4


def g20(tables: Tables) -> Claim:
    """Two things of one name: states written to disk, and activations computed again."""
    plans = {
        kind: planned(full_training(LLAMA_2_7B, sequence_length=4096, checkpointing=kind), tables)
        for kind in ("none", "full")
    }
    written = saving(plans["none"], tables)
    kept, again = (activation_bytes(made) for made in plans.values())
    figures = (
        Figure(
            name="saved_state_on_disk", said=None, found=written.disk_bytes if written else 0, unit="bytes"
        ),
        Figure(
            name="saved_state_in_host_memory",
            said=None,
            found=written.gathered_host_bytes if written else 0,
            unit="bytes",
        ),
        of_activations(
            Figure(name="activations_computed_again", said=None, found=kept - again, unit="bytes")
        ),
    )
    return Claim(id="g20", outcome=Outcome.WRONG, figures=figures)


def g23(tables: Tables) -> Claim:
    """Every stage has the same micro-batch; the first one keeps as many at once as there are stages."""
    job = full_training(LLAMA_2_13B, cards=STAGES, gradient_accumulation=16, checkpointing="full")
    made = planned({**job, "runtime": {"name": "megatron_lm"}, "parallel": {"pipeline": STAGES}}, tables)
    shares = place_job(made.resolved, made.model, tables)
    first, last = (made.devices[i].ledger for i in (0, -1))
    saved = [ledger.by_category(Phase.BACKWARD).get(Category.ACTIVATIONS, 0) for ledger in (first, last)]
    figures = (
        worked("in_flight_first", None, "count", "p - i", {"p": STAGES, "i": 0}, shares[0].in_flight),
        worked(
            "in_flight_last", None, "count", "p - i", {"p": STAGES, "i": STAGES - 1}, shares[-1].in_flight
        ),
        Figure(name="activations_first", said=None, found=saved[0], unit="bytes"),
        Figure(name="activations_last", said=None, found=saved[1], unit="bytes"),
    )
    return Claim(id="g23", outcome=Outcome.DEPENDS, figures=figures)
