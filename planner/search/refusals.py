"""What no machine can help: a question that a search refuses as `plan` does."""

from planner.checks.job import check_runtime
from planner.checks.question import Question
from planner.hardware import Tables
from planner.issues import ScenarioError
from planner.model.spec import ModelSpec
from planner.scenario import Scenario


def refuse_runtime(question: Scenario, model: ModelSpec, tables: Tables) -> None:
    """Refuses an engine that is to train, and a training framework that is to serve.

    Raises:
        ScenarioError: It is one of these; the issue names what is allowed.
    """
    asked = Question(asked=question, resolved=question, model=model, tables=tables)
    found = tuple(check_runtime(asked))
    if found:
        raise ScenarioError(found)
