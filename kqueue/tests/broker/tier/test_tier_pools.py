from __future__ import annotations

from kqueue.broker.tier.tier_pools import TierPool
from kqueue.testing.stepped_jobs import SteppedJobs


def test_pool_runs_so_many_jobs_at_once_and_the_others_in_order() -> None:
    jobs, ended = SteppedJobs(), []
    pool = TierPool(jobs, "tier copies: x", lambda: 2)
    for number in range(5):
        pool.submit("job", lambda number=number: number, lambda result, error: ended.append(result))  # type: ignore[misc]
    assert (pool.running, pool.waiting, len(jobs.pending)) == (2, 3, 2)
    assert {job.queue for job in jobs.pending} == {"tier copies: x"}  # type: ignore[union-attr]
    jobs.run_all()
    assert ended == [0, 1, 2, 3, 4]
    assert (pool.running, pool.waiting) == (0, 0)


def test_stopped_pool_begins_nothing_and_ends_what_runs() -> None:
    jobs, ended = SteppedJobs(), []
    pool = TierPool(jobs, "q", lambda: 1)
    for number in range(2):
        pool.submit("job", lambda: None, lambda result, error, number=number: ended.append(number))  # type: ignore[misc]
    pool.stop()
    pool.submit("job", lambda: None, lambda result, error: ended.append(9))
    jobs.run_all()
    assert ended == [0]


def test_next_job_begins_though_the_end_of_one_fails() -> None:
    jobs, ended = SteppedJobs(), []
    pool = TierPool(jobs, "q", lambda: 1)

    def finish(result: object, error: object) -> None:
        ended.append(error)
        raise ValueError

    for _ in range(2):
        pool.submit("job", lambda: 1 / 0, finish)
    for _ in range(2):
        try:
            jobs.run_all()
        except ValueError:
            continue
    assert [type(error) for error in ended] == [ZeroDivisionError] * 2
