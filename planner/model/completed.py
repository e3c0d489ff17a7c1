"""A config that leaves out what its class needs, completed by the catalog's row of the same model."""

import json
from collections.abc import Mapping
from functools import lru_cache

from planner.model.errors import UnknownArchitecture
from planner.model.from_config import model_from_config
from planner.model.from_row import Row, config_from_row
from planner.model.spec import ModelSpec


@lru_cache(maxsize=64)
def built(text: str, model_id: str) -> ModelSpec:
    """The model of a config as JSON text."""
    return model_from_config(json.loads(text), model_id=model_id)


def left_out(config: Mapping[str, object], model_id: str | None) -> str:
    """The first key that the config's class needs and the config lacks, "" where there is none."""
    try:
        built(json.dumps(dict(config), sort_keys=True), model_id or "")
    except UnknownArchitecture as refusal:
        return refusal.key if refusal.reason == "missing_key" else ""
    return ""


def model_of(config: Mapping[str, object], model_id: str | None, rows: Mapping[str, Row]) -> ModelSpec:
    """The model of a config; what the config lacks stands in the catalog's row of its id, where it has one.

    Args:
        config: Keys and values of config.json; each that is given decides.
        model_id: The id that stands beside it.
        rows: The catalog.

    Raises:
        UnknownArchitecture: Neither tells, or the row is of another model type.
    """
    text = json.dumps(dict(config), sort_keys=True)
    try:
        return built(text, model_id or "")
    except UnknownArchitecture as refusal:
        if refusal.reason != "missing_key" or model_id is None or model_id not in rows:
            raise
        base = config_from_row(rows[model_id])
        if base.get("model_type") != config.get("model_type"):
            raise
    return built(json.dumps(joined(base, dict(config)), sort_keys=True), model_id)


def joined(base: object, given: object) -> object:
    """`given` laid over `base`: objects key by key, lists of equally many objects one by one."""
    if isinstance(base, Mapping) and isinstance(given, Mapping):
        told = {key: joined(base.get(key), value) for key, value in given.items() if value is not None}
        return {**base, **told}
    if isinstance(base, list) and isinstance(given, list) and len(base) == len(given):
        return [joined(one, other) for one, other in zip(base, given, strict=True)]
    return base if given is None else given
