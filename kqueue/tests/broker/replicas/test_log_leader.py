from __future__ import annotations

import pytest

from kqueue.base.errors import FencedLeaderEpoch, NotLeader, OffsetOutOfRange, UnknownLeaderEpoch
from kqueue.replication.leader_replica import ReplicaFetch
from kqueue.testing.simulation import Simulation
from kqueue.tests.broker.replicas.test_partition import append
from kqueue.tests.broker.replication import MEMORY, PLENTY, elect, started
from kqueue.tests.tables import for_each


def of(node: int, offset: int, *, epoch: int = 0, log_start: int = 0) -> ReplicaFetch:
    return ReplicaFetch(node, 1, epoch, offset, log_start=log_start)


@for_each(
    "fetch, error",
    [
        (of(2, 0, epoch=0), FencedLeaderEpoch),
        (of(2, 0, epoch=2), UnknownLeaderEpoch),
        (of(7, 0, epoch=1), NotLeader),
        (of(2, 9, epoch=1), OffsetOutOfRange),
    ],
)
def test_a_fetch_of_another_epoch_stranger_or_offset_beyond_the_end_is_refused(
    fetch: ReplicaFetch, error: type[Exception]
) -> None:
    members = started(MEMORY, count=2)
    elect(members, 1)
    with pytest.raises(error):
        members.partition(1).lead().fetch(fetch, PLENTY)


def test_the_low_watermark_is_the_lowest_log_start_of_the_brokers_that_are_alive() -> None:
    members = started(MEMORY)
    leader = members.partition(1)
    append(leader, b"a")
    leader.lead().fetch(of(2, 1, log_start=0), PLENTY)
    assert leader.lead().low_watermark == -1, "broker 3 has not told its log start"
    members.register(3, epoch=2, fenced=True)
    members.settle()
    assert leader.lead().low_watermark == 0
    elect(members, 2)
    with pytest.raises(NotLeader):
        _ = leader.lead().low_watermark


def test_a_single_broker_has_no_followers_and_its_own_low_watermark() -> None:
    partition = Simulation(MEMORY).topic("t").partition(0)
    assert partition.lead().low_watermark == 0
    with pytest.raises(NotLeader, match="t-0 has no other replicas"):
        partition.lead().fetch(of(2, 0, epoch=partition.leader_epoch), PLENTY)
