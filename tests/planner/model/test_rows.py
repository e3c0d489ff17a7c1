"""Parameter counts of every catalogue row."""

from collections import Counter

import pytest

from planner.model import UnknownArchitecture, model_from_row, pipeline_from_row
from planner.model.from_row import config_from_row, pattern_counts, spread
from tests.planner.model.samples import catalogue

ROWS = catalogue()
MODELS = [row for row in ROWS if row["kind"] == "model"]
PIPELINES = [row for row in ROWS if row["kind"] == "pipeline"]
APPROXIMATE = {"moonshotai/Kimi-K3", "deepseek-ai/DeepSeek-V4.1-Flash"}


def _id(row: dict[str, object]) -> str:
    return str(row["id"])


@pytest.mark.parametrize("row", [row for row in MODELS if row["formula_matches_class"]], ids=_id)
def test_count_equals_the_checked_formula(row: dict[str, object]) -> None:
    assert model_from_row(row).params_total == row["params_formula"]


def test_all_checked_rows_are_there() -> None:
    assert sum(bool(row["formula_matches_class"]) for row in MODELS) == 186


@pytest.mark.parametrize("row", [row for row in MODELS if _id(row) not in APPROXIMATE], ids=_id)
def test_count_equals_the_total(row: dict[str, object]) -> None:
    spec = model_from_row(row)
    assert spec.params_total == row["params_total"]
    assert spec.id == row["id"]
    assert spec.model_type == row["model_type"]
    assert not spec.approximate


@pytest.mark.parametrize("row", [row for row in MODELS if _id(row) in APPROXIMATE], ids=_id)
def test_an_approximate_row_says_so_and_is_close(row: dict[str, object]) -> None:
    spec = model_from_row(row)
    assert spec.approximate == ("class_not_public",)
    assert row["count_method"] == "approximate formula"
    assert spec.params_total == pytest.approx(row["params_total"], rel=1e-6)


def test_every_row_is_built_pipelines_included() -> None:
    refused: dict[str, list[str]] = {}
    for row in ROWS:
        try:
            model_from_row(row)
        except UnknownArchitecture as problem:
            refused.setdefault(problem.reason, []).append(_id(row))
    assert refused == {}


@pytest.mark.parametrize("row", PIPELINES, ids=_id)
def test_a_described_denoiser_has_the_parameters_of_its_class(row: dict[str, object]) -> None:
    spec, pipeline = model_from_row(row), pipeline_from_row(row)
    assert spec.params_total == pipeline.components[0][1]
    assert sum(part.params for part in spec.components) == pipeline.params_total - spec.params_total
    assert spec.latents is not None
    no_encoder = not any(part.name.startswith("text_encoder") for part in spec.components)
    assert ("text_encoders_not_counted" in spec.approximate) is no_encoder


@pytest.mark.parametrize("row", PIPELINES[:1] + PIPELINES[-1:], ids=_id)
def test_an_undescribed_pipeline_is_refused_with_its_parameters(row: dict[str, object]) -> None:
    with pytest.raises(UnknownArchitecture) as caught:
        model_from_row({key: value for key, value in row.items() if key != "denoiser"})
    assert caught.value.lower_bound_params == row["params_total"]
    assert caught.value.value in {"unet", "transformer"}


@pytest.mark.parametrize(
    "row", [row for row in MODELS if row["params_active"] and _id(row) not in APPROXIMATE], ids=_id
)
def test_active_parameters(row: dict[str, object]) -> None:
    assert model_from_row(row).params_active == row["params_active"]


def test_dense_models_are_active_as_a_whole() -> None:
    dense = [model_from_row(row) for row in MODELS if not row["num_experts"]]
    assert len(dense) > 150
    assert all(spec.params_active == spec.params_total for spec in dense)


@pytest.mark.parametrize("row", [row for row in MODELS if row["vocab_size"]], ids=_id)
def test_embedding(row: dict[str, object]) -> None:
    spec = model_from_row(row)
    if row["model_type"] == "wav2vec2":
        assert spec.embedding_params == 0  # its 32 letters are the output of a head that the row leaves out
        return
    assert spec.vocab_size == row["vocab_size"]
    if row["id"] != "facebook/opt-350m":  # an embedding half as wide as the layers
        assert spec.embedding_params == spec.vocab_size * spec.hidden_size


KINDS = {
    "indexed_attention": "mla",
    "linear_attention": "linear",
    "full_attention": "full",
    "sliding_attention": "sliding",
    "chunked_attention": "chunked",
    "compressed_sparse_attention": "sliding",
    "heavily_compressed_attention": "sliding",
    "conv": "convolution",
    "mlp": "none",
    "moe": "none",
}
OWN_KINDS = {
    "nemotron_h": {"linear_attention": "state_space"},
    "kimi_linear": {"full_attention": "mla"},
}


@pytest.mark.parametrize("row", [row for row in MODELS if row["layer_pattern"]], ids=_id)
def test_layers_of_each_kind(row: dict[str, object]) -> None:
    own = OWN_KINDS.get(str(row["model_type"]), {})
    expected: Counter[str] = Counter()
    for kind, count in pattern_counts(row).items():
        expected[own.get(kind, KINDS[kind])] += count
    assert Counter(layer.attention.kind.value for layer in model_from_row(row).layers) == expected


@pytest.mark.parametrize("row", PIPELINES, ids=_id)
def test_pipelines_have_components(row: dict[str, object]) -> None:
    pipeline = pipeline_from_row(row)
    assert pipeline.params_total == row["params_total"]
    assert all(name and params > 0 for name, params in pipeline.components)


def test_spread_puts_the_last_rare_layer_at_the_end() -> None:
    order = spread({"model_type": "x", "layer_pattern": "6xlinear 2xfull"})
    assert order == ["linear", "linear", "linear", "full"] * 2


@pytest.mark.parametrize("pattern", ["36", "x", "0xfull", "-1xfull", "99999xfull", "1.5xfull"])
def test_a_pattern_that_is_none(pattern: str) -> None:
    with pytest.raises(UnknownArchitecture) as caught:
        pattern_counts({"model_type": "minimax", "layer_pattern": pattern})
    assert caught.value.key == "layer_pattern"


@pytest.mark.parametrize(
    ("row", "reason", "key"),
    [
        ({"kind": "pipeline", "id": "x"}, "diffusion_pipeline", "components"),
        ({"kind": "model", "id": "x"}, "missing_key", "model_type"),
        ({"kind": "model", "id": "x", "model_type": "minimax"}, "missing_key", "layer_pattern"),
        ({"kind": "model", "id": "x", "model_type": "new_thing"}, "unknown_model_type", "model_type"),
    ],
)
def test_rows_that_are_refused(row: dict[str, object], reason: str, key: str) -> None:
    with pytest.raises(UnknownArchitecture) as caught:
        model_from_row(row)
    assert (caught.value.reason, caught.value.key) == (reason, key)


def test_a_pipeline_without_components_is_refused() -> None:
    for components in (None, [], [3], [{"name": "unet"}], [{"name": "unet", "params": -1}]):
        with pytest.raises(UnknownArchitecture):
            pipeline_from_row({"id": "x", "components": components})


def test_facts_become_the_keys_of_the_class() -> None:
    (row,) = [row for row in MODELS if row["id"] == "deepseek-ai/DeepSeek-V3"]
    config = config_from_row(row)
    assert config["model_type"] == "deepseek_v3"
    assert config["first_k_dense_replace"] == 3
    assert config["n_shared_experts"] == 1
    assert None not in config.values()
