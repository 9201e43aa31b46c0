"""The positions of share groups."""

from __future__ import annotations

from collections.abc import Callable

from kqueue.base.errors import KqueueError
from kqueue.broker.replicas.partition import Partition
from kqueue.interbroker.errors import PeerUnavailable
from kqueue.replication.registrations import PartitionRegistration
from kqueue.tests.api.share_client import group_offsets, share_group_at_2
from kqueue.tests.tables import for_each
from kqueue.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)


@for_each("named", [True, False])
def test_start_and_lag(named: bool) -> None:
    client = share_group_at_2()
    assert group_offsets(client, named=named) == (0, 2, 2)


def test_a_group_that_is_not_there_has_no_offsets() -> None:
    """As in Kafka, which answers no error."""
    client = share_group_at_2()
    assert group_offsets(client, named=True, group="nobody") == (0, -1, -1)
    everything = DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id="nobody", topics=None)]
    )
    [group] = client.ask(everything, 1).groups
    assert (group.error_code, group.topics) == (0, [])


def test_the_lag_of_a_partition_that_another_broker_leads_is_asked_of_it() -> None:
    client = share_group_at_2()
    broker = client.sim.broker
    partition = broker.topics.partition("t", 0)
    asked: list[Partition] = []

    def answer(of: Partition, done: Callable[[int | KqueueError], None]) -> None:
        asked.append(of)
        broker.scheduler.purgatory.run_in_later_turn(lambda: done(ends.pop()))

    ends: list[int | KqueueError] = [PeerUnavailable("broker 2 is away"), 9]
    broker.share.ask_end = answer
    partition.apply(PartitionRegistration((1, 2), (2,), 2, 7, 1))
    assert group_offsets(client) == (0, 2, 6)
    assert group_offsets(client) == (0, 2, -1)
    assert asked == [partition, partition]
