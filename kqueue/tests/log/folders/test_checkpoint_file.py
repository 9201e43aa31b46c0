from __future__ import annotations

import random
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.base.errors import StorageFailed
from kqueue.log.folders.checkpoint_file import CheckpointFile, Done
from kqueue.testing.faulty_storage import FaultyStorage, PowerCut, Remains
from kqueue.testing.stepped_jobs import SteppedJobs
from kqueue.tests.thorough import examples

NAME = "some-checkpoint"


class Told:
    """What the callbacks heard, in order."""

    def __init__(self) -> None:
        self.news: list[tuple[str, BaseException | None]] = []

    def by(self, who: str) -> Done:
        return lambda error: self.news.append((who, error))


def test_without_jobs_a_write_is_done_at_once_and_nothing_is_written_twice() -> None:
    """S5.3"""
    storage, told = FaultyStorage(), Told()
    file = CheckpointFile(storage, NAME, None, bytes)
    file.save(lambda: b"1", told.by("first"))
    assert storage.read(NAME) == b"1"
    steps = len(storage.steps)
    file.save(lambda: b"1", told.by("again"))
    assert len(storage.steps) == steps
    assert told.news == [("first", None), ("again", None)]


def test_updates_during_a_write_are_coalesced() -> None:
    storage, jobs, told = FaultyStorage(), SteppedJobs(), Told()
    file = CheckpointFile(storage, NAME, jobs, bytes)
    for number in range(4):
        file.save(partial(bytes, b"%d" % number), told.by(f"{number}"))
    assert len(jobs.pending) == 1
    assert not told.news
    jobs.step()
    assert told.news == [("0", None)]
    jobs.step()
    assert storage.read(NAME) == b"3"
    assert told.news == [(f"{number}", None) for number in range(4)]
    assert not jobs.pending


def test_a_job_never_overwrites_a_newer_write() -> None:
    storage, jobs, told = FaultyStorage(), SteppedJobs(), Told()
    file = CheckpointFile(storage, NAME, jobs, bytes)
    file.save(lambda: b"old", told.by("old"))
    file.save(lambda: b"older than now", told.by("next"))
    file.save_now(b"now")
    assert storage.read(NAME) == b"now"
    jobs.run_all()
    assert storage.read(NAME) == b"now"
    assert told.news == [("old", None), ("next", None)]


def test_a_failed_write_is_reported_and_the_next_is_attempted() -> None:
    storage, jobs, told = FaultyStorage(), SteppedJobs(), Told()
    file = CheckpointFile(storage, NAME, jobs, bytes)
    storage.fail("append")
    file.save(lambda: b"1", told.by("first"))
    jobs.run_all()
    with pytest.raises(StorageFailed):
        file.save_now(b"2")
    storage.mend()
    file.save(lambda: b"1", told.by("second"))
    jobs.run_all()
    assert storage.read(NAME) == b"1"
    assert isinstance(told.news[0][1], StorageFailed)
    assert told.news[1] == ("second", None)


def test_a_late_job_does_not_write_to_a_closed_folder() -> None:
    storage, jobs, told = FaultyStorage(), SteppedJobs(), Told()
    file = CheckpointFile(storage, NAME, jobs, bytes)
    file.save(lambda: b"1", told.by("late"))
    file.close()
    jobs.run_all()
    assert not storage.exists(NAME)
    assert "was closed" in str(told.news[0][1])


@settings(max_examples=examples(60))
@given(st.lists(st.sampled_from(["save", "now", "step"]), max_size=12), st.sampled_from(Remains), st.data())
def test_a_power_cut_leaves_an_acknowledged_write_or_a_newer_one(
    calls: list[str], remains: Remains, data: st.DataObject
) -> None:
    def run(cut_at: int | None) -> tuple[FaultyStorage, list[int], int]:
        storage, jobs, number = FaultyStorage(cut_at=cut_at), SteppedJobs(), 0
        safe: list[int] = [0]
        file = CheckpointFile(storage, NAME, jobs, bytes)
        try:
            for call in calls:
                if call == "step":
                    jobs.step()
                    continue
                number += 1
                if call == "save":
                    file.save(partial(bytes, b"%d" % number), lambda error, number=number: safe.append(number))  # type: ignore[misc]
                else:
                    file.save_now(b"%d" % number)
                    safe.append(number)
        except PowerCut:
            pass
        return storage, safe, number

    steps = len(run(None)[0].steps)
    storage, safe, newest = run(data.draw(st.integers(1, steps)) if steps else None)
    left = storage.after_cut(remains, random.Random(1))
    stored = int(left.read(NAME)) if left.exists(NAME) else 0
    assert max(safe) <= stored <= newest
