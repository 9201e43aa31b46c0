from __future__ import annotations

from typing import Any

import pytest

from kqueue.base.errors import RequestTimedOut, StorageUnavailable
from kqueue.broker.fetch.tier_lookups import TierLookups
from kqueue.broker.purgatory import DelayedOperation
from kqueue.log.results import TimestampAndOffset
from kqueue.testing.simulation import Simulation


class _Log:
    start_offset, local_start_offset, tiered_end = 0, 10, 12


class _Partition:
    def __init__(self, log: Any = _Log) -> None:
        self.log, self.started = log, []  # type: ignore[var-annotated]

    def start_tiered_lookup(self, timestamp: int, end_offset: int, done: Any) -> None:
        self.started.append((timestamp, end_offset, done))


def test_look_ups_wake_the_request_when_all_have_ended() -> None:
    purgatory = Simulation().broker.scheduler.purgatory
    lookups, partition, ended = TierLookups(purgatory), _Partition(), []
    assert not lookups
    for timestamp in (5, 6, 5):
        lookups.start(partition, timestamp)  # type: ignore[arg-type]
    assert [each[:2] for each in partition.started] == [(5, 12), (6, 12)]
    purgatory.add(DelayedOperation((lookups,), None, lambda expired: lookups.all_ended or None), ended.append)
    with pytest.raises(RequestTimedOut):
        lookups.result(partition, 5)  # type: ignore[arg-type]
    partition.started[0][2](TimestampAndOffset(5, 3, 0))
    purgatory.run_ready()
    assert not ended
    partition.started[1][2](StorageUnavailable("no route"))
    purgatory.run_ready()
    assert ended == [True]
    assert lookups.result(partition, 5) == (5, 3, 0)  # type: ignore[arg-type]
    with pytest.raises(StorageUnavailable):
        lookups.result(partition, 6)  # type: ignore[arg-type]
    assert lookups.result(partition, 7) is None  # type: ignore[arg-type]


def test_log_that_is_all_here_needs_no_look_up() -> None:
    class Local(_Log):
        local_start_offset = 0

    lookups, partition = TierLookups(Simulation().broker.scheduler.purgatory), _Partition(Local)
    lookups.start(partition, 5)  # type: ignore[arg-type]
    assert not partition.started
    assert not lookups
