from __future__ import annotations

import pytest

from kqueue.tests.api.harness import SimulatedClient, batch, versions_of
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

UNKNOWN = (0, -1, -1)


@pytest.fixture
def client() -> SimulatedClient:
    """Offsets 0 and 1 are of epoch 2, offset 2 of epoch 5, and 6 is now."""
    client = SimulatedClient()
    client.sim.topic("t", 2)
    for epoch, values in ((2, (b"a", b"b")), (5, (b"c",))):
        client.sim.broker.replicas.host.sole_replica.begin_epoch(epoch)
        client.produce("t", batch(*values))
    client.sim.broker.replicas.host.sole_replica.begin_epoch(6)
    return client


def end(
    client: SimulatedClient, epoch: int, *, version: int = 4, current: int = -1, index: int = 0, topic: str = "t"
) -> tuple[int, int, int]:
    requested = OffsetForLeaderPartition(partition=index, current_leader_epoch=current, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[OffsetForLeaderTopic(topic=topic, partitions=[requested])]
    )
    (topic_response,) = client.ask(request, version).topics
    (data,) = topic_response.partitions
    assert (topic_response.topic, data.partition) == (topic, index)
    return data.error_code, data.leader_epoch, data.end_offset


@pytest.mark.parametrize("version", versions_of("offset_for_leader_epoch"))
@pytest.mark.parametrize(
    ("epoch", "expected"),
    [(2, (0, 2, 2)), (3, (0, 2, 2)), (5, (0, 5, 3)), (6, (0, 6, 3)), (7, UNKNOWN), (-1, UNKNOWN), (1, (0, 1, 0))],
)
def test_returns_the_end_offset_of_an_epoch(
    client: SimulatedClient, version: int, epoch: int, expected: tuple[int, int, int]
) -> None:
    if version == 0:
        expected = (expected[0], -1, expected[2])
    assert end(client, epoch, version=version) == expected


def test_an_empty_partition_ends_where_it_begins(client: SimulatedClient) -> None:
    assert end(client, 6, index=1) == (0, 6, 0)
    assert end(client, 5, index=1) == (0, 5, 0)
    assert end(client, 7, index=1) == UNKNOWN


@pytest.mark.parametrize("version", [2, 3, 4])
def test_clients_of_another_epoch_get_an_error(client: SimulatedClient, version: int) -> None:
    assert end(client, 2, version=version, current=5)[0] == ErrorCode.FENCED_LEADER_EPOCH
    assert end(client, 2, version=version, current=7)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert end(client, 2, version=version, current=6) == (0, 2, 2)


@pytest.mark.parametrize("version", versions_of("offset_for_leader_epoch"))
def test_unknown_topic_or_partition_is_reported(client: SimulatedClient, version: int) -> None:
    assert end(client, 2, version=version, index=9) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    assert end(client, 2, version=version, topic="nobody") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
