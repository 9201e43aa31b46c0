"""Each fault as kafka-python and aiokafka meet it: what they see, what they do about it, and that
it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kqueue
from kqueue.testing import faults
from kqueue.testing.fault_injection import Faults
from kqueue.tests.embedded.clients import KINDS, Clients, PythonClients, clients
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import corners
from kqueue.tests.waits import eventually

Records = Callable[[str], list[bytes]]
QUICK = {"retry_backoff_ms": 10}


@pytest.fixture(params=sorted(KINDS))
def client(request: pytest.FixtureRequest) -> Iterator[Clients]:
    """Clients of one library, and their broker, with a topic ``t``."""
    with kqueue.Broker() as broker, clients(request.param, broker) as made:
        broker.create_topic("t")
        made.producer_options = dict(QUICK)
        yield made


@pytest.fixture
def made(client: Clients) -> Iterator[Faults]:
    with faults(client.broker) as made:
        yield made


def values(broker: kqueue.Broker, topic: str = "t") -> list[bytes | None]:
    """Return the records in the log, read through the broker."""
    return [record.value for record in broker.topics[topic].records()]


def error_of(run: Callable[[], Any]) -> str:
    """Return the class and the message of a client's error."""
    with pytest.raises(Exception) as caught:  # noqa: PT011  each client has errors of its own
        run()
    return f"{caught.type.__name__}: {caught.value}"


def gives_up_soon(client: Clients) -> None:
    """Let its producer try for two or three seconds, which an append may take on a busy machine.

    An idempotent one of kafka-python would be stuck with what it could not send.
    """
    client.producer_options |= {"request_timeout_ms": 3000, "enable_idempotence": False}
    if isinstance(client, PythonClients):
        client.producer_options |= {"delivery_timeout_ms": 2000, "request_timeout_ms": 1000}


def test_a_producer_recovers_from_transient_errors(client: Clients, made: Faults) -> None:
    fault = made.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=3, topic="t")
    client.send("t", b"a")
    assert fault.count == 3
    assert not fault.is_active
    answers = [request.errors for request in client.broker.requests("Produce")]
    assert answers == [("NOT_LEADER_OR_FOLLOWER",)] * 3 + [()]
    assert values(client.broker) == [b"a"]


def test_a_permanent_error_reaches_the_program(client: Clients, made: Faults) -> None:
    made.fail("Produce", "TOPIC_AUTHORIZATION_FAILED", topic="t")
    assert "TopicAuthorizationFailed" in error_of(lambda: client.send("t", b"a"))
    assert values(client.broker) == []


def test_a_consumer_recovers_from_fetch_errors(client: Clients, made: Faults) -> None:
    client.send("t", b"a", b"b")
    fault = made.fail("Fetch", "NOT_LEADER_OR_FOLLOWER", times=2, topic="t", partition=0)
    assert client.consumer("t", **QUICK).take(2) == [b"a", b"b"]
    assert fault.count == 2


def test_an_error_reaches_a_consumer_with_a_fetch_session(client: Clients, made: Faults) -> None:
    client.send("t", b"a")
    consumer = client.consumer("t", fetch_max_wait_ms=50, **QUICK)
    assert consumer.take(1) == [b"a"]
    fault = made.fail("Fetch", "NOT_LEADER_OR_FOLLOWER", topic="t")
    client.send("t", b"b")
    assert consumer.take(1) == [b"b"]
    fault.wait()


def test_a_consumer_resets_after_offset_out_of_range(client: Clients, made: Faults) -> None:
    """The consumer restarts at the position that `auto_offset_reset` selects."""
    client.send("t", b"a", b"b")
    consumer = client.consumer("t", fetch_max_wait_ms=50, **QUICK)
    assert consumer.take(2) == [b"a", b"b"]
    made.fail("Fetch", "OFFSET_OUT_OF_RANGE", topic="t")
    assert consumer.take(2) == [b"a", b"b"]


def test_a_failed_commit_reaches_the_program(client: Clients, made: Faults) -> None:
    client.send("t", b"a")
    consumer = client.consumer("t", group_id="g")
    assert consumer.take(1) == [b"a"]
    made.fail("OffsetCommit", "GROUP_AUTHORIZATION_FAILED")
    assert "GroupAuthorizationFailed" in error_of(consumer.commit)
    assert consumer.committed("t") is None
    consumer.commit()
    assert consumer.committed("t") == 1


def test_clients_wait_for_a_leader(client: Clients, made: Faults) -> None:
    fault = made.fail("Metadata", "LEADER_NOT_AVAILABLE", times=2, topic="t")
    client.send("t", b"a")
    assert fault.count == 2


def test_requests_can_be_delayed(client: Clients, made: Faults) -> None:
    client.send("t", b"a")
    fault = made.delay("Produce", ms=50, times=1)
    client.send("t", b"b")
    assert fault.count == 1
    assert values(client.broker) == [b"a", b"b"]


def test_a_delay_follows_the_brokers_clock(client: Clients, made: Faults) -> None:
    client.send("t", b"a")
    fault = made.delay("Produce", seconds=3600)
    sent = client.soon(client.send, "t", b"b")
    fault.wait()
    assert not sent.done()
    client.broker.clock.advance(hours=1)
    sent.result(60)


def test_a_lost_connection_neither_loses_nor_duplicates_records(client: Clients, made: Faults) -> None:
    fault = made.disconnect("Produce", after=1, times=2)
    client.send("t", b"a", b"b", b"c")
    assert fault.count == 2
    assert values(client.broker) == [b"a", b"b", b"c"]
    assert len({request.address for request in client.broker.requests("Produce")}) == 3


def test_a_lost_reply_duplicates_nothing_with_an_idempotent_producer(client: Clients, made: Faults) -> None:
    fault = made.drop_reply("Produce", after=1)
    client.send("t", b"a", b"b", b"c")
    assert fault.count == 1
    assert values(client.broker) == [b"a", b"b", b"c"]
    assert len(client.broker.requests("Produce")) == 4


def test_a_lost_reply_duplicates_a_record_without_idempotence(client: Clients, made: Faults) -> None:
    client.producer_options["enable_idempotence"] = False
    made.drop_reply("Produce", after=1)
    client.send("t", b"a", b"b", b"c")
    assert values(client.broker) == [b"a", b"b", b"b", b"c"]


@pytest.fixture(params=corners(["memory", "disk"], "disk"))
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return None if request.param == "memory" else tmp_path


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_full_disk_loses_no_confirmed_record(kind: str, path: Path | None) -> None:
    with kqueue.Broker(path) as broker:
        with clients(kind, broker) as client, faults(broker) as made:
            broker.create_topic("t")
            broker.create_topic("u")
            client.producer_options = dict(QUICK)
            gives_up_soon(client)
            client.send("t", b"a")
            client.send("u", b"a")
            fault = made.disk_full("t")
            error_of(lambda: client.send("t", b"b"))
            assert fault.count >= 1
            assert "KAFKA_STORAGE_ERROR" in broker.requests("Produce", topic="t")[-1].errors
            client.send("u", b"b")
        broker.restart()
        with clients(kind, broker) as client:
            client.send("t", b"c")
            assert client.consumer("t").take(2) == [b"a", b"c"]
            assert client.consumer("u").take(2) == [b"a", b"b"]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_torn_write_is_never_served(kind: str, path: Path | None) -> None:
    with kqueue.Broker(path) as broker:
        with clients(kind, broker) as client, faults(broker) as made:
            broker.create_topic("t")
            client.producer_options = dict(QUICK)
            gives_up_soon(client)
            client.send("t", b"a")
            fault = made.torn_write("t")
            error_of(lambda: client.send("t", b"b" * 100))
            assert fault.count == 1
            assert [fired.path for fired in made.fired] == ["t-0/00000000000000000000.log"]
        broker.restart()
        with clients(kind, broker) as client:
            client.send("t", b"c")
            assert client.consumer("t").take(2) == [b"a", b"c"]


GROUP = {
    "group_id": "g",
    "session_timeout_ms": 2000,
    "heartbeat_interval_ms": 50,
    "client_id": "far",
    "fetch_max_wait_ms": 50,
    "request_timeout_ms": 3_000,
    **QUICK,
}


@pytest.mark.long
@for_each("kind", sorted(KINDS))
def test_a_partitioned_member_leaves_its_group_and_rejoins(kind: str) -> None:
    with (
        kqueue.Broker(group_min_session_timeout_ms=100) as broker,
        clients(kind, broker) as client,
        faults(broker) as made,
    ):
        broker.create_topic("t")
        client.send("t", b"a")
        consumer = client.consumer("t", **GROUP)
        assert consumer.take(1) == [b"a"]
        consumer.commit()
        with made.partition_network("far"):
            client.send("t", b"b")  # others are heard
            eventually(lambda: not broker.groups["g"].members, "the end of its session")
            assert broker.groups["g"].state == "Empty"
        assert consumer.take(1) == [b"b"]

        def came_back() -> bool:
            consumer.poll(500)
            return [member.client_id for member in broker.groups["g"].members] == ["far"]

        eventually(came_back, "its return to the group")


def test_a_network_partition_closes_no_connection(client: Clients, made: Faults) -> None:
    """A request under way and a new connection wait until the network is whole again; then both go
    on.
    """
    client.send("t", b"a")
    addresses = {request.address for request in client.broker.requests("Produce")}
    fault = made.partition_network()
    under_way = client.soon(client.send, "t", b"b")
    new = client.soon(lambda: client.consumer("t", fetch_max_wait_ms=50).take(2))
    fault.wait()
    client.broker.requests.clear()
    assert not under_way.done()
    assert not new.done()
    fault.heal()
    under_way.result(60)
    assert new.result(60) == [b"a", b"b"]
    assert {request.address for request in client.broker.requests("Produce")} == addresses
