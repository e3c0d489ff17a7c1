"""What drafts answers for a model: a model beside it, a head on its hidden states, its own prediction layers.

A draft has caches of its own for every token, in the same pool, and its weights stand where the output matrix is.
"""

import json
from dataclasses import replace
from functools import lru_cache
from typing import Final

from planner.hardware import Tables
from planner.ledger import Entry
from planner.memory.kv_cache import STATEFUL, CacheShape, model_shapes
from planner.memory.serving_weights import Elements, add, engine_elements, part_entries, plain_format
from planner.memory.weight_formats import FORMATS, engine_format, served_format
from planner.model import ModelSpec, model_from_config
from planner.model.from_row import config_from_row
from planner.model.spec import AttentionKind, Linear, Part, Split
from planner.placement import Share
from planner.scenario import Parallel, Scenario
from planner.units import ceil_div

DRAFTS: Final = frozenset({"draft", "eagle3"})
POOLED: Final = frozenset({"vllm", "aphrodite", "sglang", "sglang_omni"})
"""Engines that keep a draft's cache in their own pool."""
AUXILIARY_STATES: Final = 3
"""Hidden states of the model that an EAGLE-3 head joins (arXiv 2503.01840, section 3.1)."""
NAME: Final = "draft_weights"
SCALE_GROUP: Final = 128
ROTARY: Final = 64
"""Rotary part of the latent in the models with an indexer."""


def with_draft(scenario: Scenario, tables: Tables) -> Scenario:
    """The question with the config of a draft that is named by a catalog id."""
    choice = scenario.serving.draft_model
    if choice is None or choice.config is not None or choice.id is None or choice.id not in tables.models:
        return scenario
    given = choice.model_copy(update={"config": config_from_row(tables.models[choice.id])})
    serving = scenario.serving.model_copy(update={"draft_model": given})
    return scenario.model_copy(update={"serving": serving})


def draft_of(scenario: Scenario) -> ModelSpec | None:
    """The model that drafts; None where none is described.

    Raises:
        UnknownArchitecture: It has no closed form.
    """
    serving = scenario.serving
    choice = serving.draft_model
    if serving.speculative not in DRAFTS or choice is None or choice.config is None:
        return None
    model = _built(json.dumps(dict(choice.config), sort_keys=True))
    return _eagle(model) if serving.speculative == "eagle3" else model


@lru_cache(maxsize=32)
def _built(text: str) -> ModelSpec:
    return model_from_config(json.loads(text))


@lru_cache(maxsize=32)
def _eagle(model: ModelSpec) -> ModelSpec:
    """EAGLE-3: the embedding is the model's own, a matrix joins three states, attention sees two halves.

    The head is of a vocabulary of its own where the config names one (`draft_vocab_size`).
    """
    hidden = model.hidden_size
    first = model.layers[0]
    widened = tuple(
        replace(linear, in_features=2 * linear.in_features)
        if linear.part is Part.ATTENTION and linear.split is Split.COLUMN
        else linear
        for linear in first.linears
    )
    joined = Linear(
        name="fc",
        in_features=AUXILIARY_STATES * hidden,
        out_features=hidden,
        part=Part.OTHER,
        quantizable=False,
    )
    own = dict(model.config).get("draft_vocab_size", "")
    rows = int(own) if own.isdecimal() else model.vocab_size
    head = replace(model.head, out_features=rows) if model.head is not None else None
    layer = replace(first, linears=(*widened, joined))
    return replace(
        model,
        layers=(layer, *model.layers[1:]),
        embedding_params=0,
        head=head,
        tie_word_embeddings=False,
        blocks=(),
    )


def draft_tokens(scenario: Scenario) -> int:
    """Tokens drafted at once; 0 without a draft."""
    if scenario.serving.speculative is None:
        return 0
    return scenario.serving.draft_tokens or 1


def draft_shapes(share: Share, scenario: Scenario, model: ModelSpec) -> dict[CacheShape, int]:
    """Caches that drafting adds on a device, with how many layers have them."""
    if not share.holds_head or scenario.runtime.name not in POOLED:
        return {}
    draft = draft_of(scenario)
    if draft is not None:
        return model_shapes(draft, draft.layers, share.tensor)
    if not _prediction_layers(scenario, model):
        return {}
    for layer in reversed(model.layers):
        shapes = {s: n for s, n in model_shapes(model, (layer,), share.tensor).items() if not s.ring}
        if shapes and not any(shape.kind in STATEFUL for shape in shapes):
            return shapes
    return {}


def _prediction_layers(scenario: Scenario, model: ModelSpec) -> int:
    """Prediction layers that run: engines run one of those in the checkpoint, over and over."""
    asked = scenario.serving.speculative == "mtp"
    return int(asked and any(block.name == "mtp" for block in model.blocks))


def cached_shapes(
    share: Share, scenario: Scenario, model: ModelSpec, *, expand_mla: bool = False
) -> dict[CacheShape, int]:
    """Caches of a device's layers and of what drafts for them."""
    shapes = dict(model_shapes(model, share.layers, share.tensor, expand_mla=expand_mla))
    for shape, count in draft_shapes(share, scenario, model).items():
        shapes[shape] = shapes.get(shape, 0) + count
    if scenario.runtime.name not in POOLED or not any(indexed(shape) for shape in shapes):
        return shapes
    small = scenario.serving.kv_cache == "fp8"
    return {
        _sparse(shape, small=small) if indexed(shape) else shape: count for shape, count in shapes.items()
    }


def indexed(shape: CacheShape) -> bool:
    """Whether an indexer picks what latent attention reads (DeepSeek-V3.2, GLM-5)."""
    return shape.kind is AttentionKind.MLA and shape.index > 0


def cache_reference(scenario: Scenario, shape: CacheShape) -> str:
    """Where the size of a layer's cache is from."""
    return "sparse_latent_cache" if scenario.runtime.name in POOLED and indexed(shape) else "kv_cache"


def _sparse(shape: CacheShape, *, small: bool) -> CacheShape:
    """The cache of such a layer as the paged engines store it.

    Keys of the indexer in fp8 with a 32-bit scale for each 128, whatever the rest has (counted in 16-bit units).
    In fp8 the latent has such scales too, and its rotary part stays in 16 bit: 656 bytes for 512 + 64.
    """
    index = ceil_div(shape.index + 4 * ceil_div(shape.index, SCALE_GROUP), 2)
    key = shape.key
    if small:
        latent = key - ROTARY
        key = latent + 4 * ceil_div(latent, SCALE_GROUP) + 2 * ROTARY
    return replace(shape, key=key, index=index)


def draft_weights(share: Share, scenario: Scenario) -> list[Entry]:
    """Weights of a draft model, divided like the model's own."""
    draft = draft_of(scenario)
    if draft is None or not share.holds_head or scenario.runtime.name not in POOLED:
        return []
    kind = engine_format(served_format(draft), draft) or FORMATS["bf16"]
    held = replace(
        share, layers=draft.layers, encoder_layers=(), layer_range=(0, draft.num_layers), holds_embedding=True
    )
    elements = engine_elements(held, draft, kind, kind, plain_format(kind.id), Parallel())
    together: Elements = {}
    for (_, form), count in elements.items():
        add(together, Part.OTHER, form, count)
    return [entry._replace(name=NAME) for entry in part_entries(together)]
