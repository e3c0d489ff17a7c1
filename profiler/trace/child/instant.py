"""Instant mode: the same trace from the model with few layers, run twice and extended (`profiler.trace.extend`).

Layers count as of one kind when they are built alike: classes, shapes, settings, entries in the config's lists.
Where the short models (`profiler.trace.repeats`) do not stand for the full one exactly, the full one is traced and the
trace says why.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import torch
from transformers import CONFIG_MAPPING

from planner.scenario import Scenario
from profiler.documents import MeasuredPhase
from profiler.trace.alignment import ExtendError
from profiler.trace.documents import Target
from profiler.trace.extend import extend
from profiler.trace.record import Columns, Instant, Trace
from profiler.trace.repeats import FullModeError, Kinds, Lengths, choose
from profiler.worker.workloads import build_model, make_config

OnPhase = Callable[[int, MeasuredPhase], None]
Make = Callable[[Mapping[str, Any], OnPhase], Trace]
SHAPES_ONLY: Final[Any] = "meta"
COUNT: Final = "num_hidden_layers"
PLAIN: Final = (bool, int, float, str, type(None))
MAX_TRIES: Final = 3
OTHER_CLASSES: Final = "litgpt"
"""A runtime whose layers are not transformers'."""

NUMBER_WORDS: Final = ("layer", "idx", "index")


class Layers(NamedTuple):
    """The layers of a model.

    Attributes:
        stack: Path of their list.
        kinds: How each is built.
    """

    stack: str
    kinds: Kinds


def instant_trace(
    scenario: Scenario, config: Mapping[str, Any], target: Target, make: Make, on_phase: OnPhase
) -> Trace:
    """The trace of the full model, from short ones where that is exact, else whole with the reason in `instant`.

    Args:
        scenario: What to run.
        config: Keys of the model's config.json.
        target: The device whose step is followed.
        make: Traces the model of a config.
        on_phase: Called with step and phase at every change of phase of the last model traced.
    """
    start_s = time.perf_counter()
    try:
        return _from_short(scenario, config, target, make, on_phase)
    except FullModeError as reason:
        spent_s = time.perf_counter() - start_s
        full = make(config, on_phase)
        note = Instant(code=reason.code, detail=reason.detail[:300])
        return full.model_copy(update={"instant": note, "build_s": full.build_s + spent_s})


def _from_short(
    scenario: Scenario, config: Mapping[str, Any], target: Target, make: Make, on_phase: OnPhase
) -> Trace:
    start_s = time.perf_counter()
    if target.part.ranks > 1:
        raise FullModeError("several_ranks", str(target.part.ranks))
    if scenario.training.images:
        raise FullModeError("not_one_list_of_layers", "vision tower")
    full = layers_of(scenario, config)
    traced: dict[int, Trace] = {}

    def run(count: int) -> Trace:
        if count not in traced:
            short = shortened(config, len(full.kinds), count)
            if layers_of(scenario, short) != Layers(full.stack, full.kinds[:count]):
                raise FullModeError("short_model_differs", f"{count} layers")
            traced[count] = make(short, on_phase if traced else _quietly)
        return traced[count]

    lengths, columns = _first_that_fits(run, full.stack, choose(full.kinds))
    shorter, longer = run(lengths.shorter), run(lengths.longer)
    build_s = sum(trace.build_s for trace in traced.values())
    return longer.model_copy(
        update={
            "config": dict(config),
            "storages": columns.storages,
            "events": columns.events,
            "marks": columns.marks,
            "params_total": lengths.at_full(shorter.params_total, longer.params_total),
            "params_trainable": lengths.at_full(shorter.params_trainable, longer.params_trainable),
            "build_s": build_s,
            "trace_s": time.perf_counter() - start_s - build_s,
            "instant": Instant(layers=tuple(sorted(traced)), period=lengths.period),
        }
    )


def _first_that_fits(
    run: Callable[[int], Trace], stack: str, lengths: Lengths, tries: int = MAX_TRIES
) -> tuple[Lengths, Columns]:
    """The first pair of short models that can be extended; each try takes one period more."""
    try:
        return lengths, extend(run(lengths.shorter), run(lengths.longer), stack, lengths.periods)
    except ExtendError as error:
        longer = lengths._replace(shorter=lengths.longer)
        if tries == 1 or not longer.saves:
            raise FullModeError(error.code, error.detail) from error
    return _first_that_fits(run, stack, longer, tries - 1)


def _quietly(_: int, __: object) -> None:
    """Tells nobody."""


def layers_of(scenario: Scenario, config: Mapping[str, Any]) -> Layers:
    """The list of layers of a model and their kinds.

    Raises:
        FullModeError: There is not one list of that many layers.
    """
    made = _config(scenario, config)
    count = getattr(made, COUNT)
    model = build_model(scenario, config, SHAPES_ONLY)
    found = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.ModuleList) and len(module) == count
    ]
    outer = [
        (name, module)
        for name, module in found
        if not any(name.startswith(f"{other}.") for other, _ in found if other != name)
    ]
    if len(outer) != 1:
        raise FullModeError("not_one_list_of_layers", ", ".join(name for name, _ in outer))
    stack, layers = outer[0]
    every = scenario.training.checkpoint_every or 1
    lists = [value for value in made.to_dict().values() if isinstance(value, list) and len(value) == count]
    kinds = [
        (index % every, *(repr(one[index]) for one in lists), *_built(layer, index))
        for index, layer in enumerate(layers)
    ]
    return Layers(stack, kinds)


def _config(scenario: Scenario, config: Mapping[str, Any]) -> Any:
    """The configuration object.

    Raises:
        FullModeError: It has no number of layers, or is one of several.
    """
    if "model_type" not in config:
        raise FullModeError("own_module")
    if scenario.runtime.name == OTHER_CLASSES:
        raise FullModeError("other_classes", OTHER_CLASSES)
    made = make_config(config, scenario)
    if made.get_text_config() is not made:
        raise FullModeError("nested_config", str(config.get("model_type")))
    if not isinstance(getattr(made, COUNT, None), int):
        raise FullModeError("no_layer_count", str(config.get("model_type")))
    return made


def _built(layer: Any, index: int) -> tuple[Any, ...]:
    """How a layer is built: classes, settings, shapes. The layer's own number is no difference."""
    return tuple(
        (
            name,
            type(module).__qualname__,
            tuple(sorted(_settings(module, index))),
            tuple((key, tuple(x.shape), str(x.dtype)) for key, x in module.named_parameters(recurse=False)),
            tuple((key, tuple(x.shape), str(x.dtype)) for key, x in module.named_buffers(recurse=False)),
        )
        for name, module in layer.named_modules()
    )


def _settings(module: Any, index: int) -> Iterator[tuple[str, str]]:
    for key, value in vars(module).items():
        is_number = type(value) is int and value == index and any(word in key for word in NUMBER_WORDS)
        if isinstance(value, PLAIN) and not key.startswith("_") and not is_number:
            yield key, repr(value)


def shortened(config: Mapping[str, Any], full: int, count: int) -> dict[str, Any]:
    """The configuration of the model with fewer layers: their number, and every list with an entry per layer."""
    kind = CONFIG_MAPPING[str(config["model_type"])]
    names = {COUNT, kind.attribute_map.get(COUNT, COUNT)}
    keys = {
        key: value[:count] if isinstance(value, list) and len(value) == full else value
        for key, value in config.items()
    }
    given = names & keys.keys() or {COUNT}
    return keys | dict.fromkeys(given, count)
