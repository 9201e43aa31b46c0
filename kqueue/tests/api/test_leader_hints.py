"""The answers of brokers that do not lead a partition: the error, and who leads."""

from __future__ import annotations

import pytest

from kqueue.broker.topics.topics import Topic
from kqueue.replication.registrations import NO_LEADER, PartitionRegistration
from kqueue.tests.api.cluster_client import ClusterClient
from kqueue.tests.api.share_client import Member
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kqueue.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kqueue.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kqueue.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

REPLICAS = PartitionRegistration((2, 1, 3), (2, 1), 2, leader_epoch=4)
ELSEWHERE = PartitionRegistration((2, 3), (2, 3), 3, leader_epoch=4)
NOBODY = REPLICAS._replace(leader=NO_LEADER)
HERE = REPLICAS._replace(leader=1)
INDEXES = range(4)
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.fixture(params=["memory", "local"])
def client(request: pytest.FixtureRequest) -> ClusterClient:
    return ClusterClient({"kqueue.storage": request.param})


@pytest.fixture
def topic(client: ClusterClient) -> Topic:
    return client.topic("t", REPLICAS, ELSEWHERE, NOBODY, HERE)


def test_offsets_are_listed_by_leaders(client: ClusterClient, topic: Topic) -> None:
    rows = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in INDEXES]
    response = client.ask(ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=rows)]), 9)
    assert [row.error_code for row in response.topics[0].partitions] == [NOT_LEADER] * 3 + [ErrorCode.NONE]
    assert not topic.partitions[1].is_open, "there is no replica here"


@pytest.mark.parametrize(("epoch", "code"), [(-1, NOT_LEADER), (4, NOT_LEADER), (3, ErrorCode.FENCED_LEADER_EPOCH)])
def test_ends_of_epochs_are_known_by_leaders(client: ClusterClient, topic: Topic, epoch: int, code: ErrorCode) -> None:
    rows = [OffsetForLeaderPartition(partition=index, current_leader_epoch=epoch, leader_epoch=4) for index in INDEXES]
    response = client.ask(OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=rows)]), 4)
    codes = [row.error_code for row in response.topics[0].partitions]
    assert codes == [code] * 3 + [code if epoch == 3 else ErrorCode.NONE]


def test_records_are_deleted_by_leaders(client: ClusterClient, topic: Topic) -> None:
    rows = [DeleteRecordsPartition(partition_index=index, offset=0) for index in INDEXES]
    response = client.ask(DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=rows)]), 2)
    assert [row.error_code for row in response.topics[0].partitions] == [NOT_LEADER] * 3 + [ErrorCode.NONE]
    assert not topic.partitions[1].is_open


def test_producers_are_described_by_leaders(client: ClusterClient, topic: Topic) -> None:
    request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=list(INDEXES))])
    rows = client.ask(request, 0).topics[0].partitions
    assert [row.error_code for row in rows] == [NOT_LEADER] * 3 + [ErrorCode.NONE]
    assert [row.error_message for row in rows[:3]] == [
        "broker 2 leads t-0",
        "broker 3 leads t-1",
        "no broker leads t-2",
    ]


def test_members_of_share_groups_are_sent_to_the_leader(client: ClusterClient) -> None:
    topic = client.topic("t", HERE)
    member = Member(client)
    member.fetch()
    topic.partitions[0].apply(REPLICAS._replace(partition_epoch=9))
    fetched = member.fetch()
    ((row,),) = [topic.partitions for topic in fetched.responses]
    assert (row.error_code, row.current_leader.leader_id, row.current_leader.leader_epoch) == (NOT_LEADER, 2, 4)
    assert [(node.node_id, node.host, node.rack) for node in fetched.node_endpoints] == [(2, "out2", "r2")]
    acknowledged = member.acknowledge((0, 0, 1))
    ((data,),) = [topic.partitions for topic in acknowledged.responses]
    assert (data.error_code, data.current_leader.leader_id) == (NOT_LEADER, 2)
    assert [node.node_id for node in acknowledged.node_endpoints] == [2]
