"""Command lines of llama.cpp and its fork ik_llama.cpp: `llama-server` and `llama-cli`.

Source: llama.cpp `common/arg.cpp`; ik_llama.cpp `common/common.cpp`. The model is a file: its name tells the
catalog's model and the format where it is clear.
"""

from typing import Any, Final

from planner.imports.command_line import CommandLine
from planner.imports.draft import Draft
from planner.imports.gguf_names import catalog_model, split_name
from planner.imports.keys import Keys
from planner.placement_llama_cpp import device_of, split_points
from planner.yaml_text import number

CACHES: Final = {
    "f16": "fp16", "bf16": "bf16", "f32": "fp32", "q8_0": "q8_0", "q6_0": "q6_0", "q5_0": "q5_0", "q5_1": "q5_1",
    "q4_0": "q4_0", "q4_1": "q4_1", "iq4_nl": "iq4_nl",
}  # fmt: skip
SPLITS: Final = {"layer": "layer", "row": "row", "none": "none"}
FLASH: Final = {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}
MOST_SHARE: Final = 1_000_000
ALL_LAYERS: Final = 999
"""More than any model has."""
EXPERTS_TO_HOST: Final = frozenset(
    {"exps=CPU", ".ffn_.*_exps.=CPU", r"\.ffn_.*_exps\.=CPU", "ffn_.*_exps=CPU"}
)
OF_THE_FORK: Final = frozenset({"mla", "amb", "fmoe", "rtr", "mla_use", "attention_max_batch", "ser"})
HARMLESS: Final = (
    "host", "port", "t", "threads*", "tb", "n", "n_predict", "predict", "temp", "top_*", "min_p", "typical*",
    "xtc_*", "dry_*", "repeat_*", "presence_*", "frequency_*", "mirostat*", "samplers", "s", "seed", "mlock",
    "no_mmap", "mmap", "dio", "jinja", "no_jinja", "chat_template*", "a", "alias", "api_key*", "cb",
    "cont_batching", "no_cont_batching", "nocb", "b", "batch_size", "metrics", "slots", "no_slots", "slot_*",
    "props", "log_*", "v", "verbose", "lv", "verbosity", "numa", "prio*", "poll*", "C", "Cr", "cpu_*", "p", "prompt",
    "f", "file", "i", "interactive*", "cnv", "conversation", "no_cnv", "sys*", "st", "single_turn", "color", "e",
    "escape", "no_escape", "no_warmup", "warmup", "rope_*", "yarn_*", "reasoning*", "ssl_*", "timeout", "to",
    "no_webui", "webui", "path", "cache_reuse", "context_shift", "no_context_shift", "keep", "grammar*",
    "json_schema*", "j", "hft", "hf_token", "hff", "hf_file", "offline", "mg", "main_gpu", "check_tensors", "perf",
    "no_perf", "simple_io", "ignore_eos", "l", "logit_bias", "sm_*", "threads_http", "cache_prompt",
    "no_cache_prompt", "defrag_thold", "dt", "fmoe", "rtr", "ser", "tags",
)  # fmt: skip
NOT_MODELLED: Final = (
    "mmproj", "mm", "md", "model_draft", "hfd", "hf_repo_draft", "lora", "lora_scaled", "control_vector", "dev",
    "device", "swa_full", "kvu", "kv_unified", "cram", "cache_ram", "rpc", "embedding", "embeddings", "reranking",
    "fit", "fit_target", "override_kv", "mmproj_url", "no_repack", "op_offload", "no_op_offload", "draft_max",
    "ctx_checkpoints", "model_vocoder", "mv",
)  # fmt: skip


def read(line: CommandLine, draft: Draft) -> None:
    """The whole command line."""
    options = dict(line.options)
    if "-m" in line.program[:-1] and not options.keys() & {"m", "model"}:
        options["m"] = line.program[line.program.index("-m") + 1]
    keys = Keys(options, draft, "--")
    fork = options.keys() & OF_THE_FORK or "ik_llama" in " ".join(line.program)
    draft.serve("ik_llama_cpp" if fork else "llama_cpp")
    same_model = _model(keys, draft)
    _context(keys, draft)
    _caches(keys, draft, same_model=same_model)
    _placement(keys, draft)
    keys.pick("serving.split_mode", SPLITS, "split_mode", "sm")
    _split(keys, draft)
    _first_experts(keys, draft)
    keys.whole("serving.mla_mode", "mla", "mla_use", least=0)
    keys.whole("serving.attention_max_batch_mib", "amb", "attention_max_batch")
    draft.put("parallel", None)
    keys.not_modelled(*NOT_MODELLED)
    keys.finish(HARMLESS)


def _model(keys: Keys, draft: Draft) -> bool:
    """The model by the name of its file.

    Returns:
        Whether it is the model that the question had, whose formats then stay.
    """
    key = next(
        (name for name in ("m", "model", "hf", "hfr", "hf_repo", "mu", "model_url") if keys.has(name)), "m"
    )
    given = keys.raw("m", "model", "hf", "hfr", "hf_repo", "mu", "model_url")
    before = draft.get("model.id")
    if not isinstance(given, str):
        return True
    stem, kind = split_name(given)
    known = catalog_model(stem, draft.models)
    if known is None:
        keys.remark(key, given, "model_unclear")
    else:
        draft.model(known)
    is_same = known is not None and known == before
    if kind is not None or not is_same:
        draft.put("serving.weights", kind)
        draft.put("serving.expert_weights", None)
        draft.put("serving.weights_file_bytes", None)
    return is_same


def _context(keys: Keys, draft: Draft) -> None:
    """Context of all slots together, slots, and the micro-batch; left out they are the program's."""
    length = keys.whole("", "ctx_size", "c", least=0)
    draft.put("serving.max_model_len", length or None)
    draft.put("serving.max_sequences", None)
    slots = keys.raw("parallel", "np")
    if isinstance(slots, int) and not isinstance(slots, bool) and slots > 0:
        draft.put("serving.max_sequences", slots)
    elif slots not in {None, -1}:
        keys.remark("parallel", slots, "bad_value", allowed="integer >= 1")
    draft.put("serving.batched_tokens", keys.whole("", "ubatch_size", "ub"))
    draft.put("serving.prefix_caching", None)


def _caches(keys: Keys, draft: Draft, *, same_model: bool) -> None:
    """Keys and values of the cache; one that is left out is 16 bits."""
    key = keys.pick("", CACHES, "cache_type_k", "ctk")
    value = keys.pick("", CACHES, "cache_type_v", "ctv")
    if key or value or not same_model or draft.get("serving.kv_cache"):
        draft.put("serving.kv_cache", key or ("fp16" if value else None))
        draft.put(
            "serving.kv_cache_v", (value or "fp16") if (value or "fp16") != key and (key or value) else None
        )
    flash = keys.raw("flash_attn", "fa")
    draft.put("serving.flash_attention", None)
    if flash is not None and (word := str(flash).casefold()) != "auto":
        if word in FLASH:
            draft.put("serving.flash_attention", FLASH[word])
        else:
            keys.remark("flash_attn", flash, "bad_value", allowed="on, off, auto")
    draft.put("serving.no_kv_offload", True if keys.flag("", "no_kv_offload", "nkvo") else None)


def _placement(keys: Keys, draft: Draft) -> None:
    """What goes to the cards: layers, and the experts' own matrices."""
    layers = keys.plain("n_gpu_layers")
    for name in ("gpu_layers", "ngl"):
        layers = keys.plain(name) if layers is None else layers
    draft.put("serving.gpu_layers", None)
    layers = ALL_LAYERS if layers == "all" else layers
    if isinstance(layers, int) and not isinstance(layers, bool) and layers >= 0:
        draft.put("serving.gpu_layers", layers)
    elif layers not in {None, "auto", -1} if isinstance(layers, str | int | None) else True:
        keys.remark("n_gpu_layers", layers, "bad_value", allowed="integer >= 0, all, auto")
    draft.put("serving.host_experts", None)
    draft.put("serving.expert_layers", None)
    override = keys.raw("override_tensor", "ot")
    if override in EXPERTS_TO_HOST if isinstance(override, str) else False:
        draft.put("serving.host_experts", True)
    elif override is not None:
        keys.remark("override_tensor", override, "not_modelled")
    if keys.flag("", "cpu_moe", "cmoe"):
        draft.put("serving.host_experts", True)


def _first_experts(keys: Keys, draft: Draft) -> None:
    """Experts of the first layers on the host: those of the others are counted from the catalog's row, card by card."""
    first = keys.whole("", "n_cpu_moe", "ncmoe", least=0)
    if not first:
        return
    row = draft.models.get(str(draft.get("model.id")), {})
    total, dense = row.get("num_hidden_layers"), row.get("first_k_dense") or 0
    cards = _cards(draft)
    if not isinstance(total, int) or cards is None:
        keys.remark("n_cpu_moe", first, "not_modelled")
        return
    weights = _shares(draft, cards)
    if weights is None:
        keys.remark("n_cpu_moe", first, "unlike_cards", cards=cards)
        return
    draft.put("serving.host_experts", True)
    counts = _experts_of_cards(total, max(first, dense), draft.get("serving.gpu_layers"), weights)
    draft.put("serving.expert_layers", counts if any(counts) else None)


def _experts_of_cards(
    total: int, first: int, gpu_layers: int | None, weights: tuple[float, ...]
) -> list[int]:
    """Layers from `first` on by card: the last `gpu_layers`, the output layer among them, are divided by weight."""
    start = 0 if gpu_layers is None else min(total, max(0, total + 1 - gpu_layers))
    held, points = total + 1 - start, split_points(weights)
    counts = [0] * len(weights)
    for layer in range(max(start, first), total):
        counts[device_of(layer - start, held, points)] += 1
    return counts


def _shares(draft: Draft, cards: int) -> tuple[float, ...] | None:
    """What layers are divided by: the given split, else equal cards; None where the cards are of several kinds."""
    given = draft.get("serving.tensor_split")
    if isinstance(given, list) and len(given) == cards and sum(given) > 0:
        return tuple(given)
    if draft.get("serving.split_mode") == "none":
        return (1.0, *(0.0 for _ in range(cards - 1)))
    return tuple(1.0 for _ in range(cards)) if len(draft.get("hardware.devices")) == 1 else None


def _cards(draft: Draft) -> int | None:
    """Cards of the question; None where it is none that can be counted."""
    rows = draft.get("hardware.devices")
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        return None
    return sum(int(row.get("count", 1)) for row in rows)


def _split(keys: Keys, draft: Draft) -> None:
    """Shares of the cards, which are as many as there are figures."""
    given = keys.raw("tensor_split", "ts")
    draft.put("serving.tensor_split", None)
    if given is None:
        return
    parts: list[Any] = [number(part.strip()) for part in str(given).replace("/", ",").split(",")]
    if not all(isinstance(part, int | float) and 0 <= part <= MOST_SHARE for part in parts):
        keys.remark("tensor_split", given, "bad_value", allowed="3,1")
        return
    draft.put("serving.tensor_split", [float(part) for part in parts])
    draft.cards(len(parts), "--tensor-split")
