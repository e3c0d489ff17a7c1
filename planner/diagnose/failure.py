"""What is known of a failure when it is asked what to do: the cause, the place, the tensor, the message's figures."""

from collections.abc import Mapping
from dataclasses import dataclass

from planner.diagnose.causes import Why
from planner.diagnose.engine import Engine
from planner.diagnose.tensors import Tensor
from planner.plan_types import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failure, as far as text and plan tell it.

    Attributes:
        why: The cause.
        phase: Where in the program it was, None where nothing says it.
        tensor: What was asked for.
        plan: The open plan; without one the changes that are usual for such a failure are named.
        figures: `request`, `free` and `unallocated` of the message, in bytes; `length`, the tokens of one request of a
            server, and `fits`, those that its cache can hold.
        engine: The server that the message is of, which has fixes of its own.
        of_server: Whether a server wrote the message, known or not.
        form: Of the record.
        other_run: Whether the message is of a run that is not the plan's, so that the plan's figures are not its own.
        bits: Of the weights, by the name of the file that was loaded; None where the text names none.
        late: Whether many steps had gone well before.
        foreach: Whether the traceback shows an optimizer's step that is not fused, whatever the plan says.
    """

    why: Why
    phase: str | None
    tensor: Tensor | None
    plan: Plan | None
    figures: Mapping[str, int | None]
    engine: Engine | None = None
    of_server: bool = False
    form: str = ""
    other_run: bool = False
    bits: int | None = None
    late: bool = False
    foreach: bool = False
