"""How long requests are: a distribution of a scenario as drawn lengths.

`lognormal` takes `mean_tokens` and `sigma` (of the logarithm), `uniform` takes `low_tokens` and `high_tokens`,
`list` takes `tokens`, drawn with replacement. A length is prompt and answer together.
"""

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.requests.errors import RequestsInputError, positive
from planner.scenario import LengthDistribution

Tokens = NDArray[np.int64]

REFERENCE: Final = "paged_attention"
FIELD: Final = "workload.length_distribution"
SEED: Final = 7
"""Where nobody gives one, so that the same question has the same answer."""

CHAT: Final = LengthDistribution.model_validate({"kind": "lognormal", "mean_tokens": 500, "sigma": 1.0})
"""The mean of chats in ShareGPT (161 in, 338 out: section 6.1 of the reference); the spread is a choice."""
CHAT_PROMPT_FRAC: Final = 161 / 499
"""Share of the prompt in such a chat."""


def draw(distribution: LengthDistribution, number: int, *, longest: int, seed: int = SEED) -> Tokens:
    """Lengths of a number of requests.

    Args:
        distribution: A kind and its own parameters.
        number: How many.
        longest: The server's limit; longer ones are cut to it.
        seed: Of the generator.

    Returns:
        Whole tokens, shape (number,), each from 1 to `longest`.

    Raises:
        RequestsInputError: A parameter is missing or outside what is allowed.
    """
    positive("number", number)
    positive("longest", longest)
    generator = np.random.default_rng(seed)
    if distribution.kind == "lognormal":
        mean, sigma = _number(distribution, "mean_tokens"), _number(distribution, "sigma", least=0.0)
        mu = math.log(mean) - sigma**2 / 2
        drawn = generator.lognormal(mu, sigma, number)
    elif distribution.kind == "uniform":
        low, high = _number(distribution, "low_tokens"), _number(distribution, "high_tokens")
        if low > high:
            raise RequestsInputError(f"{FIELD}.low_tokens", low, "ordered")
        drawn = generator.uniform(low, high, number)
    else:
        drawn = generator.choice(np.asarray(_listed(distribution), dtype=np.float64), number)
    cut: Tokens = np.clip(np.rint(drawn), 1, longest).astype(np.int64)
    return cut


def prompts(tokens: Tokens, prompt_frac: float) -> Tokens:
    """The prompt's part of each length, at least one token where there is more than one.

    Args:
        tokens: Lengths, any shape.
        prompt_frac: Share of the prompt.
    """
    wanted = np.rint(tokens * prompt_frac).astype(np.int64)
    cut: Tokens = np.clip(wanted, np.minimum(1, tokens - 1), tokens - 1)
    return cut


def _number(distribution: LengthDistribution, name: str, least: float | None = None) -> float:
    value = (distribution.model_extra or {}).get(name)
    field = f"{FIELD}.{name}"
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise RequestsInputError(field, value, "number")
    if least is None:
        positive(field, value)
    elif value < least:
        raise RequestsInputError(field, value, "positive")
    return float(value)


def _listed(distribution: LengthDistribution) -> list[float]:
    values = (distribution.model_extra or {}).get("tokens")
    field = f"{FIELD}.tokens"
    if not isinstance(values, list | tuple) or not values:
        raise RequestsInputError(field, values, "tokens_list")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise RequestsInputError(field, value, "tokens_list")
    return [float(value) for value in values]
