"""Which program a text is for, and the question it makes."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from planner.imports import (
    accelerate,
    axolotl,
    deepspeed,
    llama_cpp,
    llama_factory,
    megatron,
    peft,
    sglang,
    tensorrt_llm,
    tgi,
    torchtune,
    training_arguments,
    vllm,
)
from planner.imports.command_line import CommandLine, read_command_line
from planner.imports.draft import Draft, leaves
from planner.imports.keys import Keys
from planner.imports.python_text import read_python
from planner.imports.recognise import (
    PROGRAM,
    check_known,
    detected,
    first_line,
    is_command_line,
    named_program,
    program_of,
)
from planner.imports.types import Imported, ImportRefusedError
from planner.yaml_text import TextError, read_json, read_yaml

Reader = Callable[[Keys, Draft], None]

MAPPINGS: Final[dict[str, Reader]] = {
    "deepspeed": deepspeed.read,
    "accelerate": accelerate.read,
    "torchtune": torchtune.read,
    "axolotl": axolotl.read,
    "llama_factory": llama_factory.read,
    "training_arguments": training_arguments.read,
    "peft": peft.read,
}

LINES: Final[dict[str, Callable[[CommandLine, Draft], None]]] = {
    "vllm": vllm.read,
    "sglang": sglang.read,
    "tensorrt_llm": tensorrt_llm.read,
    "tgi": tgi.read,
    "llama_cpp": llama_cpp.read,
    "megatron": megatron.read,
}
FORMATS: Final = (*MAPPINGS, *LINES)


_MODELS: Final = frozenset(
    {"model", "model_path", "m", "hf", "hfr", "hf_repo", "model_name_or_path", "base_model", "adapter"}
)
"""Keys that stay when a file is read without its others: what it leaves out may follow from the model."""
_OF_THE_MODEL: Final = frozenset({"serving.weights"})
"""Fields that the name of a model's file tells."""
_NOTHING: Final = (None, 1, False, "none")
"""Values that a field without any has as well."""
_BLOCKS: Final = ("training", "parallel", "serving", "adapter", "runtime")


def import_text(
    text: str,
    base: Mapping[str, Any],
    source: str | None = None,
    models: Mapping[str, Mapping[str, Any]] | None = None,
) -> Imported:
    """Read a file or a command line onto a question.

    Args:
        text: JSON, YAML, Python keywords, or a command line.
        base: A scenario document: model, cards and fields that the program has no word for stay as they are here;
            what the program has a word for and the file leaves out takes the program's own value (`Imported.own`).
        source: One of `FORMATS`; found out from the text where left out.
        models: Rows of the catalog by model id, for files that are called after a model.

    Raises:
        ImportRefusedError: The text is too large, no text of any format, or not recognised.
    """
    if not text.strip():
        raise ImportRefusedError("format_unknown", allowed=", ".join(FORMATS))
    try:
        if source in LINES or (source is None and is_command_line(text)):
            return _line(read_command_line(text), base, source, models)
        if source is not None and source in MAPPINGS and is_command_line(text):
            return _mapping(_all_options(read_command_line(text)), base, source, checked=False)
        values = _values(text)
        found = source or detected(values)
        if found is None:
            raise ImportRefusedError("format_unknown")
        return _mapping(values, base, found, checked=source is None)
    except ImportRefusedError as problem:
        is_prose = problem.code == "quotes_open" and source is None and not PROGRAM.search(first_line(text))
        if is_prose or problem.code in {"format_unknown", "format_unsure"}:
            code = "format_unsure" if is_prose else problem.code
            raise ImportRefusedError(code, allowed=", ".join(FORMATS)) from problem
        raise


def _line(
    line: CommandLine,
    base: Mapping[str, Any],
    source: str | None,
    models: Mapping[str, Mapping[str, Any]] | None,
) -> Imported:
    found = source or program_of(line)
    if found not in LINES:
        return _mapping(_all_options(line), base, found, checked=source is None)
    draft, plain = Draft(base, models), Draft(base, models)
    LINES[found](line, draft)
    if source is None:
        check_known(draft, named=named_program(line) is not None)
    kept = {name: value for name, value in line.options.items() if name in _MODELS}
    LINES[found](CommandLine(program=line.program, launcher=line.launcher, options=kept), plain)
    return replace(draft.finished(found), own=_own(draft, plain))


def _own(draft: Draft, plain: Draft) -> tuple[tuple[str, Any, Any], ...]:
    """Fields that change though the file has no word of them: they change alike when its keys are taken out."""
    before, after, without = (dict(leaves(d)) for d in (draft.base, draft.document, plain.document))
    blocks = [
        block for block in _BLOCKS if block in draft.document and (block in draft.base or block != "adapter")
    ]
    return tuple(
        (path, before.get(path), after.get(path))
        for path in dict.fromkeys((*before, *after))
        if path.partition(".")[0] in blocks
        and path != "runtime.name"
        and path not in draft.told
        and not (path in _OF_THE_MODEL and after.get(path) is not None)
        and before.get(path) != after.get(path) == without.get(path)
        and not (before.get(path) is None and after.get(path) in _NOTHING)
    )


def _all_options(line: CommandLine) -> dict[str, Any]:
    """Options of the program, and how many processes its launcher starts."""
    told: dict[str, Any] = {
        name: line.launcher[name]
        for name in ("nproc_per_node", "nnodes", "num_processes")
        if name in line.launcher
    }
    return {**line.options, **told}


def _values(text: str) -> Mapping[str, Any]:
    values = _structured(text)
    if not isinstance(values, Mapping):
        raise ImportRefusedError("not_a_mapping")
    return values


def _structured(text: str) -> Any:
    """JSON where it begins like it, else Python keywords where they are some, else YAML."""
    start = text.lstrip()[:1]
    try:
        if start == "{":
            try:
                return read_json(text)
            except TextError as problem:
                if problem.code != "not_json":
                    raise
                literal = read_python(text)
                if literal is None:
                    raise
                return literal
        if "(" in text and (found := read_python(text)) is not None:
            return found
        return read_yaml(text)
    except TextError as problem:
        raise ImportRefusedError(problem.code, **problem.params) from problem


def _mapping(values: Mapping[str, Any], base: Mapping[str, Any], found: str, *, checked: bool) -> Imported:
    draft, plain = Draft(base), Draft(base)
    named = {str(key): value for key, value in values.items()}
    MAPPINGS[found](Keys(named, draft), draft)
    if checked:
        check_known(draft, named=False)
    kept = {key: value for key, value in named.items() if key in _MODELS}
    MAPPINGS[found](Keys(kept, plain), plain)
    return replace(draft.finished(found), own=_own(draft, plain))
