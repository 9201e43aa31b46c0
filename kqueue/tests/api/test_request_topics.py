from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kqueue.api import handler_table
from kqueue.api.request_topics import APIS_WITH_TOPICS, accessed_topics, find_api, topics_in_request
from kqueue.base.errors import UnknownTopicId
from kqueue.schema import schema_of
from kqueue.schema.field_types import ArrayType
from kqueue.tests.tables import for_each
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kqueue.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kqueue.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kqueue.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kqueue.wire.messages.describe_groups import DescribeGroupsRequest
from kqueue.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kqueue.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kqueue.wire.messages.describe_quorum import DescribeQuorumRequest, PartitionDataInRequest, TopicDataInRequest
from kqueue.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kqueue.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kqueue.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kqueue.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kqueue.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kqueue.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

ID = b"0123456789abcdef"


@for_each(
    "request_, named",
    [
        (
            ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(index=3)])]),
            [("t", (3,))],
        ),
        (FetchRequest(topics=[FetchTopic(topic_id=ID, partitions=[FetchPartition(partition=1)])]), [(ID, (1,))]),
        (
            MetadataRequest(topics=[MetadataRequestTopic(name="t"), MetadataRequestTopic(name=None, topic_id=ID)]),
            [("t", ()), (ID, ())],
        ),
        (MetadataRequest(topics=None), []),
        (OffsetFetchRequest(topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]), [("t", (0, 1))]),
        (
            OffsetFetchRequest(
                groups=[OffsetFetchRequestGroup(topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[2])])]
            ),
            [("t", (2,))],
        ),
        (OffsetFetchRequest(groups=[OffsetFetchRequestGroup(topics=None)]), []),
        (CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=3)]), [("t", ())]),
        (DeleteTopicsRequest(topic_names=["t"]), [("t", ())]),
        (DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]), [("t", ())]),
        (DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic="t", partitions=[5])]), [("t", (5,))]),
        (
            DescribeConfigsRequest(
                resources=[DescribeConfigsResource(resource_type=kind, resource_name=f"r{kind}") for kind in (2, 4)]
            ),
            [("r2", ())],
        ),
        (
            ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="t", partitions=[1, 2])]),
            [("t", (1, 2))],
        ),
        (
            DescribeQuorumRequest(
                topics=[TopicDataInRequest(topic_name="t", partitions=[PartitionDataInRequest(partition_index=1)])]
            ),
            [("t", (1,))],
        ),
        (
            AlterReplicaLogDirsRequest(
                dirs=[AlterReplicaLogDir(topics=[AlterReplicaLogDirTopic(name="t", partitions=[6])])]
            ),
            [("t", (6,))],
        ),
        (DescribeGroupsRequest(groups=["g"]), []),
        (DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[4])]), [("t", (4,))]),
        (
            WriteTxnMarkersRequest(
                markers=[WritableTxnMarker(topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0, 2])])]
            ),
            [("t", (0, 2))],
        ),
    ],
)
def test_topics_are_found_wherever_a_request_has_them(
    request_: Any, named: list[tuple[str | bytes, tuple[int, ...]]]
) -> None:
    assert topics_in_request(request_) == named


@for_each("module", sorted(handler_table.handler_names()))
def test_every_served_api_whose_requests_have_topics_is_known(module: str) -> None:
    api = BY_MODULE[module]
    has_topics = any("topic" in name for name in _lists(api.request_class)) or api.name == "DescribeConfigs"
    assert has_topics == (api.name in APIS_WITH_TOPICS)


def _lists(cls: type[Any]) -> set[str]:
    lists = set()
    for field in schema_of(cls).fields:
        if isinstance(field.kind, ArrayType):
            lists.add(field.name)
            inner = getattr(field.kind.of, "schema", None)
            lists |= _lists(inner.cls) if inner is not None else set()
    return lists


class Topics:
    def by_id(self, topic_id: bytes) -> Any:
        if topic_id != ID:
            raise UnknownTopicId("no such topic")
        return SimpleNamespace(name="t")


class Sessions:
    def partitions_of(self, session_id: int) -> list[tuple[str | bytes, int]]:
        return [(ID, 0), (ID, 1), ("u", 4)] if session_id == 7 else []


def test_names_stand_for_ids_and_sessions_for_what_they_remember() -> None:
    broker: Any = SimpleNamespace(topics=Topics(), fetch_sessions=SimpleNamespace(of_consumers=Sessions()))
    topics = [FetchTopic(topic_id=ID, partitions=[FetchPartition(partition=1)])]
    assert accessed_topics(FetchRequest(topics=topics, session_id=7, session_epoch=3), "Fetch", broker) == [
        ("t", (1,)),
        ("t", (0,)),
        ("u", (4,)),
    ]
    assert accessed_topics(FetchRequest(topics=topics, session_id=7, session_epoch=0), "Fetch", broker) == [("t", (1,))]
    unknown = bytes(15) + b"x"
    assert accessed_topics(
        MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=unknown)]), "Metadata", broker
    ) == [(unknown, ())]


def test_apis_are_found_by_name() -> None:
    assert find_api("produce").key == 0
    assert find_api("OffsetForLeaderEpoch").key == 23
    with pytest.raises(ValueError, match="no API 'ofset_commit'; did you mean 'OffsetCommit'"):
        find_api("ofset_commit")
