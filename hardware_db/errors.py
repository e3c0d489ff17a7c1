"""The one error of the data files."""


class DataError(ValueError):
    """A data file says something that is not allowed.

    Attributes:
        file: Name of the file.
        line: Line, from 1; 0 where the file as a whole is meant.
        column: Column or key; empty where the whole line is meant.
        value: What stands there.
        allowed: What may stand there.
    """

    def __init__(self, file: str, line: int, column: str, value: object, allowed: str) -> None:
        place = ", ".join(
            part
            for part in (file, f"line {line}" if line else "", f"column {column}" if column else "")
            if part
        )
        shown = repr(value)
        super().__init__(
            f"{place}: {shown if len(shown) <= 120 else shown[:117] + '...'} is not allowed; {allowed}"
        )
        self.file = file
        self.line = line
        self.column = column
        self.value = value
        self.allowed = allowed
