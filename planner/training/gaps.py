"""What of a training scenario is not modelled yet: fields with a warning; the plan still gives the nearest figure."""

from typing import Final

from planner.memory.adapters import PROMPT_METHODS
from planner.memory.kv_cache import keeps_states
from planner.memory.layer_view import RUNS_TRANSFORMERS
from planner.memory.megatron_selective import MODULES
from planner.model.spec import ModelSpec, Structure
from planner.scenario import Scenario
from planner.training.encoder import is_followed
from planner.training.loss import fuses_own_loss
from planner.training.pictures import PICTURE_BLOCKS
from planner.training.setup import captures_whole_graph

Gap = tuple[str, str]

KEEPS_WIDE_INPUTS: Final = frozenset({"torchtitan", "torchtune"})
"""Runtimes whose fp8 products are torchao's, which keep inputs and weights as they came (`Float8Linear`:
`ctx.save_for_backward(input_hp, weight_hp_t)`)."""
COME_BY_UNITS: Final = frozenset({"fsdp", "zero3"})
"""Shardings whose parameters are on the card while they are used, from wherever they are kept."""
BESIDE: Final = frozenset({"text_tower", "per_layer_embeddings", "altup", "ngram_projections"})
"""Blocks of a text's tokens beside the layers; ends of the model (heads, poolers, front ends) are not among them."""
TRANSFORMER_ENGINE: Final = frozenset({"megatron_lm"})
"""Runtimes whose fp8 and fp4 products are Transformer Engine's; see `planner.memory.low_precision`."""


def not_modelled(scenario: Scenario, model: ModelSpec) -> list[Gap]:
    """Every (field, reason code) of a resolved scenario that the formulas pass over or only approximate."""
    return [
        *_compiler_gaps(scenario, model),
        *_training_gaps(scenario),
        *_selective_gaps(scenario, model),
        *_loss_gaps(scenario, model),
        *_adapter_gaps(scenario),
        *_parallel_gaps(scenario),
        *_model_gaps(scenario, model),
        *_picture_gaps(scenario, model),
        *_denoiser_gaps(scenario, model),
    ]


def _denoiser_gaps(scenario: Scenario, model: ModelSpec) -> list[Gap]:
    """What the forms of a denoiser's blocks leave out."""
    latents, training = model.latents, scenario.training
    if latents is None:
        return []
    whole = model.unet is None
    checks = (
        (bool(training.precision.autocast) and whole, "training.precision.autocast", "denoiser_autocast"),
        (bool(training.kernels), "training.kernels", "ignored"),
        (training.attention == "eager" and whole, "training.attention", "denoiser_fused_attention"),
        (training.checkpointing == "selective_attention", "training.checkpointing", "selective_op_as_none"),
        (bool(model.components), "model", "text_encoder_activations"),
        (
            any(one.name == "vae" for one in model.components) and latents.encode_elements_per_pixel is None,
            "model.id",
            "clip_encoder",
        ),
    )
    return [(field, code) for applies, field, code in checks if applies]


def _compiler_gaps(scenario: Scenario, model: ModelSpec) -> list[Gap]:
    """How a compiled step is counted; which of torchtitan's two trainers runs cannot be told."""
    if not scenario.runtime.compile:
        return []
    whole = captures_whole_graph(scenario, model)
    return [("runtime.compile", "compiled_as_one_graph" if whole else "compile_as_eager")]


def _training_gaps(scenario: Scenario) -> list[Gap]:
    training, precision = scenario.training, scenario.training.precision
    checks = (
        (
            precision.fp8 is not None and scenario.runtime.name not in KEEPS_WIDE_INPUTS | TRANSFORMER_ENGINE,
            "training.precision.fp8",
            "fp8_as_compute_dtype",
        ),
        (
            precision.fp4 is not None and scenario.runtime.name not in TRANSFORMER_ENGINE,
            "training.precision.fp4",
            "fp4_as_compute_dtype",
        ),
        (training.attention == "transformer_engine_unfused", "training.attention", "unfused_as_eager"),
        (training.alignment is not None, "training.alignment", "time_of_one_model"),
        ((training.sequence_chunks or 1) > 1, "training.sequence_chunks", "time_without_it"),
        ((training.recompute_budget_frac or 1) < 1, "training.recompute_budget_frac", "time_without_it"),
        (training.packing == "none", "training.packing", "padded_to_sequence_length"),
    )
    return [
        (field, code) for applies, field, code in checks if applies and code != "padded_to_sequence_length"
    ]


def _selective_gaps(scenario: Scenario, model: ModelSpec) -> list[Gap]:
    """Layers that selective checkpointing leaves as they are, and modules by a name that is not Megatron's."""
    training, runtime = scenario.training, scenario.runtime.name
    names, megatron = set(training.checkpoint_modules or ()), runtime == "megatron_lm"
    whole = runtime == "litgpt" or any(
        keeps_states(layer.attention) or layer.program for layer, _ in model.distinct_layers()
    )
    checks = (
        (
            training.checkpointing == "selective_op" and whole,
            "training.checkpointing",
            "selective_op_as_none",
        ),
        (bool(names - MODULES if megatron else names), "training.checkpoint_modules", "ignored"),
    )
    return [(field, code) for applies, field, code in checks if applies]


def _loss_gaps(scenario: Scenario, model: ModelSpec) -> list[Gap]:
    standard = scenario.training.loss in {None, "standard"}
    own = fuses_own_loss(scenario.runtime.name, scenario.parallel.sharding, model)
    return [("training.loss", "loss_of_own_code")] if standard and own else []


def _adapter_gaps(scenario: Scenario) -> list[Gap]:
    adapter = scenario.adapter
    if adapter is None:
        return []
    gaps: list[Gap] = []
    if adapter.method in PROMPT_METHODS:
        gaps.append(("adapter.method", "prompt_activations_ignored"))
    if adapter.method in {"lokr", "oft", "boft", "adalora", "vera", "loha", "ia3"}:
        gaps.append(("adapter.method", "activations_as_lora"))
    return gaps


def _parallel_gaps(scenario: Scenario) -> list[Gap]:
    parallel = scenario.parallel
    if parallel.offload.parameters == "none" or parallel.sharding in COME_BY_UNITS:
        return []
    return [("parallel.offload.parameters", "buffers_ignored")]


def _picture_gaps(scenario: Scenario, model: ModelSpec) -> list[Gap]:
    """Pictures that are not counted, and what of them is counted as something else."""
    training, runtime = scenario.training, scenario.runtime.name
    if model.tower is None:
        return []
    if not training.images:
        return [("model", "pictures_not_counted")]
    checks = (
        (training.tower == "trained" and scenario.adapter is not None, "training.tower", "tower_as_frozen"),
        (runtime not in RUNS_TRANSFORMERS, "runtime.name", "tower_as_transformers"),
    )
    return [(field, code) for applies, field, code in checks if applies]


def _left_beside(model: ModelSpec) -> list[str]:
    """What stands beside the layers and is not worked through: undescribed towers, other parts, layers for MTP."""
    names = {block.name for block in model.blocks}
    checks = (
        (bool(names & PICTURE_BLOCKS) and model.tower is None, "block_activations_ignored"),
        (any(code.endswith("_tower_not_counted") for code in model.approximate), "block_activations_ignored"),
        (bool(names & BESIDE), "beside_activations_ignored"),
        ("mtp" in names, "mtp_not_trained"),
    )
    return list(dict.fromkeys(code for applies, code in checks if applies))


def _model_gaps(scenario: Scenario, model: ModelSpec) -> list[Gap]:
    gaps: list[Gap] = []
    if any(keeps_states(layer.attention) for layer, _ in model.distinct_layers()):
        gaps.append(("model", "recurrent_layers_approximated"))
    followed = is_followed(
        model, scenario.runtime.name, scenario.training, scenario.parallel, scenario.adapter
    )
    if model.structure not in {Structure.DECODER, Structure.DENOISER} and not followed:
        gaps.append(("model", "encoder_activations_approximated"))
    if model.latents is None and not followed:
        gaps += [("model", code) for code in _left_beside(model)]
    if model.approximate:
        gaps.append(("model", "approximate_shapes"))
    return gaps
