"""A user's own model as `package.module:factory`, as the command line names it. No PyTorch.

The factory is imported in the tracing child alone. It is named on the command line and never in a scenario, since
scenarios come in links and files of others.
"""

import json
import re
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field

from profiler.documents import Strict, Text

FIELD: Final = "--module"
NAME: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


class ModuleSource(Strict):
    """Where a model comes from.

    Attributes:
        target: `package.module:factory`.
        folder: Put first where modules are looked for.
        inputs: Keyword arguments of the factory.
    """

    target: Annotated[str, Field(max_length=300, pattern=f"^{NAME.pattern}$")]
    folder: Text
    inputs: dict[str, Any] = Field(default_factory=dict)


class SourceError(ValueError):
    """An option is wrong; the text names it, what was given and what is asked."""


def parse_source(target: str, inputs: str | None, folder: Path) -> ModuleSource:
    """Read the command line's options.

    Args:
        target: What `--module` was given.
        inputs: What `--input` was given, a JSON object, or None.
        folder: Where the command runs.

    Raises:
        SourceError: One of them is wrong.
    """
    if not NAME.fullmatch(target):
        raise SourceError(f"{FIELD}: {target!r} given; package.module:factory asked for")
    try:
        values = {} if inputs is None else json.loads(inputs)
    except ValueError as error:
        raise SourceError(f"--input: {inputs!r} given; a JSON object asked for ({error})") from error
    if not isinstance(values, dict):
        raise SourceError(
            f"--input: {inputs!r} given; a JSON object asked for, the factory's arguments by name"
        )
    return ModuleSource(target=target, folder=str(folder), inputs=values)
