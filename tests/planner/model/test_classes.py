"""Parameter counts of classes, small and with every switch, against counts of the classes themselves."""

import importlib

import pytest

from planner.model import MODEL_TYPES, model_from_config
from planner.model.registry import FAMILIES, MULTIMODAL
from tests.planner.model.samples import class_counts

COUNTS = class_counts()


def _configs(record: dict[str, object]) -> dict[str, object]:
    config = record["config"]
    assert isinstance(config, dict)
    return config


@pytest.mark.parametrize(
    "record",
    COUNTS,
    ids=[f"{_configs(record)['model_type']}-{number}" for number, record in enumerate(COUNTS)],
)
def test_count_equals_the_class(record: dict[str, object]) -> None:
    assert model_from_config(_configs(record)).params_total == record["params"]


def test_many_types_are_counted() -> None:
    assert len({_configs(record)["model_type"] for record in COUNTS}) == 117


@pytest.mark.parametrize("family", FAMILIES)
def test_the_registry_lists_what_a_file_builds(family: str) -> None:
    module = importlib.import_module(f"planner.model.{family}")
    built = module.WRAPPERS if family == MULTIMODAL else module.BUILDERS
    assert FAMILIES[family] == tuple(built)


def test_no_type_is_listed_twice() -> None:
    listed = [name for types in FAMILIES.values() for name in types]
    assert sorted(listed) == list(MODEL_TYPES)
