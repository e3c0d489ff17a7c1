"""Training memory: the ledger of one device, from its share of the job."""

from collections.abc import Sequence
from dataclasses import replace

from planner.diffusion.components import component_entries
from planner.hardware import Tables
from planner.ledger import ALWAYS, TRAINING_PHASES, Entry, Ledger, make_ledger
from planner.memory.inventory import Division, Tensor, inventory, stacked
from planner.memory.layer_view import LayerForm, groups_experts
from planner.memory.trainable import adapter_tensors
from planner.model.spec import ModelSpec
from planner.moments import fullest
from planner.placement import Share
from planner.plan_types import HostNeed
from planner.scenario import Scenario
from planner.training.alignment import alignment_entries
from planner.training.allocator_cache import cache_entry, hidden_bytes
from planner.training.backward import backward_moments
from planner.training.data_parallel import lent_entries
from planner.training.dtensor import embedding_gradient_between
from planner.training.encoder import (
    encoder_forward,
    encoder_moments,
    follows_encoder,
    new_head,
    without_fixed,
)
from planner.training.fake_quantization import qat_entries
from planner.training.fsdp1_flat import flat_gradient_entries
from planner.training.fsdp2 import forward_entries, fsdp2_moments
from planner.training.gather import uses_fsdp2
from planner.training.gradients import gradient_entries
from planner.training.groups import grouped, total
from planner.training.kept_outputs import kept_output_entries
from planner.training.litgpt import held_logits
from planner.training.loss import loss_entries
from planner.training.once import old_leaf, once_entries
from planner.training.optimizer_states import master_entries, state_entries
from planner.training.optimizer_step import flattened_entries, foreach_entries
from planner.training.overheads import communication_entries, host_need_of, runtime_entries
from planner.training.picture_passes import forward_extra
from planner.training.pictures import learning
from planner.training.pipeline_buffers import pipeline_entries
from planner.training.saved import offloaded_bytes, saved_entries
from planner.training.setup import Setup, setup_for
from planner.training.step import FORWARD_AND_LOSS, Step
from planner.training.weights import weight_entries
from planner.training.zero import step_moments
from planner.training.zero_bubble import waiting_entries
from planner.units import ceil_div

__all__ = ["host_need", "keeps_on_host", "trainable_params", "training_ledger", "training_ledgers"]


def training_ledger(share: Share, scenario: Scenario, model: ModelSpec, tables: Tables) -> Ledger:
    """Every byte of one training step on one device of the group.

    Args:
        share: The device group and its part of the job.
        scenario: The question, defaults filled in.
        model: The model.
        tables: Constants of the hardware tables.
    """
    return training_ledgers((share,), scenario, model, tables)[0]


def training_ledgers(
    shares: Sequence[Share], scenario: Scenario, model: ModelSpec, tables: Tables
) -> tuple[Ledger, ...]:
    """The same for every group; what groups have in common is worked out once.

    Groups that are divided alike and hold the same kinds of layers share what is inside a layer.
    """
    setups: dict[tuple[int, ...], Setup] = {}
    forms: dict[tuple[object, ...], dict[tuple[int, bool], LayerForm]] = {}
    made: dict[tuple[object, ...], Ledger] = {}
    ledgers = []
    for share in shares:
        division, load = (share.tensor, share.context, share.shard), _load(share, scenario)
        if division not in setups:
            setups[division] = setup_for(share, scenario, model)
        if load not in made:
            layers = *share.distinct_encoder_layers, *share.distinct_layers
            kinds = *division, *(id(layer) for layer, _ in layers)
            made[load] = _ledger(
                share, setups[division], scenario, model, tables, forms.setdefault(kinds, {})
            )
        ledgers.append(made[load])
    return tuple(ledgers)


def _load(share: Share, scenario: Scenario) -> tuple[object, ...]:
    """All of a share that its ledger depends on; equal stages on equal cards have equal ledgers."""
    layers = (*map(id, share.layers), None, *map(id, share.encoder_layers))
    card = share.gpu.id, share.device.memory_bytes, share.device.free_bytes
    stage = share.stage if scenario.parallel.pipeline_schedule == "zero_bubble" else 0
    ends = share.num_stages, share.holds_embedding, share.holds_head, share.in_flight, stage
    return *card, *ends, share.tensor, share.data, share.context, share.shard, share.replica, layers


def _ledger(
    share: Share,
    setup: Setup,
    scenario: Scenario,
    model: ModelSpec,
    tables: Tables,
    forms: dict[tuple[int, bool], LayerForm],
) -> Ledger:
    tensors, trained = held_tensors(share, model, setup)
    groups = grouped(trained)
    step = Step(share, setup, model, tensors, trained, forms)
    fsdp2 = uses_fsdp2(step)
    encoder = follows_encoder(step)
    moments = encoder_moments(step) if encoder else fsdp2_moments(step) if fsdp2 else backward_moments(step)
    stepping = step_moments(setup, groups)
    entries = [
        *_offloaded(setup, weight_entries(setup, [*tensors, *(trained if setup.adapter else ())])),
        *master_entries(setup, groups),
        *state_entries(setup, groups),
        *gradient_entries(setup, groups),
        *embedding_gradient_between(step),
        *foreach_entries(setup, groups),
        *(fullest(stepping) if stepping else ()),
        *flattened_entries(setup, groups),
        *(encoder_forward(step) if encoder else forward_entries(step) if fsdp2 else _forward_and_loss(step)),
        *(fullest(moments) if moments else ()),
        *kept_output_entries(step),
        *old_leaf(step),
        *waiting_entries(step),
        *pipeline_entries(step),
        *alignment_entries(step, scenario, tensors),
        *qat_entries(step, scenario),
        *component_entries(model, setup.compute_bytes, ALWAYS),
        *held_logits(step),
        *flat_gradient_entries(step),
        *communication_entries(step, tensors, groups),
        *runtime_entries(share, scenario, tables),
    ]
    entries = lent_entries(step, entries)
    live = make_ledger(entries, TRAINING_PHASES)
    return live.with_entry(cache_entry(share, setup, live, scenario, tables, hidden_bytes(setup, moments)))


def _forward_and_loss(step: Step) -> list[Entry]:
    if step.model.unet is not None:
        from planner.diffusion.training import unet_forward_entries  # noqa: PLC0415 - only U-Nets need it

        return [*once_entries(step, FORWARD_AND_LOSS), *unet_forward_entries(step)]
    saved = [*saved_entries(step), *once_entries(step, FORWARD_AND_LOSS)]
    if step.model.latents is None:
        return [*saved, *loss_entries(step), *forward_extra(step, saved)]
    from planner.diffusion.training import forward_entries as denoising_entries  # noqa: PLC0415 - only pipelines need it

    return [*saved, *denoising_entries(step, saved)]


def held_tensors(share: Share, model: ModelSpec, setup: Setup) -> tuple[list[Tensor], list[Tensor]]:
    """The base model's tensors on this device, and those that get gradients."""
    tensors = inventory(share, model, setup.division)
    if setup.adapter is None:
        learned = without_fixed(learning(model, setup.training))
        trained = tensors if learned is model else inventory(share, learned, setup.division)
        return tensors, _as_parameters(trained, share, setup)
    return tensors, [
        *adapter_tensors(share, model, setup.adapter, setup.division),
        *(new_head(model, setup.param_bytes / setup.train_bytes) if share.holds_head else ()),
    ]


def _as_parameters(tensors: list[Tensor], share: Share, setup: Setup) -> list[Tensor]:
    """Tensors as the runtime's classes put them into parameters."""
    experts = max((layer.mlp.num_experts for layer, _ in share.distinct_layers), default=0)
    if not experts or setup.megatron or not groups_experts(setup):
        return tensors
    return stacked(tensors, ceil_div(experts, setup.division.expert))


def trainable_params(scenario: Scenario, model: ModelSpec) -> int:
    """Parameters of the whole model that get gradients."""
    if scenario.task in {"pretrain", "full"} or scenario.adapter is None:
        return without_fixed(learning(model, scenario.training)).params_total
    return total([*adapter_tensors(_whole(model), model, scenario.adapter, Division()), *new_head(model)])


def keeps_on_host(scenario: Scenario) -> bool:
    """Whether a training job keeps anything in host memory or on disk."""
    offload, training = scenario.parallel.offload, scenario.training
    moved = {offload.parameters, offload.gradients, offload.optimizer} != {"none"}
    return moved or training.activation_offload or training.optimizer.paged


def host_need(share: Share, scenario: Scenario, model: ModelSpec) -> HostNeed:
    """What one device's share puts into host memory and onto disk."""
    setup = setup_for(share, scenario, model)
    tensors, trained = held_tensors(share, model, setup)
    need = host_need_of(setup, tensors, grouped(trained))
    moved = offloaded_bytes(Step(share, setup, model, tensors, trained))
    return replace(need, memory_bytes=need.memory_bytes + moved)


def _whole(model: ModelSpec) -> Share:
    from planner.hardware import Gpu  # noqa: PLC0415
    from planner.scenario import Device  # noqa: PLC0415

    return Share(
        indices=(0,), gpu=Gpu(id="unknown", name="unknown"), device=Device(gpu="unknown"),
        layer_range=(0, model.num_layers), layers=model.layers, encoder_layers=model.encoder_layers,
    )  # fmt: skip


def _offloaded(setup: Setup, entries: list[Entry]) -> list[Entry]:
    """Weights kept in host memory or on disk leave the device."""
    return [] if setup.parallel.offload.parameters != "none" else entries
