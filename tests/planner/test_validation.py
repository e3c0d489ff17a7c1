"""Documents read strictly, cross-field checks, model lookup: every problem at its field, nothing raised."""

import copy
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware_db import load_tables
from planner.checks.codes import CODES, make
from planner.cli.words import sentence
from planner.issues import Issue, ScenarioError, Severity
from planner.model import model_from_config
from planner.resolve import resolve
from planner.scenario import Scenario, json_schema, to_document
from planner.validation import check, document_from_text, model_for, parse_scenario

ROOT = Path(__file__).parent.parent.parent
TABLES = load_tables()

LLAMA = {
    "model_type": "llama",
    "hidden_size": 8192,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "intermediate_size": 28672,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
}
MIXTRAL = {
    "model_type": "mixtral",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 32000,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "max_position_embeddings": 32768,
}


def document(**changes: Any) -> dict[str, Any]:
    """A plain question with fields set by dotted path (`__` for the dots)."""
    base: dict[str, Any] = {
        "version": 1,
        "task": "pretrain",
        "model": {"config": dict(LLAMA)},
        "hardware": {"devices": [{"gpu": "a100-sxm-80gb", "count": 8}]},
    }
    for path, value in changes.items():
        node: Any = base
        *parents, leaf = path.split("__")
        for part in parents:
            node = node.setdefault(part, {}) if isinstance(node, dict) else node[int(part)]
        node[leaf] = value
    return base


def refused(**changes: Any) -> Issue:
    """The one issue of a document that can't be read."""
    scenario, issues = parse_scenario(document(**changes))
    assert scenario is None
    assert len(issues) == 1, issues
    return issues[0]


def found(**changes: Any) -> dict[str, Issue]:
    """The issues of a question that can be read, by code."""
    scenario, issues = parse_scenario(document(**changes))
    assert scenario is not None, issues
    model = model_for(scenario, TABLES)
    resolved, _ = resolve(scenario, model)
    return {issue.code: issue for issue in check(scenario, resolved, model, TABLES)}


def errors(**changes: Any) -> dict[str, Issue]:
    return {code: issue for code, issue in found(**changes).items() if issue.severity is Severity.ERROR}


# --- reading


@pytest.mark.parametrize(
    "value", [None, 3, "text", [], [[]], True, math.nan, {1: 2}, {"\ud800": 1}, object()]
)
def test_what_is_no_scenario_is_refused_not_raised(value: object) -> None:
    scenario, issues = parse_scenario(value)
    assert scenario is None
    assert issues


def test_missing_fields_are_named() -> None:
    _, issues = parse_scenario({})
    assert [(i.code, i.field) for i in issues] == [
        ("missing_field", f) for f in ("task", "model", "hardware")
    ]


def test_unknown_key_names_the_closest() -> None:
    issue = refused(training__micro_bach=2)
    assert (issue.code, issue.field) == ("unknown_field", "training.micro_bach")
    assert dict(issue.params)["closest"] == "micro_batch"


@pytest.mark.parametrize(
    ("field", "value", "code", "allowed"),
    [
        ("training__micro_batch", 0, "out_of_range", "integer 1..1000000"),
        ("training__micro_batch", -5, "out_of_range", "integer 1..1000000"),
        ("training__micro_batch", 2.5, "wrong_type", "integer 1..1000000"),
        ("training__micro_batch", True, "wrong_type", "integer 1..1000000"),
        ("training__micro_batch", "2", "wrong_type", "integer 1..1000000"),
        ("training__micro_batch", 10**400, "out_of_range", "integer 1..1000000"),
        ("hardware__margin_frac", math.nan, "not_finite", "number 0..0.9"),
        ("hardware__margin_frac", 0.95, "out_of_range", "number 0..0.9"),
        ("serving__memory_utilization", 0, "out_of_range", "number >0..1"),
        ("task", "pretain", "not_one_of", "pretrain, full, lora, qlora, serve"),
        ("runtime__compile", "yes", "wrong_type", "true, false"),
        ("economics__currency", "usd", "bad_text", "^[A-Z]{3}$"),
        ("hardware__devices", [], "bad_length", "array 1..256"),
        ("adapter__targets", "all", "not_one_of", "all_linear, array"),
    ],
)
def test_a_bad_value_names_field_value_and_allowed(
    field: str, value: object, code: str, allowed: str
) -> None:
    issue = refused(**{field: value})
    params = dict(issue.params)
    assert (issue.code, issue.field) == (code, field.replace("__", "."))
    assert params["allowed"] == allowed
    assert params["given"] not in (None, "")


def test_zero_gpus() -> None:
    issue = refused(hardware__devices__0__count=0)
    assert (issue.code, issue.field) == ("out_of_range", "hardware.devices.0.count")


def test_a_newer_version_has_its_own_code() -> None:
    issue = refused(version=2, something_new=1)
    assert (issue.code, issue.field) == ("newer_version", "version")


def test_deep_and_large_documents_are_refused() -> None:
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    assert refused(model__config={"a": deep}).code == "too_deep"
    assert refused(model__config={"a": [0] * 200_000}).code == "too_large"


def _numeric_paths() -> list[tuple[str, ...]]:
    """Every field of the published schema that holds a number."""
    schema = json_schema()

    def walk(node: dict[str, Any], path: tuple[str, ...]) -> list[tuple[str, ...]]:
        if "$ref" in node:
            node = schema["$defs"][node["$ref"].rpartition("/")[2]]
        choices = node.get("anyOf", [node])
        if choices != [node]:
            return [p for choice in choices for p in walk(choice, path)]
        if node.get("type") in ("integer", "number"):
            return [path]
        inner = [p for key, sub in node.get("properties", {}).items() for p in walk(sub, (*path, key))]
        return inner + (walk(node["items"], (*path, "0")) if isinstance(node.get("items"), dict) else [])

    return walk(schema, ())


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e300, -(10**40), 10**400])
def test_no_numeric_field_takes_nan_or_absurd_numbers(value: float) -> None:
    paths = _numeric_paths()
    assert len(paths) > 70
    for path in paths:
        tree: Any = value
        for part in reversed(path):
            tree = [tree] if part == "0" else {part: tree}
        asked = document()
        asked.update({key: inner for key, inner in tree.items() if key != "hardware"})
        if "hardware" in tree:
            asked["hardware"] = {"devices": [{"gpu": "unknown"}]} | tree["hardware"]
        scenario, issues = parse_scenario(asked)
        assert scenario is None, path
        assert any(issue.field == ".".join(path) for issue in issues), (path, issues)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(
    JSON,
    st.sampled_from(["task", "model", "hardware", "training", "parallel", "serving", "version", "adapter"]),
)
def test_any_json_in_any_block_is_answered(value: Any, block: str) -> None:
    scenario, issues = parse_scenario(document() | {block: value})
    assert (scenario is None) == any(issue.severity is Severity.ERROR for issue in issues)


def test_an_accepted_document_comes_back_unchanged() -> None:
    asked = document(training__micro_batch=2, parallel__tensor=4, hardware__links={"inter_node_gbit": 400.0})
    scenario, _ = parse_scenario(asked)
    assert scenario is not None
    assert to_document(scenario) == asked


def test_the_published_schema_is_the_one_in_use() -> None:
    published = json.loads((ROOT / "docs" / "scenario.schema.json").read_text(encoding="utf-8"))
    assert published == json_schema()


# --- cross-field errors


def test_sizes_that_do_not_multiply_to_the_gpu_count() -> None:
    """SEEDS G13: tensor 8 x pipeline 2 on 8 cards needs 16."""
    issue = errors(parallel={"tensor": 8, "pipeline": 2})["parallel_product"]
    params = dict(issue.params)
    assert issue.field == "parallel.pipeline"
    assert (params["product"], params["devices"], params["tensor"], params["pipeline"]) == (16, 8, 8, 2)
    assert "parallel_product" not in errors(parallel={"tensor": 4, "pipeline": 2})


@pytest.mark.parametrize(
    ("changes", "code", "field"),
    [
        ({"parallel": {"data": 4}}, "parallel_product", "parallel.data"),
        (
            {"parallel": {"tensor": 3}, "hardware__devices__0__count": 3},
            "tensor_splits_heads",
            "parallel.tensor",
        ),
        (
            {"parallel": {"tensor": 16}, "hardware__devices__0__count": 16},
            "tensor_splits_kv_heads",
            "parallel.tensor",
        ),
        (
            {"parallel": {"pipeline": 96}, "hardware__devices__0__count": 96},
            "pipeline_above_layers",
            "parallel.pipeline",
        ),
        ({"parallel": {"virtual_stages": 2}}, "virtual_without_pipeline", "parallel.virtual_stages"),
        (
            {"parallel": {"pipeline": 2, "virtual_stages": 2, "pipeline_schedule": "gpipe"}},
            "virtual_needs_interleaved",
            "parallel.virtual_stages",
        ),
        (
            {"parallel": {"pipeline": 2, "pipeline_layers": [40, 30]}},
            "pipeline_layers_sum",
            "parallel.pipeline_layers",
        ),
        (
            {"parallel": {"pipeline": 2, "pipeline_layers": [80]}},
            "pipeline_layers_count",
            "parallel.pipeline_layers",
        ),
        (
            {"parallel": {"sharding": "zero3", "sharding_degree": 3}},
            "sharding_degree_splits_data",
            "parallel.sharding_degree",
        ),
        (
            {"parallel": {"tensor": 8, "sequence": True}, "training__sequence_length": 4097},
            "sequence_not_divisible",
            "training.sequence_length",
        ),
        ({"hardware__devices__0__gpu": "h100-sxm-80g"}, "gpu_unknown", "hardware.devices.0.gpu"),
        (
            {"hardware__devices__0__memory_bytes": 10, "hardware__devices__0__free_bytes": 11},
            "free_above_memory",
            "hardware.devices.0.free_bytes",
        ),
        ({"task": "lora"}, "adapter_missing", "adapter"),
        ({"task": "lora", "adapter": {"base": "nf4"}}, "adapter_base_quantized", "adapter.base"),
        ({"task": "qlora", "adapter": {"base": "bf16"}}, "adapter_base_not_quantized", "adapter.base"),
        ({"task": "lora", "adapter": {"targets": ["attn_q"]}}, "adapter_targets_none", "adapter.targets"),
        ({"task": "lora", "adapter": {"layers": 81}}, "adapter_layers_above", "adapter.layers"),
        ({"task": "serve", "runtime__name": "torchtune"}, "runtime_cannot_serve", "runtime.name"),
        ({"runtime__name": "vllm"}, "runtime_cannot_train", "runtime.name"),
        (
            {"training": {"gradient_accumulation": 4, "optimizer": {"in_backward": True}}},
            "in_backward_accumulation",
            "training.optimizer.in_backward",
        ),
        ({"parallel": {"data_parallel": "dp", "pipeline": 2}}, "copies_divided", "parallel.pipeline"),
        ({"parallel": {"data_parallel": "dp", "sharding": "fsdp"}}, "copies_divided", "parallel.sharding"),
        (
            {"runtime__name": "deepspeed", "parallel": {"pipeline": 2, "sharding": "zero3"}},
            "zero_with_pipeline",
            "parallel.sharding",
        ),
        (
            {
                "runtime__name": "deepspeed",
                "parallel": {"sharding": "zero2", "offload": {"parameters": "cpu"}},
            },
            "offload_needs_sharding",
            "parallel.offload.parameters",
        ),
        (
            {"task": "serve", "runtime__name": "llama_cpp", "serving__tensor_split": [0, 0]},
            "tensor_split_zero",
            "serving.tensor_split",
        ),
        ({"elastic": {"min_data": 8, "max_data": 2}}, "elastic_range", "elastic.min_data"),
    ],
)
def test_impossible_combinations(changes: dict[str, Any], code: str, field: str) -> None:
    issues = errors(**changes)
    assert code in issues, issues
    assert issues[code].field == field


@pytest.mark.parametrize(
    ("parallel", "code"),
    [
        ({"expert": 3}, "expert_splits_experts"),
        ({"expert": 8, "expert_tensor": 2}, "expert_outside_data"),
    ],
)
def test_expert_groups(parallel: dict[str, Any], code: str) -> None:
    assert code in errors(model__config=dict(MIXTRAL), parallel=parallel)
    assert not errors(model__config=dict(MIXTRAL), parallel={"expert": 8})


def test_stages_laid_out_by_hand() -> None:
    def stages(*rows: tuple[list[int], int]) -> set[str]:
        layout = [{"devices": devices, "layers": layers} for devices, layers in rows]
        return set(errors(parallel={"stages": layout}))

    assert stages(([0, 1, 2, 3], 40), ([4, 5, 6, 7], 40)) == set()
    assert stages(([0, 1, 2, 3], 40), ([4, 5, 6], 40)) == {"stages_devices_missing"}
    assert stages(([0, 1, 2, 3], 40), ([3, 4, 5, 6, 7], 40)) == {"stages_device_twice"}
    assert stages(([0, 1, 2, 3], 40), ([4, 5, 6, 7, 8], 40)) == {"stages_device_outside"}
    assert stages(([0, 1, 2, 3], 40), ([4, 5, 6, 7], 39)) == {"stages_layers_sum"}
    assert stages(([0, 1, 2, 3, 4], 40), ([5, 6, 7], 40)) == {"stage_copies"}


def test_serving_copies_kv_heads_where_training_cannot() -> None:
    changes: dict[str, Any] = {"parallel": {"tensor": 16}, "hardware__devices__0__count": 16}
    assert "tensor_splits_kv_heads" in errors(**changes)
    assert not errors(task="serve", runtime__name="vllm", **changes)


@pytest.mark.parametrize(
    ("runtime", "field", "value"),
    [
        ("llama_cpp", "kv_cache", "fp8"),
        ("llama_cpp", "kv_cache", "q6_0"),
        ("llama_cpp", "weights", "awq4"),
        ("ollama", "kv_cache_v", "q5_1"),
        ("ollama", "weights", "fp8"),
        ("vllm", "kv_cache", "q8_0"),
        ("vllm", "kv_cache_v", "q4_0"),
        ("sglang", "kv_cache", "q4_0"),
        ("transformers", "kv_cache", "fp8"),
        ("tensorrt_llm", "weights", "q4_k_m"),
        ("tgi", "weights", "q8_0"),
    ],
)
def test_a_format_that_the_runtime_lacks_is_refused_by_name(runtime: str, field: str, value: str) -> None:
    asked = {"task": "serve", "runtime__name": runtime, f"serving__{field}": value}
    issue = errors(**asked)["format_not_in_runtime"]
    params = dict(issue.params)
    assert (issue.field, params["given"], params["runtime"]) == (f"serving.{field}", value, runtime)
    assert value not in str(params["allowed"]).split(", ")
    assert "format_not_in_runtime" not in errors(**(asked | {"runtime__name": "generic"}))


@pytest.mark.parametrize(
    ("runtime", "field", "value"),
    [
        ("ik_llama_cpp", "kv_cache", "q6_0"),
        ("llama_cpp", "weights", "mxfp4"),
        ("llama_cpp", "weights", "bf16"),
        ("llama_cpp", "weights", "q4_k_xl"),
        ("vllm", "kv_cache", "fp8"),
        ("vllm", "weights", "awq4"),
        ("tensorrt_llm", "weights", "mxfp4"),
    ],
)
def test_a_format_that_the_runtime_has_is_taken(runtime: str, field: str, value: str) -> None:
    asked = {"task": "serve", "runtime__name": runtime, f"serving__{field}": value}
    assert "format_not_in_runtime" not in errors(**asked)


@pytest.mark.parametrize(("value", "reason"), [("q4_k", "gguf_own_bits"), ("q4_k_m", "gguf_as_16_bit")])
def test_gguf_in_an_engine_that_only_reads_it_is_said(value: str, reason: str) -> None:
    issue = found(task="serve", runtime__name="vllm", serving__weights=value)["not_modelled"]
    assert (issue.field, dict(issue.params)["reason"]) == ("serving.weights", reason)


# --- warnings


def test_a_longer_sequence_than_the_model_is_a_warning() -> None:
    issue = found(training__sequence_length=16384)["sequence_beyond_model"]
    assert issue.severity is Severity.WARNING
    assert (issue.field, dict(issue.params)) == (
        "training.sequence_length",
        {"given": 16384, "allowed": 8192},
    )
    assert "sequence_beyond_model" not in found(training__sequence_length=8192)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"task": "serve", "training": {"micro_batch": 2}}, "training"),
        ({"serving": {"max_model_len": 4096}}, "serving"),
        ({"adapter": {"rank": 8}}, "adapter"),
        ({"workload": {"concurrency": 2}}, "workload.concurrency"),
        ({"training": {"checkpoint_every": 2}}, "training.checkpoint_every"),
        ({"training": {"checkpoint_reentrant": True}}, "training.checkpoint_reentrant"),
        ({"training": {"optimizer": {"rank": 8}}}, "training.optimizer.rank"),
        ({"training": {"decoder_sequence_length": 8}}, "training.decoder_sequence_length"),
        ({"parallel": {"sharding_degree": 8}}, "parallel.sharding_degree"),
        ({"parallel": {"sequence": True}}, "parallel.sequence"),
        ({"parallel": {"expert": 8}}, "parallel.expert"),
        ({"parallel": {"pipeline_schedule": "gpipe"}}, "parallel.pipeline_schedule"),
        ({"runtime": {"engine": "v1"}}, "runtime.engine"),
        ({"task": "lora", "adapter": {"virtual_tokens": 8}}, "adapter.virtual_tokens"),
        ({"task": "serve", "runtime": {"name": "vllm"}, "serving": {"gpu_layers": 3}}, "serving.gpu_layers"),
        (
            {"task": "serve", "runtime": {"name": "llama_cpp"}, "serving": {"memory_utilization": 0.9}},
            "serving.memory_utilization",
        ),
        (
            {"task": "serve", "runtime": {"name": "llama_cpp"}, "parallel": {"tensor": 2}},
            "parallel.tensor",
        ),
    ],
)
def test_a_field_without_effect_is_named(changes: dict[str, Any], field: str) -> None:
    scenario, problems = parse_scenario(document(**changes))
    assert scenario is not None, problems
    model = model_for(scenario, TABLES)
    resolved, _ = resolve(scenario, model)
    issues = check(scenario, resolved, model, TABLES)
    assert [i.field for i in issues if i.code == "no_effect"] == [field]
    assert all(i.severity is Severity.WARNING for i in issues if i.code == "no_effect")


def test_a_plain_question_earns_no_warning_about_its_fields() -> None:
    codes = found(
        training={"micro_batch": 1, "sequence_length": 4096}, parallel={"data": 8, "sharding": "zero3"}
    )
    assert not codes.keys() & {"no_effect", "time_and_cost_only"}


@pytest.mark.parametrize(
    ("block", "value"),
    [
        ("quantization_aware", {"weights": "int8"}),
        ("loading", {"method": "full"}),
    ],
)
def test_reserved_blocks_say_that_they_are_not_modelled(block: str, value: object) -> None:
    assert found(**{block: value})["not_modelled"].field == block


@pytest.mark.parametrize(
    ("block", "value"),
    [
        ("batching", {"max_delay_ms": 1}),
        ("cache_tiers", [{"where": "host", "gib": 4, "hit_frac": 0.5}]),
        ("autoscale", {"step_up": 1}),
    ],
)
def test_what_only_requests_read_is_a_note_on_a_server_and_without_effect_in_training(
    block: str, value: object
) -> None:
    served = found(task="serve", runtime__name="vllm", **{block: value})
    assert (served["requests_only"].field, served["requests_only"].severity) == (block, Severity.NOTE)
    assert found(**{block: value})["no_effect"].field == block


def test_formats_that_a_card_has_no_hardware_for() -> None:
    old = {"hardware__devices": [{"gpu": "v100-sxm-32gb"}], "training__precision": {"compute": "bf16"}}
    issue = found(**old)["dtype_unsupported"]
    assert dict(issue.params) == {"given": "bf16", "gpu": "v100-sxm-32gb", "has": "7.0", "needs": "8.0"}
    assert "attention_unsupported" in found(**old, training__attention="flash")
    serve = {"task": "serve", "runtime__name": "vllm", "serving__kv_cache": "fp8"}
    assert "dtype_unsupported" in found(**serve)
    assert "dtype_unsupported" not in found(**serve, hardware__devices=[{"gpu": "h100-sxm-80gb"}])


GPT2 = {"id": "openai-community/gpt2"}
BERT = {"id": "google-bert/bert-base-uncased"}
T5 = {"id": "google-t5/t5-small"}
SERVE = {"task": "serve", "runtime__name": "vllm"}


@pytest.mark.parametrize("model", [BERT, {"id": "google/vit-base-patch16-224"}])
def test_an_encoder_is_not_served_as_a_generator(model: dict[str, str]) -> None:
    issue = errors(**SERVE, model=model)["model_cannot_generate"]
    assert issue.field == "model.id"
    assert "model_cannot_generate" not in errors(task="full", model=model, training__sequence_length=128)


def test_an_engine_without_encoder_decoder_models_is_named() -> None:
    issue = found(**SERVE, model=T5)["encoder_decoder_unserved"]
    assert (issue.field, issue.severity) == ("runtime.name", Severity.WARNING)
    assert "encoder_decoder_unserved" not in found(task="serve", runtime__name="tgi", model=T5)


@pytest.mark.parametrize(
    ("runtime", "gpu", "vendor"),
    [
        ("vllm", "apple-m4-max-128gb", "Apple"),
        ("sglang", "tpu-v5e-16gb", "Google"),
        ("tensorrt_llm", "mi300x-192gb", "AMD"),
        ("llama_cpp", "trainium2-96gb", "AWS"),
    ],
)
def test_a_card_that_the_runtime_does_not_run_on_is_named(runtime: str, gpu: str, vendor: str) -> None:
    asked = {"task": "serve", "runtime__name": runtime, "hardware__devices": [{"gpu": gpu}]}
    issue = found(**asked)["runtime_not_on_this_card"]
    assert (issue.field, issue.severity) == ("hardware.devices.0.gpu", Severity.WARNING)
    assert dict(issue.params)["vendor"] == vendor
    plain = asked | {"hardware__devices": [{"gpu": "h100-sxm-80gb"}]}
    assert "runtime_not_on_this_card" not in found(**plain)


def test_cards_of_two_makers_are_one_job_only_where_layers_are_split() -> None:
    cards = [{"gpu": "h100-sxm-80gb"}, {"gpu": "mi300x-192gb"}]
    issue = errors(hardware__devices=cards)["vendors_mixed"]
    assert (issue.field, dict(issue.params)["given"]) == ("hardware.devices.1.gpu", "AMD")
    assert "vendors_mixed" not in errors(task="serve", runtime__name="llama_cpp", hardware__devices=cards)


@pytest.mark.parametrize("name", ["memory_bytes", "free_bytes"])
def test_far_more_memory_than_the_card_has_is_an_error(name: str) -> None:
    def with_gib(gib: int) -> dict[str, Issue]:
        return found(hardware__devices=[{"gpu": "h100-sxm-80gb", "count": 8, name: gib * 2**30}])

    issue = with_gib(160)["memory_far_above_card"]
    assert (issue.field, issue.severity) == (f"hardware.devices.0.{name}", Severity.ERROR)
    assert dict(issue.params)["allowed"] == 80 * 2**30
    assert with_gib(86)["memory_above_card"].severity is Severity.WARNING
    assert not with_gib(80).keys() & {"memory_far_above_card", "memory_above_card"}


def test_a_size_in_another_unit_is_an_error() -> None:
    def with_bytes(size: int) -> dict[str, Issue]:
        return found(hardware__devices=[{"gpu": "h100-sxm-80gb", "count": 8, "memory_bytes": size}])

    issue = with_bytes(80)["memory_far_below_card"]
    assert (issue.field, issue.severity) == ("hardware.devices.0.memory_bytes", Severity.ERROR)
    assert sentence(issue).startswith(
        "80 bytes can't be right for a h100-sxm-80gb; allowed: bytes, about 85,"
    )
    assert "memory_far_below_card" not in with_bytes(5 * 2**30)


def test_shards_on_one_card_have_no_effect() -> None:
    def on(count: int, **parallel: Any) -> dict[str, Issue]:
        cards = [{"gpu": "h100-sxm-80gb", "count": count}]
        return found(hardware__devices=cards, parallel={"sharding": "fsdp", **parallel})

    assert on(1)["no_effect"].field == "parallel.sharding"
    assert "no_effect" not in on(8)
    assert "no_effect" not in on(1, offload={"optimizer": "cpu"})


def test_a_question_is_told_apart_from_what_follows() -> None:
    issue = errors(hardware__devices=[{"gpu": "h100"}])["gpu_unknown"]
    assert sentence(issue).endswith("stand for others; did you mean h100-sxm-80gb?")
    assert (
        dict(errors(hardware__devices=[{"gpu": "4090"}])["gpu_unknown"].params)["closest"] == "rtx-4090-24gb"
    )
    with pytest.raises(ScenarioError) as refused:
        errors(model={"config": {}})
    assert sentence(refused.value.issues[0]) == "model_type is missing; a Hugging Face config needs it"


@pytest.mark.parametrize("text", ["null", "[]", '"x"', "7"])
def test_a_document_that_is_no_object_is_shown_as_it_was_written(text: str) -> None:
    values, _ = document_from_text(text)
    scenario, issues = parse_scenario(values)
    assert scenario is None
    assert sentence(issues[0]) == f"{text} is of the wrong type; allowed: object"


def test_an_adapter_without_targets_is_an_error() -> None:
    issue = errors(task="lora", adapter={"targets": []})["adapter_targets_empty"]
    assert issue.field == "adapter.targets"
    assert "q_proj" in str(dict(issue.params)["allowed"])


@pytest.mark.parametrize("target", ["query", "key", "value", "dense"])
def test_bert_answers_to_its_own_names(target: str) -> None:
    asked = {"task": "lora", "model": BERT, "training__sequence_length": 128}
    assert not errors(**asked, adapter={"targets": [target]})


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"task": "full", "training__sequence_length": 2048}, "training.sequence_length"),
        (SERVE | {"serving__max_model_len": 2048}, "serving.max_model_len"),
    ],
)
def test_learned_positions_end_where_their_table_ends(changes: dict[str, Any], field: str) -> None:
    issue = errors(model=GPT2, **changes)["sequence_beyond_positions"]
    assert (issue.field, dict(issue.params)) == (field, {"given": 2048, "allowed": 1024})


def test_a_rope_model_and_an_image_model_are_only_warned_about_length() -> None:
    assert "sequence_beyond_positions" not in found(training__sequence_length=16384)
    image = found(task="full", model={"id": "google/vit-base-patch16-224"}, training__sequence_length=400)
    assert image["sequence_beyond_model"].severity is Severity.WARNING


# --- the model


def test_the_config_decides_over_the_id() -> None:
    scenario = Scenario.model_validate(document(model={"id": "no/such-model", "config": LLAMA}))
    assert model_for(scenario, TABLES).params_total == model_from_config(LLAMA).params_total


def test_an_unknown_id_names_the_closest() -> None:
    scenario = Scenario.model_validate(document(model={"id": "meta-llama/Llama-3.1-8b-hf"}))
    with pytest.raises(ScenarioError) as caught:
        model_for(scenario, TABLES)
    issue = caught.value.issues[0]
    assert (issue.code, issue.field) == ("model_id_unknown", "model.id")
    assert dict(issue.params)["closest"] == "meta-llama/Llama-3.1-8B"


@pytest.mark.parametrize(
    ("change", "code", "field"),
    [
        ({"model_type": "lama"}, "model_type_unknown", "model.config.model_type"),
        ({"model_type": None}, "config_key_missing", "model.config.model_type"),
        ({"hidden_size": None}, "config_key_missing", "model.config.hidden_size"),
        ({"hidden_size": -1}, "config_value_bad", "model.config.hidden_size"),
        ({"hidden_size": 10**12}, "config_value_bad", "model.config.hidden_size"),
        ({"num_hidden_layers": "80"}, "config_value_bad", "model.config.num_hidden_layers"),
    ],
)
def test_a_config_that_cannot_be_used(change: dict[str, Any], code: str, field: str) -> None:
    config = {key: value for key, value in (LLAMA | change).items() if value is not None}
    scenario = Scenario.model_validate(document(model={"config": config}))
    with pytest.raises(ScenarioError) as caught:
        model_for(scenario, TABLES)
    assert (caught.value.issues[0].code, caught.value.issues[0].field) == (code, field)


def test_no_model_at_all() -> None:
    scenario = Scenario.model_validate(document(model={}))
    with pytest.raises(ScenarioError) as caught:
        model_for(scenario, TABLES)
    assert caught.value.issues[0].code == "model_not_given"


def test_an_unknown_card_is_named_beside_an_unknown_model() -> None:
    asked = document(model={"id": "no/such"}, hardware__devices=[{"gpu": "h100"}])
    with pytest.raises(ScenarioError) as caught:
        model_for(Scenario.model_validate(asked), TABLES)
    assert [issue.code for issue in caught.value.issues] == ["model_id_unknown", "gpu_unknown"]


def test_adapters_on_a_server_are_not_modelled_rather_than_without_effect() -> None:
    codes = found(task="serve", runtime__name="vllm", adapter={"rank": 8})
    assert codes["not_modelled"].field == "adapter"
    assert "no_effect" not in codes


# --- the table of codes


def test_make_refuses_what_the_table_does_not_list() -> None:
    with pytest.raises(KeyError):
        make("no_such_code", "task")
    with pytest.raises(KeyError):
        make("newer_version", "version", given=2)


def test_every_code_in_the_sources_is_in_the_table_and_used() -> None:
    text = "".join(
        path.read_text(encoding="utf-8")
        for path in sorted((ROOT / "planner").rglob("*.py"))
        if path.name not in ("codes.py", "words.py")
    )
    unused = [code for code in CODES if f'"{code}"' not in text]
    assert unused == []


def test_checks_leave_the_document_alone() -> None:
    asked = document(parallel={"tensor": 3})
    before = copy.deepcopy(asked)
    parse_scenario(asked)
    assert asked == before


# --- JSON text


def test_text_that_is_no_json_names_the_place() -> None:
    document, issues = document_from_text('{"a": 1,\n "b": }', "model.config")
    assert document is None
    assert (issues[0].code, issues[0].field) == ("not_json", "model.config")
    assert dict(issues[0].params)["line"] == 2


@pytest.mark.parametrize("text", ["", "[" * 100_000, "9" * 10_000, "\x00", "nul"])
def test_hostile_text_is_answered(text: str) -> None:
    document, issues = document_from_text(text)
    assert document is None
    assert issues[0].code == "not_json"


def test_fifty_megabytes_are_not_read() -> None:
    _, issues = document_from_text(" " * 50_000_000, "model.config")
    assert issues[0].code == "text_too_long"
