from __future__ import annotations

from kqueue.base.names import parse_uuid
from kqueue.tests.api.cluster_client import ClusterClient
from kqueue.tests.api.harness import NOW_MS, SimulatedClient, versions_of
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionDataInRequest,
    TopicDataInRequest,
)

METADATA = "__cluster_metadata"
VERSIONS = versions_of("describe_quorum")


def request_for(*wanted: tuple[str, list[int]]) -> DescribeQuorumRequest:
    topics = [
        TopicDataInRequest(
            topic_name=topic, partitions=[PartitionDataInRequest(partition_index=index) for index in indexes]
        )
        for topic, indexes in wanted
    ]
    return DescribeQuorumRequest(topics=topics)


def ask(client: SimulatedClient, version: int, *wanted: tuple[str, list[int]]) -> DescribeQuorumResponse:
    response: DescribeQuorumResponse = client.ask(request_for(*wanted), version, listener="INSIDE")
    assert response.error_code == ErrorCode.NONE
    return response


@for_each("version", VERSIONS)
def test_single_broker_is_the_only_voter_and_leads(version: int) -> None:
    client = SimulatedClient({"node.id": 7})
    response = ask(client, version, (METADATA, [0]))
    ((partition,),) = [topic.partitions for topic in response.topics]
    assert (partition.error_code, partition.leader_id, partition.observers) == (0, 7, [])
    (voter,) = partition.current_voters
    assert (voter.replica_id, voter.log_end_offset) == (7, partition.high_watermark)
    assert voter.last_caught_up_timestamp == (NOW_MS if version >= 1 else -1)
    if version >= 2:
        assert voter.replica_directory_id == parse_uuid(client.sim.logs.directory_id)
        ((listener,),) = [node.listeners for node in response.nodes]
        assert (listener.name, listener.host, listener.port) == ("INSIDE", "127.0.0.1", 9092)


def test_each_change_of_metadata_moves_the_end() -> None:
    def end(client: SimulatedClient) -> int:
        return ask(client, 2, (METADATA, [0])).topics[0].partitions[0].high_watermark

    client = SimulatedClient()
    ends = [end(client)]
    client.sim.topic("a")
    ends.append(end(client))
    client.sim.result(client.sim.broker.topics.delete("a"))
    ends.append(end(client))
    assert ends == sorted(set(ends))
    client.sim.topic("b")
    ends.append(end(client))
    client.sim.stop()
    assert end(SimulatedClient(sim=client.sim.restarted())) == ends[-1]


@for_each("version", VERSIONS)
@for_each(
    "wanted",
    [
        [("orders", [0])],
        [(METADATA, [1])],
        [(METADATA, [0, 1])],
        [(METADATA, [0]), ("orders", [0, 1])],
        [(METADATA, [0]), (METADATA, [0])],
    ],
)
def test_a_request_for_anything_else_is_refused_as_a_whole(version: int, wanted: list[tuple[str, list[int]]]) -> None:
    response = ask(SimulatedClient(), version, *wanted)
    assert [
        (topic.topic_name, [row.partition_index for row in topic.partitions]) for topic in response.topics
    ] == wanted
    codes = {row.error_code for topic in response.topics for row in topic.partitions}
    assert codes == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert response.nodes == []


def test_nothing_is_returned_for_nothing() -> None:
    assert ask(SimulatedClient(), 2).topics == []
    assert [topic.partitions for topic in ask(SimulatedClient(), 2, (METADATA, [])).topics] == [[]]


@for_each("version", VERSIONS)
def test_the_controller_of_a_cluster_leads_and_the_others_observe(version: int) -> None:
    client = ClusterClient()
    client.cluster.controller_epoch = 5
    response = client.ask(request_for((METADATA, [0])), version)
    ((partition,),) = [topic.partitions for topic in response.topics]
    assert (partition.leader_id, partition.leader_epoch) == (2, 5)
    (voter,) = partition.current_voters
    assert (voter.replica_id, voter.log_end_offset) == (2, partition.high_watermark)
    known = partition.high_watermark
    assert [(one.replica_id, one.log_end_offset) for one in partition.observers] == [(1, known), (3, -1)]
    if version >= 2:
        assert [(node.node_id, node.listeners[0].host) for node in response.nodes] == [
            (1, "out1"),
            (2, "out2"),
            (3, "out3"),
        ]


def test_a_cluster_without_a_controller_has_no_voter() -> None:
    client = ClusterClient()
    client.cluster.controller_id = -1
    ((partition,),) = [topic.partitions for topic in client.ask(request_for((METADATA, [0])), 2).topics]
    assert (partition.leader_id, partition.current_voters, len(partition.observers)) == (-1, [], 3)
