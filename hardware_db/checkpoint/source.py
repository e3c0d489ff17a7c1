"""What a person typed: a repository of the Hub, a folder, or a file."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from hardware_db.checkpoint.found import CheckpointError

HOSTS: Final = ("huggingface.co", "hf.co", "www.huggingface.co")
_REPO: Final = re.compile(r"[\w.-]{1,96}(/[\w.-]{1,96})?", re.ASCII)
_NAMED: Final = re.compile(
    r"(?P<repo>[\w.-]+(?:/[\w.-]+)?)(?:@(?P<revision>[\w./-]+))?(?::(?P<tag>[\w.-]+))?", re.ASCII
)
_LOOKS_LOCAL: Final = re.compile(r"^(~|\.{1,2}([/\\]|$)|[/\\]|[A-Za-z]:[/\\])")
LONGEST: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where to read.

    Attributes:
        path: A folder or file; None for a repository.
        repo: Repository id.
        revision: Branch, tag or commit; None for the default branch.
        file: A file of the repository, "" where none was named.
        tag: Part of a file's name that chooses among several (`Q4_K_M`), "" where none was given.
    """

    path: Path | None = None
    repo: str = ""
    revision: str | None = None
    file: str = ""
    tag: str = ""


def parse_source(text: str) -> Source:
    """What a text names. A path that exists is taken as one; anything else as a repository.

    Raises:
        CheckpointError: `empty`, `not_a_source`, `other_host`, `no_such_path`.
    """
    text = text.strip().strip("\"'")
    if not text:
        raise CheckpointError("empty")
    if len(text) > LONGEST or "\0" in text:
        raise CheckpointError("not_a_source", given=text[:80].replace("\0", ""))
    if "://" in text or text.startswith(tuple(f"{host}/" for host in HOSTS)):
        return _address(text)
    path = _existing(text)
    if path is not None:
        return Source(path=path)
    if _LOOKS_LOCAL.match(text):
        raise CheckpointError("no_such_path", given=text[:200])
    named = _NAMED.fullmatch(text)
    if named is None or ".." in text or not _REPO.fullmatch(named["repo"]):
        raise CheckpointError("not_a_source", given=text[:80])
    return Source(repo=named["repo"], revision=named["revision"], tag=named["tag"] or "")


def _existing(text: str) -> Path | None:
    try:
        path = Path(text).expanduser()
        return path if path.exists() else None
    except (OSError, RuntimeError, ValueError):
        return None


def _address(text: str) -> Source:
    """`https://huggingface.co/org/name[/tree|blob|resolve/revision[/file]]`."""
    try:
        parts = urlsplit(text if "://" in text else f"https://{text}")
        host = parts.hostname or ""
    except ValueError:
        raise CheckpointError("not_a_source", given=text[:80]) from None
    own = urlsplit(os.environ.get("HF_ENDPOINT", "")).hostname
    if parts.scheme not in {"http", "https"} or host not in {*HOSTS, own}:
        raise CheckpointError("other_host", given=host or text[:80], allowed=HOSTS[0])
    steps = [unquote(step) for step in parts.path.split("/") if step]
    place = next(
        (i for i, step in enumerate(steps) if step in {"tree", "blob", "resolve", "raw"}), len(steps)
    )
    repo, rest = "/".join(steps[:place]), steps[place + 1 :]
    if not _REPO.fullmatch(repo) or ".." in rest or repo.startswith(("datasets/", "spaces/")):
        raise CheckpointError("not_a_source", given=text[:80])
    return Source(repo=repo, revision=rest[0] if rest else None, file="/".join(rest[1:]))
