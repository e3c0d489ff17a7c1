"""Reads an address over https: from known hosts, up to a size, within a time."""

import socket
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPException, IncompleteRead
from typing import IO, Any, Final, Protocol
from urllib.parse import quote, urlsplit

from planner.units import MIB

CHUNK_BYTES: Final = MIB // 4
SOCKET_LIMIT_S: Final = 15.0
HOSTS: Final = frozenset({"prices.azure.com", "pricing.us-east-1.amazonaws.com", "raw.githubusercontent.com"})
"""Where prices are read; a redirection to anywhere else is refused."""
IN_ADDRESSES: Final = "%/:?#[]@!$&'()*+,;=~"
"""Signs that an address may hold; a link in an answer may hold spaces, which are written as %20."""
GZIP: Final = 16
"""Added to the window size, zlib reads gzip's head."""
HEADERS: Final[Mapping[str, str]] = {"Accept-Encoding": "identity", "User-Agent": "headroom-price-refresh"}


class FetchError(Exception):
    """An address could not be read to its end.

    Attributes:
        code: `offline`, `timeout`, `status`, `too_large`, `cut_short`, `refused_address` or `not_text`.
        detail: The status, the limit or the address.
    """

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


class Getter(Protocol):
    """Reads addresses; the tests hand in one that has no network."""

    def text(self, url: str, most_bytes: int, limit_s: float) -> str:
        """The whole text of an address."""

    def lines(self, url: str, most_bytes: int, limit_s: float) -> Iterator[str]:
        """The lines of an address, one by one, with their ends."""


Open = Callable[[urllib.request.Request, float], IO[bytes]]


class Web:
    """The network."""

    def __init__(self, opening: Open | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._open = opening or _opened
        self._clock = clock

    def text(self, url: str, most_bytes: int, limit_s: float) -> str:
        """The whole text of an address.

        Raises:
            FetchError: It could not be read, or not to its end.
        """
        return _decoded(b"".join(self._chunks(url, most_bytes, limit_s)))

    def lines(self, url: str, most_bytes: int, limit_s: float) -> Iterator[str]:
        """The lines of an address as they come in.

        Raises:
            FetchError: It could not be read, or not to its end; whole lines before that were handed out.
        """
        left = b""
        for chunk in self._chunks(url, most_bytes, limit_s):
            *whole, left = (left + chunk).split(b"\n")
            for line in whole:
                yield _decoded(line) + "\n"
        if left:
            yield _decoded(left)

    def _chunks(self, url: str, most_bytes: int, limit_s: float) -> Iterator[bytes]:
        check_address(url)
        request = urllib.request.Request(quote(url, safe=IN_ADDRESSES), headers=dict(HEADERS))  # noqa: S310 - https alone passes the check above
        ends_at = self._clock() + limit_s
        read_bytes = text_bytes = 0
        try:
            with self._open(request, SOCKET_LIMIT_S) as answer:
                unpacked = _unpacker(answer)
                while chunk := answer.read(CHUNK_BYTES):
                    read_bytes += len(chunk)
                    for part in unpacked(chunk):
                        text_bytes += len(part)
                        if text_bytes > most_bytes:
                            raise FetchError("too_large", str(most_bytes))
                        yield part
                    if self._clock() > ends_at:
                        raise FetchError("timeout", f"{limit_s:g}")
                _check_whole(answer, read_bytes)
        except urllib.error.HTTPError as problem:
            raise FetchError("status", str(problem.code)) from problem
        except IncompleteRead as problem:
            raise FetchError("cut_short", str(read_bytes)) from problem
        except (TimeoutError, HTTPException, OSError) as problem:
            raise _network_error(problem) from problem


def check_address(url: str) -> None:
    """Refuses an address that is not https on a known host.

    Raises:
        FetchError: `refused_address`.
    """
    parts = urlsplit(url)
    if parts.scheme != "https" or parts.hostname not in HOSTS or parts.port not in (None, 443):
        raise FetchError("refused_address", url[:200])


class _OnlyKnownHosts(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        check_address(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opened(request: urllib.request.Request, limit_s: float) -> IO[bytes]:
    opener = urllib.request.build_opener(_OnlyKnownHosts)
    answer: IO[bytes] = opener.open(request, timeout=limit_s)
    return answer


def _unpacker(answer: Any) -> Callable[[bytes], Iterator[bytes]]:
    """What makes text of a body: some servers pack it though it was asked for as it is.

    A packed body comes out in pieces, so that one that swells is refused before it fills the memory.
    """
    headers = getattr(answer, "headers", None)
    packed = headers is not None and (headers.get("Content-Encoding") or "").lower() == "gzip"
    if not packed:
        return lambda chunk: iter((chunk,))
    stream = zlib.decompressobj(zlib.MAX_WBITS | GZIP)

    def unpacked(chunk: bytes) -> Iterator[bytes]:
        left = chunk
        try:
            while left:
                yield stream.decompress(left, CHUNK_BYTES)
                left = stream.unconsumed_tail
        except zlib.error as problem:
            raise FetchError("not_text", "gzip") from problem

    return unpacked


def _check_whole(answer: Any, read_bytes: int) -> None:
    """`read` of a size returns what there is of a body that ends early, without a word."""
    headers = getattr(answer, "headers", None)
    said = headers.get("Content-Length") if headers is not None else None
    if said is not None and said.isdigit() and read_bytes < int(said):
        raise FetchError("cut_short", f"{read_bytes} of {said}")


def _network_error(problem: Exception) -> FetchError:
    reason = getattr(problem, "reason", problem)
    if isinstance(reason, FetchError):
        return reason
    if isinstance(reason, TimeoutError | socket.timeout):
        return FetchError("timeout", f"{SOCKET_LIMIT_S:g}")
    return FetchError("offline", type(reason).__name__)


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise FetchError("not_text", str(problem.start)) from problem
