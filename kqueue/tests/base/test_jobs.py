"""`Jobs` as a contract; what runs them is tested in tests/workers."""

from __future__ import annotations

from kqueue.base.jobs import CpuJob, IoJob, Jobs
from kqueue.testing.stepped_jobs import SteppedJobs


def test_finish_is_not_called_within_submit() -> None:
    jobs = SteppedJobs()
    contract: Jobs = jobs
    outcomes = list[tuple[object, object]]()

    def finish(result: object, error: BaseException | None) -> None:
        outcomes.append((result, error))

    contract.submit(IoJob("io", lambda: 1, finish))
    contract.submit(CpuJob("cpu", lambda: 2, finish, shared=False))
    assert outcomes == []
    jobs.run_all()
    assert outcomes == [(1, None), (2, None)]


def test_defaults_suit_one_disk_and_files_that_other_processes_see() -> None:
    assert IoJob("io", int, lambda result, error: None).queue == ""
    assert CpuJob("cpu", int, lambda result, error: None).shared
