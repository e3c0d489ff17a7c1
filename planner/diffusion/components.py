"""Frozen models beside a denoiser, and how large a picture a sequence is."""

from collections.abc import Iterable

from planner.diffusion.operations import WIDE
from planner.ledger import Category, Entry, Phase
from planner.memory.terms import item
from planner.model.spec import Latents, ModelSpec


def component_entries(
    model: ModelSpec, e: int, phases: Iterable[Phase], *names: str, trains: bool = True
) -> list[Entry]:
    """Weights of the components, an entry each kind.

    Args:
        model: A pipeline's denoiser; another model has no components.
        e: Bytes of an element.
        phases: When they are on the device.
        names: Kinds that are asked for; all if none is named.
        trains: Whether the denoiser is trained.
    """
    latents = model.latents
    wide = trains and latents is not None and latents.wide_vae
    sizes = {"vae": WIDE if wide else e}
    kinds = dict.fromkeys(part.name for part in model.components if not names or part.name in names)
    return [
        item(
            Category.WEIGHTS,
            f"{kind}_weights",
            sum(part.params for part in model.components if part.name == kind) * sizes.get(kind, e),
            "P*e",
            {
                "P": sum(part.params for part in model.components if part.name == kind),
                "e": sizes.get(kind, e),
            },
            "pipeline_components",
            phases=phases,
        )
        for kind in kinds
    ]


def has_vae(model: ModelSpec) -> bool:
    """Whether pictures are encoded or decoded on the device."""
    return any(part.name == "vae" for part in model.components)


def image_tokens(latents: Latents, sequence: int) -> int:
    """Tokens of the picture in a sequence."""
    return max(1, sequence - latents.text_in_sequence(sequence))


def pixels(latents: Latents, sequence: int) -> int:
    """Pixels of the picture or clip that a sequence stands for."""
    return image_tokens(latents, sequence) * latents.pixels_per_token**2 * latents.frames_per_token


def vae_entry(name: str, b: int, p: int, elements: int, e: int, phases: Iterable[Phase]) -> Entry:
    """The fullest moment of an encoder or a decoder of pictures.

    Args:
        name: Of the entry.
        b: Pictures.
        p: Pixels of one.
        elements: That are alive for each pixel.
        e: Bytes of an element.
        phases: When it works.
    """
    return item(
        Category.ACTIVATIONS,
        name,
        b * p * elements * e,
        "b*p*c*e",
        {"b": b, "p": p, "c": elements, "e": e},
        "vae_moments",
        phases=phases,
        estimate=True,
    )
