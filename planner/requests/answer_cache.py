"""A cache of answers in front of a model: similar requests are answered without it.

A hit costs a look-up; a miss costs the look-up and the model. Hits are shared out over a local tier and a
shared store.
"""

from dataclasses import dataclass
from math import ceil
from typing import Final

from planner.requests.errors import positive, share

REFERENCE: Final = "gptcache"


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What a cache of answers changes.

    Attributes:
        model_requests_per_s: Requests that still reach the model.
        first_token_s: Mean time to the first token; None where the model's own is not known.
        first_token_frac: Change of that mean against no cache, negative where it falls; None likewise.
        replicas: Replicas with the cache; None where what one carries is not known.
        replicas_without: Replicas without it.
    """

    model_requests_per_s: float
    first_token_s: float | None
    first_token_frac: float | None
    replicas: int | None
    replicas_without: int | None


def with_cache(
    *,
    requests_per_s: float,
    hit_frac: float,
    local_frac: float = 1.0,
    local_s: float,
    store_s: float,
    model_first_token_s: float | None,
    capacity_per_s: float | None,
) -> Saved:
    """Requests, first token and replicas with a cache of answers.

    E[first token] = look-up + (1 - h) x model. A local hit costs the local look-up; everything else has asked
    the shared store as well.

    Args:
        requests_per_s: What arrives.
        hit_frac: Share answered from either tier.
        local_frac: Share of the hits that the local tier has.
        local_s: Look-up in the local tier.
        store_s: Look-up in the shared store, the embedding included.
        model_first_token_s: The model's own first token; None = not known.
        capacity_per_s: Requests a second of one replica; None = not known.

    Raises:
        RequestsInputError: A share or a time is outside what is allowed.
    """
    positive("workload.requests_per_s", requests_per_s)
    share("hit_frac", hit_frac)
    share("local_frac", local_frac)
    for name, value in (("local_s", local_s), ("store_s", store_s)):
        if value < 0:
            positive(name, value)
    left = requests_per_s * (1 - hit_frac)
    first = None
    if model_first_token_s is not None:
        positive("model_first_token_s", model_first_token_s)
        first = lookup_s(hit_frac, local_frac, local_s, store_s) + (1 - hit_frac) * model_first_token_s
    if capacity_per_s is not None:
        positive("capacity_per_s", capacity_per_s)
    return Saved(
        model_requests_per_s=left,
        first_token_s=first,
        first_token_frac=None
        if first is None or not model_first_token_s
        else first / model_first_token_s - 1,
        replicas=None if capacity_per_s is None else ceil(left / capacity_per_s),
        replicas_without=None if capacity_per_s is None else ceil(requests_per_s / capacity_per_s),
    )


def lookup_s(hit_frac: float, local_frac: float, local_s: float, store_s: float) -> float:
    """Mean look-up: the local tier always, the shared store unless the local tier hits.

    Args:
        hit_frac: Share of requests that are answered from the cache.
        local_frac: Share of the hits that the local tier has.
        local_s: A look-up in it.
        store_s: A look-up in the shared store.
    """
    return local_s + (1 - hit_frac * local_frac) * store_s


def hits_for(reduction_frac: float, lookup_over_model_frac: float) -> float:
    """The hit rate that a reduction of the mean first token takes.

    1 - r = l + (1 - h), so h = r + l, where l is the look-up as a share of the model's own first token and every
    request pays it in full.
    """
    share("reduction_frac", reduction_frac)
    share("lookup_over_model_frac", lookup_over_model_frac)
    return reduction_frac + lookup_over_model_frac
