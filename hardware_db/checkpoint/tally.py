"""Tensors by the part of the model they belong to, by the names that checkpoints give them."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

from hardware_db.checkpoint.found import Checkpoint, Tensor

NOT_WEIGHTS: Final = re.compile(
    r"(rotary_emb\.inv_freq|position_ids|\.masked_bias|(^|\.)h\.\d+\.attn\.bias|attention\.bias)$"
)
"""Buffers that old checkpoints carry and engines make anew: rotary frequencies, causal masks, counts."""
_SCALES: Final = re.compile(
    r"(scale|scales|scale_inv|scale_2|qzeros|zero_point|g_idx|absmax|quant_map|SCB|weight_format|shape|amax)$"
    r"|quant_state"
)
_LAYER: Final = re.compile(r"(?:^|\.)(?:layers|h|blocks|layer|block|blk)\.(\d+)\.")
_TOWERS: Final = "|".join(
    (
        *(
            "visual",
            "vision",
            "vision_tower",
            "vision_model",
            "vision_encoder",
            "vit",
            "audio",
            "audio_tower",
        ),
        *("audio_encoder", "speech_encoder", "image_newline", "multi_modal_projector", "mm_projector"),
        *("embed_vision", "embed_audio", "vision_language_adapter", "img_processor", "connector", "aligner"),
    )
)
_MIXERS: Final = "|".join(
    (
        *("attn", "attention", "mixer", "mamba", "ssm", "temporal", "indexer", "shortconv"),
        *(r"\.conv\.", r"\.(q|k|v|o)_proj\."),
    )
)
_FEEDS: Final = r"mlp|feed_forward|ffn|\.fc[12]\.|dense_h_to_4h|dense_4h_to_h|densereludense|_proj"
_RULES: Final[tuple[tuple[str, re.Pattern[str]], ...]] = tuple(
    (part, re.compile(pattern, re.IGNORECASE))
    for part, pattern in (
        ("draft", r"(^|\.)mtp\.|(^|\.)(mtp_|nextn)|eagle"),
        ("other", rf"(^|\.)({_TOWERS})\.|^(v|mm|a)\."),
        ("shared_experts", r"shared_expert|shared_mlp|_shexp"),
        ("router", r"\.gate\.|router|ffn_gate_inp|exp_probs_b|e_score_correction_bias"),
        ("experts", r"\.experts\.|_exps\.|\.experts_|expert_"),
        ("head", r"(^|\.)(lm_head|embed_out|output)\.(weight|bias|q?weight\w*|scale\w*)|cls\.predictions"),
        ("norm", r"norm[^.]*\.(weight|bias)$|(^|\.)(ln_\w+|ln\d?|norm\w*)\.|layernorm"),
        ("embedding", r"(^|\.)(wte|wpe|shared|tok_embeddings|position_embd)\.|embed|token_embd|token_types"),
        ("attention", _MIXERS),
        ("mlp", _FEEDS),
    )
)


def part_of(name: str, num_layers: int | None) -> str:
    """The part of the model that a tensor belongs to.

    Args:
        name: The tensor's name.
        num_layers: Layers of the model; later ones are drafting layers. None where not known.
    """
    layer = _LAYER.search(name)
    if layer is not None and num_layers is not None and int(layer[1]) >= num_layers and not _is_tower(name):
        return "draft"
    for part, pattern in _RULES:
        if pattern.search(name):
            return part
    return "attention" if layer is not None else "other"


def _is_tower(name: str) -> bool:
    """Whether a numbered layer is of an encoder beside the text model, which counts its own."""
    return bool(_RULES[1][1].search(name)) or "encoder." in name


def is_scale(name: str) -> bool:
    """Whether a tensor undoes a quantization."""
    return bool(_SCALES.search(name.rpartition(".")[2])) or "quant_state" in name


def is_weight(tensor: Tensor) -> bool:
    """Whether an engine loads it."""
    return tensor.bytes > 0 and not NOT_WEIGHTS.search(tensor.name)


def tally(found: Checkpoint) -> Counter[tuple[str, str, bool]]:
    """Bytes by (part, format, whether scales)."""
    layers = num_layers(found.config)
    sizes: Counter[tuple[str, str, bool]] = Counter()
    for tensor in found.tensors:
        if is_weight(tensor):
            sizes[part_of(tensor.name, layers), tensor.format, is_scale(tensor.name)] += tensor.bytes
    return sizes


def num_layers(config: Mapping[str, object] | None) -> int | None:
    """Layers that a config names, its text part first."""
    if config is None:
        return None
    text = config.get("text_config")
    for block in (text if isinstance(text, Mapping) else {}, config):
        count = block.get("num_hidden_layers")
        if isinstance(count, int):
            return count
    return None


def stored_document(found: Checkpoint, date: str) -> dict[str, object]:
    """The `model.stored` block of a scenario, largest part first.

    Args:
        found: What was read.
        date: Today, as YYYY-MM-DD.
    """
    rows = []
    for (part, kind, scales), size in tally(found).most_common():
        row: dict[str, object] = {"part": part, "format": kind, "bytes": size}
        rows.append(row | {"scales": True} if scales else row)
    block: dict[str, object] = {"source": found.source, "date": date, "container": found.container}
    if found.file_type is not None:
        block["weights"] = found.file_type
    return block | {"parts": rows}
