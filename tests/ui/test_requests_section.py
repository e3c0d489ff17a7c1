"""The Requests section and the flags, as Streamlit runs them: closed, opened, every topic on every engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from planner.link import encode
from planner.validation import parse_scenario
from tests.ui.conftest import charts, checked, html
from ui.document import put_all
from ui.examples import story_document
from ui.requests.panel import TOPICS

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlit.testing.v1 import AppTest

    from ui.document import Document

    OpenPage = Callable[..., AppTest]

SERVED = "llama-70b-awq-two-l40s"
NO_RATES = {"hardware.devices": [{"gpu": "generic-48gb", "count": 2}]}
"""Cards of which only the size is known."""
ENGINES: dict[str, dict[str, Any]] = {
    "vllm": {},
    "sglang": {"runtime": {"name": "sglang"}},
    "llama_cpp": {
        "runtime": {"name": "llama_cpp"}, "parallel": None, "serving.weights": "q4_k_m", "serving.kv_cache": "fp16",
        "serving.memory_utilization": None, "serving.cuda_graphs": None, "serving.cuda_graph_max_batch": None,
    },
    "transformers": {
        "runtime": {"name": "transformers"}, "serving.weights": "nf4", "serving.memory_utilization": None,
        "parallel": None,
    },
}  # fmt: skip


def served(**changes: Any) -> Document:
    """The story that serves, changed."""
    return put_all(story_document(SERVED), changes)


def opened(open_page: OpenPage, document: Document, topic: str = "at_once") -> AppTest:
    """The page with the section open at a topic."""
    scenario, issues = parse_scenario(document)
    assert scenario is not None, issues
    page = open_page(s=encode(scenario))
    page.session_state["requests"] = True
    page.session_state["requests_topic"] = topic
    return checked(page.run())


def field(page: AppTest, key: str) -> Any:
    """A number field."""
    return next(each for each in page.number_input if each.key == key)


def document_of(page: AppTest) -> Document:
    """The question as it stands."""
    found: Document = page.session_state["scenario_document"]
    return found


def test_a_closed_section_works_nothing_out(open_page: OpenPage, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("worked out before anybody asked")

    for topic in TOPICS:
        monkeypatch.setitem(TOPICS, topic, fail)
    scenario, _ = parse_scenario(served())
    assert scenario is not None
    page = open_page(s=encode(scenario))
    assert "requests_topic" not in page.session_state


def test_a_training_question_has_no_section(open_page: OpenPage) -> None:
    page = open_page()
    assert not [each for each in page.expander if "Requests" in each.label or "flags" in each.label]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("topic", TOPICS)
def test_every_topic_on_every_engine(open_page: OpenPage, engine: str, topic: str) -> None:
    page = opened(open_page, served(**ENGINES[engine]), topic)
    assert [each for each in page.expander if each.label.startswith("Requests")]
    assert 'class="note bad"' not in html(page)


def test_a_distribution_goes_into_the_scenario_and_moves_the_shares(open_page: OpenPage) -> None:
    page = opened(open_page, served(), "lengths")
    before = charts(page)["requests_lengths"]["data"][1]["x"]
    checked(field(page, "requests_doc_mean_tokens").set_value(4000.0).run())
    document = document_of(page)
    assert document["workload"]["length_distribution"] == {
        "kind": "lognormal", "mean_tokens": 4000.0, "sigma": 1.0,
    }  # fmt: skip
    after = charts(page)["requests_lengths"]["data"][1]["x"]
    assert after[-1] > before[-1]
    assert page.query_params["s"]


def test_a_wrong_parameter_is_named(open_page: OpenPage) -> None:
    page = opened(open_page, served(), "lengths")
    checked(field(page, "requests_doc_mean_tokens").set_value(-5.0).run())
    assert "Mean tokens: -5.0 was given; it must be above zero." in html(page)


def test_a_list_of_lengths(open_page: OpenPage) -> None:
    asked = {"kind": "list", "tokens": [16, 32]}
    page = opened(open_page, served(**{"workload.length_distribution": asked}), "lengths")
    checked(
        next(each for each in page.text_input if each.key == "requests_doc_tokens")
        .set_value("8, 4096, x\u30011.5\u4e07")
        .run()
    )
    assert document_of(page)["workload"]["length_distribution"]["tokens"] == [8, 4096, "x", 15_000]
    assert "it must be a list of numbers above zero" in html(page)


def test_beams_change_the_plan_too(open_page: OpenPage) -> None:
    page = opened(open_page, served(), "sharing")
    checked(field(page, "requests_doc_workload.beam_width").set_value(6).run())
    assert document_of(page)["workload"]["beam_width"] == 6
    assert "6 beams" in html(page)


def test_without_a_time_a_queue_is_unknown_and_with_one_it_is_drawn(open_page: OpenPage) -> None:
    page = opened(open_page, served(**NO_RATES), "waiting")
    assert "unknown until the time of a step is" in html(page)
    assert "requests_waiting" not in charts(page)
    checked(field(page, "requests_own_step_ms").set_value(40.0).run())
    names = [trace["name"] for trace in charts(page)["requests_waiting"]["data"]]
    assert names == ["one at a time", "batched with a delay", "joining between steps"]


def test_tiers_stand_in_the_scenario_with_size_and_hits(open_page: OpenPage) -> None:
    page = opened(open_page, served(), "tiers")
    checked(field(page, "requests_doc_tier_host_gib").set_value(64.0).run())
    checked(field(page, "requests_doc_tier_host_hits").set_value(0.3).run())
    assert document_of(page)["cache_tiers"] == [{"where": "host", "gib": 64.0, "hit_frac": 0.3}]
    checked(field(page, "requests_doc_tier_gpu_hits").set_value(0.9).run())
    assert "Share that hits: 1.2 was given; it must lie between nothing and all of it." in html(page)


def test_replicas_need_what_one_carries(open_page: OpenPage) -> None:
    page = opened(open_page, served(**NO_RATES), "replicas")
    assert "Replicas are unknown" in html(page)
    checked(field(page, "requests_own_capacity").set_value(0.5).run())
    load, there = charts(page)["requests_replicas"]["data"]
    assert max(load["y"]) == pytest.approx(4.0, rel=0.01)
    assert min(there["y"]) >= 1
    checked(field(page, "requests_doc_autoscale.step_up").set_value(5).run())
    assert document_of(page)["autoscale"] == {"step_up": 5}


def test_an_answer_cache_names_the_hits_that_a_claim_takes(open_page: OpenPage) -> None:
    page = opened(open_page, served(**NO_RATES), "answers")
    assert "at least as large a share of hits" in html(page)
    checked(field(page, "requests_own_first_ms").set_value(400.0).run())
    assert "takes 39" in html(page) or "takes 40" in html(page)


@pytest.mark.parametrize("topic", ["waiting", "replicas", "answers"])
def test_times_start_from_the_estimate(open_page: OpenPage, topic: str) -> None:
    page = opened(open_page, served(), topic)
    name = {"waiting": "step_ms", "replicas": "capacity", "answers": "first_ms"}[topic]
    assert field(page, f"requests_own_{name}").value > 0
    assert "are unknown until" not in html(page)


def test_a_table_of_speed_by_sequences(open_page: OpenPage) -> None:
    known, unknown = opened(open_page, served()), opened(open_page, served(**NO_RATES))
    assert "Tokens/s" in html(known)
    assert "Times are unknown" not in html(known)
    assert "Times are unknown: the tables lack a rate of this card." in html(unknown)


def test_flags_stand_on_the_page(open_page: OpenPage) -> None:
    scenario, _ = parse_scenario(served())
    assert scenario is not None
    page = open_page(s=encode(scenario))
    assert any(each.value.startswith("vllm serve meta-llama/Meta-Llama-3-70B") for each in page.code)
    assert "checkpoint in AWQ 4-bit" in html(page)


def test_ollama_gets_a_file(open_page: OpenPage) -> None:
    changes = ENGINES["llama_cpp"] | {"runtime": {"name": "ollama"}, "serving.max_sequences": None}
    scenario, issues = parse_scenario(served(**changes))
    assert scenario is not None, issues
    page = open_page(s=encode(scenario))
    assert any(each.value.startswith("FROM ./Meta-Llama-3-70B-Q4_K_M.gguf") for each in page.code)
    assert "OLLAMA_NUM_PARALLEL" in "".join(each.value for each in page.code)


def test_an_engine_that_claims_the_card_says_why(open_page: OpenPage) -> None:
    scenario, _ = parse_scenario(served())
    assert scenario is not None
    text = html(open_page(s=encode(scenario)))
    assert "vLLM takes" in text
    assert "it claims 90\u00a0% of the card" in text
