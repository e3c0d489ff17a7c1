"""Options as `PYTORCH_ALLOC_CONF` takes them."""

import pytest

from planner.units import MIB
from profiler.allocator.settings import AllocatorSettings, SettingsError, parse_settings


def test_nothing_given_is_pytorchs_default() -> None:
    assert parse_settings("") == AllocatorSettings()


def test_every_option_is_read() -> None:
    settings = parse_settings(
        "expandable_segments:True, max_split_size_mb:512,max_non_split_rounding_mb:30,"
        "garbage_collection_threshold:0.8,per_process_memory_fraction:0.5,large_segment_size_mb:12,"
        "backend:native"
    )
    assert settings == AllocatorSettings(
        expandable_segments=True,
        max_split_bytes=512 * MIB,
        max_non_split_rounding_bytes=30 * MIB,
        garbage_collection_frac=0.8,
        memory_frac=0.5,
        large_segment_bytes=12 * MIB,
    )


@pytest.mark.parametrize(
    ("text", "divisions"),
    [
        ("4", (4,) * 16),
        ("[256:1,512:2,1024:4,>:8]", (1,) * 9 + (2, 4) + (8,) * 5),
        ("[2:8,>:4]", (8, 8) + (4,) * 14),
    ],
)
def test_roundup_divisions_as_pytorch_reads_them(text: str, divisions: tuple[int, ...]) -> None:
    """Expected values: `AcceleratorAllocatorConfig::roundup_power2_divisions` of torch 2.13.0, called by ctypes."""
    assert parse_settings(f"roundup_power2_divisions:{text}").roundup_power2_divisions == divisions


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("expandable_segments:true", "expandable_segments"),
        ("max_split_size_mb:19", "max_split_size_mb"),
        ("max_split_size_mb:x", "max_split_size_mb"),
        ("max_non_split_rounding_mb:19", "max_non_split_rounding_mb"),
        ("large_segment_size_mb:10", "large_segment_size_mb"),
        ("garbage_collection_threshold:1", "garbage_collection_threshold"),
        ("garbage_collection_threshold:often", "garbage_collection_threshold"),
        ("per_process_memory_fraction:1.5", "per_process_memory_fraction"),
        ("roundup_power2_divisions:3", "roundup_power2_divisions"),
        ("roundup_power2_divisions:[300:2]", "roundup_power2_divisions"),
        ("backend:cudaMallocAsync", "backend"),
        ("roundup_power2_divisions:[256:1", "allocator"),
        ("no_such_option:1", "allocator"),
        ("expandable_segments", "allocator"),
    ],
)
def test_what_pytorch_refuses_is_refused(text: str, field: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_settings(text)
    assert caught.value.field == field
    assert caught.value.given in text
    assert caught.value.allowed
