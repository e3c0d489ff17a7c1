"""What is raised for a model that cannot be described."""


class UnknownArchitecture(ValueError):  # noqa: N818 -- named for what it says
    """An architecture that has no closed form here. Refused, never guessed.

    Attributes:
        model_type: What the config named.
        reason: Stable code: `unknown_model_type`, `missing_key`, `bad_value`, `unsupported_feature`,
            `diffusion_pipeline`.
        key: The config key at fault, if one is; dotted where the config is nested.
        value: What stood there, as short text.
        allowed: What may stand there.
        lower_bound_params: What can be counted for certain (embedding and the like), or None.
    """

    def __init__(
        self,
        model_type: str,
        reason: str,
        key: str = "",
        lower_bound_params: int | None = None,
        *,
        value: str = "",
        allowed: str = "",
    ) -> None:
        super().__init__(f"{model_type}: {reason} {key} {value} {allowed}".strip())
        self.model_type = model_type
        self.reason = reason
        self.key = key
        self.value = value
        self.allowed = allowed
        self.lower_bound_params = lower_bound_params
