"""Checks across fields, and of the card: what goes with a plan as a warning, and what a person is told to mend."""

from typing import Any

import pytest

from planner.cli.words import sentence
from planner.issues import Issue, ScenarioError, Severity
from planner.resolve import resolve
from planner.validation import check, document_from_text, model_for, parse_scenario
from tests.planner.validation.questions import TABLES, document, errors, found


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


def test_a_target_that_the_model_lacks_is_named_beside_those_it_has() -> None:
    issue = found(task="lora", adapter={"targets": ["q_proj", "q_porj"]})["adapter_target_unknown"]
    assert (issue.field, issue.severity) == ("adapter.targets.1", Severity.WARNING)
    assert dict(issue.params) == {"given": "q_porj", "closest": "q_proj"}
    assert "adapter_target_unknown" not in found(task="lora", adapter={"targets": "all_linear"})


SDXL = {"id": "stabilityai/stable-diffusion-xl-base-1.0"}


@pytest.mark.parametrize(
    ("model", "targets"),
    [
        (SDXL, ["query", "value"]),
        (SDXL, ["nonsense"]),
        ({"id": "deepseek-ai/DeepSeek-V3"}, None),
        ({"id": "state-spaces/mamba-2.8b-hf"}, ["q_proj", "v_proj"]),
        (BERT, ["gate_proj"]),
        (BERT, ["embed_tokens"]),
    ],
)
def test_targets_that_stand_for_no_matrix_of_the_model_are_an_error(
    model: dict[str, Any], targets: list[str] | None
) -> None:
    adapter = {"rank": 8, "targets": targets}
    issue = errors(task="lora", model=model, training__sequence_length=128, adapter=adapter)[
        "adapter_targets_none"
    ]
    assert issue.field == "adapter.targets"
    params = dict(issue.params)
    assert params["given"] == ", ".join(targets or ("q_proj", "v_proj"))
    assert params["allowed"]


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
    assert image["no_effect"].severity is Severity.WARNING
    assert dict(image["no_effect"].params) == {"because": "own_number_of_tokens"}


def test_adapters_on_a_server_are_not_modelled_rather_than_without_effect() -> None:
    codes = found(task="serve", runtime__name="vllm", adapter={"rank": 8})
    assert codes["not_modelled"].field == "adapter"
    assert "no_effect" not in codes
