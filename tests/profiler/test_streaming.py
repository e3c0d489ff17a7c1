"""A job of the command line is listed with what it has measured so far."""

from pathlib import Path

from profiler.documents import Options
from profiler.live import listed
from profiler.plan_request import Prepared
from profiler.streaming import streamed
from tests.profiler.jobs import finish, profiler_threads, start, until

PREPARED = Prepared(scenario={"task": "full"}, config={}, predicted_bytes=7, needed_bytes=9)


def test_a_running_job_is_listed_and_its_report_grows(tmp_path: Path) -> None:
    job = start("measuring")
    try:
        with streamed(job, PREPARED, Options(), "folder/mine.json", data=tmp_path, every_s=0.05):
            until(lambda: bool(listed(tmp_path)) and listed(tmp_path)[0].report() is not None)
            (live,) = listed(tmp_path)
            assert (live.way, live.name) == ("run", "mine.json")
            report = live.report()
            assert report is not None
            assert [(one.phase, one.peak_allocated_bytes) for one in report.phases] == [("forward", 4096)]
            assert report.predicted_bytes == 7
        assert listed(tmp_path) == ()
    finally:
        job.stop()
        finish(job)
    assert "profiler-stream" not in profiler_threads()


def test_other_ranks_are_not_listed(tmp_path: Path) -> None:
    job = start("silent_exit")
    with streamed(job, PREPARED, Options(), "mine.json", shown=False, data=tmp_path):
        assert listed(tmp_path) == ()
    finish(job)
