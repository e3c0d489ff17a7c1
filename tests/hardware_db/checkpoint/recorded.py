"""A Hub made of recorded answers: the client library runs as it is, its transport answers from a table."""

import json
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import httpx2
import huggingface_hub

Answer = Callable[[httpx2.Request], httpx2.Response]
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def safetensors_bytes(tensors: Mapping[str, tuple[str, list[int], int]]) -> bytes:
    """A header as a safetensors file begins with, for (dtype, shape, bytes) of each tensor; no tensor follows."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (dtype, shape, size) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    raw = json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw


def info(repo: str, files: Mapping[str, bytes]) -> dict[str, object]:
    """What `/api/models/<repo>` answers."""
    return {
        "_id": "1",
        "id": repo,
        "sha": COMMIT,
        "private": False,
        "gated": False,
        "tags": [],
        "siblings": [{"rfilename": name, "size": len(raw)} for name, raw in files.items()],
    }


def ranged(request: httpx2.Request, raw: bytes) -> httpx2.Response:
    """A file, or the part of it that was asked for."""
    asked = request.headers.get("range", "")
    if not asked.startswith("bytes="):
        return httpx2.Response(200, content=raw, headers={"content-length": str(len(raw))})
    first, _, last = asked.removeprefix("bytes=").partition("-")
    part = raw[int(first) : int(last) + 1]
    return httpx2.Response(206, content=part, headers={"content-range": f"bytes {first}-{last}/{len(raw)}"})


def repository(repo: str, files: Mapping[str, bytes]) -> Answer:
    """A repository that anyone may read."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        path = request.url.path
        if path.startswith(f"/api/models/{repo}"):
            return httpx2.Response(200, json=info(repo, files))
        name = path.partition(f"/resolve/{COMMIT}/")[2]
        if name not in files:
            return httpx2.Response(404, headers={"x-error-code": "EntryNotFound"})
        if request.method == "HEAD":
            size = str(len(files[name]))
            headers = {"x-repo-commit": COMMIT, "etag": '"e"', "content-length": size, "x-linked-size": size}
            return httpx2.Response(200, headers=headers)
        return ranged(request, files[name])

    return answer


def refusing(status: int, code: str) -> Answer:
    """A Hub that refuses everything."""
    return lambda _request: httpx2.Response(status, headers={"x-error-code": code}, json={"error": code})


@contextmanager
def answering(answer: Answer) -> Iterator[list[httpx2.Request]]:
    """The client library with its transport replaced; yields the requests that were made."""
    made: list[httpx2.Request] = []

    def record(request: httpx2.Request) -> httpx2.Response:
        made.append(request)
        return answer(request)

    def client() -> httpx2.Client:
        return httpx2.Client(transport=httpx2.MockTransport(record), follow_redirects=True)

    huggingface_hub.set_client_factory(client)
    try:
        yield made
    finally:
        huggingface_hub.set_client_factory(huggingface_hub.utils._http.default_client_factory)
