"""Fields that validate but that no serving formula uses yet: the source of "not modelled yet" warnings."""

from planner.diffusion.gaps import not_modelled as pictures_not_modelled
from planner.memory.serving_draft import POOLED
from planner.memory.serving_gguf import mixture
from planner.memory.serving_stored import held_gguf
from planner.memory.weight_formats import weight_format
from planner.model.spec import ModelSpec
from planner.placement_llama_cpp import LLAMA_FAMILY
from planner.scenario import Scenario


def not_modelled(scenario: Scenario, model: ModelSpec) -> list[tuple[str, str]]:
    """(field, reason code) of everything given that the plan leaves out.

    Args:
        scenario: The question with its runtime's defaults filled in.
        model: The model.
    """
    return [
        *_serving(scenario, model),
        *_weights(scenario),
        *_engine(scenario, model),
        *pictures_not_modelled(model),
    ]


def _serving(scenario: Scenario, model: ModelSpec) -> list[tuple[str, str]]:
    found = []
    if scenario.serving.speculative and not _draft_known(scenario, model):
        found.append(("serving.speculative", "draft_model"))
    if scenario.serving.split_mode == "row":
        found.append(("serving.split_mode", "row_split"))
    if scenario.parallel.context > 1:
        found.append(("parallel.context", "context_parallel_serving"))
    return found


def _draft_known(scenario: Scenario, model: ModelSpec) -> bool:
    """Whether the draft is counted: the model's own prediction layers, or a model that is described."""
    if scenario.serving.speculative == "mtp":
        return any(block.name == "mtp" for block in model.blocks)
    return scenario.serving.draft_model is not None and scenario.runtime.name in POOLED


def _weights(scenario: Scenario) -> list[tuple[str, str]]:
    """Formats whose size is not documented; a given file size settles them."""
    told = scenario.serving.weights_file_bytes is not None or held_gguf(scenario) is not None
    if told and scenario.runtime.name in LLAMA_FAMILY:
        return []
    found = []
    llama = scenario.runtime.name in LLAMA_FAMILY
    for field in ("weights", "expert_weights"):
        name = getattr(scenario.serving, field)
        reason = _weight_gap(name, llama=llama) if name else None
        if reason:
            found.append((f"serving.{field}", reason))
    return found


def _weight_gap(name: str, *, llama: bool) -> str | None:
    known = mixture(name)
    if llama:
        return None if known else "weight_format_size"
    own = weight_format(name)
    if own is None:
        return "gguf_as_16_bit" if known else "weight_format_size"
    return "gguf_own_bits" if own.family == "gguf" else None


def _engine(scenario: Scenario, _model: ModelSpec) -> list[tuple[str, str]]:
    if scenario.runtime.name in {"pegainfer", "sglang_omni"}:
        return [("runtime.name", "engine_like_another")]
    return []
