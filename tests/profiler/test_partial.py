"""A job that ends early: what it told before is a report."""

import signal
import threading

import pytest

from profiler.documents import Options
from profiler.ending import ended_from_outside
from profiler.events import PhasePeak, Sample, Started
from profiler.job_types import ExitReason, JobState, Snapshot
from profiler.partial import partial_report
from profiler.report import dump_report, load_report
from tests.profiler.jobs import SHORT, finish, start

STARTED = Started(pid=1, torch="2.13", device="cuda", device_name="Card")


def snapshot(*peaks: PhasePeak, reason: ExitReason = ExitReason.CRASHED) -> Snapshot:
    return Snapshot(
        state=JobState.ENDED,
        reason=reason,
        started_at="2026-01-01T00:00:00+00:00",
        started=STARTED,
        samples=(
            Sample(at_s=1.0, device_used_bytes=70, resident_bytes=5),
            Sample(at_s=2.0, resident_bytes=6),
        ),
        peaks=peaks,
    )


def test_the_fullest_of_each_phase_is_kept() -> None:
    peaks = (
        PhasePeak(step=2, phase="forward", peak_allocated_bytes=10, peak_reserved_bytes=20, time_s=0.2),
        PhasePeak(step=2, phase="backward", peak_allocated_bytes=15, time_s=0.4),
        PhasePeak(step=3, phase="forward", peak_allocated_bytes=12, peak_reserved_bytes=24, time_s=0.4),
    )
    report = partial_report(snapshot(*peaks), {"task": "full"}, {"a": 1}, Options(device="cuda"), 9)
    assert report is not None
    assert load_report(dump_report(report).encode()) == report
    assert report.outcome == "interrupted"
    assert [(one.phase, one.peak_allocated_bytes) for one in report.phases] == [
        ("forward", 12),
        ("backward", 15),
    ]
    assert report.phases[0].time_s == pytest.approx(0.3)
    assert (report.readings.peak_bytes, report.readings.resident_peak_bytes) == (70, 6)
    assert report.remarks[0].params["reason"] == "crashed"


def test_nothing_measured_is_no_report() -> None:
    assert partial_report(snapshot(), {}, {}, Options()) is None


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="signals are POSIX's")
def test_a_request_to_end_gives_the_job_time() -> None:
    """As a launcher asks all ranks when one has failed: not at once, and not never."""
    job = start("hang", patience=SHORT)
    with ended_from_outside(job, grace_s=0.2):
        signal.raise_signal(signal.SIGTERM)
        assert not job.is_over
        assert finish(job).reason is ExitReason.STOPPED
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_thread_leaves_signals_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    job, seen = start("silent_exit"), []

    def inside() -> None:
        with ended_from_outside(job):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    finish(job)
    assert seen == [before]
