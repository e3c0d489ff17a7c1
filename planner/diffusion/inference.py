"""Making pictures with a diffusion pipeline: its components, the denoiser at work, and the picture being decoded.

Phases: loading; at rest; `prefill` = the text is encoded, `forward` = the denoiser runs, `decode` = latents become
pictures. With parameters offloaded to the host, each component is on the card only while it works, as diffusers'
`enable_model_cpu_offload` has it.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from planner.diffusion.components import component_entries, has_vae, image_tokens, pixels, vae_entry
from planner.diffusion.forms import plain_peak, text_tokens
from planner.diffusion.gaps import PHASES
from planner.diffusion.operations import WIDE
from planner.diffusion.unet_memory import plain_entry
from planner.hardware import Tables
from planner.ledger import Category, Entry, Ledger, Phase
from planner.memory.serving_answer import DeviceAnswer, usable_bytes
from planner.memory.serving_demand import Demand, demand
from planner.memory.serving_vllm import context_entries, weight_entries
from planner.memory.terms import add, item, summed, whole
from planner.model.spec import Latents, ModelSpec
from planner.placement import Share
from planner.scenario import Scenario
from planner.units import ceil_div

ENCODING: Final = frozenset({Phase.PREFILL})
DENOISING: Final = frozenset({Phase.FORWARD})
DECODING: Final = frozenset({Phase.DECODE})
SAMPLED: Final = 3
"""Latents, what the denoiser says of them, and the next ones (a scheduler's `step`)."""


def pipeline_entries(share: Share, scenario: Scenario, model: ModelSpec, tables: Tables) -> list[Entry]:
    """Every term of one device that makes pictures."""
    latents = model.latents
    if latents is None:
        return []
    asked, e = demand(scenario, model, share), plain_bytes(scenario)
    return [
        *_weights(share, scenario, model, e),
        *_inputs(latents, asked, e),
        *_denoising(model, latents, asked, e),
        *_decoding(model, latents, asked, WIDE if decodes_wide(scenario, model) else e),
        *(one._replace(phases=frozenset(PHASES)) for one in context_entries(share, tables, communicators=0)),
    ]


def plain_bytes(scenario: Scenario) -> int:
    """Bytes of an element of what is not quantized."""
    return 4 if scenario.serving.weights == "fp32" else 2


def _weights(share: Share, scenario: Scenario, model: ModelSpec, e: int) -> list[Entry]:
    moved = scenario.parallel.offload.parameters != "none"
    kinds = dict.fromkeys(part.name for part in model.components if part.name != "vae")
    entries = [
        one._replace(phases=DENOISING if moved else frozenset(PHASES))
        for one in weight_entries(share, scenario, model)
    ]
    if not moved:
        return [
            *entries,
            *component_entries(model, e, PHASES, trains=False),
            *_widened_vae(scenario, model, e),
        ]
    largest = max(
        (one for one in model.components if one.name in kinds), key=lambda one: one.params, default=None
    )
    encoders = (
        component_entries(replace(model, components=(largest,)), e, ENCODING, trains=False) if largest else []
    )
    vae = component_entries(model, e, DECODING, "vae", trains=False)
    return [*entries, *encoders, *vae, *_widened_vae(scenario, model, e)]


def decodes_wide(scenario: Scenario, model: ModelSpec) -> bool:
    """Whether pictures are decoded in fp32 although the rest is fp16 (`StableDiffusionXLPipeline.upcast_vae`)."""
    latents = model.latents
    return latents is not None and latents.wide_vae and scenario.serving.weights == "fp16"


def _widened_vae(scenario: Scenario, model: ModelSpec, e: int) -> list[Entry]:
    """What the VAE's weights grow by while it decodes."""
    if not decodes_wide(scenario, model):
        return []
    return component_entries(model, WIDE - e, DECODING, "vae", trains=False)


def _inputs(latents: Latents, asked: Demand, e: int) -> list[Entry]:
    """The text's encoding, once for each pass of guidance, and the latents; both are there to the end."""
    b, g = asked.sequences, latents.passes
    text, image = text_tokens(latents, asked.context_tokens), image_tokens(latents, asked.context_tokens)
    return [
        item(
            Category.ACTIVATIONS,
            "text_encoding",
            g * b * text * latents.text_width * e,
            "g*b*T*d*e",
            {"g": g, "b": b, "T": text, "d": latents.text_width, "e": e},
            "denoiser_inputs",
            phases=ENCODING | DENOISING | DECODING,
        ),
        item(
            Category.ACTIVATIONS,
            "latents",
            SAMPLED * b * image * latents.channels * e,
            "k*b*I*c*e",
            {"k": SAMPLED, "b": b, "I": image, "c": latents.channels, "e": e},
            "denoiser_inputs",
            phases=DENOISING | DECODING,
        ),
    ]


def _denoising(model: ModelSpec, latents: Latents, asked: Demand, e: int) -> list[Entry]:
    """The fullest moment of a block, beside the stream that it reads."""
    batch = asked.sequences * latents.passes
    if model.unet is not None:
        return [plain_entry(model, e, asked.context_tokens, batch, DENOISING)]
    terms, widths = plain_peak(model, e, asked.context_tokens, batch)
    inside, tokens = summed(add(terms, {"h": e}), widths), batch * asked.context_tokens
    return [
        item(
            Category.ACTIVATIONS,
            "block_working",
            whole(tokens * inside.bytes),
            f"ceil(t*({inside.text}))",
            {"t": tokens, **inside.symbols},
            "denoiser_blocks",
            phases=DENOISING,
        )
    ]


def _decoding(model: ModelSpec, latents: Latents, asked: Demand, e: int) -> list[Entry]:
    """The fullest moment of the decoder; a clip's decoder is not described."""
    elements = latents.decode_elements_per_pixel
    if elements is None or not has_vae(model):
        return []
    p = pixels(latents, asked.context_tokens)
    return [vae_entry("image_decoding", asked.sequences, p, elements, e, DECODING)]


def pipeline_answer(share: Share, ledger: Ledger, scenario: Scenario, model: ModelSpec) -> DeviceAnswer:
    """How many pictures at once the card has room for."""
    asked = demand(scenario, model, share)
    usable, sizes = usable_bytes(share), []
    names = {"text_encoding", "latents", "block_working", "image_decoding"}
    for phase in PHASES[2:]:
        growing = sum(one.bytes for one in ledger.alive(phase) if one.name in names)
        fixed = ledger.phase_bytes(phase) - growing
        each = ceil_div(growing, asked.sequences)
        if usable is not None and each:
            sizes.append(max(0, usable - fixed) / each)
    return DeviceAnswer(
        kv_bytes_per_token=0,
        state_bytes_per_sequence=0,
        budget_bytes=None,
        pool_bytes=0,
        tokens=0,
        longest_tokens=asked.longest_tokens,
        concurrency=min(sizes) if sizes else float(asked.sequences),
        reserves_bytes=ledger.peak()[1],
    )


def host_bytes(scenario: Scenario, model: ModelSpec, shares: Iterable[Share]) -> int:
    """What waits in host memory while other components work: all of them, for each card."""
    if scenario.parallel.offload.parameters == "none":
        return 0
    e = plain_bytes(scenario)
    beside = sum(part.params for part in model.components) * e
    return sum(
        len(share.indices) * (beside + sum(one.bytes for one in weight_entries(share, scenario, model)))
        for share in shares
    )
