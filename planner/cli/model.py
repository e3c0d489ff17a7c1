"""English for the command line: a checkpoint that was read, or why it cannot be."""

from collections.abc import Iterable, Mapping
from typing import Final

from planner.cli.report import gib_text, table
from planner.issues import ScenarioError
from planner.memory.serving_stored import stored_params
from planner.model import UnknownArchitecture, model_from_config
from planner.scenario import Scenario, StoredPart

REFUSED: Final[Mapping[str, str]] = {
    "empty": "nothing given: a repository, an address on the Hub, a folder or a file",
    "not_a_source": "{given}: no repository (org/name), address on the Hub, folder or file",
    "other_host": "{given}: addresses of {allowed} are read, no others",
    "no_such_path": "{given}: no such folder or file",
    "unreadable": "{given}: can't be read: {detail}",
    "no_weights": "{given}: nothing in it that can be read; allowed: {allowed}",
    "only_pickles": "{given}: its weights are pickles, which have no header; what is read: {allowed}",
    "several_files": "{given}: several models in it; name one, as org/name:Q4_K_M or by its file: {allowed}",
    "no_such_file": "{given}: not there; needed or there: {allowed}",
    "gated": "{given}: gated; ask for access at {address}, then sign in (hf auth login, or HF_TOKEN)",
    "missing_or_private": (
        "{given}: no such repository, or a private one; for a private one sign in (hf auth login, or HF_TOKEN)"
    ),
    "no_such_revision": "{given}: it has no revision {revision}",
    "offline": "the Hub can't be reached ({detail}); a folder or a file can be read without it",
    "busy": "the Hub is busy (status {status}); try again in a while",
    "hub_refused": "{given}: the Hub refuses with status {status}",
    "too_large": "{given}: {size} bytes; at most {allowed} are read",
    "too_many": "{given}: {count} files; at most {allowed} are read",
    "broken": "{given}: its header is damaged: {detail}",
    "gguf_version": "{given}: GGUF version {version} given; allowed: {allowed}",
    "unknown_type": "{given}: {tensor} is of a type that isn't known yet: {detail}",
    "cut_short": "{given}: {size} bytes of {needs}; the download was cut short",
    "not_ranged": "{given}: the server sends files whole only; download it and give the folder",
    "bad_config": "{given}: no JSON object: {detail}",
}
"""Code of a `CheckpointError` -> sentence."""


def refused(code: str, params: Mapping[str, object]) -> str:
    """Why a checkpoint cannot be read."""
    return f"model: {REFUSED[code].format(**params)}"


def model_lines(scenario: Scenario, files: int, tensors: int) -> Iterable[str]:
    """Where it was read, bytes by part and format, and whether config and files agree.

    Args:
        scenario: A question with the model as it was read.
        files: Files read.
        tensors: Tensors in them.
    """
    stored = scenario.model.stored
    if stored is None:
        yield "config.json alone, no weights beside it: sizes follow from the config"
        yield from _parameters(scenario, None)
        return
    total = sum(row.bytes for row in stored.parts)
    kind = f", {stored.weights}" if stored.weights else ""
    yield f"{stored.source}: {stored.container}{kind}, files {files}, tensors {tensors}, read {stored.date}"
    rows = [[_part(row), row.format, gib_text(row.bytes, 3), f"{row.bytes:,}"] for row in stored.parts]
    yield from table(
        ["part", "format", "GiB", "bytes"], [*rows, ["all", "", gib_text(total, 3), f"{total:,}"]], left=2
    )
    yield from _parameters(scenario, stored_params(stored))


def _part(row: StoredPart) -> str:
    return f"{row.part}, scales" if row.scales else row.part


def _parameters(scenario: Scenario, held: int | None) -> Iterable[str]:
    if held is not None:
        yield f"parameters in the files: {held:,}"
    if scenario.model.config is None:
        yield "no config that describes it; give one with the sizes, or name a model of the catalog"
        return
    try:
        built = model_from_config(dict(scenario.model.config)).params_total
    except (UnknownArchitecture, ScenarioError) as refusal:
        yield f"no closed form for its config: {refusal}"
        return
    yield f"parameters by its config: {built:,}"
