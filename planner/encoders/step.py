"""Encoders in a training step: which of them are written down, how they run, and the ledger's entries of it."""

from collections.abc import Callable
from typing import Final

from planner.encoders.loop import Loop
from planner.encoders.modern import write_modernbert
from planner.encoders.operations import WIDE, Runs
from planner.encoders.pictures import write_clip, write_siglip, write_vit
from planner.encoders.replay import Fullest, Moment, Replay
from planner.encoders.sizes import config_of, elements, numbers_of
from planner.encoders.speech import write_whisper
from planner.encoders.t5 import write_t5
from planner.encoders.tape import Tape
from planner.encoders.text import write_bert
from planner.lazy import once
from planner.ledger import Entry, Phase
from planner.memory.adapters import adapter_rank, layer_sites
from planner.memory.formats import QUANTIZED
from planner.memory.terms import item, text, whole
from planner.model.own_tokens import TARGETS, number
from planner.model.spec import ModelSpec, Structure
from planner.model.task_heads import TRANSFORM, labels_of
from planner.scenario import Adapter, Parallel, Training
from planner.training.backward_gradients import come_now, gradients_so_far
from planner.training.gather import gathered_entries, unit_gradient_entries
from planner.training.gradients import gradient_phases
from planner.training.setup import Setup
from planner.training.step import BACKWARD, FORWARD, LOSS, Step

REFERENCE: Final = "encoder_blocks"
Writer = Callable[[Tape, ModelSpec, Loop], int]
WRITERS: Final[dict[str, Writer]] = {
    "bert": write_bert,
    "roberta": write_bert,
    "xlm-roberta": write_bert,
    "distilbert": write_bert,
    "modernbert": write_modernbert,
    "t5": write_t5,
    "vit": write_vit,
    "dinov2": write_vit,
    "clip": write_clip,
    "siglip": write_siglip,
    "whisper": write_whisper,
}
"""Model types that are written down."""

METHODS: Final = frozenset({"lora", "rslora"})
GATHERED_BACKWARD: Final = 2
KEEPS_NOTHING: Final = frozenset({"hf_trainer"})
"""Loops that let a model's outputs go before the backward pass."""
RUNTIMES: Final = KEEPS_NOTHING | {"generic"}


def is_written(
    model: ModelSpec, runtime: str, training: Training, parallel: Parallel, adapter: Adapter | None
) -> bool:
    """Whether a step of the model is followed operation by operation: on one card, or with what it holds sharded.

    Args:
        model: The model.
        runtime: Whose loop.
        training: The scenario's block, as resolved.
        parallel: The same.
        adapter: The same.
    """
    stages = model.structure is Structure.ENCODER_DECODER
    return (
        model.model_type in WRITERS
        and not (model.model_type == "dinov2" and model.layers[0].mlp.gated)
        and runtime in (KEEPS_NOTHING if stages else RUNTIMES)
        and parallel.tensor == parallel.context == parallel.pipeline == 1
        and not training.kernels
        and not training.activation_offload
        and training.checkpointing in {None, "none", "full"}
        and training.loss in {None, "standard"}
        and not training.optimizer.in_backward
        and (adapter is None or (adapter.method in METHODS and adapter.base not in QUANTIZED))
    )


def runs_of(model: ModelSpec, setup: Setup) -> Runs:
    """How a step runs the network."""
    adapter, training = setup.adapter, setup.training
    dropout = training.dropout or 0.0
    return Runs(
        compute_bytes=setup.compute_bytes,
        stored_bytes=setup.param_bytes,
        given_bytes=WIDE if setup.autocast else setup.param_bytes,
        autocast=setup.autocast,
        trains=adapter is None,
        sites=frozenset(
            site.name for layer, _ in model.distinct_layers() for site in layer_sites(layer, adapter)
        )
        if adapter
        else frozenset(),
        adapter_bytes=setup.train_bytes,
        adapter_dropout=bool(adapter and adapter.dropout),
        rank=adapter_rank(adapter) if adapter else 0,
        drops=dropout > 0,
        eager=training.attention == "eager",
        checkpointed=setup.checkpointed,
        stops_early=not setup.recomputes_output,
    )


def loop_of(model: ModelSpec, setup: Setup) -> Loop:
    """What the loop does around it."""
    config = config_of(model)
    positions, types = config.get("max_position_embeddings"), config.get("type_vocab_size")
    return Loop(
        widens=setup.autocast and setup.runtime in KEEPS_NOTHING,
        keeps=setup.keeps_outputs,
        asks=setup.adapter is not None and setup.checkpointed,
        positions=positions if isinstance(positions, int) else 0,
        types=types if isinstance(types, int) else 0,
        tied=model.tie_word_embeddings,
        pretrains=any(block.name == TRANSFORM for block in model.blocks),
        labels=labels_of(config),
        targets=number(config, "max_target_positions", TARGETS),
        scales=model.model_type == "t5" and config.get("tie_word_embeddings") is not False,
    )


@once
def played(step: Step) -> Replay:
    """The step's passes."""
    setup = step.setup
    tape = Tape(runs_of(step.model, setup), numbers_of(step.model, setup))
    loss = WRITERS[step.model.model_type](tape, step.model, loop_of(step.model, setup))
    counted = Phase.BACKWARD in gradient_phases(setup)
    g = 0.0 if counted else setup.gradient_bytes / setup.shard_gradients
    fresh = setup.train_bytes if counted and setup.training.gradient_accumulation > 1 else 0.0
    return Replay(tape, loss, gradient_bytes=g, fresh_bytes=fresh).play()


def forward_moments(step: Step) -> tuple[list[list[Entry]], list[list[Entry]]]:
    """Entries of the fullest moments of the forward pass and of the loss."""
    found = played(step)
    return _moments(step, found.forward, FORWARD), _moments(step, found.loss, LOSS)


def backward_moments(step: Step) -> list[list[Entry]]:
    """Entries of the fullest moments of the backward pass."""
    return [
        [
            *entries,
            *gradients_so_far(step, moment.come),
            *come_now(step, moment.fresh),
            *gathered_entries(step, GATHERED_BACKWARD, BACKWARD),
            *unit_gradient_entries(step, BACKWARD),
        ]
        for moment, entries in zip(
            played(step).backward.top(), _moments(step, played(step).backward, BACKWARD), strict=True
        )
    ]


def _moments(step: Step, phase: Fullest, phases: frozenset[Phase]) -> list[list[Entry]]:
    numbers = numbers_of(step.model, step.setup)
    return [_entries(moment, numbers, phases) for moment in phase.top()]


def _entries(moment: Moment, numbers: dict[str, int], phases: frozenset[Phase]) -> list[Entry]:
    entries = []
    for (category, name), terms in moment.groups.items():
        amount = 0.0
        used: dict[str, int | float] = {}
        for key, size in terms.items():
            used |= {part: numbers[part] for part in key.split("*") if not part.isdigit()}
            amount += size * elements(key, numbers)
        if amount:
            entries.append(
                item(category, name, whole(amount), f"ceil({text(terms)})", used, REFERENCE, phases=phases)
            )
    return entries
