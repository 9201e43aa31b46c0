"""Clients are held to their quotas, which are those of users, client ids, or both."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from compat_tests.clients.adapters.contract import QUOTAS, Config, Place
from compat_tests.clients.conftest import ClientFactory
from compat_tests.clients.secured import ADMIN, Secured
from compat_tests.clients.test_admin import Name, Needs

pytestmark = pytest.mark.one_client

RATE = 200_000
VALUE = b"v" * 5_000
OVERHEAD, FETCHED_OVERHEAD = 80, 12
"""Bytes of a request, and of a record, besides the value, about."""
HELD_S, FREE_S = 3.0, 0.5
LEAST, MOST = 0.4, 1.1
"""No client gets more, on a busy machine neither. With as few windows as here, one that asks at the
wrong moment waits for one more than was used, and so gets less over some seconds; how much
less, only a quiet machine shows.
"""
WAIT_S, CYCLE_S = 0.3, 2.5
"""What a client had at once it waits for later, for up to as long as the windows are: its rate is
that at the end of a wait.
"""


@pytest.mark.long
@pytest.mark.parametrize("least", [0, pytest.param(LEAST, marks=pytest.mark.thorough)])
def test_clients_are_held_to_their_quotas(
    connect: ClientFactory, secured: Secured, name: Name, needs: Needs, least: float
) -> None:
    """All at once, because each takes seconds, in which it does little."""
    needs(QUOTAS)
    topics = {kind: name(kind) for kind in ("user", "both", "fetched", "requests")}
    for topic in topics.values():
        secured.create_topic(topic)
    users = {"user": name("user"), "both": name("user")}
    secured.allow(*(f"User:{user} allow write topic:{topics[kind]}" for kind, user in users.items()))
    secured.bound({"user": users["user"]}, producer_byte_rate=RATE)
    secured.bound({"user": users["both"]}, producer_byte_rate=RATE / 8)
    secured.bound({"user": users["both"], "client-id": "app"}, producer_byte_rate=RATE)
    secured.bound({"client-id": "reader"}, consumer_byte_rate=RATE)
    secured.bound({"client-id": "busy"}, request_percentage=0.25)

    def config(user: str, client_id: str) -> Config:
        token = {"user": user, "mechanism": "OAUTHBEARER"}  # anybody who has one is a user
        return secured.config(connect.client, **token, client_id=client_id)

    fill(connect, config(ADMIN, "filler"), topics["fetched"])
    free = requests_a_second(connect, config(ADMIN, "free"), topics["requests"], FREE_S)
    with ThreadPoolExecutor() as threads:
        rates = {
            "user": threads.submit(produced, connect, config(users["user"], "any"), topics["user"]),
            "both": threads.submit(produced, connect, config(users["both"], "app"), topics["both"]),
            "fetched": threads.submit(fetched, connect, config(ADMIN, "reader"), topics["fetched"]),
        }
        busy = threads.submit(requests_a_second, connect, config(ADMIN, "busy"), topics["requests"], HELD_S)
    measured = {kind: rate.result() for kind, rate in rates.items()}
    assert all(least * RATE < rate < MOST * RATE for rate in measured.values()), measured
    assert busy.result() < free / 3, free


def fill(connect: ClientFactory, config: Config, topic: str) -> None:
    """Write more than a consumer may fetch in its time, with what it may have at first."""
    producer = connect.producer("", config=config)
    sends = [producer.send(topic, VALUE, partition=0) for _ in range(int(RATE * (HELD_S + 2 * CYCLE_S) / len(VALUE)))]
    for send in sends:
        send.result()


def held_rate(step: Callable[[], int]) -> float:
    """Return the bytes a second of what `step` moves, called again and again."""
    began = moved = time.monotonic()
    size = 0
    while (now := time.monotonic()) < began + HELD_S + CYCLE_S:
        step_bytes = step()
        now = time.monotonic()
        if step_bytes and now > max(began + HELD_S, moved + WAIT_S):
            break
        if step_bytes:
            size, moved = size + step_bytes, now
    return size / (now - began)


def produced(connect: ClientFactory, config: Config, topic: str) -> float:
    """Return the bytes a second of a producer that would send four times as many as it may."""
    producer = connect.producer("", config=config)

    def send() -> int:
        time.sleep(len(VALUE) / RATE / 4)
        producer.send(topic, VALUE, partition=0).result()
        return len(VALUE) + OVERHEAD

    return held_rate(send)


def fetched(connect: ClientFactory, config: Config, topic: str) -> float:
    """Return the bytes a second of a consumer that polls as fast as it may."""
    consumer = connect.consumer("", assign=[Place(topic, 0)], partition_bytes_max=20_000, config=config)
    return held_rate(lambda: sum(len(record.value or b"") + FETCHED_OVERHEAD for record in consumer.poll(0.05)))


def requests_a_second(connect: ClientFactory, config: Config, topic: str, seconds: float) -> float:
    """Return how many records a second are confirmed, each before the next is sent."""
    producer = connect.producer("", config=config)
    began, count = time.monotonic(), 0
    while time.monotonic() < began + seconds:
        producer.send(topic, b"value", partition=0).result()
        count += 1
    return count / (time.monotonic() - began)
