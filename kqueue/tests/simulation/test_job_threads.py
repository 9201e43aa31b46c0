import threading

import pytest

from kqueue.tests.simulation.job_threads import JobFuture, JobLock, JobThread, simulated_waits, wait_until
from kqueue.tier import manifest

lines: list[str] = []


def never() -> bool:
    return False


def pause() -> None:
    job = JobThread.current
    assert job is not None
    job.wait()


def job(run) -> JobThread:
    return JobThread(run, lambda thread: lines.append("woken"))


@pytest.fixture(autouse=True)
def _no_lines() -> None:
    lines.clear()


def test_jobs_go_on_one_at_a_time_where_they_waited() -> None:
    def run(name):
        for number in range(2):
            lines.append(f"{name}{number}")
            pause()
        return name

    one, other = job(lambda: run("a")), job(lambda: run("b"))
    while not (one.is_over and other.is_over):
        one.step()
        other.step()
    assert lines == ["a0", "b0", "a1", "b1"]
    assert (one.result, other.result) == ("a", "b")


def test_errors_of_a_job_are_kept() -> None:
    failing = job(lambda: 1 / 0)
    failing.step()
    assert failing.is_over
    assert isinstance(failing.error, ZeroDivisionError)


def test_job_that_is_killed_ends_where_it_waits_and_leaves_its_locks() -> None:
    lock = JobLock()

    def run() -> None:
        with lock:
            try:
                pause()
            finally:
                lines.append("left")

    killed, later = job(run), job(lambda: lock.__enter__())
    killed.step()
    later.step()
    assert not later.is_over
    killed.kill()
    assert lines == ["left", "woken"]
    later.step()
    assert later.is_over
    assert threading.active_count() <= 2


def test_job_that_has_not_begun_is_killed() -> None:
    killed = job(lambda: lines.append("ran"))
    killed.kill()
    killed.step()
    assert lines == []


def test_lock_is_taken_several_times_by_its_owner() -> None:
    lock = JobLock()

    def run() -> None:
        with lock, lock:
            pause()

    owner, other = job(run), job(lambda: lock.__enter__())
    for thread in (owner, other, owner, other):
        thread.step()
    assert owner.is_over
    assert other.is_over


@pytest.mark.parametrize("error", [None, ValueError("broken")])
def test_future_ends_the_wait_of_all(error) -> None:
    future = JobFuture()
    waiting = [job(future.result) for _ in range(2)]
    for each in waiting:
        each.step()
    assert not any(each.is_over for each in waiting)
    if error is None:
        future.set_result(7)
    else:
        future.set_exception(error)
    for each in waiting:
        each.step()
    assert lines == ["woken"] * 2
    assert [(each.result, each.error) for each in waiting] == [(None if error else 7, error)] * 2


def test_only_jobs_may_wait() -> None:
    with pytest.raises(AssertionError, match="only jobs may wait"):
        wait_until(never, lines.append)  # type: ignore[arg-type]


def test_locks_of_manifests_are_simulated_in_the_block_only() -> None:
    with simulated_waits():
        assert vars(manifest)["RLock"] is JobLock
    assert vars(manifest)["RLock"] is not JobLock
