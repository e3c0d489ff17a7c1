"""The tensors that get gradients on one device."""

from collections.abc import Sequence

from planner.memory.adapters import (
    EMBEDDING_NAMES,
    HEAD_NAMES,
    PROMPT_METHODS,
    block_sites,
    head_is_target,
    layer_sites,
    prompt_tensors,
    site_tensors,
)
from planner.memory.inventory import Division, Tensor, vocab_rows
from planner.model.distinct import distinct
from planner.model.spec import Layer, ModelSpec
from planner.placement import Share
from planner.scenario import Adapter


def adapter_tensors(share: Share, model: ModelSpec, adapter: Adapter, division: Division) -> list[Tensor]:
    """Every tensor an adapter adds on this device, and the copies it trains of whole modules."""
    prompts = adapter.method in PROMPT_METHODS
    tensors: list[Tensor] = []
    for layer, count in distinct((*_acted_on(share.layers, model, adapter), *share.encoder_layers)):
        if prompts:
            tensors += prompt_tensors(layer, adapter, model.hidden_size, count)
        else:
            for site in layer_sites(layer, adapter):
                tensors += site_tensors(site, adapter, division, count)
    if not prompts and share.holds_embedding:
        for site in block_sites(model, adapter):
            tensors += site_tensors(site, adapter, division, 1)
    if adapter.method in {"prompt", "p_tuning"} and share.holds_embedding:
        tensors.append(Tensor(adapter.virtual_tokens or 20, model.hidden_size, 1, "adapter"))
    if not prompts and share.holds_head and model.head is not None and head_is_target(model, adapter):
        tensors += site_tensors(model.head, adapter, division, 1)
    return tensors + _saved_modules(share, model, adapter, division)


def _acted_on(layers: Sequence[Layer], model: ModelSpec, adapter: Adapter) -> Sequence[Layer]:
    """The last `adapter.layers` layers of the model, all if not given."""
    if adapter.layers is None or adapter.layers >= model.num_layers:
        return layers
    return layers[max(0, len(layers) - adapter.layers) :]


def _saved_modules(share: Share, model: ModelSpec, adapter: Adapter, division: Division) -> list[Tensor]:
    """`modules_to_save`: a trainable copy beside the frozen module. PEFT `ModulesToSaveWrapper`."""
    names = frozenset(adapter.modules_to_save)
    rows, tensors = vocab_rows(model.vocab_size, division), []
    if names & EMBEDDING_NAMES and share.holds_embedding:
        tensors.append(Tensor(rows, model.embedding_params // model.vocab_size, 1, "adapter"))
    if share.holds_head and model.head is not None and names & (HEAD_NAMES | {model.head.name}):
        tensors.append(Tensor(rows, model.head.in_features, 1, "adapter"))
    return tensors
