from __future__ import annotations

from kqueue.base.jobs import CpuJob, IoJob
from kqueue.testing.stepped_jobs import SteppedJobs


def test_jobs_run_in_order_and_deliver_result_or_error() -> None:
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


class Double:
    """A task that notices where it was copied."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def __call__(self) -> list[int]:
        self.calls.append(len(self.calls))
        return self.calls


def test_the_task_of_a_shared_cpu_job_is_pickled() -> None:
    jobs, results, here, away = SteppedJobs(), list[object](), Double(), Double()
    jobs.submit(CpuJob("here", here, lambda result, error: results.append(result), shared=False))
    jobs.submit(CpuJob("away", away, lambda result, error: results.append(result)))
    assert jobs.run_all() == 2
    assert results == [[0], [0]]
    assert here.calls == [0]
    assert away.calls == []
