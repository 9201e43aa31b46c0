from __future__ import annotations

from kqueue.tests.api.harness import SimulatedClient, versions_of
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicState

ZERO = bytes(16)


def delete(
    client: SimulatedClient, *named: str | bytes | DeleteTopicState, version: int = 6
) -> list[DeletableTopicResult]:
    if version < 6:
        request = DeleteTopicsRequest(topic_names=[name for name in named if isinstance(name, str)], timeout_ms=1000)
    else:
        request = DeleteTopicsRequest(topics=[state(one) for one in named], timeout_ms=1000)
    results: list[DeletableTopicResult] = client.ask(request, version).responses
    return results


def state(one: str | bytes | DeleteTopicState) -> DeleteTopicState:
    if isinstance(one, DeleteTopicState):
        return one
    return DeleteTopicState(name=one) if isinstance(one, str) else DeleteTopicState(name=None, topic_id=one)


@for_each("version", versions_of("delete_topics"))
def test_deletes_by_name_each_for_itself(version: int) -> None:
    client = SimulatedClient()
    id = client.sim.topic("a").id
    client.sim.topic("kept")
    gone, lost = delete(client, "a", "nobody", version=version)
    assert (gone.name, gone.error_code, gone.error_message) == ("a", 0, None)
    assert gone.topic_id == (id if version >= 6 else ZERO)
    assert (lost.name, lost.error_code) == ("nobody", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert bool(lost.error_message) is (version >= 5)
    assert client.sim.broker.topics.names() == ["kept"]
    assert list(client.sim.store.read("/topics/")) == ["/topics/kept"]


def test_deletes_by_id() -> None:
    client = SimulatedClient()
    id = client.sim.topic("a").id
    gone, lost = delete(client, id, b"\x01" * 16)
    assert (gone.name, gone.topic_id, gone.error_code) == ("a", id, 0)
    assert (lost.name, lost.topic_id, lost.error_code) == (None, b"\x01" * 16, ErrorCode.UNKNOWN_TOPIC_ID)
    assert len(client.sim.broker.topics) == 0


def test_deletion_is_answered_once_it_is_stored() -> None:
    client = SimulatedClient()
    client.sim.topic("a")
    started = client.start(DeleteTopicsRequest(topic_names=["a"], timeout_ms=1000), 5)
    assert started.response is None
    client.sim.settle()
    assert started.response.responses[0].error_code == 0  # type: ignore[attr-defined]


def test_a_topic_is_named_in_one_way_and_once() -> None:
    client = SimulatedClient()
    id = client.sim.topic("a").id
    client.sim.topic("b")
    both, neither, twice = delete(
        client, DeleteTopicState(name="a", topic_id=id), DeleteTopicState(name=None, topic_id=ZERO), "b", "b"
    )
    assert [one.error_code for one in (both, neither, twice)] == [ErrorCode.INVALID_REQUEST] * 3
    assert client.sim.broker.topics.names() == ["a", "b"]


def test_deleting_one_topic_at_the_same_time_from_two_sides_deletes_it_once() -> None:
    client = SimulatedClient()
    client.sim.topic("a")
    started = [client.start(DeleteTopicsRequest(topic_names=["a"], timeout_ms=1000), 5) for _ in range(2)]
    client.sim.settle()
    codes = [pending.response.responses[0].error_code for pending in started]
    assert codes[0] == 0
    assert codes[1] in (ErrorCode.NOT_CONTROLLER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert len(client.sim.broker.topics) == 0


def test_internal_topics_stay() -> None:
    client = SimulatedClient({"offsets.topic.num.partitions": 1})
    client.sim.result(client.sim.broker.topics.create_on_demand("__consumer_offsets"))
    (refused,) = delete(client, "__consumer_offsets")
    assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert client.sim.broker.topics.names() == ["__consumer_offsets"]


@for_each("version", versions_of("delete_topics"))
def test_deletion_may_be_switched_off(version: int) -> None:
    client = SimulatedClient({"delete.topic.enable": False})
    client.sim.topic("a")
    (refused,) = delete(client, "a", version=version)
    # older clients do not know the code that was made for it
    assert refused.error_code == (ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else ErrorCode.INVALID_REQUEST)
    assert client.sim.broker.topics.names() == ["a"]


def test_a_store_that_is_too_slow_is_reported_as_a_timeout() -> None:
    client = SimulatedClient()
    client.sim.topic("a")
    client.sim.jobs.submit = lambda job: None
    started = client.start(DeleteTopicsRequest(topic_names=["a"], timeout_ms=1500), 5)
    client.sim.advance(1500)
    assert started.response.responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT


def test_a_topic_named_in_two_ways_is_not_deleted() -> None:
    """As Kafka: one result. By name and by id it has both; repeated in one way it has only that."""
    client = SimulatedClient()
    ids = {name: client.sim.topic(name).id for name in "ab"}
    both = [DeleteTopicState(name="a"), DeleteTopicState(name=None, topic_id=ids["a"])]
    (row,) = client.ask(DeleteTopicsRequest(topics=both), 6).responses
    assert (row.name, row.topic_id, row.error_code) == ("a", ids["a"], ErrorCode.INVALID_REQUEST)
    (row,) = client.ask(DeleteTopicsRequest(topics=[both[0]] * 2), 6).responses
    assert (row.name, row.topic_id, row.error_code) == ("a", bytes(16), ErrorCode.INVALID_REQUEST)
    (row,) = client.ask(DeleteTopicsRequest(topics=[both[1]] * 2), 6).responses
    assert (row.name, row.topic_id, row.error_code) == (None, ids["a"], ErrorCode.INVALID_REQUEST)
    assert client.sim.broker.topics.names() == ["a", "b"]
