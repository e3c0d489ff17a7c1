"""What is asked of every plan about diffusion pipelines: phases of making pictures, and what a plan leaves out.

Light, as every plan loads it; the forms of pipelines are loaded when one is planned.
"""

from typing import Final

from planner.diffusion.components import has_vae
from planner.ledger import Phase
from planner.model.spec import ModelSpec
from planner.scenario import Scenario

PHASES: Final = (Phase.LOAD, Phase.REST, Phase.PREFILL, Phase.FORWARD, Phase.DECODE)


def leaves_out_peak(scenario: Scenario, model: ModelSpec) -> bool:
    """Whether what is left out may be the peak: a clip's VAE works on every pixel of every frame.

    Its decoder where clips are made, its encoder where a denoiser learns from clips not encoded beforehand.
    """
    latents = model.latents
    if latents is None or not has_vae(model):
        return False
    if scenario.is_training:
        return latents.encode_elements_per_pixel is None
    return latents.decode_elements_per_pixel is None


def not_modelled(model: ModelSpec) -> list[tuple[str, str]]:
    """(field, reason) of what a plan of pictures leaves out."""
    latents = model.latents
    if latents is None:
        return []
    found = []
    if model.components:
        found.append(("model", "text_encoder_activations"))
    if has_vae(model) and latents.decode_elements_per_pixel is None:
        found.append(("model.id", "clip_decoder"))
    return found
