"""Speculative decoding: a draft proposes, the model checks all at once."""


def expected_tokens(accepted_frac: float, drafted: int) -> float:
    """Tokens a checking step yields: (1 - a^(k+1)) / (1 - a). Leviathan et al. 2022 (arXiv 2211.17192), equation 1.

    Args:
        accepted_frac: Chance that a drafted token is accepted, from 0 to 1, taken as independent.
        drafted: Tokens drafted before each check.

    Raises:
        ValueError: A share outside 0 to 1, or fewer than no tokens.
    """
    if not 0 <= accepted_frac <= 1:
        raise ValueError(f"accepted_frac: {accepted_frac}; allowed: 0 to 1")
    if drafted < 0:
        raise ValueError(f"drafted: {drafted}; allowed: 0 or more")
    return float(sum(accepted_frac**i for i in range(drafted + 1)))


def speculative_token_s(check_s: float, draft_s: float, accepted_frac: float, drafted: int) -> float:
    """Mean time of a token: (k x draft + check) / tokens. Leviathan et al. 2022, theorem 3.8.

    Args:
        check_s: One step of the model over `drafted` + 1 tokens of each sequence.
        draft_s: One step of the draft.
        accepted_frac: Chance that a drafted token is accepted.
        drafted: Tokens drafted before each check.
    """
    return (drafted * draft_s + check_s) / expected_tokens(accepted_frac, drafted)
