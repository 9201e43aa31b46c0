"""A test that freezes its own time does not freeze the broker in its process.

The client is confluent-kafka: librdkafka takes no time from Python.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import pytest
import time_machine
from confluent_kafka import Consumer, KafkaError, Producer
from freezegun import freeze_time

import kqueue
from kqueue.base.clock import utc_now, wall_ms
from kqueue.testing import faults
from kqueue.tests.tables import for_each
from kqueue.tests.waits import HangLimit

WITHIN_S = 60.0
Freeze = Callable[[str], AbstractContextManager[Any]]
FREEZES: dict[str, Freeze] = {"freezegun": freeze_time, "time-machine": lambda to: time_machine.travel(to, tick=False)}
frozen = for_each("freeze", FREEZES.values())


def produce(bootstrap: str, value: bytes, *, timestamp_ms: int = 0) -> KafkaError | None:
    """Send one record to the topic orders; return its error."""
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 50_000, "log_level": 0})
    stamp = {"timestamp": timestamp_ms} if timestamp_ms else {}
    producer.produce("orders", value, on_delivery=lambda error, _: errors.append(error), **stamp)
    assert producer.flush(WITHIN_S) == 0
    return errors[0]


def consume(bootstrap: str, group: str, count: int) -> list[bytes]:
    """Return the first records of orders, as a member of the group, which commits and leaves."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    values: list[bytes] = []
    limit = HangLimit(f"{count} records")
    while len(values) < count:
        limit.check()
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            values.append(message.value())
    consumer.commit(asynchronous=False)
    consumer.close()
    return values


@pytest.mark.long
@frozen
@for_each("to", ["2020-01-01", "2035-01-01"])
def test_clients_are_served_while_a_test_has_frozen_the_time_and_afterwards(freeze: Freeze, to: str) -> None:
    with kqueue.Broker(log_retention_ms=86_400_000, log_retention_check_interval_ms=1) as broker:
        broker.create_topic("orders")
        with freeze(to):
            assert produce(broker.bootstrap, b"inside") is None
            assert consume(broker.bootstrap, "mail", 1) == [b"inside"]
            assert broker.clock.now().year == utc_now().year
        assert produce(broker.bootstrap, b"after") is None
        assert consume(broker.bootstrap, "bills", 2) == [b"inside", b"after"]


@frozen
def test_a_broker_started_while_the_time_is_frozen_is_served_by_the_machines_clock(freeze: Freeze) -> None:
    with freeze("2020-01-01"):
        broker = kqueue.Broker().start()
        broker.create_topic("orders")
        assert produce(broker.bootstrap, b"inside") is None
    with broker:
        assert produce(broker.bootstrap, b"after") is None
        assert [bytes(record.value) for record in broker.topics["orders"].records()] == [b"inside", b"after"]


@frozen
def test_a_cluster_elects_a_leader_while_the_time_is_frozen(freeze: Freeze) -> None:
    with kqueue.Cluster(brokers=2) as cluster:
        cluster.create_topic("orders", replicas={0: [0, 1]}, min_insync_replicas=1)
        with freeze("2020-01-01"):
            assert produce(cluster.bootstrap, b"one") is None
            cluster.kill(0)
            assert cluster.wait_leader("orders", other_than=0) == 1
            assert produce(cluster[1].bootstrap, b"two") is None
        cluster.start(0)
        cluster.wait_in_sync()
        cluster.assert_produced("orders", [b"one", b"two"])


@frozen
def test_the_calls_that_wait_end_while_the_time_is_frozen(freeze: Freeze) -> None:
    with kqueue.Broker() as broker, faults(broker) as made:
        broker.create_topic("orders")
        fault = made.fail("Produce", error="NOT_LEADER_OR_FOLLOWER")
        with freeze("2020-01-01"):
            with pytest.raises(AssertionError, match=r"after 0.05 s"):
                broker.assert_produced("orders", [b"x"], within_s=0.05)
            with pytest.raises(AssertionError, match=r"after 0.05 s"):
                asyncio.run(broker.wait_produced("orders", [b"x"], within_s=0.05))
            with pytest.raises(AssertionError):
                asyncio.run(broker.wait_consumed("orders", group="mail", within_s=0.05))
            with pytest.raises(TimeoutError, match="0 of 1 Fetch requests"):
                broker.requests.wait_for("Fetch", timeout_s=0.05)
            with pytest.raises(TimeoutError, match="expected to be applied 1 times"):
                fault.wait(timeout_s=0.05)
            broker.clock.advance(days=8)
            assert (broker.clock.now() - utc_now()).days in (7, 8)
            broker.restart()
            broker.reset()


@for_each("name", ["sleep", "monotonic", "monotonic_ns", "time", "time_ns"])
def test_functions_of_time_that_a_test_replaces_are_not_called(name: str) -> None:
    with kqueue.Broker() as broker, mock.patch(f"time.{name}", side_effect=AssertionError(name)) as replaced:
        broker.create_topic("orders")
        assert produce(broker.bootstrap, b"inside") is None
        assert consume(broker.bootstrap, "mail", 1) == [b"inside"]
        with pytest.raises(AssertionError, match=r"after 0.05 s"):
            broker.assert_produced("orders", [b"x"], within_s=0.05)
        assert replaced.call_count == 0


def test_records_with_a_frozen_timestamp_are_accepted_from_the_past_and_refused_from_the_future() -> None:
    year_ms = 365 * 86_400_000
    with kqueue.Broker() as broker:
        broker.create_topic("orders")
        assert produce(broker.bootstrap, b"past", timestamp_ms=wall_ms() - 6 * year_ms) is None
        error = produce(broker.bootstrap, b"future", timestamp_ms=wall_ms() + 9 * year_ms)
        assert error is not None
        assert error.code() == KafkaError.INVALID_TIMESTAMP
        broker.topics["orders"].alter_config(message_timestamp_after_max_ms=10 * year_ms)
        assert produce(broker.bootstrap, b"future", timestamp_ms=wall_ms() + 9 * year_ms) is None


@frozen
def test_certificates_made_while_the_time_is_frozen_are_valid_now(freeze: Freeze) -> None:
    with freeze("2020-01-01"), kqueue.Broker(tls=True) as broker:
        context = ssl.create_default_context(cafile=broker.client_config("kafka-python")["ssl_cafile"])
        host, _, port = broker.bootstrap.rpartition(":")
        with (
            socket.create_connection((host, int(port)), WITHIN_S) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            pass
    with kqueue.Broker(tls=True) as later:
        assert later.is_running
