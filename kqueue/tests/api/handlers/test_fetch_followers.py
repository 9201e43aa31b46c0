"""Consumers that read followers (KIP-392)."""

from __future__ import annotations

from typing import Any

import pytest

from kqueue.broker.topics.topics import NewTopic
from kqueue.replication.config import RACK_AWARE_SELECTOR
from kqueue.tests.api.harness import PendingRequest, SimulatedClient
from kqueue.tests.broker.members import Members
from kqueue.tests.broker.replicas.test_partition import append
from kqueue.tests.broker.replication import MEMORY, elect, fetch, replicate
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData


@pytest.fixture
def members() -> Members:
    """Broker 1 leads; two records are committed, and broker 2 has a third that is not."""
    members = Members(2, {**MEMORY, "replica.selector.class": RACK_AWARE_SELECTOR}, racks={1: "a", 2: "b"})
    members.result(members[1].broker.topics.create(NewTopic("t", assignments={0: [1, 2]})))
    append(members.partition(1), b"a")
    append(members.partition(1), b"b")
    replicate(members, 2)
    append(members.partition(1), b"c")
    fetch(members, 2)
    return members


def start(members: Members, node: int, offset: int, version: int = 18, **fields: Any) -> PendingRequest:
    topic_id = members[node].broker.topics.get("t").id
    row = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic_id=topic_id, partitions=[row]) if version > 12 else FetchTopic(topic="t", partitions=[row])
    request = FetchRequest(**{"max_wait_ms": 0, "min_bytes": 1, "topics": [topic], **fields})
    pending = SimulatedClient(sim=members[node]).start(request, version)
    members.settle()
    return pending


def ask(members: Members, node: int, offset: int, version: int = 18, **fields: Any) -> PartitionData:
    row: PartitionData = start(members, node, offset, version, **fields).response.responses[0].partitions[0]
    return row


def test_a_follower_serves_up_to_its_high_watermark(members: Members) -> None:
    row = ask(members, 2, 0)
    assert (row.error_code, row.high_watermark) == (0, 2)
    assert bytes(row.records or b"") == bytes(ask(members, 1, 0).records or b"")
    assert not ask(members, 2, 2).records
    assert not ask(members, 2, 3).records


@pytest.mark.parametrize(("version", "code"), [(10, ErrorCode.NOT_LEADER_OR_FOLLOWER), (11, ErrorCode.NONE)])
def test_older_consumers_read_leaders_only(members: Members, version: int, code: ErrorCode) -> None:
    assert ask(members, 2, 0, version).error_code == code


def test_an_offset_that_the_follower_does_not_have_yet(members: Members) -> None:
    assert ask(members, 2, 4).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    assert ask(members, 1, 4).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_fetch_at_a_follower_waits_for_its_high_watermark(members: Members) -> None:
    waiting = start(members, 2, 2, max_wait_ms=5000)
    assert not waiting.response
    fetch(members, 2)
    assert len(waiting.response.responses[0].partitions[0].records) > 0


def test_a_fetch_that_waits_at_a_broker_that_loses_its_leadership_goes_on_as_a_followers(members: Members) -> None:
    waiting, old = start(members, 1, 2, max_wait_ms=5000), start(members, 1, 2, 10, max_wait_ms=5000)
    elect(members, 2)
    assert old.response.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not waiting.response


def test_the_leader_names_the_replica_of_the_consumers_rack(members: Members) -> None:
    row = ask(members, 1, 0, rack_id="b", max_wait_ms=5000)
    assert (row.error_code, row.preferred_read_replica, row.high_watermark) == (0, 2, 2)
    assert not row.records
    for rack in ("", "a", "z"):
        row = ask(members, 1, 0, rack_id=rack)
        assert row.preferred_read_replica == -1
        assert row.records
    assert ask(members, 2, 0, rack_id="a").preferred_read_replica == -1
