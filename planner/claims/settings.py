"""Claims made by settings: keys that articles show, put to the importers."""

import json
from typing import Final

from planner.claims.training import full_training
from planner.claims.types import Claim, Figure, Outcome
from planner.hardware import Tables
from planner.imports import import_text

SHOWN: Final = {
    "train_micro_batch_size_per_gpu": 1,
    "bf16": {"enabled": True},
    "load_sharded_model": True,
    "enable_kv_cache_sharing": True,
    "zero_optimization": {
        "stage": 2,
        "stage3_max_live_parameters": 500_000_000,
        "offload_params_path": "/local_nvme",
        "offload_optimizer": {
            "device": "cpu",
            "pin_memory": True,
            "offload_buffer_size": 500_000_000,
            "offload_optimizer_threads": 4,
        },
    },
    "pipeline": {"micro_batch_size": 4},
}
"""Every key that the articles show and that does nothing, in one file, with four that act."""
ACTING: Final = frozenset({"inert", "stage"})


def g31(_tables: Tables) -> Claim:
    """Each key that does nothing, with the one that does what it seems to."""
    found = import_text(json.dumps(SHOWN), {"version": 1, **full_training(cards=8)}, "deepspeed")
    figures = []
    for remark in found.remarks:
        if remark.reason not in ACTING:
            continue
        params = dict(remark.params)
        real = str(params["real"]) if remark.reason == "inert" else f"stage {params['needs']}"
        figures.append(
            Figure(
                name=remark.key.rpartition(".")[2],
                said=1,
                found=0,
                unit="flags",
                detail=f"{remark.key} → {real}",
            )
        )
    count = Figure(name="keys_without_effect", said=0, found=len(figures), unit="count")
    return Claim(id="g31", outcome=Outcome.WRONG, figures=(count, *figures))
