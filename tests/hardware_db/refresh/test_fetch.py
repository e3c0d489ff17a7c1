"""What may be read from the network, how much, and how long."""

from __future__ import annotations

import gzip
import io
import urllib.error
from http.client import IncompleteRead
from typing import IO, TYPE_CHECKING, Any

import pytest

from hardware_db.refresh import FetchError, Web
from hardware_db.refresh.fetch import _OnlyKnownHosts

if TYPE_CHECKING:
    import urllib.request
    from collections.abc import Callable

URL = "https://prices.azure.com/api/retail/prices"


class Body(io.BytesIO):
    """A response with a length that may be wrong."""

    def __init__(self, content: bytes, length: int | None = None) -> None:
        super().__init__(content)
        self.headers = {} if length is None else {"Content-Length": str(length)}


def web(answer: Callable[[], IO[bytes]], clock: Callable[[], float] = lambda: 0.0) -> Web:
    def opened(_request: urllib.request.Request, limit_s: float) -> IO[bytes]:
        assert limit_s <= 15
        return answer()

    return Web(opened, clock)


def failed(call: Callable[[], Any]) -> tuple[str, str]:
    with pytest.raises(FetchError) as caught:
        call()
    return caught.value.code, caught.value.detail


def raising(error: Exception) -> Callable[[], IO[bytes]]:
    def answer() -> IO[bytes]:
        raise error

    return answer


def test_text_and_lines_are_read_whole() -> None:
    content = "\ufeffa,b\r\n1,é\n2,c".encode()
    assert web(lambda: Body(content, len(content))).text(URL, 1000, 10) == "a,b\r\n1,é\n2,c"
    assert list(web(lambda: Body(content)).lines(URL, 1000, 10)) == ["a,b\r\n", "1,é\n", "2,c"]


@pytest.mark.parametrize(
    "url",
    [
        "http://prices.azure.com/x",
        "file:///etc/passwd",
        "https://prices.azure.com.evil.test/x",
        "https://prices.azure.com:8443/x",
        "https://user@evil.test/x",
    ],
)
def test_only_https_on_known_hosts(url: str) -> None:
    assert failed(lambda: web(lambda: Body(b"")).text(url, 10, 10))[0] == "refused_address"


def test_a_redirection_elsewhere_is_refused() -> None:
    handler = _OnlyKnownHosts()
    with pytest.raises(FetchError, match="refused_address"):
        handler.redirect_request(None, None, 302, "", {}, "http://prices.azure.com/x")


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (lambda: Body(b"x" * 11), "too_large"),
        (lambda: Body(b"x" * 5, 9), "cut_short"),
        (raising(IncompleteRead(b"")), "cut_short"),
        (raising(urllib.error.URLError(OSError("no route"))), "offline"),
        (raising(urllib.error.URLError(TimeoutError())), "timeout"),
        (raising(TimeoutError()), "timeout"),
        (raising(ConnectionResetError()), "offline"),
        (raising(urllib.error.HTTPError(URL, 503, "busy", {}, None)), "status"),  # type: ignore[arg-type]
        (lambda: Body(b"\xff\xfe"), "not_text"),
    ],
    ids=["large", "short", "broken", "no_route", "url_time", "time", "reset", "status", "bytes"],
)
def test_what_cannot_be_read_says_why(answer: Callable[[], IO[bytes]], code: str) -> None:
    assert failed(lambda: web(answer).text(URL, 10, 10))[0] == code


def test_a_slow_answer_is_given_up() -> None:
    ticks = iter([0.0, 1.0, 11.0])
    reading = web(lambda: Body(b"x" * 600_000), lambda: next(ticks))
    assert failed(lambda: reading.text(URL, 1_000_000, 10)) == ("timeout", "10")


class Packed(Body):
    """A response that is packed though nobody asked for it."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content, len(content))
        self.headers["Content-Encoding"] = "gzip"


def test_a_packed_answer_is_unpacked_and_counted_as_text() -> None:
    content = b"a,b\n1,2\n" * 1000
    packed = gzip.compress(content)
    assert web(lambda: Packed(packed)).text(URL, len(content), 10) == content.decode()
    assert list(web(lambda: Packed(packed)).lines(URL, len(content), 10))[-1] == "1,2\n"
    assert failed(lambda: web(lambda: Packed(packed)).text(URL, len(content) - 1, 10)) == (
        "too_large",
        str(len(content) - 1),
    )
    assert failed(lambda: web(lambda: Packed(b"no gzip at all")).text(URL, 1000, 10)) == ("not_text", "gzip")


def test_a_link_with_spaces_is_asked_for_as_an_address() -> None:
    asked = []

    def opened(request: urllib.request.Request, _limit_s: float) -> IO[bytes]:
        asked.append(request.full_url)
        return Body(b"{}")

    link = f"{URL}?currencyCode='USD'&$filter=serviceName eq 'Virtual%20Machines'&$skip=1000"
    assert Web(opened, lambda: 0.0).text(link, 1000, 10) == "{}"
    assert asked == [link.replace(" ", "%20")]
