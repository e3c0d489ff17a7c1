"""The page before a start: what would run, why it cannot, the button, a small copy, this machine."""

from html import escape
from typing import Any, Final

import streamlit as st

from profiler.documents import Remark
from profiler.machine import MachineDevice
from profiler.plan_request import prepare
from ui import parts
from ui.compare.values import option_text
from ui.issue_words import field_name
from ui.measure import actions, wording
from ui.measure.machine import Here, Spot
from ui.measure.sizes import decimals_for, size
from ui.measure.small_copy import MOST_ON_CPU_BYTES, Difference, SmallCopy, small_copy
from ui.measure.states import ENDED_WITHOUT_RESULT, SMALLER_HELPS, State
from ui.measure.use_machine import draw_use_machine, draw_why_not
from ui.measure.view import View
from ui.numbers import DASH, TIMES, gib1, whole
from ui.whole import FORMAT
from ui.words import Safe, Words

USE: Final = "measure_use"


def copy_for(view: View) -> SmallCopy | None:
    """A small copy where the question itself cannot run here, failed, or would take long."""
    if not wants_copy(view):
        return None
    copy = small_copy(view.document, view.plan, view.spot.kind, view.spot.free_bytes)
    return copy if copy is not None and copy.differences else None


def wants_copy(view: View) -> bool:
    """Whether a small copy is worth offering."""
    cannot = bool(view.prepared.refused) or view.prepared.too_large is not None
    return cannot or is_slow(view) or view.state in SMALLER_HELPS


def is_slow(view: View) -> bool:
    """Whether the question would fit and yet is a long wait on a processor."""
    return view.spot.kind == "cpu" and view.prepared.predicted_bytes > MOST_ON_CPU_BYTES


def draw_what(view: View, words: Words) -> None:
    """What would run, and why it cannot."""
    remarks = _remarks(view)
    if remarks:
        _refusals(remarks, words)
    _what(view, words)


def draw_do(view: View, copy: SmallCopy | None, words: Words) -> None:
    """The button, and a small copy."""
    _controls(view, words)
    _small(view, copy, words)


def _remarks(view: View) -> tuple[Remark, ...]:
    if view.state is State.REFUSED_BY_WORKER and view.seen is not None:
        return view.seen.remarks
    return view.prepared.refused


def _refusals(remarks: tuple[Remark, ...], words: Words) -> None:
    title = words("measure.refusals.title")
    st.html(parts.section(title))
    head = [words(f"measure.refusals.{name}") for name in ("field", "asked", "allowed")]
    st.html(parts.table(head, wording.refusal_rows(remarks, words), name=title, left=(0, 1, 2), wide=(3,)))


def _what(view: View, words: Words) -> None:
    runs = not view.prepared.refused and view.prepared.too_large is None
    title = words("measure.run.title" if runs else "measure.run.title_asked")
    st.html(parts.section(title, words("measure.run.note") if runs else ""))
    head = [words("measure.run.field"), words("measure.run.value")]
    st.html(parts.table(head, _what_rows(view, words), name=title, left=(1,)))


def _what_rows(view: View, words: Words) -> list[list[str]]:
    asked, model = view.plan.resolved, view.plan.model
    training = asked.training
    name = asked.model.id.rpartition("/")[2] if asked.model.id else model.model_type
    shape = words("measure.strip.layers", n=whole(model.num_layers))
    rows = [
        [words("measure.run.model"), words.listed([name, shape])],
        [words("measure.run.where"), wording.device_name(view.spot, words)],
    ]
    if not asked.is_training:
        return rows
    rows += [
        [
            words("measure.run.batch"),
            f"{whole(training.micro_batch)} {TIMES} {whole(training.sequence_length)}",
        ],
        [words("measure.run.precision"), _precision(view, words)],
        [words("measure.run.optimizer"), _choice("optimizer", training.optimizer.name, words)],
        [words("measure.run.attention"), _choice("attention", training.attention or "", words)],
        [
            words("measure.run.checkpointing"),
            _choice("checkpointing", training.checkpointing or "", words),
        ],
    ]
    if asked.adapter is not None and asked.task in {"lora", "qlora"}:
        rows.append([words("measure.run.adapter"), _choice("adapter", asked.adapter.method, words)])
    return rows


def _precision(view: View, words: Words) -> str:
    precision = view.plan.resolved.training.precision
    stored = _choice("format", precision.parameters or "", words)
    if precision.autocast and precision.compute and precision.compute != precision.parameters:
        compute = _choice("format", precision.compute, words)
        return words("scenario.autocast", compute=compute, parameters=stored)
    return stored


def _choice(group: str, name: str, words: Words) -> str:
    key = f"{group}.{name}"
    return words(key) if words.has(key) else name or DASH


def _controls(view: View, words: Words) -> None:
    st.html(parts.section(words("measure.start.title"), words("measure.start.note")))
    if len(view.here.spots) > 1:
        _where(view.here, view.spot, words)
    with st.container(key="measure_how", horizontal=True, wrap=False, gap="small"):
        _number(actions.STEPS, "steps", actions.FIRST_STEPS, actions.MOST_STEPS, words)
        _number(actions.MINUTES, "timeout", actions.FIRST_MINUTES, actions.MOST_MINUTES, words)
    insisted = False
    if view.prepared.too_large is not None and not view.prepared.refused:
        st.session_state.setdefault(actions.INSIST, actions.setting(actions.INSIST, default=False))
        insisted = st.checkbox(
            words("measure.start.insist"),
            key=actions.INSIST,
            help=words("measure.start.insist_help"),
            on_change=actions.keep,
            args=(actions.INSIST,),
        )
    possible = bool(view.here.torch) and not view.prepared.refused
    possible = possible and (view.prepared.too_large is None or insisted) and view.state is not State.BUSY
    again = view.state in ENDED_WITHOUT_RESULT
    st.button(
        words("measure.start.again" if again else "measure.start.button"),
        key="measure_start",
        type="primary" if possible else "secondary",
        disabled=not possible,
        on_click=actions.start,
        args=(view.document, view.plan, view.spot, view.document),
    )


def _where(here: Here, spot: Spot, words: Words) -> None:
    names = {each.key: each.name or words("measure.device.cpu_option") for each in here.spots}
    if st.session_state.get(actions.WHERE) not in names:
        st.session_state[actions.WHERE] = spot.key
    st.segmented_control(
        words("measure.start.where"),
        list(names),
        format_func=lambda key: names.get(key, key),
        required=True,
        key=actions.WHERE,
        on_change=actions.keep,
        args=(actions.WHERE,),
    )


def _number(key: str, name: str, first: int, most: int, words: Words) -> None:
    st.session_state.setdefault(key, float(actions.setting(key, first)))
    st.number_input(
        words(f"measure.start.{name}"),
        min_value=1.0,
        max_value=float(most),
        step=1.0,
        format=FORMAT,
        key=key,
        on_change=actions.keep_whole,
        args=(key,),
    )


def _small(view: View, copy: SmallCopy | None, words: Words) -> None:
    cannot = bool(view.prepared.refused) or view.prepared.too_large is not None
    if copy is None and not cannot:
        return
    title = words("measure.small.title")
    st.html(parts.section(title, words("measure.small.note")))
    if copy is None:
        missing = "none" if view.plan.resolved.is_training else "none_serving"
        st.html(f'<div class="p m">{words.html(f"measure.small.{missing}")}</div>')
        return
    _copy_text(view, copy, words)
    ready = bool(view.here.torch) and view.state is not State.BUSY
    with st.container(horizontal=True, gap="small"):
        st.button(
            words("measure.small.button"),
            key="measure_small",
            type="primary" if ready and cannot else "secondary",
            disabled=not ready,
            on_click=actions.start,
            args=(copy.document, copy.plan, view.spot, view.document),
        )
        st.button(
            words("measure.small.load"),
            key="measure_small_load",
            type="tertiary",
            on_click=actions.put_left,
            args=(copy.document,),
        )
    head = [words(f"measure.small.{name}") for name in ("field", "asked", "copy")]
    st.html(parts.table(head, _copy_rows(copy, words), name=title))


def _copy_text(view: View, copy: SmallCopy, words: Words) -> None:
    prepared = prepare(copy.plan, view.spot.kind, view.spot.free_bytes)
    decimals = decimals_for(prepared.predicted_bytes)
    text = words.html(
        "measure.small.text",
        predicted=size(prepared.predicted_bytes, decimals),
        needed=size(prepared.needed_bytes, decimals),
    )
    if is_slow(view) and not view.prepared.refused and view.prepared.too_large is None:
        slow = words.html("measure.small.slow", predicted=gib1(view.prepared.predicted_bytes))
        text = words.sentences([slow, text])
    st.html(f'<div class="p">{text}</div>')


def _copy_rows(copy: SmallCopy, words: Words) -> list[list[str]]:
    return [
        [_field(each, words), _value(each, each.asked, words), _bold(_value(each, each.copy, words))]
        for each in copy.differences
    ]


def _field(each: Difference, words: Words) -> str:
    key = f"measure.small.key.{each.field.removeprefix('model.config.')}"
    return words(key) if words.has(key) else field_name(each.field, words)


def _value(each: Difference, value: Any, words: Words) -> str:
    return DASH if value is None else option_text(each.field, value, words)


def _bold(text: str) -> Safe:
    return Safe(f"<b>{escape(text)}</b>")


def draw_machine(here: Here, words: Words) -> None:
    """What this machine has, and the button that fills it in."""
    title = words("measure.here.title")
    st.html(parts.section(title))
    head = [words("measure.here.fact"), words("measure.here.value")]
    st.html(parts.table(head, _machine_rows(here, words), name=title, wide=(1,)))
    if not here.cards.order_known:
        st.html(parts.note("tight", words.html("measure.here.order")))
    draw_use_machine(words, USE)
    draw_why_not(words, USE)


def _machine_rows(here: Here, words: Words) -> list[list[str]]:
    rows = [
        [words("measure.here.card", index=whole(index)), _card(device, words)]
        for index, device in enumerate(here.cards.devices)
    ]
    if not rows:
        reason = wording.reason(here.cards.reason or "no_device", words)
        rows.append([words("measure.here.card", index=""), reason])
    elif here.no_cuda:
        rows.append(["", wording.no_cuda(here, words)])
    if here.cards.driver:
        rows.append([words("measure.here.driver"), here.cards.driver])
    rows.append([words("measure.here.torch"), here.torch or DASH])
    free = here.spots[-1].free_bytes
    rows.append(
        [
            words("measure.here.host"),
            DASH if free is None else words("measure.here.host_value", free=gib1(free)),
        ]
    )
    return rows


def _card(device: MachineDevice, words: Words) -> str:
    name = device.label or DASH
    if device.mig:
        name = words("measure.here.mig", name=name)
    pieces = [name]
    if device.memory_bytes is not None and device.free_bytes is not None:
        free, total = gib1(device.free_bytes), gib1(device.memory_bytes)
        pieces.append(words("measure.here.memory", free=free, total=total))
    elif device.memory_bytes is not None:
        pieces.append(words("measure.here.memory_total", total=gib1(device.memory_bytes)))
    pieces += [
        words("measure.remark.not_read", what=what, reason=wording.reason(code, words))
        for what, code in device.reasons
    ]
    if device.gpu_id is None:
        pieces.append(words("measure.here.not_in_table"))
    return words.listed(pieces)
