"""FSDP's section, as Accelerate's file and the trainers' `fsdp_config` both have it, with or without `fsdp_`.

Source: accelerate 1.15 `FullyShardedDataParallelPlugin`, `accelerate/commands/config`.
"""

from typing import Final

from planner.imports.draft import Draft
from planner.imports.keys import Keys

RESHARDS: Final = {
    "FULL_SHARD": True, "HYBRID_SHARD": True, "SHARD_GRAD_OP": False, "HYBRID_SHARD_ZERO2": False,
    "1": True, "2": False, "4": True, "5": False,
}  # fmt: skip
HARMLESS: Final = (
    "*auto_wrap_policy", "*backward_prefetch", "*forward_prefetch", "*state_dict_type", "*use_orig_params",
    "*sync_module_states", "*transformer_layer_cls_to_wrap", "*min_num_params", "version", "fsdp_version",
    "final_state_dict_type", "*cpu_ram_efficient_loading", "*ignored_modules", "xla*", "limit_all_gathers",
)  # fmt: skip
INERT: Final = {
    "load_sharded_model": "fsdp_cpu_ram_efficient_loading",
    "fsdp_load_sharded_model": "fsdp_cpu_ram_efficient_loading",
}


def read_fsdp_config(keys: Keys, draft: Draft) -> None:
    """What the section says about memory: whether layers are given back after use, offload, checkpointing."""
    keys.inert(INERT)
    whole = keys.raw("fsdp_sharding_strategy", "sharding_strategy")
    given = keys.flag("", "fsdp_reshard_after_forward", "reshard_after_forward")
    if whole is not None:
        _strategy(str(whole).upper(), keys, draft)
    elif given is not None:
        draft.put("parallel.reshard_after_forward", given)
    if keys.flag("", "fsdp_offload_params", "offload_params", "cpu_offload", default=False):
        draft.put("parallel.offload", {"parameters": "cpu", "gradients": "cpu", "optimizer": "cpu"})
    if keys.flag("", "fsdp_activation_checkpointing", "activation_checkpointing", default=False):
        draft.put("training.checkpointing", "full")
    keys.finish(HARMLESS)


def _strategy(word: str, keys: Keys, draft: Draft) -> None:
    if word in {"NO_SHARD", "3"}:
        draft.put("parallel.sharding", "none")
    elif word in RESHARDS:
        draft.put("parallel.reshard_after_forward", RESHARDS[word])
    else:
        keys.remark("fsdp_sharding_strategy", word, "bad_value", allowed=", ".join(RESHARDS))
