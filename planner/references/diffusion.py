"""Citations of the formulas for diffusion pipelines."""

from planner.references.types import Reference

_DIFFUSERS = "https://github.com/huggingface/diffusers/blob/v0.42.1/src/diffusers"

REFERENCES = {
    "denoiser_blocks": Reference(
        "diffusers, classes of the denoisers",
        "operation by operation; kept tensors as PyTorch's autograd has them, held against traces of the classes",
        f"{_DIFFUSERS}/models/transformers",
        "source",
    ),
    "unet_blocks": Reference(
        "diffusers, `UNet2DConditionModel`",
        "operation by operation; kept tensors as PyTorch's autograd has them, held against traces of whole steps",
        f"{_DIFFUSERS}/models/unets/unet_2d_condition.py",
        "source",
    ),
    "denoiser_inputs": Reference(
        "diffusers, training scripts and pipelines",
        "latents, noise and target; the text's encoding",
        "https://github.com/huggingface/diffusers/blob/v0.42.1/examples/dreambooth/train_dreambooth_lora_flux2_klein.py",
        "source",
    ),
    "vae_moments": Reference(
        "diffusers, `AutoencoderKL`",
        "`Decoder`, last block: three tensors of 256 channels at full size; `Encoder`, first block: five of 128",
        f"{_DIFFUSERS}/models/autoencoders/vae.py",
        "source",
    ),
    "pipeline_components": Reference(
        "diffusers, `DiffusionPipeline`",
        "components on the device; `enable_model_cpu_offload` has one at a time there",
        f"{_DIFFUSERS}/pipelines/pipeline_utils.py",
        "source",
    ),
}
