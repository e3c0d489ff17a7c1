"""A memory file on the page: the sentence, five figures, the timeline, the plan beside it, pools, owners, stops."""

from typing import Final

import streamlit as st

from planner.ledger import Category, Layer
from planner.plan_types import Plan
from profiler.snapshot import BlockNote, DeviceMemory, Frame, MemoryFile, OutOfMemory, PoolLevel, Remark
from ui import parts
from ui.measure.sizes import decimals_for, gap, part, size
from ui.measure.wording import tag_of
from ui.numbers import DASH, percent, ranges, whole
from ui.trace import snapshots
from ui.trace.view import draw_timeline, escaped_name, part_swatch
from ui.words import Safe, Words

DEVICE: Final = "snapshot_device"
MOST_OOMS: Final = 6


def draw_snapshot(seen: MemoryFile, plan: Plan | None, words: Words) -> None:
    """The page of a memory file.

    Args:
        seen: The file.
        plan: The answer to the open question, laid beside it; None where there is none.
        words: For everything.
    """
    with st.container(key="verdict", gap=None):
        with st.container(key="top", horizontal=True, wrap=False, vertical_alignment="center", gap="small"):
            st.html(f'<div class="scn">{_source(seen, words)}</div>', width="stretch")
            st.button(words("snapshot.close"), key="snapshot_close", on_click=snapshots.close)
        head = st.container()
    device = _chosen(seen, words)
    with head:
        st.html(
            f"{parts.headline(_title(device, words))}"
            f'<p class="why">{_tag(device, seen, words)}&ensp;{_why(device, words)}</p>'
        )
    st.html(parts.strip(_strip(device, words)))
    with st.container(key="split_snapshot"):
        with st.container(key="snapshot_course", gap="xsmall"):
            _course(device, words)
        with st.container(key="snapshot_beside", gap="xsmall"):
            _beside(device, plan, words)
    with st.container(key="split_snapshot_rows"):
        with st.container(key="snapshot_pools", gap="xsmall"):
            _pools(device, words)
        with st.container(key="snapshot_stops", gap="xsmall"):
            _stops(device, words)
    _largest(device, words)
    _remarks(seen, device, words)
    st.html(f'<div class="foot">{words.html("snapshot.foot")}</div>')


def _source(seen: MemoryFile, words: Words) -> Safe:
    said = words.html(f"snapshot.source.{seen.source}", name=snapshots.name() or words("snapshot.pasted"))
    if not seen.settings:
        return said
    return words.sentences([said, words.html("snapshot.settings", settings=seen.settings)])


def _chosen(seen: MemoryFile, words: Words) -> DeviceMemory:
    """The device that is looked at: the fullest at first."""
    devices = seen.devices
    if len(devices) == 1:
        return devices[0]
    places = list(range(len(devices)))
    first = max(places, key=lambda i: _peak(devices[i])[0])
    chosen = st.segmented_control(
        words("snapshot.device"),
        places,
        default=first,
        required=True,
        format_func=lambda i: _device_name(devices[i], words),
        key=f"{DEVICE}_{len(devices)}",
        label_visibility="collapsed",
    )
    return devices[chosen if chosen in places else first]


def _device_name(device: DeviceMemory, words: Words) -> str:
    if device.device is None:
        return words("snapshot.some_device")
    return words("chart.gpu", index=ranges((device.device,)))


def _peak(device: DeviceMemory) -> tuple[int, int | None]:
    """Allocated and reserved at the peak; at the end where nothing was recorded."""
    if device.peak_allocated_bytes is None:
        return device.now.allocated_bytes, device.now.reserved_bytes
    return device.peak_allocated_bytes, device.peak_reserved_bytes


def _title(device: DeviceMemory, words: Words) -> Safe:
    allocated, reserved = _peak(device)
    decimals = decimals_for(allocated)
    when = "now" if device.peak_allocated_bytes is None else "peak"
    if reserved is None:
        return words.html(f"snapshot.title.{when}_alone", allocated=size(allocated, decimals))
    return words.html(
        f"snapshot.title.{when}", allocated=size(allocated, decimals), reserved=size(reserved, decimals)
    )


def _tag(device: DeviceMemory, seen: MemoryFile, words: Words) -> Safe:
    if device.num_ooms:
        return tag_of("bad", "✕", words("snapshot.tag.oom"))
    return tag_of("unknown", "●", words(f"snapshot.tag.{seen.source}"))


def _why(device: DeviceMemory, words: Words) -> Safe:
    allocated, reserved = _peak(device)
    said = []
    if device.ooms:
        said.append(_oom_text(device.ooms[-1], words))
    if reserved:
        unused = reserved - allocated
        said.append(
            words.html(
                "snapshot.why.between",
                gib=size(unused, decimals_for(allocated)),
                share=percent(unused / reserved),
            )
        )
    cut_frac = device.now.fragmented_frac
    if cut_frac is not None:
        said.append(words.html("snapshot.why.cut", share=percent(cut_frac)))
    return words.sentences(said) or words.html("snapshot.why.plain")


def _oom_text(stop: OutOfMemory, words: Words) -> Safe:
    return words.html(
        f"snapshot.oom.{stop.cause}",
        requested=size(stop.requested_bytes, decimals_for(stop.requested_bytes)),
        free=size(stop.free_bytes, decimals_for(stop.reserved_bytes)),
        allocated=size(stop.allocated_bytes, decimals_for(stop.reserved_bytes)),
        reserved=size(stop.reserved_bytes, decimals_for(stop.reserved_bytes)),
    )


def _strip(device: DeviceMemory, words: Words) -> list[tuple[Safe, Safe, Safe]]:
    allocated, reserved = _peak(device)
    decimals, now = decimals_for(allocated), device.now
    recorded = device.peak_allocated_bytes is not None
    cells = [
        ("allocated", allocated, _at_end(now.allocated_bytes, decimals, words) if recorded else Safe("")),
        ("reserved", reserved, _at_end(now.reserved_bytes, decimals, words) if recorded else Safe("")),
        ("unused", now.cached_bytes, words.html("snapshot.strip.at_end_alone")),
        ("cut", now.inactive_split_bytes, words.html("snapshot.strip.cut_below")),
    ]
    found = [
        (words.html(f"snapshot.strip.{name}"), _value(value, decimals, words), below)
        for name, value, below in cells
    ]
    return [*found, _oom_cell(device, words)]


def _at_end(value: int | None, decimals: int, words: Words) -> Safe:
    return words.html("snapshot.strip.at_end", gib=size(value, decimals))


def _value(value: int | None, decimals: int, words: Words) -> Safe:
    return Safe(DASH) if value is None else words.html("strip.gib", value=size(value, decimals))


def _oom_cell(device: DeviceMemory, words: Words) -> tuple[Safe, Safe, Safe]:
    number = Safe(DASH if device.num_ooms is None else whole(device.num_ooms))
    below = Safe("")
    if device.retries is not None:
        below = Safe(words.count("snapshot.strip.retries", device.retries))
    elif device.num_events:
        below = Safe(words.count("snapshot.strip.events", device.num_events))
    return words.html("snapshot.strip.ooms"), number, below


def _course(device: DeviceMemory, words: Words) -> None:
    title = words("snapshot.chart.title")
    if not device.timeline:
        st.html(parts.section(title))
        st.html(f'<div class="empty">{words.html("snapshot.chart.empty")}</div>')
        return
    draw_timeline(
        device.timeline,
        words,
        key="snapshot_timeline",
        title=title,
        stop_event=device.ooms[-1].event if device.ooms else None,
    )


def _beside(device: DeviceMemory, plan: Plan | None, words: Words) -> None:
    """The open question's own figures beside the recorded ones."""
    title = words("snapshot.beside.title")
    st.html(parts.section(title, words("snapshot.beside.note")))
    allocated, reserved = _peak(device)
    decimals = decimals_for(allocated)
    ledger = plan.worst.ledger if plan is not None else None
    predicted = (
        ledger.by_category(ledger.peak(Layer.ALLOCATED)[0], Layer.ALLOCATED) if ledger is not None else {}
    )
    recorded = device.categories()
    names = [category.value for category in Category if category in predicted or category.value in recorded]
    names += [name for name in recorded if name not in set(Category)]
    rows = [
        [
            Safe(f"{part_swatch(name)}{escaped_name(name, words)}"),
            part(predicted.get(Category(name)) if name in set(Category) else None, decimals),
            part(recorded.get(name), decimals),
            "",
        ]
        for name in names
    ]
    for name, layer, value in (
        ("allocated", Layer.ALLOCATED, allocated),
        ("reserved", Layer.RESERVED, reserved),
    ):
        expected = None if ledger is None else ledger.peak(layer)[1]
        rows.append(_sum_row(name, expected, value, decimals, words))
    head = [words(f"snapshot.beside.{name}") for name in ("part", "predicted", "recorded", "gap")]
    st.html(parts.table(head, rows, name=title))
    if plan is None or recorded.get("unknown"):
        key = "snapshot.beside.no_plan" if plan is None else "snapshot.beside.unknown"
        st.html(f'<div class="p m">{words.html(key)}</div>')


def _sum_row(name: str, expected: int | None, recorded: int | None, decimals: int, words: Words) -> list[str]:
    difference = None if expected is None or recorded is None else expected - recorded
    sizes = (size(expected, decimals), size(recorded, decimals), gap(difference, decimals))
    return [Safe(f"<b>{cell}</b>") for cell in (words(f"trace.parts.{name}"), *sizes)]


def _pools(device: DeviceMemory, words: Words) -> None:
    title = words("snapshot.pools.title")
    st.html(parts.section(title, words("snapshot.pools.note")))
    if not device.pools:
        st.html(f'<div class="empty">{words.html("snapshot.pools.empty")}</div>')
        return
    decimals = decimals_for(device.now.allocated_bytes)
    names = ("pool", "segments", "allocated", "reserved", "cut")
    head = [words(f"snapshot.pools.{name}") for name in names]
    rows = [
        [
            _pool_name(pool, words),
            DASH if pool.segments is None else whole(pool.segments),
            size(pool.level.allocated_bytes, decimals),
            size(pool.level.reserved_bytes, decimals),
            size(pool.level.inactive_split_bytes, decimals),
        ]
        for pool in device.pools
    ]
    st.html(parts.table(head, rows, name=title))


def _pool_name(pool: PoolLevel, words: Words) -> str:
    name = words(f"snapshot.pools.{pool.pool}")
    if pool.private_id is None:
        return name
    return words("snapshot.pools.private", pool=name, id=".".join(map(str, pool.private_id)))


def _stops(device: DeviceMemory, words: Words) -> None:
    title = words("snapshot.stops.title")
    st.html(parts.section(title))
    if not device.ooms:
        key = "unknown" if device.num_ooms is None else "none" if not device.num_ooms else "counted"
        st.html(
            f'<div class="empty">{words.html(f"snapshot.stops.{key}", n=whole(device.num_ooms or 0))}</div>'
        )
        return
    head = [words(f"snapshot.stops.{name}") for name in ("asked", "in_use", "free", "cause", "where")]
    rows = [
        [
            size(stop.requested_bytes, decimals_for(stop.requested_bytes)),
            size(stop.allocated_bytes, decimals_for(stop.reserved_bytes)),
            size(stop.free_bytes, decimals_for(stop.reserved_bytes)),
            words(f"snapshot.stops.{stop.cause}"),
            _frame(stop.frame),
        ]
        for stop in device.ooms[-MOST_OOMS:]
    ]
    st.html(parts.table(head, rows, name=title, left=(3, 4)))


def _largest(device: DeviceMemory, words: Words) -> None:
    if not device.largest:
        return
    total = max(_peak(device)[0], 1)
    share = percent(sum(note.bytes for note in device.largest) / total)
    title = words("snapshot.largest.title", n=len(device.largest), share=share)
    with st.expander(title, key="snapshot_largest", expanded=True):
        names = ("size", "what", "module", "op", "where", "pool")
        head = [words(f"snapshot.largest.{name}") for name in names]
        rows = [_block_row(note, words) for note in device.largest]
        st.html(parts.table(head, rows, name=title, left=(1, 2, 3, 4, 5)))


def _block_row(note: BlockNote, words: Words) -> list[str]:
    return [
        size(note.bytes, decimals_for(note.bytes)),
        Safe(f"{part_swatch(note.category)}{escaped_name(note.category, words)}"),
        note.module or DASH,
        note.op or DASH,
        _frame(note.frame),
        words(f"snapshot.pools.{note.pool}") if note.pool else DASH,
    ]


def _frame(frame: Frame | None) -> str:
    """The file's name and line; whole paths say more about a machine than about memory."""
    if frame is None:
        return DASH
    file = frame.filename.replace("\\", "/").rpartition("/")[2]
    return f"{file}:{frame.line} {frame.name}"


def _remarks(seen: MemoryFile, device: DeviceMemory, words: Words) -> None:
    here = [each for each in seen.remarks if each.device in {None, device.device}]
    if here:
        st.html(parts.note("", parts.bullets(_remark(each, words) for each in here)))


def _remark(remark: Remark, words: Words) -> Safe:
    key = f"snapshot.remark.{remark.code}"
    if not words.has(key):
        return words.html("snapshot.remark.other", code=remark.code)
    decimals = decimals_for(remark.bytes)
    return words.html(key, n=whole(remark.count), gib=size(abs(remark.bytes), decimals))
