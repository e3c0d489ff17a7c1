"""A diagnosis in words: headline, reason, layers, what would not help, how sure it is."""

from typing import Final

from planner.diagnose import Diagnosis
from planner.diagnose.causes import SHORT, Cause
from planner.diagnose.layers import Basis, Held, Identity, Layers
from planner.diagnose.tensors import Tensor
from planner.ledger import Category
from ui import parts
from ui.charts.diagnose_bars import COLORS, HATCHED
from ui.counts import short_count
from ui.numbers import DASH, TIMES, gib2, percent, whole
from ui.tokens import variable
from ui.words import Safe, Words

TONES: Final = {
    Cause.FIGURES: ("unknown", "\u2022"),
    Cause.NOTHING: ("unknown", "?"),
    Cause.RECOVERED: ("ok", "✓"),
    Cause.POOL_BY_DESIGN: ("ok", "✓"),
    Cause.CONFIG_AUTO: ("unknown", "\u2022"),
    Cause.CACHED_NOT_USED: ("tight", "!"),
    Cause.PARTIAL_OFFLOAD: ("tight", "!"),
}
LOGITS: Final = frozenset({"logits_fp32", "logits_shifted"})
SURE_IDENTITIES: Final = frozenset({Identity.EQUAL, Identity.CLOSE})


def headline(found: Diagnosis, words: Words) -> Safe:
    """What happened, with its figures."""
    cause, record = found.why.cause, found.record
    request = record.bytes("request") if record is not None else None
    free = record.bytes("free") if record is not None else None
    if cause in SHORT and request is not None and free is not None:
        if found.tensor is not None:
            name = words.opening(tensor_name(found.tensor, words))
            return words.html("diagnose.head.tensor", tensor=name, request=gib2(request), free=gib2(free))
        return words.html("diagnose.head.request", request=gib2(request), free=gib2(free))
    return words.html(f"diagnose.head.{cause.value}")


def tag(found: Diagnosis, words: Words) -> Safe:
    """Icon, word and tint of the cause."""
    kind, icon = TONES.get(found.why.cause, ("bad", "✕"))
    guessed = found.why.cause is Cause.DEMAND and not found.why.certain
    text = words.html("diagnose.tag.demand_likely" if guessed else f"diagnose.tag.{found.why.cause.value}")
    return Safe(f'<span class="tag {kind}">{icon}&ensp;{text}</span>')


def reason(found: Diagnosis, words: Words) -> Safe:
    """At most three sentences: the tensor's own sum, what is missing, where in the program it was."""
    said = [words.html(f"diagnose.why.{_why_key(found)}", **_facts(found))]
    if found.why.cause in SHORT and found.tensor is not None:
        said.append(_tensor_sentence(found, words))
    if (missing := _still_missing(found)) is not None:
        said.append(words.html("diagnose.still_missing", gib=gib2(missing)))
    if found.matches and found.tensor is not None and found.tensor.name in LOGITS:
        said.append(words.html("diagnose.gradient_next"))
    if found.phase is not None and words.has(f"diagnose.phase.{found.phase}"):
        said.append(words.html("diagnose.in_phase", phase=words(f"diagnose.phase.{found.phase}")))
    if not found.why.certain and found.why.cause is not Cause.NOTHING:
        said.append(words.html("diagnose.likely"))
    return words.sentences(filter(None, said))


def _why_key(found: Diagnosis) -> str:
    """The cause, or the sentence of a cause that goes with the figures at hand."""
    record = found.record
    if found.why.cause is Cause.KV_TOO_SMALL and record is not None:
        if record.size("needed") is not None and record.fact("max_fit_len") is not None:
            return "kv_needed"
        if record.fact("kv_tokens") is not None:
            return "kv_tokens"
    if found.why.cause is Cause.HOST_MEMORY and record is not None and record.form == "host_ollama":
        return "host_needed"
    if found.why.cause is Cause.HOST_MEMORY and not found.why.certain:
        return "host_killed"
    if found.why.cause is Cause.ENGINE_MINIMUM and "minimum_bytes" in dict(found.figures):
        return "engine_minimum_known"
    return found.why.cause.value


def _facts(found: Diagnosis) -> dict[str, str]:
    """Every placeholder that a reason may have."""
    record, layers = found.record, found.layers
    values = dict(found.figures)
    sizes = {name: gib2(size.bytes) for name, size in (record.sizes if record is not None else ())}
    others = (
        sum(held.bytes for held in layers.held if held.name in {"others", "unnamed", "outside"})
        if layers
        else 0
    )
    cached = layers.bytes("unallocated") if layers else None
    counted = {
        name: whole(value) if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else value
        for name, value in (*(record.facts if record is not None else ()), *found.figures)
    }
    return {
        **dict.fromkeys(
            ("request", "free", "total", "allowed", "needed", "available", "kv_cache", "weights"), DASH
        ),
        **dict.fromkeys(
            ("max_len", "max_fit_len", "kv_tokens", "layers_offload", "layers_model", "pool_frac"), DASH
        ),
        **dict.fromkeys(("dummy_requests", "required", "limit"), DASH),
        **dict.fromkeys(("reduce_bucket_elements", "prefetch_bucket_elements"), DASH),
        "persistence_threshold_elements": DASH,
        **sizes,
        **counted,
        "others": gib2(others),
        "cached": DASH if cached is None else gib2(cached),
        "minimum": gib2(int(values["minimum_bytes"])) if "minimum_bytes" in values else DASH,
        "needs": gib2(int(values["needs_bytes"])) if "needs_bytes" in values else DASH,
        "reserves": gib2(int(values["reserves_bytes"])) if "reserves_bytes" in values else DASH,
    }


def _tensor_sentence(found: Diagnosis, words: Words) -> Safe:
    tensor = found.tensor
    if tensor is None:
        return Safe("")
    key = "equals" if found.matches and found.matches[0].exact else "near" if found.matches else "suspect"
    return words.html(f"diagnose.sum.{key}", sum=tensor_sum(tensor), name=tensor_name(tensor, words))


def _still_missing(found: Diagnosis) -> int | None:
    """What would still be missing with every cached block given back."""
    if found.why.cause is not Cause.DEMAND or found.missing_bytes is None or found.layers is None:
        return None
    rest = found.missing_bytes - (found.layers.bytes("unallocated") or 0)
    return rest if rest > 0 else None


def tensor_name(tensor: Tensor, words: Words) -> str:
    """What a tensor is called; a term of the ledger by the ledger's own word."""
    if tensor.name == "entry":
        key = f"entry.{tensor.detail}"
        return words(key) if words.has(key) else tensor.detail
    return words(f"diagnose.tensor.{tensor.name}", detail=tensor.detail)


def tensor_sum(tensor: Tensor) -> str:
    """The formula with its values put in: 1 x 4,096 x 128,256 x 4."""
    values = dict(tensor.symbols)
    if tensor.name == "entry" or "/" in tensor.formula:
        return f"{tensor.formula} = {whole(tensor.bytes)}"
    factors = [values.get(part, part) for part in tensor.formula.split("*")]
    return f" {TIMES} ".join(whole(f) if isinstance(f, int) else str(f) for f in factors)


def layer_rows(layers: Layers, words: Words) -> list[list[str]]:
    """Layer, size and check; the capacity last."""
    rows = [_layer_row(held, words) for held in layers.held]
    if layers.total_bytes is not None:
        kind = {Identity.EQUAL: "ok", Identity.CLOSE: "ok", Identity.UNCHECKED: "m"}.get(
            layers.identity, "bad"
        )
        mark = "✓ " if layers.identity in SURE_IDENTITIES else ""
        gap = gib2(abs(layers.residue_bytes or 0))
        text = words.html(f"diagnose.identity.{layers.identity.value}", gib=gap)
        rows.append(
            [
                Safe(f"<b>{words.html('diagnose.total')}</b>"),
                Safe(f"<b>{gib2(layers.total_bytes)}</b>"),
                Safe(f'<span class="{kind}">{mark}{text}</span>'),
            ]
        )
    return rows


def _layer_row(held: Held, words: Words) -> list[str]:
    name = words.html(f"diagnose.held.{held.name}")
    swatch = "" if held.name == "free" else _swatch(held.name)
    check = (
        words("diagnose.printed", printed=spaced(held.printed))
        if held.basis is Basis.PRINTED
        else words(f"diagnose.basis.{held.basis.value}")
    )
    return [Safe(f"{swatch}{name}"), gib2(held.bytes), check]


def spaced(printed: str) -> str:
    """A printed figure with a blank before its unit, as it stood in the text."""
    number = printed.rstrip("KMGTibytesB")
    return f"{number} {printed[len(number) :]}".strip()


def _swatch(name: str) -> Safe:
    category: Category = COLORS[name]
    hatched = " hatched" if name in HATCHED else ""
    return Safe(f'<i class="sw{hatched}" style="--part:var({variable(category)})"></i>')


def vain_lines(found: Diagnosis, words: Words) -> list[Safe]:
    """What would not help, and why."""
    cached = found.layers.bytes("unallocated") if found.layers is not None else None
    facts = {
        "cached": gib2(cached or 0),
        "missing": gib2(max(0, found.missing_bytes or 0)),
    }
    return [
        Safe(
            f"<b>{words.html(f'diagnose.vain.{vain.code}')}</b> "
            f'<span class="m">{words.html(f"diagnose.vain_reason.{vain.reason}", **facts)}</span>'
        )
        for vain in found.vain
    ]


def remark_lines(found: Diagnosis, words: Words) -> list[Safe]:
    """What else should be said."""
    return [
        words.html(f"diagnose.remark.{remark.code}", **{name: _param(name, v) for name, v in remark.params})
        for remark in found.remarks
    ]


def _param(name: str, value: object) -> str:
    if name.endswith("_bytes") and isinstance(value, int):
        return gib2(value)
    if name.endswith("_frac") and isinstance(value, float):
        return percent(value)
    return whole(value) if isinstance(value, int) else str(value)


def how_sure(found: Diagnosis, words: Words) -> Safe:
    """What holds the answer up: the size, the sum, the form of the text, what was read of it."""
    said = []
    if found.matches:
        key = "exact" if found.matches[0].exact else "near"
        alike = len(found.matches)
        said.append(words.html(f"diagnose.sure.{key}", n=whole(alike), all=whole(found.num_tensors)))
    elif found.num_tensors and found.record is not None and found.record.size("request") is not None:
        said.append(words.html("diagnose.sure.none", all=whole(found.num_tensors)))
    if found.layers is not None and found.layers.total_bytes is not None:
        said.append(words.html(f"diagnose.sure.layers_{found.layers.identity.value}"))
        if found.layers.own_inferred:
            said.append(words.html("diagnose.sure.own_inferred"))
    if found.record is not None:
        family = f"diagnose.form.{found.record.form}"
        name = words(family) if words.has(family) else found.record.form
        said.append(words.html("diagnose.sure.form", form=name, line=whole(found.record.line)))
    reading = found.reading
    said.append(
        words.html(
            "diagnose.sure.read",
            lines=short_count(reading.num_lines, words),
            records=whole(len(reading.records)),
        )
    )
    if reading.left_out:
        said.append(words.html("diagnose.sure.left_out", n=whole(reading.left_out)))
    return words.sentences(said)


def record_rows(found: Diagnosis, words: Words) -> list[list[str]]:
    """Every message and memory line that was read, newest last."""
    rows = []
    for record in found.reading.records[-60:]:
        family = f"diagnose.form.{record.form}"
        figures = words.listed(
            [f"{_figure(name, words)} {spaced(size.printed)}" for name, size in record.sizes]
            + [f"{_figure(name, words)} {value}" for name, value in record.facts]
        )
        rows.append(
            [
                whole(record.line),
                words(family) if words.has(family) else record.form,
                DASH if record.rank is None else whole(record.rank),
                DASH if record.device is None else whole(record.device),
                whole(record.count),
                figures or DASH,
            ]
        )
    return rows


def _figure(name: str, words: Words) -> str:
    """A figure of a message by name; a setting's by the name it has in its program."""
    key = f"diagnose.figure.{name}"
    return words(key) if words.has(key) else name


def record_table(found: Diagnosis, words: Words) -> Safe:
    """The records as a table."""
    head = [
        words(f"diagnose.records.{name}") for name in ("line", "form", "rank", "device", "count", "figures")
    ]
    return parts.table(
        head, record_rows(found, words), name=words("diagnose.records.title"), left=(1,), wide=(5,)
    )
