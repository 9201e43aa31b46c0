from __future__ import annotations

import pytest

from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.scheduler import Scheduler
from kqueue.testing.manual_clock import ManualClock
from kqueue.testing.stepped_jobs import SteppedJobs


def test_a_call_after_slices_waits_for_those_that_are_under_way() -> None:
    scheduler = Scheduler(ManualClock(), SteppedJobs())
    events = list[str]()

    def work() -> SlicedWork[None]:
        events.append("begun")
        scheduler.call_after_slices(lambda: events.append("called"))
        yield None
        events.append("ended")

    scheduler.slices.add(work())
    scheduler.slices.finish()
    assert events == ["begun", "ended", "called"]


def test_a_call_from_another_thread_is_refused_until_the_owner_can_be_woken() -> None:
    scheduler = Scheduler(ManualClock(), SteppedJobs())
    with pytest.raises(AssertionError, match="nobody can call on the owner thread yet"):
        scheduler.wake(lambda: None)
