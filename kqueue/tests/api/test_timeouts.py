"""A request that gives no time at all is served like any other, at every API whose requests carry a
time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kqueue.api import handler_table
from kqueue.api.request_context import CHANGE_WAIT_MS_MIN
from kqueue.broker.metadata import features
from kqueue.schema.structs import message_schema_of, schema_of
from kqueue.testing.simulation import Simulation
from kqueue.tests.api.group_client import join_request
from kqueue.tests.api.harness import SimulatedClient, batch, produce_request
from kqueue.tests.api.share_client import give_states
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages import share_fetch
from kqueue.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kqueue.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kqueue.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kqueue.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kqueue.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kqueue.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kqueue.wire.messages.elect_leaders import ElectLeadersRequest
from kqueue.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kqueue.wire.messages.init_producer_id import InitProducerIdRequest
from kqueue.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kqueue.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kqueue.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, Topology
from kqueue.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest


def _create(client: SimulatedClient, version: int) -> Any:
    return CreateTopicsRequest(topics=[CreatableTopic(name="new", num_partitions=1, replication_factor=1)])


def _delete(client: SimulatedClient, version: int) -> Any:
    return (
        DeleteTopicsRequest(topics=[DeleteTopicState(name="t")])
        if version >= 6
        else DeleteTopicsRequest(topic_names=["t"])
    )


def _delete_records(client: SimulatedClient, version: int) -> Any:
    return DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=1)])]
    )


def _fetch(client: SimulatedClient, version: int) -> Any:
    topic = FetchTopic(partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)])
    if version >= 13:
        topic.topic_id = client.sim.broker.topics.get("t").id
    else:
        topic.topic = "t"
    return FetchRequest(topics=[topic], min_bytes=1000)


def _list_offsets(client: SimulatedClient, version: int) -> Any:
    return ListOffsetsRequest(
        replica_id=-1,
        topics=[ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])],
    )


def _update_features(client: SimulatedClient, version: int) -> Any:
    update = FeatureUpdateKey(feature=features.TRANSACTION_VERSION, max_version_level=2)
    return UpdateFeaturesRequest(feature_updates=[update])


def _share_fetch(client: SimulatedClient, version: int) -> Any:
    give_states(client, "g", ["t"])
    topic = share_fetch.FetchTopic(
        topic_id=client.sim.broker.topics.get("t").id, partitions=[share_fetch.FetchPartition(partition_index=0)]
    )
    return share_fetch.ShareFetchRequest(group_id="g", member_id="m", min_bytes=1, max_records=1, topics=[topic])


def _consumer_heartbeat(client: SimulatedClient, version: int) -> Any:
    """The second heartbeat of a member: the first one must have a time."""
    joined = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", rebalance_timeout_ms=1000)
    joined.subscribed_topic_names, joined.topic_partitions = ["t"], []
    return ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=client.ask(joined, version).member_epoch
    )


def _streams_heartbeat(client: SimulatedClient, version: int) -> Any:
    """As `_consumer_heartbeat`."""
    joined = StreamsGroupHeartbeatRequest(group_id="s", member_id="m", rebalance_timeout_ms=1000)
    joined.active_tasks = joined.standby_tasks = joined.warmup_tasks = []
    joined.topology = Topology(subtopologies=[Subtopology(subtopology_id="0", source_topics=["t"])])
    return StreamsGroupHeartbeatRequest(
        group_id="s", member_id="m", member_epoch=client.ask(joined, version).member_epoch
    )


REQUESTS: dict[str, Callable[[SimulatedClient, int], Any]] = {
    "CreatePartitions": lambda client, version: CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="t", count=2, assignments=None)]
    ),
    "ConsumerGroupHeartbeat": _consumer_heartbeat,
    "CreateTopics": _create,
    "DeleteRecords": _delete_records,
    "DeleteTopics": _delete,
    "Fetch": _fetch,
    "InitProducerId": lambda client, version: InitProducerIdRequest(transactional_id=None),
    "JoinGroup": lambda client, version: join_request(version),
    "ListOffsets": _list_offsets,
    "AlterPartitionReassignments": lambda client, version: AlterPartitionReassignmentsRequest(),
    "ElectLeaders": lambda client, version: ElectLeadersRequest(topic_partitions=[]),
    "ListPartitionReassignments": lambda client, version: ListPartitionReassignmentsRequest(),
    "ShareFetch": _share_fetch,
    "StreamsGroupHeartbeat": _streams_heartbeat,
    "UpdateFeatures": _update_features,
    "Produce": lambda client, version: produce_request(client, "t", batch(b"c"), version),
}
DONE: dict[str, Callable[[SimulatedClient], object]] = {
    "CreatePartitions": lambda client: len(client.sim.broker.topics.get("t").partitions) == 2,
    "CreateTopics": lambda client: client.sim.broker.topics.find("new"),
    "DeleteRecords": lambda client: client.sim.broker.topics.partition("t", 0).log_start_offset == 1,
    "DeleteTopics": lambda client: not client.sim.broker.topics.find("t"),
    "UpdateFeatures": lambda client: client.sim.broker.metadata.cache.get(features.KEY) is not None,
    "Produce": lambda client: client.sim.broker.topics.partition("t", 0).high_watermark == 3,
}
REFUSED_BY_KAFKA = {"session_timeout_ms"}
"""Checked against the broker's bounds."""


def times(row: handler_table.ApiHandler, version: int) -> Iterator[str]:
    for each in message_schema_of(row.api.request_class).fields_at(version):
        if (
            each.name.endswith("_ms")
            and ("timeout" in each.name or "wait" in each.name)
            and each.name not in REFUSED_BY_KAFKA
        ):
            yield each.name


CASES = [
    (row, version, name)
    for row in handler_table.all_handlers()
    for version in range(row.versions[0], row.versions[1] + 1)
    for name in times(row, version)
]


def codes(part: Any) -> Iterator[int]:
    """Every error code of a response."""
    for each in schema_of(type(part)).fields:
        value = getattr(part, each.name)
        if each.name == "error_code":
            yield value
        for one in value if isinstance(value, list) else [value]:
            if hasattr(one, "__schema__"):
                yield from codes(one)


@for_each("time_ms", [0, -1, 1])
@for_each("row, version, field", CASES)
def test_a_request_without_time_is_served(
    row: handler_table.ApiHandler, version: int, field: str, time_ms: int
) -> None:
    client = SimulatedClient(sim=Simulation({"group.initial.rebalance.delay.ms": 0}))
    client.sim.topic("t")
    client.produce("t", batch(b"a", b"b"))
    request = REQUESTS[row.api.name](client, version)
    setattr(request, field, time_ms)
    started = client.start(request, version)
    client.sim.clock.advance(CHANGE_WAIT_MS_MIN / 2)  # what the disk takes
    client.sim.broker.scheduler.timers.run_due(client.sim.clock.monotonic_ms())
    client.sim.settle()
    client.sim.advance(0)
    assert started.response is not None
    assert set(codes(started.response)) <= {ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED}
    assert DONE.get(row.api.name, lambda client: True)(client)


def test_every_field_of_time_is_covered() -> None:
    assert {row.api.name for row, _, _ in CASES} == set(REQUESTS)
