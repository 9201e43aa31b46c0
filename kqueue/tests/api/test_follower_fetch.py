"""Fetch requests of followers, through the bytes of requests and responses."""

from __future__ import annotations

from typing import Any

import pytest

from kqueue.tests.api.harness import PendingRequest, SimulatedClient
from kqueue.tests.broker.members import Members
from kqueue.tests.broker.replicas.test_partition import append
from kqueue.tests.broker.replication import MEMORY, elect, started
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)

VERSION = 18


class Follower:
    """Broker 2, as broker 1 sees it."""

    def __init__(self, members: Members) -> None:
        self.members = members
        self.client = SimulatedClient(sim=members[1])
        self.session = (0, 0)
        self.topic_id = members[1].broker.topics.get("t").id

    def start(
        self, *offsets: int, epoch: int = 0, last_epoch: int = -1, version: int = VERSION, **fields: Any
    ) -> PendingRequest:
        """Begin a fetch that names partition 0 for each of `offsets`, at most one."""
        rows = [
            FetchPartition(
                partition=0,
                fetch_offset=offset,
                current_leader_epoch=epoch,
                last_fetched_epoch=last_epoch,
                partition_max_bytes=1 << 20,
            )
            for offset in offsets
        ]
        who: dict[str, Any] = {"replica_state": ReplicaState(replica_id=2, replica_epoch=1)}
        if version < 15:
            who = {"replica_id": 2}
        request = FetchRequest(
            **{
                "max_wait_ms": 500,
                "min_bytes": 1,
                "session_id": self.session[0],
                "session_epoch": self.session[1],
                "topics": [FetchTopic(topic_id=self.topic_id, partitions=rows)] if rows else [],
                **who,
                **fields,
            }
        )
        pending = self.client.start(request, version)
        self.members.settle()
        return pending

    def ask(self, *offsets: int, **fields: Any) -> Any:
        response = self.start(*offsets, **fields).response
        assert response is not None
        self.session = (response.session_id, self.session[1] + 1)
        return response

    def row(self, *offsets: int, **fields: Any) -> PartitionData:
        rows: list[PartitionData] = [
            row for topic in self.ask(*offsets, **fields).responses for row in topic.partitions
        ]
        assert len(rows) == 1
        return rows[0]


@pytest.fixture
def members() -> Members:
    return started(MEMORY, count=2)


@pytest.fixture
def follower(members: Members) -> Follower:
    return Follower(members)


def test_a_follower_reads_above_the_high_watermark_and_raises_it(members: Members, follower: Follower) -> None:
    end = append(members.partition(1), b"a", b"b")
    row = follower.row(0)
    assert (row.error_code, row.high_watermark) == (0, 0)
    assert row.records
    assert members.partition(1).high_watermark == 0
    waiting = follower.start(end, last_epoch=0)
    assert members.partition(1).high_watermark == end
    assert not waiting.response
    members[1].advance(500)
    assert waiting.response.responses[0].partitions[0].high_watermark == end


def test_an_append_wakes_a_fetch_before_it_is_committed(members: Members, follower: Follower) -> None:
    follower.ask(0, max_wait_ms=0)
    waiting = follower.start()
    assert not waiting.response
    append(members.partition(1), b"a")
    members.settle()
    assert len(waiting.response.responses[0].partitions[0].records) > 0


def test_fewer_than_min_bytes_wait(members: Members, follower: Follower) -> None:
    waiting = follower.start(0, min_bytes=10_000)
    append(members.partition(1), b"a")
    members.settle()
    assert not waiting.response
    members[1].advance(500)
    assert len(waiting.response.responses[0].partitions[0].records) > 0


def test_rule_15_other_epochs_are_refused(follower: Follower, members: Members) -> None:
    elect(members, 1)
    assert follower.row(0, epoch=0).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert follower.row(0, epoch=2).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    state = ReplicaState(replica_id=7, replica_epoch=1)
    follower.session = (0, 0)
    assert follower.row(0, epoch=1, replica_state=state).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_rule_16_a_log_that_differs_gets_the_point_where_it_does(follower: Follower, members: Members) -> None:
    append(members.partition(1), b"a")
    elect(members, 1)
    elect(members, 1)
    append(members.partition(1), b"b")
    row = follower.row(5, epoch=2, last_epoch=1)
    assert (row.error_code, row.diverging_epoch.epoch, row.diverging_epoch.end_offset) == (0, 0, 1)
    leadership = members.partition(1).replica.leadership
    assert leadership is not None
    assert leadership.followers[2].leo == -1


def test_an_offset_out_of_range_comes_with_the_log_start(follower: Follower, members: Members) -> None:
    end = append(members.partition(1), b"a", b"b")
    follower.ask(0)
    follower.start(end, last_epoch=0)
    members.partition(1).log.advance_start(end)
    follower.session = (0, 0)
    row = follower.row(0)
    assert (row.error_code, row.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, end)


def test_a_partition_that_this_broker_does_not_lead_names_the_leader(follower: Follower, members: Members) -> None:
    elect(members, 2)
    row = follower.row(0, epoch=1)
    assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == (2, 1)


def test_old_versions_have_no_broker_epoch(follower: Follower, members: Members) -> None:
    append(members.partition(1), b"a")
    assert len(follower.row(0, version=13).records or b"") > 0


def test_a_session_that_is_unknown_is_refused(follower: Follower) -> None:
    follower.session = (12345, 3)
    assert follower.ask().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_second_request_ends_the_wait_of_the_first(follower: Follower, members: Members) -> None:
    follower.ask(0, max_wait_ms=0)
    first = follower.start()
    follower.session = (follower.session[0], follower.session[1] + 1)
    second = follower.start()
    append(members.partition(1), b"a")
    members.settle()
    assert first.response.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert second.response.responses


def test_forgotten_partitions_are_not_read(follower: Follower, members: Members) -> None:
    follower.ask(0, max_wait_ms=0)
    append(members.partition(1), b"a")
    members.settle()
    forgotten = [ForgottenTopic(topic_id=follower.topic_id, partitions=[0])]
    assert follower.ask(max_wait_ms=0, forgotten_topics_data=forgotten).responses == []


def test_a_single_broker_has_no_followers() -> None:
    client = SimulatedClient()
    client.sim.topic("t", 1)
    topic_id = client.sim.broker.topics.get("t").id
    row = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        replica_state=ReplicaState(replica_id=2, replica_epoch=1),
        session_epoch=-1,
        topics=[FetchTopic(topic_id=topic_id, partitions=[row])],
    )
    response = client.start(request, VERSION).response
    assert response.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
