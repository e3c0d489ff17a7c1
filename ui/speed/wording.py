"""Times and rates of a plan as text, each with its band."""

from collections.abc import Sequence

from planner.throughput.network_need import NetworkNeed
from planner.throughput.serving_speed import ServingSpeed
from planner.throughput.training_speed import TrainingSpeed
from planner.throughput.types import Part, SpeedBand, Unknown
from planner.units import GB
from ui.catalog import gpu as card
from ui.charts.step_time import shares
from ui.names import card_name
from ui.numbers import DASH, percent, whole
from ui.words import Safe, Words

BITS = 8
MANY = 100.0
FEW = 10.0
LEAST_FRAC = 0.005


def seconds(value: float, words: Words) -> str:
    """A time with three digits: milliseconds below a second, minutes and hours above two minutes."""
    for key, size in (("hours", 7200.0), ("minutes", 120.0), ("seconds", 1.0), ("milliseconds", 0.001)):
        if value >= size or key == "milliseconds":
            unit = {"hours": 3600.0, "minutes": 60.0}.get(key, size)
            return words(f"speed.unit.{key}", value=three_digits(value / unit))
    return DASH


def three_digits(value: float) -> str:
    """1,240, 124, 12.4 or 1.24."""
    if value >= MANY:
        return whole(float(f"{value:.3g}"))
    return f"{value:.1f}" if value >= FEW else f"{value:.2f}"


def time_band(value: float, band: SpeedBand | None, words: Words) -> str:
    """A time and its interval."""
    if band is None:
        return seconds(value, words)
    ends = words("speed.range", low=seconds(band.low_s, words), high=seconds(band.high_s, words))
    return words("speed.with_band", value=seconds(value, words), range=ends)


def rate_band(value: float, band: SpeedBand | None, words: Words) -> str:
    """Tokens a second and their interval: slow where the time is long."""
    if band is None:
        return three_digits(value)
    ends = words(
        "speed.range", low=three_digits(value / band.high_frac), high=three_digits(value / band.low_frac)
    )
    return words("speed.with_band", value=three_digits(value), range=ends)


def training_sentence(found: TrainingSpeed, words: Words) -> Safe:
    """Tokens a second, MFU, what binds, what waits."""
    if found.tokens_per_s is None or found.tokens_per_s_per_gpu is None or found.mfu is None:
        return Safe("")
    one = found.tokens_per_s == found.tokens_per_s_per_gpu
    rate = rate_band(found.tokens_per_s, found.band, words)
    each = three_digits(found.tokens_per_s_per_gpu)
    said = [words.html("speed.training.rate_one" if one else "speed.training.rate", rate=rate, each=each)]
    again = found.hfu is not None and found.hfu > found.mfu * 1.005
    key = "speed.training.mfu_again" if again else "speed.training.mfu"
    said.append(words.html(key, mfu=percent(found.mfu), hfu=percent(found.hfu or found.mfu)))
    said.append(_bound(found.parts, words))
    if found.communication_frac is not None and found.communication_frac >= LEAST_FRAC:
        said.append(words.html("speed.training.waits", share=percent(found.communication_frac)))
    return words.sentences(said)


def serving_sentence(found: ServingSpeed, words: Words) -> Safe:
    """Tokens a second of the whole server, and what binds a decoding step."""
    said = []
    if found.output_tokens_per_s is not None:
        rate = rate_band(found.output_tokens_per_s, found.tokens_band, words)
        key = "speed.serving.queued" if found.load.is_offline else "speed.serving.rate"
        running = round(found.load.running * found.load.replicas)
        form = "one" if running == 1 else "other"
        said.append(words.html(f"{key}.{form}", rate=rate, n=whole(running)))
    if found.parts:
        said.append(_bound(found.parts, words))
    if found.load.is_assumed:
        said.append(
            words.html(
                "speed.serving.assumed",
                prompt=whole(found.load.prompt_tokens),
                output=whole(found.load.output_tokens),
            )
        )
    if found.load.waves > 1:
        said.append(words.html("speed.serving.waves", running=whole(int(found.load.running))))
    if found.speculative_left_out:
        said.append(words.html("speed.serving.speculative"))
    return words.sentences(said)


def _bound(parts: Sequence[Part], words: Words) -> Safe:
    by_kind = shares(parts)
    kind = max(by_kind, key=by_kind.__getitem__)
    return words.html("speed.bound", name=words(f"speed.inside.{kind}"), share=percent(by_kind[kind]))


def network_sentence(need: NetworkNeed, words: Words) -> Safe:
    """What the network between nodes must carry, beside what it does."""
    needed = gigabits(need.needed_bytes_per_s)
    if need.own_bytes_per_s is None:
        return words.html("speed.network.unknown", needed=needed)
    key = "speed.network.enough" if need.is_enough else "speed.network.short"
    return words.html(key, needed=needed, own=gigabits(need.own_bytes_per_s))


def gigabits(bytes_per_s: float) -> str:
    """A rate in Gbit/s."""
    return three_digits(bytes_per_s * BITS / GB)


def foot(band: SpeedBand | None, words: Words) -> Safe:
    """What the band rests on."""
    if band is None:
        return words.html("speed.foot.none")
    return words.html("speed.foot.band", n=whole(band.n_rows), runs=words(f"speed.runs.{band.kind}"))


def unknown_lines(missing: tuple[Unknown, ...], words: Words) -> list[Safe]:
    """What the tables lack, a line each."""
    lines = []
    for item in missing:
        gpu = card(item.gpu_id)
        name = item.gpu_id if gpu is None else card_name(gpu.name)
        lines.append(words.html(f"speed.unknown.{item.code}", gpu=name, **dict(item.params)))
    return lines
