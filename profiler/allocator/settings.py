"""The allocator's settings, as `PYTORCH_ALLOC_CONF` gives them to PyTorch 2.13.

Source: `c10/core/AllocatorConfig.{h,cpp}` and `c10/cuda/CUDAAllocatorConfig.h` of PyTorch 2.13.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from planner.units import GIB, MIB

NUM_ROUNDUP_INTERVALS: Final = 16
"""Sizes are told apart by their power of two from 1 MiB to 64 GiB (`kRoundUpPowerOfTwoIntervals`)."""

MIN_LARGE_SEGMENT_MIB: Final = 10
"""`large_segment_size_mb` must be above this (`kMinLargeAlloc`)."""

NO_ROUNDUP: Final = (0,) * NUM_ROUNDUP_INTERVALS


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatorSettings:
    """How the allocator behaves.

    Attributes:
        expandable_segments: One growing segment per pool instead of one `cudaMalloc` per segment.
        max_split_bytes: Blocks of this size or more are never split, None for no limit.
        max_non_split_rounding_bytes: A block that is never split may be this much larger than asked; None: as
            large as `large_segment_bytes` by default.
        roundup_power2_divisions: Steps between two powers of two that sizes are rounded up to, one number for
            each power of two from 1 MiB to 64 GiB; 0 or 1: sizes are rounded to 512 bytes.
        garbage_collection_frac: Share of the allowed memory above which idle blocks are given back; 0 = never.
            Has no effect unless `memory_frac` is set.
        memory_frac: Share of the card that the process may take, None for no limit.
        large_segment_bytes: Segment that requests between 1 and 10 MiB are cut from.
    """

    expandable_segments: bool = False
    max_split_bytes: int | None = None
    max_non_split_rounding_bytes: int | None = None
    roundup_power2_divisions: tuple[int, ...] = NO_ROUNDUP
    garbage_collection_frac: float = 0.0
    memory_frac: float | None = None
    large_segment_bytes: int = 20 * MIB


class SettingsError(ValueError):
    """A setting that PyTorch would refuse or that the simulation has not.

    Attributes:
        field: Name of the option.
        given: What was given.
        allowed: What is allowed.
    """

    def __init__(self, field: str, given: str, allowed: str) -> None:
        super().__init__(f"{field}: {given!r} is not allowed, only {allowed}")
        self.field = field
        self.given = given
        self.allowed = allowed


Setter = Callable[[AllocatorSettings, str], AllocatorSettings]


def parse_settings(text: str) -> AllocatorSettings:
    """Read the value of `PYTORCH_ALLOC_CONF`, such as `expandable_segments:True,max_split_size_mb:512`.

    Raises:
        SettingsError: An option is unknown, not simulated or out of its range.
    """
    settings = AllocatorSettings()
    for option in _split(text):
        name, colon, value = option.partition(":")
        setter = _SETTERS.get(name)
        if setter is None or not colon:
            raise SettingsError("allocator", option[:100], ", ".join(f"{key}:VALUE" for key in _SETTERS))
        settings = setter(settings, value)
    _check_together(settings)
    return settings


def _check_together(settings: AllocatorSettings) -> None:
    """Limits that depend on the size of a large segment."""
    least = settings.large_segment_bytes
    for name, value in (
        ("max_split_size_mb", settings.max_split_bytes),
        ("max_non_split_rounding_mb", settings.max_non_split_rounding_bytes),
    ):
        if value is not None and value < least:
            raise SettingsError(name, str(value // MIB), f"{least // MIB} or more")


def _split(text: str) -> Iterator[str]:
    """Options between commas, those within brackets kept together."""
    option, depth = "", 0
    for character in "".join(text.split()) + ",":
        if character == "," and depth == 0:
            if option:
                yield option
            option = ""
            continue
        depth += (character == "[") - (character == "]")
        option += character
    if option:
        raise SettingsError("allocator", option[:-1][:100], "brackets that are closed")


def _set_expandable(settings: AllocatorSettings, value: str) -> AllocatorSettings:
    if value not in {"True", "False"}:
        raise SettingsError("expandable_segments", value, "True or False")
    return replace(settings, expandable_segments=value == "True")


def _set_max_split(settings: AllocatorSettings, value: str) -> AllocatorSettings:
    return replace(settings, max_split_bytes=MIB * _whole("max_split_size_mb", value, 1))


def _set_rounding(settings: AllocatorSettings, value: str) -> AllocatorSettings:
    size = MIB * _whole("max_non_split_rounding_mb", value, 1)
    return replace(settings, max_non_split_rounding_bytes=size)


def _set_large_segment(settings: AllocatorSettings, value: str) -> AllocatorSettings:
    size = MIB * _whole("large_segment_size_mb", value, MIN_LARGE_SEGMENT_MIB + 1)
    return replace(settings, large_segment_bytes=size)


def _set_threshold(settings: AllocatorSettings, value: str) -> AllocatorSettings:
    share = _share("garbage_collection_threshold", value)
    if not 0 < share < 1:
        raise SettingsError("garbage_collection_threshold", value, "a number between 0 and 1")
    return replace(settings, garbage_collection_frac=share)


def _set_memory_frac(settings: AllocatorSettings, value: str) -> AllocatorSettings:
    share = _share("per_process_memory_fraction", value)
    if not 0 <= share <= 1:
        raise SettingsError("per_process_memory_fraction", value, "a number from 0 to 1")
    return replace(settings, memory_frac=share if share < 1 else None)


def _set_backend(settings: AllocatorSettings, value: str) -> AllocatorSettings:
    if value != "native":
        raise SettingsError("backend", value, "native")
    return settings


def _set_roundup(settings: AllocatorSettings, value: str) -> AllocatorSettings:
    name = "roundup_power2_divisions"
    if not value.startswith("["):
        divisions = (_power_of_two(name, value),) * NUM_ROUNDUP_INTERVALS
        return replace(settings, roundup_power2_divisions=divisions)
    return replace(settings, roundup_power2_divisions=tuple(_intervals(name, value.strip("[]").split(","))))


def _intervals(name: str, pairs: list[str]) -> list[int]:
    """`boundary:divisions` pairs. The first also fills what lies below it, `>` all after the last one."""
    divisions = list(NO_ROUNDUP)
    last = -1
    for number, pair in enumerate(pairs):
        boundary, _, text = pair.partition(":")
        value = 0 if text == "0" else _power_of_two(name, text)
        if boundary == ">":
            start, stop = max(last, 0) + 1, NUM_ROUNDUP_INTERVALS
        else:
            last = min(_power_of_two(name, boundary).bit_length() - 1, NUM_ROUNDUP_INTERVALS - 1)
            start, stop = 0 if number == 0 else last, last + 1
        divisions[start:stop] = [value] * (stop - start)
    return divisions


def _whole(name: str, text: str, least: int) -> int:
    if not (text.isascii() and text.isdigit()) or not least <= int(text) <= GIB:
        raise SettingsError(name, text, f"a whole number, {least} or more")
    return int(text)


def _power_of_two(name: str, text: str) -> int:
    number = _whole(name, text, 1)
    if number & (number - 1):
        raise SettingsError(name, text, "a power of two")
    return number


def _share(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise SettingsError(name, text, "a number") from None


_SETTERS: Final[dict[str, Setter]] = {
    "expandable_segments": _set_expandable,
    "max_split_size_mb": _set_max_split,
    "max_non_split_rounding_mb": _set_rounding,
    "roundup_power2_divisions": _set_roundup,
    "garbage_collection_threshold": _set_threshold,
    "per_process_memory_fraction": _set_memory_frac,
    "large_segment_size_mb": _set_large_segment,
    "backend": _set_backend,
}
