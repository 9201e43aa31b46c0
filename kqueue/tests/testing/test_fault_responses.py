"""Field values of responses with an injected error for a part of the request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import kqueue
from kqueue.api import handler_table
from kqueue.schema import schema_of
from kqueue.testing import faults
from kqueue.testing.fault_injection import Faults
from kqueue.tests.testing.raw import Raw, fetch, produce
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsTopic
from kqueue.wire.messages.metadata import MetadataRequestTopic
from kqueue.wire.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic

ERROR = ErrorCode.NOT_LEADER_OR_FOLLOWER
ALL = (("t", 0), ("t", 1), ("u", 0))


@pytest.fixture
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker() as broker:
        broker.create_topic("t", partitions=2)
        broker.create_topic("u")
        yield broker


@pytest.fixture
def made(broker: kqueue.Broker) -> Iterator[Faults]:
    with faults(broker) as made:
        yield made


@pytest.fixture
def raw(broker: kqueue.Broker) -> Iterator[Raw]:
    with Raw(broker.bootstrap) as raw:
        yield raw


def codes(topics: list[Any], partitions: str = "partitions") -> dict[tuple[str, int], int]:
    """Error codes by topic and partition."""
    error_codes = {}
    for topic in topics:
        for one in getattr(topic, partitions):
            index = one.index if hasattr(one, "index") else one.partition_index
            name = getattr(topic, "name", None) or topic.topic
            assert (name, index) not in error_codes, "each place is answered once"
            error_codes[name, index] = one.error_code
    return error_codes


def count(broker: kqueue.Broker, topic: str, partition: int) -> int:
    return len(list(broker.topics[topic].records(partition)))


@pytest.mark.parametrize("version", [3, 9, 12])
@pytest.mark.parametrize(
    ("which", "hit"),
    [
        ({"topic": "t"}, ALL[:2]),
        ({"topic": "t", "partition": 1}, ALL[1:2]),
        ({"partition": 0}, (ALL[0], ALL[2])),
        ({}, ALL),
    ],
)
def test_a_part_of_a_produce_fails_and_the_rest_is_written(
    broker: kqueue.Broker, made: Faults, version: int, which: dict[str, Any], hit: tuple[tuple[str, int], ...]
) -> None:
    made.fail("Produce", **which)
    request = produce(*ALL)
    with Raw(broker.bootstrap) as raw:
        error_codes = codes(raw.ask("Produce", version, request).responses, "partition_responses")
    assert error_codes == {place: ERROR if place in hit else 0 for place in ALL}
    assert {place: count(broker, *place) for place in ALL} == {place: 0 if place in hit else 1 for place in ALL}


def test_a_topic_is_matched_by_its_id(broker: kqueue.Broker, made: Faults, raw: Raw) -> None:
    ids = {one.name: one.topic_id for one in raw.ask("Metadata", 12, topics=None).topics}
    request = produce(("t", 0), ("u", 0))
    for topic in request.topic_data:
        topic.topic_id = ids[topic.name]
    made.fail("Produce", topic="t")
    answer = raw.ask("Produce", 13, request)
    assert {one.topic_id: one.partition_responses[0].error_code for one in answer.responses} == {
        ids["t"]: ERROR,
        ids["u"]: 0,
    }
    assert made.fired[0].topics == ("t", "u")
    assert broker.requests("Produce")[0].topics == ("t", "u")


def test_a_produce_without_acks_closes_the_connection(broker: kqueue.Broker, made: Faults, raw: Raw) -> None:
    """As in Kafka. The rest of the request is written."""
    made.fail("Produce", topic="t")
    raw.send("Produce", 9, produce(("t", 0), ("u", 0), acks=0))
    with pytest.raises(EOFError):
        raw.receive()
    assert (count(broker, "t", 0), count(broker, "u", 0)) == (0, 1)


def test_other_partitions_of_a_fetch_are_served_at_once(broker: kqueue.Broker, made: Faults, raw: Raw) -> None:
    raw.ask("Produce", 9, produce(("t", 0), ("u", 0)))
    made.fail("Fetch", topic="t")
    answer = raw.ask("Fetch", 12, fetch(("t", 0), ("u", 0)))
    assert codes(answer.responses) == {("t", 0): ERROR, ("u", 0): 0}
    sizes = {one.topic: len(one.partitions[0].records or b"") for one in answer.responses}
    assert sizes["t"] == 0
    assert sizes["u"] > 0


@pytest.mark.parametrize("which", [{"topic": "t"}, {"topic": "t", "partition": 0}, {}])
def test_a_waiting_fetch_fails_at_once(made: Faults, raw: Raw, which: dict[str, Any]) -> None:
    made.fail("Fetch", **which)
    assert codes(raw.ask("Fetch", 12, fetch(("t", 0), max_wait_ms=600_000)).responses) == {("t", 0): ERROR}


def test_partitions_of_a_fetch_session_are_matched(made: Faults, raw: Raw) -> None:
    session_id = raw.ask("Fetch", 12, fetch(("t", 0), ("u", 0), max_wait_ms=0, epoch=0)).session_id
    assert session_id
    fault = made.fail("Fetch", topic="t")
    assert codes(raw.ask("Fetch", 12, fetch(session_id=session_id, epoch=1, max_wait_ms=600_000)).responses) == {
        ("t", 0): ERROR
    }
    other = made.fail("Fetch", topic="v")
    assert codes(raw.ask("Fetch", 12, fetch(session_id=session_id, epoch=2, max_wait_ms=0)).responses) == {}
    assert (fault.count, other.count) == (1, 0)


def test_a_session_error_is_in_the_top_level_field(made: Faults, raw: Raw) -> None:
    made.fail("Fetch", "FETCH_SESSION_ID_NOT_FOUND")
    answer = raw.ask("Fetch", 12, fetch(("t", 0)))
    assert (answer.error_code, answer.responses) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])


@pytest.mark.parametrize("version", [0, 1, 4, 9, 13])
@pytest.mark.parametrize("which", [{"topic": "t"}, {}])
def test_metadata_names_brokers_beside_the_error(
    broker: kqueue.Broker, made: Faults, raw: Raw, version: int, which: dict[str, Any]
) -> None:
    made.fail("Metadata", "LEADER_NOT_AVAILABLE", times=None, **which)
    answer = raw.ask("Metadata", version, topics=[MetadataRequestTopic(name="t")])
    assert [one.port for one in answer.brokers] == [broker.port]
    assert [(one.name, one.error_code, one.partitions) for one in answer.topics] == [
        ("t", ErrorCode.LEADER_NOT_AVAILABLE, [])
    ]
    error_codes = {
        one.name: one.error_code for one in raw.ask("Metadata", version, topics=None if version else []).topics
    }
    assert error_codes == {"t": ErrorCode.LEADER_NOT_AVAILABLE, "u": 0 if which else ErrorCode.LEADER_NOT_AVAILABLE}


def test_metadata_of_one_partition(made: Faults, raw: Raw) -> None:
    made.fail("Metadata", "LEADER_NOT_AVAILABLE", topic="t", partition=1)
    answer = raw.ask("Metadata", 12, topics=[MetadataRequestTopic(name="t"), MetadataRequestTopic(name="u")])
    assert codes(answer.topics) == {("t", 0): 0, ("t", 1): ErrorCode.LEADER_NOT_AVAILABLE, ("u", 0): 0}


@pytest.mark.parametrize("version", [0, 4, 12])
def test_a_topic_that_metadata_fails_for_is_not_created(
    broker: kqueue.Broker, made: Faults, raw: Raw, version: int
) -> None:
    made.fail("Metadata", "UNKNOWN_TOPIC_OR_PARTITION", topic="new")
    asked = [MetadataRequestTopic(name="new"), MetadataRequestTopic(name="u")]
    answer = raw.ask("Metadata", version, topics=asked, **({"allow_auto_topic_creation": True} if version >= 4 else {}))
    assert {one.name: one.error_code for one in answer.topics} == {"new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "u": 0}
    assert "new" not in broker.topics


def test_offsets_are_listed_for_the_other_topics(made: Faults, raw: Raw) -> None:
    made.fail("ListOffsets", topic="t", partition=0)
    asked = [
        ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(partition_index=index, timestamp=-1)])
        for name, index in ALL
    ]
    answer = raw.ask("ListOffsets", 4, replica_id=-1, topics=asked)
    assert codes(answer.topics) == {("t", 0): ERROR, ("t", 1): 0, ("u", 0): 0}


def test_the_other_topics_are_committed(broker: kqueue.Broker, made: Faults, raw: Raw) -> None:
    made.fail("OffsetCommit", "UNKNOWN_TOPIC_OR_PARTITION", topic="t")
    asked = [
        OffsetCommitRequestTopic(
            name=name, partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=7)]
        )
        for name in ("t", "u")
    ]
    answer = raw.ask("OffsetCommit", 8, group_id="g", topics=asked)
    assert codes(answer.topics) == {("t", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ("u", 0): 0}
    assert broker.groups["g"].offsets == {"u": {0: 7}}


def test_other_requests_fail_as_a_whole(made: Faults, raw: Raw) -> None:
    made.fail("Heartbeat", "REBALANCE_IN_PROGRESS")
    assert raw.ask("Heartbeat", 4, group_id="g").error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert raw.ask("Heartbeat", 4, group_id="g").error_code != ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("module", sorted(handler_table.handler_names()))
def test_every_api_can_fail_at_every_version(module: str, made: Faults, raw: Raw) -> None:
    """Requests that ask for nothing; the error stands at the top, where the response has such a
    place.
    """
    served = handler_table.load(module)
    made.fail(served.api.name, "UNKNOWN_SERVER_ERROR", times=None)
    low, high = served.versions
    for version in range(low, high + 1):
        answer = raw.ask(
            served.api.name, version, served.api.request_class(**({"acks": 1} if module == "produce" else {}))
        )
        fields = [field.name for field in schema_of(type(answer)).fields_at(version)]
        if "error_code" in fields:
            assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_two_faults_share_a_request(broker: kqueue.Broker, made: Faults, raw: Raw) -> None:
    """Also if the request is decoded again between them, because it was held."""
    made.fail("Produce", topic="t", partition=0)
    made.delay("Produce", ms=20)
    made.fail("Produce", "CORRUPT_MESSAGE", topic="u")
    error_codes = codes(raw.ask("Produce", 9, produce(*ALL)).responses, "partition_responses")
    assert error_codes == {("t", 0): ERROR, ("t", 1): 0, ("u", 0): ErrorCode.CORRUPT_MESSAGE}
    assert [count(broker, *place) for place in ALL] == [0, 1, 0]
    assert len(made.fired) == 3
