"""Commands and options of `python -m planner`; no more is loaded with every command."""

import argparse
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from planner.cli.search_options import add_options as add_search_options

Command = Callable[[argparse.Namespace], Iterable[str]]
"""What a command runs: its options in, its lines out."""
Add = Callable[[str, str], argparse.ArgumentParser]
"""Makes the parser of one command from its name and what it is for."""
SCENARIO: Final = "a scenario (JSON); - reads standard input"


def command_parser(run: Mapping[str, Command]) -> argparse.ArgumentParser:
    """The parser of a command line; what it parses has the function to run as `command`.

    Args:
        run: The function of each command, by the command's name.
    """
    parser = argparse.ArgumentParser(
        prog="python -m planner", description="How much GPU memory a model and a technique need."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(command=run[name])
        return sub

    _add_plans(add)
    _add_catalog(add)
    _add_records(add)
    _add_files(add)
    return parser


def _add_plans(add: Add) -> None:
    """A question answered, alone or with its cards laid out in other ways."""
    plan = add("plan", "Answer a scenario file.")
    plan.add_argument("file", metavar="FILE", help=SCENARIO)
    plan.add_argument("--json", action="store_true", help="the whole plan, every entry of every ledger")
    for name, text in (
        ("layouts", "Lay a training job out over unequal cards; the fastest that fits is searched."),
        ("elastic", "Plan a training job on more and fewer data-parallel workers."),
        ("trial", "Plan an eighth of a training job with the same load on each card."),
    ):
        sub = add(name, text)
        sub.set_defaults(topic=name)
        sub.add_argument("file", metavar="FILE", help=SCENARIO)
        sub.add_argument("--json", action="store_true", help="the scenario it comes to (layouts, trial)")
    budget = add("budget", "Trade memory for operations done again, by a compiler's memory budget.")
    budget.add_argument("file", metavar="FILE", help="a training scenario (JSON); - reads standard input")
    budget.add_argument("--json", action="store_true", help="every point, sizes in bytes")


def _add_catalog(add: Add) -> None:
    """What a question can be made of."""
    add("schema", "Print the JSON schema of a scenario.")
    models = add("models", "List the models of the catalog.")
    models.add_argument(
        "filter", nargs="?", default="", metavar="FILTER", help="part of an id or a model type"
    )
    model = add("model", "Read config and true sizes of a model: from the Hub, a folder or a file.")
    model.add_argument(
        "source",
        metavar="SOURCE",
        help="org/name, org/name:Q4_K_M, an address on the Hub, a folder or a file",
    )
    model.add_argument("--json", action="store_true", help="the model block of a scenario")
    model.add_argument("--onto", metavar="FILE", help="the scenario in that file, with this model")
    gpus = add("gpus", "List the GPUs of the table.")
    gpus.add_argument("filter", nargs="?", default="", metavar="FILTER", help="part of an id or a name")


def _add_records(add: Add) -> None:
    """What was measured, sent, printed or said."""
    score = add("score", "Hold plans against measurement records.")
    score.add_argument("files", nargs="+", metavar="FILE", help="records, one JSON object a line")
    score.add_argument("--json", action="store_true", help="every row, what has no answer, and the summary")
    link = add("link", "Print the share link text of a scenario file.")
    link.add_argument("file", metavar="FILE", help=SCENARIO)
    diagnose = add("diagnose", "Say why a run failed, from its message or log.")
    diagnose.add_argument(
        "file", metavar="FILE", help="a message or a log of any length; - reads standard input"
    )
    diagnose.add_argument("--scenario", metavar="FILE", help="the question that was run, to name the tensor")
    diagnose.add_argument("--json", action="store_true", help="everything that was found, sizes in bytes")
    claims = add("claims", "Hold what people say about GPU memory against the planner.")
    claims.add_argument("rows", nargs="*", metavar="ID", help="rows such as g7; left out: all")
    claims.add_argument("--scenario", metavar="FILE", help="a question: rules of thumb on its plan")
    claims.add_argument(
        "--json", action="store_true", help="claims and rules with their working, sizes in bytes"
    )


def _add_files(add: Add) -> None:
    """Files of other programs, and the search that writes many questions itself."""
    export = add("export", "Print a plan as a file of another program.")
    export.add_argument("file", metavar="FILE", help=SCENARIO)
    export.add_argument(
        "--format", metavar="NAME", help="which program; left out: lists what this plan can have"
    )
    add_search_options(add("search", "Find the best plan of a job over all offers."))
    taken = add("import", "Print the scenario that a file or command line of another program makes.")
    taken.add_argument(
        "file", metavar="FILE", help="JSON, YAML, Python or a command line; - reads standard input"
    )
    taken.add_argument(
        "--onto",
        metavar="FILE",
        help="the question it is laid onto; settings that the program has and the file leaves out take its defaults",
    )
    taken.add_argument("--format", metavar="NAME", help="which program it is for; left out: found out")
    taken.add_argument("--model", metavar="ID", help="the model, where the file names none")
    taken.add_argument("--gpu", metavar="ID", help="the card, where no question is given")
