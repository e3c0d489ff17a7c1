"""Why a memory file cannot be read: a code with values, worded by the page."""

from planner.issues import Param


class MemoryFileError(ValueError):
    """A file or a text is refused, or is not what it should be. Nothing in it was run.

    Attributes:
        code: `too_large`, `empty`, `compressed`, `not_pickle`, `truncated`, `not_plain`, `too_complex`,
            `too_long_number`, `not_snapshot`, `missing`, `bad_value` or `not_memory_text`.
        field: Place at fault such as `segments[3].blocks[0].size`, empty for the whole file.
        params: Values for the sentence.
    """

    def __init__(self, code: str, field: str = "", **params: Param) -> None:
        super().__init__(" ".join(filter(None, (code, field, *(f"{k}={v}" for k, v in params.items())))))
        self.code = code
        self.field = field
        self.params = params
