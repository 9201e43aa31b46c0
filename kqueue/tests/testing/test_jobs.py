from __future__ import annotations

from kqueue.base.jobs import IoJob
from kqueue.testing.jobs import SteppedJobs


def test_jobs_run_in_order_when_told_and_bring_their_result_or_error() -> None:
    jobs, news = SteppedJobs(), list[tuple[object, object]]()

    def fail() -> int:
        raise OSError("no disk")

    jobs.submit(IoJob("one", lambda: 1, lambda result, error: news.append((result, error))))
    jobs.submit(IoJob("two", fail, lambda result, error: news.append((result, str(error)))))
    assert news == []
    assert jobs.step()
    assert news == [(1, None)]
    assert jobs.run_all() == 1
    assert news[1] == (None, "no disk")
    assert not jobs.step()


def test_a_job_may_submit_the_next() -> None:
    jobs, ran = SteppedJobs(), list[int]()

    def again(result: int | None, error: BaseException | None) -> None:
        assert result is not None
        ran.append(result)
        if result < 3:
            jobs.submit(IoJob("next", lambda: result + 1, again))

    jobs.submit(IoJob("first", lambda: 1, again))
    assert jobs.run_all() == 3
    assert ran == [1, 2, 3]
