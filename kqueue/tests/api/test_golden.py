"""Requests that stock clients sent to Kafka 4.3, put to kqueue: the answers are Kafka's, but for
ids and places.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from kqueue.api import handler_table
from kqueue.broker.topics.topics import NewTopic
from kqueue.records.batch import read_header
from kqueue.schema import decode
from kqueue.tests.api.harness import SimulatedClient
from kqueue.tests.golden import FOLDER
from kqueue.tests.tables import Test, for_each
from kqueue.wire.apis import BY_KEY
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.headers import read_request_header, read_response_header


class Exchange(NamedTuple):
    """A client's request, and Kafka's answer."""

    name: str
    version: int
    request: Any
    response: Any

    def __repr__(self) -> str:
        return f"{self.name}-v{self.version}"


def exchanges() -> Iterator[Exchange]:
    for line in lzma.decompress((FOLDER / "frames.jsonl.xz").read_bytes()).splitlines():
        frame = json.loads(line)
        api, version = BY_KEY.get(frame["api"]), frame["version"]
        if api is None or not frame["response"] or version > api.versions[1]:
            continue
        sent, answered = memoryview(bytearray.fromhex(frame["request"])), memoryview(bytes.fromhex(frame["response"]))
        request = decode(api.request_class, version, sent[read_request_header(sent)[1] :])
        response = decode(api.response_class, version, answered[read_response_header(answered, api.key, version)[1] :])
        yield Exchange(api.name, version, request, response)


ALL = list(exchanges())


def of(name: str) -> Callable[[Test], Test]:
    of_name = [exchange for exchange in ALL if exchange.name == name]
    assert of_name
    return for_each("exchange", of_name)


def world(**settings: Any) -> SimulatedClient:
    return SimulatedClient(
        {"node.id": 0, "num.partitions": 1, **{key.replace("_", "."): value for key, value in settings.items()}}
    )


def test_kqueue_serves_every_version_of_its_apis_that_the_clients_sent() -> None:
    served = {row.api.name: row.versions for row in handler_table.all_handlers()}
    for exchange in ALL:
        if exchange.name in served:
            low, high = served[exchange.name]
            assert low <= exchange.version <= high, exchange


@of("Metadata")
def test_metadata(exchange: Exchange) -> None:
    client = world()
    kafkas = exchange.response
    client.sim.broker.identity.endpoints = lambda listener: (kafkas.brokers[0].host, kafkas.brokers[0].port)
    for topic in kafkas.topics:
        client.sim.topic(topic.name, len(topic.partitions))
    ours = client.ask(exchange.request, exchange.version)
    for response in (kafkas, ours):
        response.topics.sort(key=lambda topic: topic.name)
        for topic in response.topics:
            assert (topic.topic_id != bytes(16)) is (exchange.version >= 10)
            topic.topic_id = bytes(16)
            topic.partitions.sort(key=lambda partition: partition.partition_index)
    ours.cluster_id = kafkas.cluster_id
    assert ours == kafkas


@of("DescribeCluster")
def test_describe_cluster(exchange: Exchange) -> None:
    client = world()
    client.sim.broker.identity.endpoints = lambda listener: (
        exchange.response.brokers[0].host,
        exchange.response.brokers[0].port,
    )
    ours = client.ask(exchange.request, exchange.version)
    ours.cluster_id = exchange.response.cluster_id
    assert ours == exchange.response


@of("ApiVersions")
def test_features(exchange: Exchange) -> None:
    """Those that kqueue has are Kafka's; the others become true later."""
    if exchange.version < 3 or exchange.response.error_code:
        return
    ours = world().ask(exchange.request, exchange.version)
    for mine, kafkas in (
        (ours.supported_features, exchange.response.supported_features),
        (ours.finalized_features, exchange.response.finalized_features),
    ):
        kafkas = [row for row in kafkas if row.name in {own.name for own in mine}]
        assert sorted(mine, key=lambda row: row.name) == sorted(kafkas, key=lambda row: row.name)
        assert mine


@of("DescribeQuorum")
def test_describe_quorum(exchange: Exchange) -> None:
    client = world()
    (kafkas,), (listener,) = exchange.response.topics[0].partitions, exchange.response.nodes[0].listeners
    client.sim.broker.identity.endpoints = lambda name: (listener.host, listener.port)
    ours = client.ask(exchange.request, exchange.version, listener=listener.name)
    (mine,) = ours.topics[0].partitions
    for partition in (mine, kafkas):
        (voter,) = partition.current_voters
        assert voter.log_end_offset == partition.high_watermark
        assert voter.last_fetch_timestamp == voter.last_caught_up_timestamp > 0
        assert voter.replica_directory_id != bytes(16)
        partition.leader_epoch = partition.high_watermark = voter.log_end_offset = 1
        voter.last_fetch_timestamp = voter.last_caught_up_timestamp = 1
        voter.replica_directory_id = bytes(16)
        partition.error_message = None  # Kafka: ""
    exchange.response.error_message = None
    assert ours == exchange.response


@of("DescribeTopicPartitions")
def test_describe_topic_partitions(exchange: Exchange) -> None:
    client = world()
    for topic in exchange.response.topics:
        if topic.error_code == ErrorCode.NONE:
            more = exchange.response.next_cursor is not None and exchange.response.next_cursor.topic_name == topic.name
            client.sim.topic(topic.name, topic.partitions[-1].partition_index + 1 + more)
    ours = client.ask(exchange.request, exchange.version)
    for response in (ours, exchange.response):
        for topic in response.topics:
            assert (topic.topic_id != bytes(16)) is (topic.error_code == ErrorCode.NONE)
            topic.topic_id = bytes(16)
    assert ours == exchange.response


@of("ElectLeaders")
def test_elect_leaders(exchange: Exchange) -> None:
    client = world()
    for row in exchange.request.topic_partitions:
        client.sim.topic(row.topic, len(row.partitions))
    ours = client.ask(exchange.request, exchange.version)
    for response in (ours, exchange.response):
        for row in response.replica_election_results:
            for result in row.partition_result:
                result.error_message = result.error_message and "in our own words"
    assert ours == exchange.response


@of("AlterPartitionReassignments")
def test_alter_partition_reassignments(exchange: Exchange) -> None:
    client = world()
    for topic in exchange.request.topics:
        client.sim.topic(topic.name, len(topic.partitions))
    assert client.ask(exchange.request, exchange.version) == exchange.response


@of("ListPartitionReassignments")
def test_list_partition_reassignments(exchange: Exchange) -> None:
    assert world().ask(exchange.request, exchange.version) == exchange.response


@of("CreateTopics")
def test_create_topics(exchange: Exchange) -> None:
    ours = world().ask(exchange.request, exchange.version)
    for response in (ours, exchange.response):
        for topic in response.topics:
            assert (topic.topic_id != bytes(16)) is (exchange.version >= 7)
            topic.topic_id = bytes(16)
            # Kafka 4.3 sets the one for the whole cluster when it starts, and has not the others
            topic.configs = [
                config
                for config in topic.configs
                if config.name != "min.insync.replicas" and not config.name.startswith("kqueue.")
            ]
    assert ours == exchange.response


@of("DeleteTopics")
def test_delete_topics(exchange: Exchange) -> None:
    client = world()
    for result in exchange.response.responses:
        if result.error_code == ErrorCode.NONE:
            client.sim.topic(result.name)
    ours = client.ask(exchange.request, exchange.version)
    for response in (ours, exchange.response):
        response.responses.sort(key=lambda result: result.name)
        for result in response.responses:
            result.topic_id = bytes(16)
            result.error_message = result.error_message and "in our own words"
    assert ours == exchange.response


@of("CreatePartitions")
def test_create_partitions(exchange: Exchange) -> None:
    client = world()
    for requested, result in zip(exchange.request.topics, exchange.response.results, strict=True):
        added = len(requested.assignments or [None]) if result.error_code == ErrorCode.NONE else 0
        client.sim.topic(requested.name, requested.count - added)
    ours = client.ask(exchange.request, exchange.version)
    for response in (ours, exchange.response):
        for result in response.results:
            result.error_message = result.error_message and "in our own words"
    assert ours == exchange.response


@of("DescribeConfigs")
def test_describe_configs(exchange: Exchange) -> None:
    client = world()
    (kafkas,) = exchange.response.results
    own = {config.name: config.value for config in kafkas.configs if config.config_source == 1}
    client.sim.result(client.sim.broker.topics.create(NewTopic(kafkas.resource_name, configs=own)))
    (ours,) = client.ask(exchange.request, exchange.version).results
    assert (ours.error_code, ours.error_message) == (kafkas.error_code, kafkas.error_message)
    values = {config.name: config for config in ours.configs}
    for config in kafkas.configs:
        mine = values[config.name]
        assert (mine.value, mine.read_only, mine.is_sensitive, mine.config_type) == (
            config.value,
            False,
            False,
            config.config_type,
        )
        if config.name == "min.insync.replicas":
            continue  # Kafka 4.3 sets the one for the whole cluster when it starts, and has not the other
        assert mine.config_source == config.config_source
        assert [synonym for synonym in config.synonyms if synonym not in mine.synonyms] == []


@of("InitProducerId")
def test_init_producer_id(exchange: Exchange) -> None:
    ours = world().ask(exchange.request, exchange.version)
    assert (ours.error_code, ours.producer_epoch) == (0, 0)


@of("Produce")
def test_produce(exchange: Exchange) -> None:
    """The requests of real clients pass our checks."""
    client = world()
    expected = []
    for data, topic_response in zip(exchange.request.topic_data, exchange.response.responses, strict=True):
        topic = client.sim.topic(data.name or "by-id", 1 + max(partition.index for partition in data.partition_data))
        data.topic_id = topic.id if exchange.version >= 13 else data.topic_id
        for partition in data.partition_data:
            header = read_header(partition.records)
            client.sim.clock.set_wall(max(header.max_timestamp, 0))
            refused = header.is_transactional or exchange.request.transactional_id is not None
            expected.append((partition.index, ErrorCode.UNSUPPORTED_VERSION if refused else ErrorCode.NONE))
        assert {partition.error_code for partition in topic_response.partition_responses} == {0}
    ours = client.ask(exchange.request, exchange.version)
    codes = [
        (partition.index, partition.error_code) for topic in ours.responses for partition in topic.partition_responses
    ]
    assert codes == expected


@of("ListOffsets")
def test_list_offsets_of_empty_partitions(exchange: Exchange) -> None:
    client = world()
    for topic in exchange.request.topics:
        client.sim.topic(topic.name, 1 + max(partition.partition_index for partition in topic.partitions))
    ours = client.ask(exchange.request, exchange.version)
    for requested, mine, kafkas in zip(exchange.request.topics, ours.topics, exchange.response.topics, strict=True):
        timestamps = {partition.partition_index: partition.timestamp for partition in requested.partitions}
        theirs = {partition.partition_index: partition for partition in kafkas.partitions}
        for partition in mine.partitions:
            if theirs[partition.partition_index].offset == 0 and timestamps[partition.partition_index] < 0:
                assert partition == theirs[partition.partition_index]


@of("Fetch")
def test_fetch_of_empty_partitions(exchange: Exchange) -> None:
    client = world()
    topics = exchange.request.topics
    if exchange.request.session_epoch > 0 or any(
        partition.fetch_offset for topic in topics for partition in topic.partitions
    ):
        ours = client.ask(exchange.request, exchange.version)  # of a session that we never had, or past our end
        assert ours is None or ours.error_code in (0, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        return
    for number, topic in enumerate(topics):
        created = client.sim.topic(
            topic.topic or f"by-id-{number}", 1 + max(partition.partition for partition in topic.partitions)
        )
        topic.topic_id = created.id if exchange.version >= 13 else topic.topic_id
    started = client.start(exchange.request, exchange.version)
    client.sim.advance(exchange.request.max_wait_ms)
    kafkas = {
        partition.partition_index: partition for topic in exchange.response.responses for partition in topic.partitions
    }
    for topic in started.response.responses:
        for mine in topic.partitions:
            theirs = kafkas.get(mine.partition_index)
            if theirs is not None and theirs.high_watermark == 0:
                assert mine == theirs
