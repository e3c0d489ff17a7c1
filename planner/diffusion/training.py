"""Training a denoiser: what a step holds beside its blocks."""

from typing import Final

from planner.diffusion import unet_memory
from planner.diffusion.components import has_vae, image_tokens, pixels, vae_entry
from planner.diffusion.forms import stream_bytes
from planner.diffusion.operations import WIDE
from planner.ledger import Category, Entry, Phase
from planner.memory.terms import item, summed, whole
from planner.model.spec import Latents
from planner.training.step import FORWARD, LOSS, Step

ROTATES_STREAM: Final = frozenset({"ltx_video"})
ROTATES_HALVES: Final = frozenset({"mochi"})
"""Cosine and sine of half a head each, for the cells of one clip."""
NORMS_IN_FP32: Final = frozenset({"wan"})
"""Classes whose last norm reads an fp32 copy."""
LATENT_COPIES: Final = 4
"""Latents, noise, what is made of both, and the target (diffusers `train_dreambooth_lora_flux.py`)."""


def input_entries(step: Step, phases: frozenset[Phase]) -> list[Entry]:
    """The text's encoding, and the latents with their noise."""
    latents = step.model.latents
    if latents is None:
        return []
    setup, e = step.setup, stream_bytes(step.setup)
    text = latents.text_in_sequence(setup.sequence) if latents.joint else latents.text_tokens
    image = image_tokens(latents, setup.sequence)
    return [
        item(
            Category.ACTIVATIONS,
            "text_encoding",
            setup.batch * text * latents.text_width * e,
            "b*T*d*e",
            {"b": setup.batch, "T": text, "d": latents.text_width, "e": e},
            "denoiser_inputs",
            phases=phases,
        ),
        item(
            Category.ACTIVATIONS,
            "latents",
            LATENT_COPIES * setup.batch * image * latents.channels * e,
            "k*b*I*c*e",
            {"k": LATENT_COPIES, "b": setup.batch, "I": image, "c": latents.channels, "e": e},
            "denoiser_inputs",
            phases=phases,
        ),
        *_rotary(step, phases),
    ]


def _rotary(step: Step, phases: frozenset[Phase]) -> list[Entry]:
    """Cosine and sine as wide as the stream, in fp32, where the class makes them so (`LTXVideoRotaryPosEmbed`)."""
    h = step.model.hidden_size
    if step.model.model_type in ROTATES_HALVES:
        i = image_tokens(step.model.latents, step.setup.sequence) if step.model.latents is not None else 0
        return [
            item(
                Category.ACTIVATIONS,
                "rotary_tables",
                i * h * WIDE,
                "I*h*4",
                {"I": i, "h": h},
                "denoiser_inputs",
                phases=phases,
            )
        ]
    if step.model.model_type not in ROTATES_STREAM:
        return []
    t = step.setup.tokens
    return [
        item(
            Category.ACTIVATIONS,
            "rotary_tables",
            2 * t * h * WIDE,
            "2*t*h*4",
            {"t": t, "h": h},
            "denoiser_inputs",
            phases=phases,
        )
    ]


def forward_entries(step: Step, saved: list[Entry]) -> list[Entry]:
    """What the forward pass works with: the block at work, or a picture being encoded before anything is saved."""
    latents = step.model.latents
    if latents is None or not step.kinds:
        return []
    working = [_block_working(step)]
    if not has_vae(step.model) or latents.encode_elements_per_pixel is None:
        return [*working, *_loss(step, latents)]
    encoding = _encoding(step, latents, latents.encode_elements_per_pixel)
    beside = sum(entry.bytes for entry in (*saved, *working) if Phase.FORWARD in entry.phases)
    return [
        *(working if beside >= encoding.bytes else [_beyond(encoding, beside - working[0].bytes)]),
        *_loss(step, latents),
    ]


def unet_forward_entries(step: Step) -> list[Entry]:
    """The same of a U-Net, and its loss."""
    latents, entries = step.model.latents, unet_memory.forward_entries(step)
    if latents is None:
        return entries
    if not has_vae(step.model) or latents.encode_elements_per_pixel is None:
        return [*entries, _squared_error(step, latents)]
    encoding = _encoding(step, latents, latents.encode_elements_per_pixel)
    beside = sum(entry.bytes for entry in entries if Phase.FORWARD in entry.phases)
    more = [_beyond(encoding, beside)] if encoding.bytes > beside else []
    return [*entries, *more, _squared_error(step, latents)]


def _block_working(step: Step) -> Entry:
    kind = max(step.kinds, key=lambda kind: summed(kind.form.passing, kind.form.widths).bytes)
    passing, tokens = summed(kind.form.passing, kind.form.widths), step.setup.batch * kind.sequence
    return item(
        Category.ACTIVATIONS,
        "block_working",
        whole(tokens * passing.bytes),
        f"ceil(t*({passing.text}))",
        {"t": tokens, **passing.symbols},
        "denoiser_blocks",
        phases=FORWARD,
    )


def _encoding(step: Step, latents: Latents, elements: int) -> Entry:
    p = pixels(latents, step.setup.sequence)
    e = WIDE if latents.wide_vae else stream_bytes(step.setup)
    return vae_entry("image_encoding", step.setup.batch, p, elements, e, FORWARD)


def _beyond(encoding: Entry, saved: int) -> Entry:
    """The picture is encoded before the blocks run, so that only what exceeds what they hold adds to the phase."""
    symbols = dict(encoding.symbols)
    return item(
        Category.ACTIVATIONS,
        encoding.name,
        max(0, encoding.bytes - saved),
        "max(0, b*p*c*e - s)",
        {**symbols, "s": saved},
        encoding.reference,
        phases=FORWARD,
        estimate=True,
    )


def _loss(step: Step, latents: Latents) -> list[Entry]:
    """The last norm, and the squared error in fp32: prediction, target, their difference and its square."""
    image, b = image_tokens(latents, step.setup.sequence), step.setup.batch
    h, e = step.model.hidden_size, stream_bytes(step.setup)
    kept = int(step.setup.checkpointed) * e + (0 if step.setup.adapter else 2 * e)
    kept += WIDE if step.model.model_type in NORMS_IN_FP32 else 0
    return [
        item(
            Category.ACTIVATIONS,
            "last_norm",
            b * image * h * kept,
            "b*I*h*c",
            {"b": b, "I": image, "h": h, "c": kept},
            "denoiser_blocks",
            phases=LOSS,
        ),
        _squared_error(step, latents),
    ]


def _squared_error(step: Step, latents: Latents) -> Entry:
    image, b = image_tokens(latents, step.setup.sequence), step.setup.batch
    return item(
        Category.LOGITS,
        "noise_loss",
        16 * b * image * latents.channels,
        "16*b*I*c",
        {"b": b, "I": image, "c": latents.channels},
        "denoiser_inputs",
        phases=LOSS,
    )
