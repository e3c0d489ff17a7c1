"""The files beside the code: what the page's settings must keep, and that requirements and README agree."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGE = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
REQUIREMENT_FILES = ("requirements.txt", "requirements-dev.txt")


def pins(name: str) -> list[tuple[str, str]]:
    """Package and version of each line; the version is empty where a line pins none."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return [(package, version) for package, _, version in (line.partition("==") for line in lines if line)]


def test_the_page_stays_on_this_machine_and_keeps_its_guards() -> None:
    server = PAGE["server"]
    assert server["address"] == "127.0.0.1"
    assert set(server["allowedHosts"]) <= {"localhost", "127.0.0.1"}
    assert server["allowedHosts"], "an empty list lets every host name in"
    assert server["enableCORS"] is True
    assert server["enableXsrfProtection"] is True
    assert not server.get("enableAgentApi")
    assert server["maxUploadSize"] <= 64
    assert PAGE["browser"]["gatherUsageStats"] is False
    assert PAGE["client"]["showErrorDetails"] in {"type", "none"}


def test_every_uploader_sets_its_own_limit() -> None:
    calls = [
        node
        for path in (ROOT / "ui").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("file_uploader")
    ]
    assert len(calls) >= 5
    for call in calls:
        assert "max_upload_size" in {word.arg for word in call.keywords}, ast.unparse(call)


def test_the_page_has_both_themes_in_full() -> None:
    theme = PAGE["theme"]
    assert theme["light"].keys() == theme["dark"].keys()
    assert all(theme["light"][key] != theme["dark"][key] for key in theme["light"])


@pytest.mark.parametrize("name", REQUIREMENT_FILES)
def test_every_requirement_is_pinned(name: str) -> None:
    listed = pins(name)
    assert listed
    assert all(re.fullmatch(r"\d+(\.\w+)+", version) for _, version in listed), listed


def test_no_package_is_pinned_twice() -> None:
    names = [package for name in REQUIREMENT_FILES for package, _ in pins(name)]
    assert len(names) == len(set(names))


def test_the_readme_explains_exactly_the_requirements() -> None:
    rows = re.findall(r"^\| ([a-z0-9-]+(?:, [a-z0-9-]+)*) \| ", README, flags=re.MULTILINE)
    explained = [package for row in rows for package in row.split(", ")]
    explained = [package for package in explained if package not in {"package", "part"}]
    assert sorted(explained) == sorted(package for name in REQUIREMENT_FILES for package, _ in pins(name))


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_what_the_texts_point_at_exists(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    linked = re.findall(r"\]\((?!https?:)([^)#]+)", text)
    named = re.findall(
        r"`((?:planner|hardware_db|profiler|ui|benchmarks|tests|examples|docs)/[\w/.-]*)`", text
    )
    missing = [path for path in [*linked, *named] if not (ROOT / path).exists()]
    assert missing == []
