"""English for `export` and `import` on the command line: remarks, refusals, and the words of a report."""

import json
from collections.abc import Iterator, Mapping
from typing import Final

from planner.cli import words
from planner.exports.report import ReportWords
from planner.exports.types import Export, ExportRefusedError
from planner.imports.types import Imported, ImportRefusedError, Remark
from planner.ledger import Category
from planner.plan_types import Plan
from planner.scenario import to_document

REASONS: Final = {
    "unknown": "not known|did you mean {closest}?",
    "no_memory": "has nothing to do with memory",
    "inert": "does nothing|what it seems to do is done by {real}",
    "stage": "does nothing in ZeRO stage {given}|it belongs to stage {needs}",
    "auto": "left to the launcher, so the question keeps {kept}",
    "bad_value": "not understood|allowed: {allowed}",
    "not_modelled": "matters, but a scenario can't say it",
    "elsewhere": "names another file; import that one by itself",
    "differs": "does not agree with the rest, which makes {found}",
    "default": "left out, so the program's own value is taken",
    "mixed_cards": "the question has {cards} cards of several kinds; their number stays",
    "model_unclear": "no one model of the catalog has this name, so the question's own stays; give the model by its id",
    "unlike_cards": "can be counted for cards of one kind; the question has {cards} of several, so give --tensor-split",
    "missing": "missing; the program has it from a file that is not here, and without it there is no plan",
}
"""Why a key is remarked on."""
REFUSED_IMPORTS: Final = {
    "format_unknown": "not a config or command line that is known|formats: {allowed}",
    "format_unsure": "hardly a key of it is known, so nothing was taken over|formats: {allowed}",
    "format_scenario": "this is a scenario file; it needs no import",
    "not_a_mapping": "no keys with values in it; give a config in JSON or YAML, or a command line",
    "text_too_long": "{given} characters|allowed: {allowed}",
    "too_deep": "nested {given} levels|allowed: {allowed}",
    "too_large": "{given} values|allowed: {allowed}",
    "yaml_alias": "aliases (*name) are not read: line {line}, column {column}",
    "twice": "the key {given} stands twice",
    "not_yaml": "no YAML|line {line}, column {column}",
    "not_json": "no JSON|line {line}, column {column}",
    "quotes_open": "a quotation mark is not closed",
}
"""Why a text is not read at all."""
REFUSED_EXPORTS: Final = {
    "target_unknown": "no export {given}|known: {allowed}",
    "for_training": "for training only; the task is {given}",
    "for_serving": "for serving only; the task is {given}",
    "runtime": "the plan is for {given}, whose figures would not be this file's|set runtime.name to one of: {allowed}",
    "adapter": "for adapter runs only; the task is {given}",
    "model": "has no words for {given}|it has for: {allowed}",
    "field": "{field} = {given} can't be told|allowed: {allowed}",
    "kinds": "every machine has the same kind of card; given {given}",
    "offer": "no hourly offer for {given}|clouds: {allowed}",
}
"""Why a plan has no file of a kind."""
REMARKS: Final = {
    "model_name": "the model has no plain name; put one where MODEL stands",
    "checkpoint_format": "the checkpoint itself has to be in {value}",
    "model_file": "{value} is the name of a file of yours",
    "no_flag": "{value} has no option here",
    "data_set": "{value}: put your own data here",
    "template": "{value}: the chat template of your model",
    "tokenizer": "{value} and its file are to be added",
    "paths": "paths under {value} are examples",
    "checkpointing_in_the_model": "checkpointing ({value}) is switched on in the model, not here",
    "nvme_folder": "{value}: where your disk is mounted",
    "above_largest": "batch sizes above the largest are left out: {value}",
    "image": "image {value}",
    "metrics": "{value} has to reach the cluster's metrics through an adapter",
    "most_replicas": "at most {value} replicas",
    "offer": "priced by {value}",
}
"""What to see to in a file, by code."""
REPORT: Final = {
    "cards": "Cards, GiB each",
    "peak": "What fills the fullest card",
    "entries": "Largest entries",
    "defaults": "Filled in by the runtime",
    "remarks": "Remarks",
    "question": "The question",
    "devices": "Devices",
    "card": "Card",
    "usable": "Usable",
    "left": "Left",
    "low": "Low",
    "high": "High",
    "entry": "Entry",
    "formula": "Formula",
    "gib": "GiB",
    "field": "Field",
    "value": "Value",
}
"""Headings and columns of the report; `peak` is a heading and a column."""


def worded(template: str, params: Mapping[str, object]) -> str:
    """A sentence of clauses with `|` between; one about a parameter that is not known is left out."""
    given = {name: value for name, value in params.items() if value is not None and value != ""}
    clauses = [part for part in template.split("|") if all(name in given for name in words.names_in(part))]
    return "; ".join(clauses).format(**given)


def import_lines(found: Imported) -> Iterator[str]:
    """One line for each remark, what matters first; keys without effect on memory in one line together."""
    for remark in found.trouble:
        value = f" = {remark.value}" if remark.value else ""
        yield f"{remark.key}{value}: {_why(remark)}"
    taken = [f"{remark.key} = {remark.value}" for remark in found.remarks if remark.reason == "default"]
    if taken:
        yield f"left out, {found.source}'s own value taken: {', '.join(taken)}"
    if found.own:
        fields = ", ".join(f"{path} {_given(before)} -> {_given(now)}" for path, before, now in found.own)
        yield f"changed by what {found.source} does where the file says nothing else: {fields}"
    quiet = [remark.key for remark in found.remarks if remark.reason == "no_memory"]
    if quiet:
        yield f"nothing to do with memory: {', '.join(quiet)}"


def _given(value: object) -> str:
    return "(not given)" if value is None else str(value)


def _why(remark: Remark) -> str:
    if remark.reason == "auto" and dict(remark.params).get("kept") is None:
        return "left to the launcher, so the question's own stays"
    return worded(REASONS[remark.reason], dict(remark.params))


def refused_import(problem: ImportRefusedError) -> str:
    """Why a text was not read."""
    return worded(REFUSED_IMPORTS[problem.code], dict(problem.params))


def refused_export(target: str, problem: ExportRefusedError) -> str:
    """Why there is no such file."""
    params = {"field": problem.field, "given": problem.given, "allowed": problem.allowed}
    return f"{target}: {worded(REFUSED_EXPORTS[problem.code], params)}"


def export_lines(file: Export) -> Iterator[str]:
    """What to see to in a file."""
    for code, value in file.remarks:
        yield worded(REMARKS[code], {"value": value})


def report_words(plan: Plan) -> ReportWords:
    """The report in English."""
    from planner.cli.report import plan_lines  # noqa: PLC0415 - only a report needs it

    title, verdict, *_ = plan_lines(plan)
    return ReportWords(
        title=title,
        verdict=verdict,
        headings=REPORT,
        columns=REPORT | {"peak": "Peak"},
        category=lambda category: words.CATEGORIES.get(Category(category), str(category)),
        entry=lambda name: name.replace("_", " "),
        remarks=tuple(words.line(issue) for issue in plan.issues),
        question=json.dumps(to_document(plan.scenario), indent=2, ensure_ascii=False),
    )
