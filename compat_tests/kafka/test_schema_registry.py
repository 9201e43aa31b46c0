"""The schema registry over Apache Kafka as over kqueue: its topic, its election, its fence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from kqueue.client import Client, ResourceType, TopicPartition
from kqueue.schema_registry.election.election_member import ElectionTimes
from kqueue.schema_registry.options import RegistryOptions, client_options
from kqueue.schema_registry.schema_log import StoreUnavailable
from kqueue.schema_registry.server import RegistryServer
from kqueue.schema_registry.topic.topic_log import SchemaTopicLog
from kqueue.schema_registry.topic.topic_preparation import prepare_topic
from kqueue.tests.schema_registry.http_calls import INT, LONG, call
from kqueue.tests.schema_registry.running import leader_and_other

Start = Callable[[str], RegistryServer]
TIMES = ElectionTimes(session_ms=6_000, heartbeat_ms=100)


@pytest.fixture
def start(either: str) -> Iterator[Start]:
    """Start a registry of a topic and group of this name."""
    with ExitStack() as stack:

        def begin(name: str) -> RegistryServer:
            options = RegistryOptions(
                client=client_options(either), port=0, topic=name, group=name, election_times=TIMES
            )
            server = RegistryServer(options)
            stack.callback(server.close)
            return server.start()

        yield begin


def test_two_registries_elect_a_writer_and_hand_over(either: str, start: Start) -> None:
    servers = [start("_two"), start("_two")]
    assert call(f"{servers[0].url}/subjects/a/versions", "POST", INT) == (200, {"id": 1})
    assert call(f"{servers[1].url}/subjects/b/versions", "POST", LONG) == (200, {"id": 2})
    assert [call(f"{server.url}/subjects").body for server in servers] == [["a", "b"]] * 2
    leader, other = leader_and_other(servers)
    leader.close()
    assert call(f"{other.url}/config", "PUT", {"compatibility": "NONE"}).status == 200
    other.close()
    again = start("_two")
    assert call(f"{again.url}/schemas/ids/2") == (200, LONG)
    assert call(f"{again.url}/config").body == {"compatibilityLevel": "NONE"}
    with Client(either) as client:
        settings = client.configs(ResourceType.TOPIC, ["_two"], ["cleanup.policy"])["_two"]
    assert settings["cleanup.policy"].value == "compact"


def test_a_writer_that_was_replaced_is_refused_by_the_broker(either: str) -> None:
    options = client_options(either)
    prepare_topic(options, "_fenced")
    logs = [
        SchemaTopicLog(options, "_fenced", fence="_fenced-writer", caught_up=lambda offset, seconds: True)
        for _ in range(2)
    ]
    for log in logs:
        log.claim()
    with pytest.raises(StoreUnavailable, match="another registry leads now"):
        logs[0].append(b"key", b"old")
    assert logs[1].append(b"key", b"new") == 2
    with Client(either) as client:
        place = TopicPartition("_fenced", 0)
        assert client.offsets({place: -1}, isolation="read_committed")[place].offset == 3, "no transaction is open"
    for log in logs:
        log.close()
