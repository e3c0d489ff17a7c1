"""The gpuhunt package, where the user has installed it: one question for several clouds.

It fetches for itself; nothing here limits what it reads.
"""

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, Final

from hardware_db.refresh.types import ChangedFormatError, RawPrice, Reading

PACKAGE: Final = "gpuhunt"
PROVIDERS: Final = {
    "gcp": "GCP",
    "oci": "OCI",
    "lambdalabs": "Lambda",
    "cudo": "Cudo Compute",
    "vultr": "Vultr",
}
"""Clouds that the other sources leave out or tell less of."""
NEEDED: Final = ("instance_name", "location", "price", "gpu_count", "gpu_name", "spot", "provider")

Query = Callable[..., Iterable[Any]]


class NotInstalledError(LookupError):
    """The package is not there."""


class PackageError(RuntimeError):
    """The package raised; the text is the name of its error."""


def installed_query() -> Query:
    """The package's own question.

    Raises:
        NotInstalledError: The package is not there.
        ChangedFormatError: It has no such question.
    """
    try:
        package = import_module("gpuhunt")
    except ImportError as problem:
        raise NotInstalledError(PACKAGE) from problem
    query: Query | None = getattr(package, "query", None)
    if query is None:
        raise ChangedFormatError("query")
    return query


def read(reading: Reading, query: Query | None = None) -> None:
    """Ask for every machine with a card.

    Raises:
        NotInstalledError: The package is not there.
        PackageError: It raised.
        ChangedFormatError: What it returns lacks a field.
    """
    asked = query or installed_query()
    try:
        items = list(asked(provider=list(PROVIDERS), min_gpu_count=1))
    except Exception as problem:
        raise PackageError(type(problem).__name__) from problem
    for item in items:
        lacking = [name for name in NEEDED if not hasattr(item, name)]
        if lacking:
            raise ChangedFormatError(", ".join(lacking))
        provider = PROVIDERS.get(str(item.provider))
        if provider is None:
            reading.passed_over += 1
            continue
        reading.prices.append(
            RawPrice(
                provider=provider,
                instance_type=str(item.instance_name)[:120],
                region=str(item.location)[:80],
                price=item.price,
                gpu_name=str(item.gpu_name or "")[:80],
                gpu_count=item.gpu_count,
                spot=bool(item.spot),
            )
        )
