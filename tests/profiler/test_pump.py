"""Lines from chunks, bounded."""

from hypothesis import given
from hypothesis import strategies as st

from profiler.pump import BoundedLog, LineSplitter


@given(st.binary(max_size=300), st.lists(st.integers(1, 40), max_size=20))
def test_chunks_do_not_matter(data: bytes, cuts: list[int]) -> None:
    splitter, found, rest = LineSplitter(1000), [], data
    for cut in cuts:
        found += splitter.feed(rest[:cut])
        rest = rest[cut:]
    found += splitter.feed(rest)
    found += splitter.finish()
    lines = data.split(b"\n")
    assert found == (lines if lines[-1] else lines[:-1])


def test_a_long_line_is_cut_and_the_next_is_whole() -> None:
    splitter = LineSplitter(4)
    assert splitter.feed(b"abc") == []
    assert splitter.feed(b"defgh") == []
    assert splitter.feed(b"ij\nklm\n") == [b"abcd", b"klm"]
    assert splitter.finish() == []


def test_the_log_keeps_the_newest() -> None:
    log = BoundedLog(2)
    for line in (b"one", b"", b"  \r", b"two\r", b"\xffthree", b"x" * 9000):
        log.add(line)
    assert log.lines() == ("\ufffdthree", "x" * 500)
