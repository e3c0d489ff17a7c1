"""A command line as options: what a shell would hand to the program, simple variables and arrays filled in."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from planner.imports.types import ImportRefusedError
from planner.yaml_text import number

LONGEST: Final = 60_000
MOST_WORDS: Final = 4_000
_SET: Final = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)
_USE: Final = re.compile(r"\$\{?([A-Za-z_]\w*)(?:\[@\])?\}?")
_OPTION: Final = re.compile(r"--?[A-Za-z][\w.-]*(=.*)?", re.DOTALL)
LAUNCHERS: Final = (
    "torchrun",
    "accelerate",
    "deepspeed",
    "torch.distributed.run",
    "torch.distributed.launch",
)

IMAGES: Final = (
    (re.compile(r"/vllm-openai\b"), "vllm"),
    (re.compile(r"/llama\.cpp:(?:server|light)"), "llama-server"),
    (re.compile(r"/text-generation-inference\b"), "text-generation-launcher"),
)
"""Images that start a program themselves, so that only its options follow."""
LLAMA_PROGRAMS: Final = frozenset({"llama-server", "llama-cli", "llama-server.exe", "llama-cli.exe"})
OTHER_PROGRAMS: Final = {"trtllm-serve": "tensorrt_llm", "text-generation-launcher": "tgi"}
"""Programs of further servers, and their formats."""
PAIRS: Final = frozenset({"-ot", "--override-tensor", "--override-kv"})
"""Options whose value looks like an assignment."""
STOPS: Final = frozenset({"|", "||", "&&", ";", "&", ">", ">>", "<", "2>&1", "2>", "&>"})
"""Words at which a shell ends a program's own."""
SHORT: Final = {"tp": "tensor-parallel-size", "pp": "pipeline-parallel-size", "dp": "data-parallel-size",
                "q": "quantization", "dcp": "decode-context-parallel-size"}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """A command line taken apart.

    Attributes:
        program: Words before the first option of the program itself.
        launcher: Options of what starts it (`torchrun`, `accelerate launch`), underscores in their names.
        options: Options of the program, underscores in their names; a flag is True, several values a list.
    """

    program: tuple[str, ...]
    launcher: dict[str, Any]
    options: dict[str, Any]


def read_command_line(text: str) -> CommandLine:
    """Take a command line apart.

    Raises:
        ImportRefusedError: It is too long, or its quotes don't close.
    """
    if len(text) > LONGEST:
        raise ImportRefusedError("text_too_long", given=len(text), allowed=LONGEST)
    try:
        words = shlex.split(text.replace("\\\r\n", " ").replace("\\\n", " "), comments=True)
    except ValueError as problem:
        raise ImportRefusedError("quotes_open") from problem
    words = _expanded(words)
    if len(words) > MOST_WORDS:
        raise ImportRefusedError("too_large", given=len(words), allowed=MOST_WORDS)
    launcher, rest = _split(words)
    plain = list(_before_options(rest))
    return CommandLine(
        program=tuple(plain), launcher=_options(launcher), options=_options(rest[len(plain) :])
    )


def _expanded(words: list[str]) -> list[str]:
    """Assignments taken out, and put in where they are used; each only once, so that nothing grows."""
    values: dict[str, list[str]] = {}
    found: list[str] = []
    rest = iter(words)
    before = ""
    for word in rest:
        given = None if before in PAIRS else _SET.fullmatch(word)
        before = word
        if given and not word.startswith("-"):
            value = _array(given[3], rest) if given[3].startswith("(") else _parts(given[3])
            values[given[1]] = [*(values.get(given[1], []) if given[2] else []), *value][:MOST_WORDS]
            continue
        used = _USE.fullmatch(word)
        found += values.get(used[1], [word]) if used else [_filled(word, values)]
        if len(found) > MOST_WORDS:
            break
    return [_filled(word, values) for word in found[: MOST_WORDS + 1]]


def _array(first: str, rest: Iterator[str]) -> list[str]:
    """The words of a shell array up to its closing bracket."""
    found = [first.removeprefix("(")]
    while not found[-1].endswith(")"):
        word = next(rest, ")")
        found.append(word)
    found[-1] = found[-1].removesuffix(")")
    return [word for word in found if word]


def _parts(value: str) -> list[str]:
    try:
        return shlex.split(value) if "--" in value else [value]
    except ValueError:
        return [value]


def _filled(word: str, values: dict[str, list[str]]) -> str:
    if "$" not in word or len(word) > 200:
        return word
    return _USE.sub(lambda use: " ".join(values.get(use[1], [use[0]]))[:200], word)


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """Options of a launcher, and the program with its own; of a container only what its image is started with."""
    for i, word in enumerate(words):
        for image, program in IMAGES:
            if image.search(word):
                return [], [program, *_until_stop(words[i + 1 :])]
        if _starts_server(word, words[i + 1] if i + 1 < len(words) else ""):
            return [], _until_stop(words[i:])
    names = {word.rpartition("/")[2] for word in words[:4]}
    if not names & set(LAUNCHERS):
        return [], words
    for i, word in enumerate(words):
        if word.endswith(".py") or (i and words[i - 1] in {"-m", "--module"} and word not in LAUNCHERS):
            return words[:i], words[i:]
    return [], words


def _starts_server(word: str, following: str) -> bool:
    """Whether a word is a server's program or module, whatever starts it."""
    return (
        word == "sglang.launch_server"
        or word.startswith("vllm.entrypoints")
        or file_name(word) in LLAMA_PROGRAMS
        or file_name(word) in OTHER_PROGRAMS
        or (file_name(word) in {"vllm", "sglang"} and following == "serve")
    )


def file_name(word: str) -> str:
    """The last part of a path."""
    return word.replace("\\", "/").rpartition("/")[2]


def _until_stop(words: list[str]) -> list[str]:
    return words[: next((i for i, word in enumerate(words) if word in STOPS), len(words))]


def _before_options(words: list[str]) -> Iterator[str]:
    """Program, modules and what stands before the first option."""
    for i, word in enumerate(words):
        if _OPTION.fullmatch(word) and word != "-m" and not (i and words[i - 1] == "-m"):
            return
        yield word


def _options(words: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    name = ""
    for word in words:
        if _OPTION.fullmatch(word):
            dashed, equals, value = word.lstrip("-").partition("=")
            name = SHORT.get(dashed, dashed).replace("-", "_")
            found[name] = number(value) if equals else True
        elif name:
            before = found[name]
            value = number(word)
            found[name] = (
                value if before is True else [*(before if isinstance(before, list) else [before]), value]
            )
    return found
