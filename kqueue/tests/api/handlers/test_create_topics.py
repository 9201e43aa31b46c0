from __future__ import annotations

from typing import Any

from kqueue.base.errors import StorageFailed
from kqueue.tests.api.cluster_client import MembersClient
from kqueue.tests.api.harness import SimulatedClient, versions_of
from kqueue.tests.broker.members import Members
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)


def topic(
    name: str, partitions: int = -1, replicas: int = -1, placed: Any = (), **configs: str | None
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers) for index, brokers in placed
        ],
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


def create(
    client: SimulatedClient, *topics: CreatableTopic, version: int = 7, **fields: Any
) -> dict[str, CreatableTopicResult]:
    response = client.ask(CreateTopicsRequest(topics=list(topics), **fields), version)
    assert len({result.name for result in response.topics}) == len(response.topics)
    return {result.name: result for result in response.topics}


@for_each("version", versions_of("create_topics"))
def test_creates_topics(version: int) -> None:
    client = SimulatedClient({"num.partitions": 5})
    results = create(client, topic("a", 3, 1, retention_ms="77"), topic("b"), version=version)
    assert {name: result.error_code for name, result in results.items()} == {"a": 0, "b": 0}
    a, b = client.sim.broker.topics.get("a"), client.sim.broker.topics.get("b")
    assert (len(a.partitions), a.config["retention.ms"], len(b.partitions)) == (3, 77, 5)
    told = results["a"]
    assert not told.error_message
    assert told.topic_id == (a.id if version >= 7 else bytes(16))
    assert (told.num_partitions, told.replication_factor) == ((3, 1) if version >= 5 else (-1, -1))
    configs = {
        config.name: (config.value, config.config_source, config.read_only, config.is_sensitive)
        for config in told.configs or ()
    }
    if version >= 5:
        assert configs["retention.ms"] == ("77", 1, False, False)
        assert configs["cleanup.policy"] == ("delete", 5, False, False)
        assert set(configs) == set(a.config)
    else:
        assert configs == {}


def test_an_unknown_setting_is_refused_in_kafkas_words() -> None:
    (result,) = create(SimulatedClient(), topic("a", retention_msec="77")).values()
    assert result.error_code == ErrorCode.INVALID_CONFIG
    assert result.error_message == "Unknown topic config name: retention.msec; did you mean 'retention.ms'?"


def test_waits_until_the_topic_is_stored() -> None:
    client = SimulatedClient()
    started = client.start(CreateTopicsRequest(topics=[topic("a")]), 7)
    assert started.response is None
    client.sim.jobs.step()
    client.sim.broker.scheduler.purgatory.run_ready()
    assert started.response.topics[0].error_code == 0  # type: ignore[attr-defined]
    assert "/topics/a" in client.sim.store.read("/topics/")


@for_each(
    "requested, code",
    [
        (topic(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("old_one"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("old.one"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (topic("n", 0), ErrorCode.INVALID_PARTITIONS),
        (topic("n", -2), ErrorCode.INVALID_PARTITIONS),
        (topic("n", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("n", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("n", 51), ErrorCode.POLICY_VIOLATION),
        (topic("n", 3, placed=[(0, [1])]), ErrorCode.INVALID_REQUEST),
        (topic("n", placed=[(0, [9])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("n", placed=[(1, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("n", placed=[(0, [1, 1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("n", placed=[(0, [])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("n", placed=[(0, [1]), (0, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("n", nope="1"), ErrorCode.INVALID_CONFIG),
        (topic("n", retention_ms="x"), ErrorCode.INVALID_CONFIG),
        (topic("n", retention_ms=None), ErrorCode.INVALID_CONFIG),
    ],
)
@for_each("validate_only", [True, False])
def test_invalid_topic_is_refused_and_others_are_created(
    requested: CreatableTopic, code: ErrorCode, validate_only: bool
) -> None:
    client = SimulatedClient({"kqueue.max.partitions": 50})
    client.sim.topic("old.one")
    results = create(client, requested, topic("fine"), validate_only=validate_only)
    refused = results[requested.name]
    assert refused.error_code == code
    assert refused.error_message
    assert (refused.topic_id, refused.num_partitions) == (bytes(16), -1)
    assert results["fine"].error_code == 0
    assert (client.sim.broker.topics.find("fine") is not None) is not validate_only
    assert client.sim.broker.topics.find("n") is None


def test_partitions_may_be_assigned_by_hand() -> None:
    client = SimulatedClient()
    assert create(client, topic("a", placed=[(1, [1]), (0, [1])]))["a"].num_partitions == 2
    assert len(client.sim.broker.topics.get("a").partitions) == 2


def test_a_duplicate_topic_is_refused_once() -> None:
    client = SimulatedClient()
    results = create(client, topic("twice"), topic("once"), topic("twice", 3))
    assert {name: result.error_code for name, result in results.items()} == {
        "twice": ErrorCode.INVALID_REQUEST,
        "once": 0,
    }
    assert client.sim.broker.topics.names() == ["once"]


@for_each("version", range(1, 8))
def test_validate_only_returns_the_result_without_creating(version: int) -> None:
    client = SimulatedClient()
    told = create(client, topic("a", 4), validate_only=True, version=version)["a"]
    assert (told.error_code, told.topic_id) == (0, bytes(16))
    assert told.num_partitions == (4 if version >= 5 else -1)
    assert client.sim.broker.topics.names() == []
    assert len(client.sim.store.read("/topics/")) == 0


def test_kafkas_metadata_log_is_never_a_topic() -> None:
    client = SimulatedClient()
    assert create(client, topic("__cluster_metadata"))["__cluster_metadata"].error_code == ErrorCode.INVALID_REQUEST
    assert client.sim.broker.topics.names() == []


def test_an_internal_topic_is_refused_and_one_that_is_there_already_exists() -> None:
    client = SimulatedClient()
    name = "__consumer_offsets"
    assert create(client, topic(name))[name].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    client.sim.broker.topics.create_on_demand(name)
    assert create(client, topic(name))[name].error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_store_that_is_too_slow_is_reported_as_a_timeout() -> None:
    client = SimulatedClient()
    client.sim.jobs.submit = lambda job: None
    started = client.start(CreateTopicsRequest(topics=[topic("slow"), topic("")], timeout_ms=1500), 7)
    client.sim.advance(1499)
    assert started.response is None
    client.sim.advance(1)
    assert [result.error_code for result in started.response.topics] == [  # type: ignore[attr-defined]
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]


def test_a_store_failure_is_reported() -> None:
    client = SimulatedClient()

    def fail(*_: object) -> None:
        raise StorageFailed("no")

    client.sim.store.commit = fail
    assert create(client, topic("a"))["a"].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert client.sim.broker.topics.names() == []


@for_each("validate_only", [True, False])
def test_a_broker_of_a_cluster_places_replicas(validate_only: bool) -> None:
    members = Members(3, {"default.replication.factor": 2})
    client = MembersClient(members, 2)
    results = create(
        client,
        topic("a", 2, 3),
        topic("b", 2),
        topic("c", placed=[(0, [3, 1]), (1, [1, 2])]),
        topic("d", 1, 4),
        topic("e", placed=[(0, [1, 9])]),
        topic("f", placed=[(0, [1, 2]), (1, [1])]),
        validate_only=validate_only,
    )
    assert {name: (result.error_code, result.replication_factor) for name, result in results.items()} == {
        "a": (0, 3),
        "b": (0, 2),
        "c": (0, 2),
        "d": (ErrorCode.INVALID_REPLICATION_FACTOR, -1),
        "e": (ErrorCode.INVALID_REPLICA_ASSIGNMENT, -1),
        "f": (ErrorCode.INVALID_REPLICA_ASSIGNMENT, -1),
    }
    topics = members[1].broker.topics
    if validate_only:
        assert topics.names() == []
        return
    assert topics.names() == ["a", "b", "c"]
    assert [set(partition.replicas) for partition in topics.get("a").partitions] == [{1, 2, 3}] * 2
    assert [partition.replicas for partition in topics.get("c").partitions] == [(3, 1), (1, 2)]


def test_topic_created_at_two_brokers_is_refused_at_one() -> None:
    members = Members(2)
    clients = [MembersClient(members, node) for node in (1, 2)]
    pending = [client.start(CreateTopicsRequest(topics=[topic("a", 1, 1)]), 7) for client in clients]
    members.settle()
    codes = sorted(one.response.topics[0].error_code for one in pending)
    assert codes == [ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS]


def test_a_factor_is_for_brokers_that_serve() -> None:
    members = Members(2)
    members.register(2, epoch=2, fenced=True)
    members.settle()
    result = create(MembersClient(members, 1), topic("a", 2, 2))["a"]
    assert (result.error_code, result.replication_factor) == (0, 2)
    assert {partition.leader for partition in members[1].broker.topics.get("a").partitions} == {1}
