"""A network that answers from recorded files, and sources read from it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hardware_db.refresh import FetchError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

RECORDED = Path(__file__).parent / "recorded"
EMPTY_AZURE = '{"Items": [], "NextPageLink": null}'


def recorded(name: str) -> str:
    return (RECORDED / name).read_text(encoding="utf-8")


class Answers:
    """Texts by a part of the address; an error as value is raised where the text would end."""

    def __init__(self, texts: Mapping[str, str | tuple[str, FetchError] | FetchError]) -> None:
        self.texts = texts
        self.asked: list[str] = []

    def _answer(self, url: str) -> tuple[str, FetchError | None]:
        self.asked.append(url)
        for part, text in self.texts.items():
            if part in url:
                if isinstance(text, FetchError):
                    raise text
                return text if isinstance(text, tuple) else (text, None)
        raise FetchError("offline", "gaierror")

    def text(self, url: str, most_bytes: int, limit_s: float) -> str:
        found, error = self._answer(url)
        if error is not None:
            raise error
        assert len(found) <= most_bytes
        assert limit_s > 0
        return found

    def lines(self, url: str, most_bytes: int, limit_s: float) -> Iterator[str]:
        found, error = self._answer(url)
        assert len(found) <= most_bytes
        assert limit_s > 0
        yield from found.splitlines(keepends=True)
        if error is not None:
            raise error
