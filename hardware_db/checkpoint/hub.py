"""Checkpoints on the Hugging Face Hub: config and headers through its own client, a few megabytes at most.

Signing in is the client's own business (`hf auth login`, `HF_TOKEN`), as are mirrors (`HF_ENDPOINT`), proxies and
`HF_HUB_OFFLINE`.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from hardware_db.checkpoint.found import (
    LARGEST_CONFIG_BYTES,
    LARGEST_INDEX_BYTES,
    MOST_FILES,
    Checkpoint,
    CheckpointError,
    Tensor,
)
from hardware_db.checkpoint.gguf import Fetch, read_header
from hardware_db.checkpoint.gguf_files import from_headers, parts_of, pick_gguf
from hardware_db.checkpoint.local import (
    CONFIG,
    INDEX,
    SINGLE,
    config_from,
    names_in_index,
    parse_json,
    tensor_of,
)
from hardware_db.checkpoint.source import Source

if TYPE_CHECKING:
    from huggingface_hub import HfApi

TIMEOUT_S: Final = 15.0
SHORT: Final = 12
HTTP_BUSY: Final = 429
HTTP_SERVER: Final = 500
HTTP_PARTIAL: Final = 206
Result = TypeVar("Result")


def read_repo(source: Source) -> Checkpoint:
    """The checkpoint of a repository.

    Args:
        source: Repository, and where named revision, file and tag.

    Raises:
        CheckpointError: Gated, private, not there, offline, or nothing in it that can be read.
    """
    from huggingface_hub import HfApi  # noqa: PLC0415
    from huggingface_hub.utils import disable_progress_bars  # noqa: PLC0415

    disable_progress_bars()
    api = HfApi()
    with _told(source):
        info = api.model_info(source.repo, revision=source.revision, files_metadata=True, timeout=TIMEOUT_S)
        sizes = {item.rfilename: item.size for item in info.siblings or ()}
        commit = info.sha or source.revision or "main"
        repo = _Repo(api, info.id or source.repo, commit, sizes)
        return _read(repo, source)


class _Repo:
    """One commit of a repository."""

    def __init__(self, api: "HfApi", name: str, commit: str, sizes: Mapping[str, int | None]) -> None:
        self.api, self.name, self.commit, self.sizes = api, name, commit, sizes
        self.source = f"{name}@{commit[:SHORT]}"

    def _address(self, file: str) -> str:
        from huggingface_hub import hf_hub_url  # noqa: PLC0415

        address: str = hf_hub_url(self.name, file, revision=self.commit, endpoint=self.api.endpoint)
        return address

    def fetch(self, file: str) -> Fetch:
        """Reads parts of a file; a server that sends the whole of it instead is refused before it does."""
        from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status  # noqa: PLC0415

        address = self._address(file)

        def fetch(offset: int, size: int) -> bytes:
            headers = {**build_hf_headers(), "range": f"bytes={offset}-{offset + size - 1}"}
            with get_session().stream(
                "GET", address, headers=headers, timeout=TIMEOUT_S, follow_redirects=True
            ) as answer:
                hf_raise_for_status(answer)
                if answer.status_code != HTTP_PARTIAL and (self.sizes.get(file) or 0) > size:
                    raise CheckpointError("not_ranged", given=file)
                found = bytearray()
                for block in answer.iter_bytes():
                    found += block
                    if len(found) >= size:
                        break
            return bytes(found[:size])

        return fetch

    def small_file(self, file: str, largest: int) -> object:
        """A JSON file that is not too large."""
        size = self.sizes.get(file)
        if size is not None and size > largest:
            raise CheckpointError("too_large", given=file, size=size, allowed=largest)
        raw = self.fetch(file)(0, largest + 1)
        if len(raw) > largest:
            raise CheckpointError("too_large", given=file, size=len(raw), allowed=largest)
        return parse_json(raw, file)


def _read(repo: _Repo, source: Source) -> Checkpoint:
    files = repo.sizes
    ggufs = [name for name in files if name.lower().endswith(".gguf")]
    if source.file.lower().endswith(".gguf"):
        if source.file not in files:
            raise CheckpointError("no_such_file", given=source.file, allowed=", ".join(ggufs[:12]))
        return _gguf(repo, parts_of(source.file, ggufs))
    has_safetensors = INDEX in files or SINGLE in files
    if source.tag or (ggufs and not has_safetensors):
        if not ggufs:
            raise CheckpointError("no_weights", given=repo.name, allowed="gguf")
        return _gguf(repo, pick_gguf(ggufs, source.tag, repo.name))
    if has_safetensors:
        return _safetensors(repo)
    if any(name.endswith((".bin", ".pt", ".pth")) for name in files):
        raise CheckpointError("only_pickles", given=repo.name, allowed="safetensors, gguf")
    if CONFIG in files:
        config = config_from(repo.small_file(CONFIG, LARGEST_CONFIG_BYTES))
        return Checkpoint(
            source=repo.source, repo=repo.name, container="safetensors", files=0, config=config, tensors=()
        )
    raise CheckpointError("no_weights", given=repo.name, allowed="safetensors, gguf, config.json")


def _safetensors(repo: _Repo) -> Checkpoint:
    if SINGLE not in repo.sizes:
        names_in_index(repo.small_file(INDEX, LARGEST_INDEX_BYTES), INDEX)
    config = config_from(repo.small_file(CONFIG, LARGEST_CONFIG_BYTES)) if CONFIG in repo.sizes else None
    found = repo.api.get_safetensors_metadata(repo.name, revision=repo.commit, timeout=TIMEOUT_S)
    tensors = []
    for file in found.files_metadata.values():
        for name, info in file.tensors.items():
            stated = tensor_of(name, info.dtype, info.shape)
            tensors.append(_with_bytes(stated, info.data_offsets, repo.name))
    return Checkpoint(
        source=repo.source,
        repo=repo.name,
        container="safetensors",
        files=len(found.files_metadata),
        config=config,
        tensors=tuple(tensors),
    )


def _with_bytes(tensor: Tensor, offsets: tuple[int, int], name: str) -> Tensor:
    """A tensor with the bytes between its offsets, which must be those of its shape where its type is known."""
    size = offsets[1] - offsets[0]
    if size < 0 or size > 2**50 or tensor.elements < 0:
        raise CheckpointError("broken", given=name, detail=tensor.name[:80])
    return Tensor(name=tensor.name, format=tensor.format, elements=tensor.elements, bytes=size)


def _gguf(repo: _Repo, names: list[str]) -> Checkpoint:
    if len(names) > MOST_FILES:
        raise CheckpointError("too_many", given=repo.name, count=len(names), allowed=MOST_FILES)
    headers = [read_header(repo.fetch(name), name) for name in names]
    return from_headers(headers, source=f"{repo.source}/{names[0]}"[:200], files=len(names), repo=repo.name)


@contextmanager
def _told(source: Source) -> Iterator[None]:
    """What the client raises, as an error with a code."""
    from httpx2 import HTTPError  # noqa: PLC0415
    from huggingface_hub import errors  # noqa: PLC0415

    try:
        yield
    except errors.GatedRepoError as problem:
        address = f"https://huggingface.co/{source.repo}"
        raise CheckpointError("gated", given=source.repo, address=address) from problem
    except errors.RepositoryNotFoundError as problem:
        raise CheckpointError("missing_or_private", given=source.repo) from problem
    except errors.RevisionNotFoundError as problem:
        revision = source.revision or "main"
        raise CheckpointError("no_such_revision", given=source.repo, revision=revision) from problem
    except errors.HfHubHTTPError as problem:
        raise _refused(source, getattr(problem.response, "status_code", 0)) from problem
    except (errors.SafetensorsParsingError, errors.NotASafetensorsRepoError) as problem:
        raise CheckpointError("broken", given=source.repo, detail=str(problem)[:160]) from problem
    except errors.HFValidationError as problem:
        raise CheckpointError("not_a_source", given=source.repo) from problem
    except (HTTPError, OSError) as problem:
        raise CheckpointError("offline", detail=type(problem).__name__) from problem


def _refused(source: Source, status: int) -> CheckpointError:
    if status == HTTP_BUSY or status >= HTTP_SERVER:
        return CheckpointError("busy", status=status)
    return CheckpointError("hub_refused", given=source.repo, status=status)
