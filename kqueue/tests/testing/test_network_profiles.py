"""Slow networks: what arrives when, on a clock that the tests set, and as clients meet it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from kafka import KafkaProducer

import kqueue
from kqueue.testing import NETWORK_PROFILES, NetworkProfile, faults
from kqueue.testing.network_profiles import RETRANSMISSION_MS, _Direction, network_profile
from kqueue.tests.tables import for_each
from kqueue.tests.waits import eventually

HOUR_MS = 3_600_000


def direction(seed: int = 0, **values: float) -> _Direction:
    return _Direction(NetworkProfile(**values), Random(seed))


def test_a_message_arrives_after_latency_jitter_and_its_transmission() -> None:
    assert direction(latency_ms=40).arrival_ms(1000, 10**6) == 1040
    assert direction(bytes_per_s=1000).arrival_ms(1000, 500) == 1500
    assert 1010 <= direction(latency_ms=10, jitter_ms=5).arrival_ms(1000, 1) <= 1015


def test_messages_wait_for_the_transmission_of_those_before_them() -> None:
    slow = direction(latency_ms=100, bytes_per_s=1000)
    assert [slow.arrival_ms(0, 500), slow.arrival_ms(0, 500), slow.arrival_ms(2000, 100)] == [600, 1100, 2200]


def test_messages_arrive_in_their_order_whatever_the_jitter() -> None:
    uneven = direction(latency_ms=1, jitter_ms=100)
    arrivals = [uneven.arrival_ms(number, 1) for number in range(100)]
    assert arrivals == sorted(arrivals)
    assert len(set(arrivals)) > 5


def test_a_loss_costs_a_retransmission() -> None:
    lossy = direction(loss=0.5)
    delays = [lossy.arrival_ms(now, 1) - now for now in range(0, 100 * HOUR_MS, HOUR_MS)]
    assert set(delays) >= {0, RETRANSMISSION_MS, 2 * RETRANSMISSION_MS}


def test_delays_are_the_same_for_the_same_seed() -> None:
    def arrivals(seed: int) -> list[float]:
        profile = NETWORK_PROFILES["flaky"]
        one = _Direction(profile, Random(seed))
        return [one.arrival_ms(now * 1000, 100) for now in range(50)]

    assert arrivals(1) == arrivals(1)
    assert arrivals(1) != arrivals(2)


@for_each(
    "values, message",
    [
        ({"latency_ms": -1}, "latency_ms=-1: expected a number, 0 or more"),
        ({"latency_ms": float("inf")}, "latency_ms=inf"),
        ({"jitter_ms": "5"}, "jitter_ms='5': expected a number"),
        ({"bytes_per_s": 0}, "bytes_per_s=0: expected a number above 0"),
        ({"loss": 1}, "loss=1: expected 0 or more, below 1"),
        ({"disconnects": 2}, "disconnects=2: expected 0 to 1"),
    ],
)
def test_a_value_out_of_its_range_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        NetworkProfile(**values)


def test_profiles_have_names() -> None:
    assert {"lan", "wan", "3g", "flaky"} <= set(NETWORK_PROFILES)
    assert network_profile("3G") is NETWORK_PROFILES["3g"]
    with pytest.raises(
        ValueError, match="no network profile 'satelite'; did you mean 'satellite'.*there are: lan, wan"
    ):
        network_profile("satelite")
    with pytest.raises(TypeError, match="profile=3: expected one of lan"):
        network_profile(3)  # type: ignore[arg-type]


# --- in a broker


def produced(broker: kqueue.Broker, producer: KafkaProducer, advance: Callable[[], None]) -> float:
    """Send a record while `advance` moves the broker's time; return how long it took by that."""
    start_ms = broker._time.monotonic_ms()
    future = producer.send("orders", b"two coffees")
    sender = threading.Thread(target=producer.flush)
    sender.start()
    eventually(lambda: advance() or future.is_done)
    sender.join()
    return broker._time.monotonic_ms() - start_ms


def test_a_request_and_its_response_each_take_the_latency_of_the_brokers_clock() -> None:
    with kqueue.Broker() as broker, faults(broker) as made:
        broker.create_topic("orders")
        with KafkaProducer(bootstrap_servers=broker.bootstrap, client_id="slow", acks=1) as producer:
            producer.send("orders", b"first").get(60)
            with made.shape_network(latency_ms=HOUR_MS, client_id="slow") as shape:
                steps = 0

                def half_an_hour() -> None:
                    nonlocal steps
                    if shape.count:  # the request is under way
                        steps += 1
                        broker.clock.advance(ms=HOUR_MS / 2)

                took_ms = produced(broker, producer, half_an_hour)
            assert took_ms >= 2 * HOUR_MS
            assert steps >= 4
        broker.assert_produced("orders", [b"first", b"two coffees"])


def test_other_clients_and_listeners_are_not_slowed_down() -> None:
    listeners = ["PLAINTEXT://127.0.0.1:0", "OTHER://127.0.0.1:0"]
    protocols = {"PLAINTEXT": "PLAINTEXT", "OTHER": "PLAINTEXT"}
    mapping = ",".join(f"{name}:{protocol}" for name, protocol in protocols.items())
    with (
        kqueue.Broker(listeners=listeners, listener_security_protocol_map=mapping) as broker,
        faults(broker) as made,
        KafkaProducer(bootstrap_servers=broker.bootstrap, client_id="fast", acks=1) as producer,
    ):
        of_client = made.shape_network(latency_ms=HOUR_MS, client_id="slow")
        of_listener = made.shape_network(latency_ms=HOUR_MS, listener="OTHER")
        producer.send("orders", b"two coffees").get(60)
        assert (of_client.count, of_listener.count) == (0, 0)
        with pytest.raises(ValueError, match="no listener 'OTHERS'; did you mean 'OTHER'"):
            made.shape_network("wan", listener="OTHERS")


def test_the_end_of_a_slow_network_delivers_what_is_on_its_way() -> None:
    with kqueue.Broker() as broker, faults(broker) as made:
        with KafkaProducer(bootstrap_servers=broker.bootstrap, acks=1) as producer:
            producer.send("orders", b"first").get(60)
            shape = made.shape_network(latency_ms=HOUR_MS)
            future = producer.send("orders", b"two coffees")
            shape.wait(timeout_s=60)
            shape.cancel()
            future.get(60)
            producer.send("orders", b"one tea").get(60)
        broker.assert_produced("orders", [b"first", b"two coffees", b"one tea"])


def test_a_network_that_disconnects_closes_connections() -> None:
    profile = NetworkProfile(disconnects=1)
    with kqueue.Broker() as broker, faults(broker) as made:
        with KafkaProducer(bootstrap_servers=broker.bootstrap, acks=1, retry_backoff_ms=10) as producer:
            producer.send("orders", b"first").get(60)
            with made.shape_network(profile) as shape:
                future = producer.send("orders", b"two coffees")
                shape.wait(timeout_s=60)
            future.get(60)
        assert made.fired[0].fault == "shape_network of all clients"


def test_a_script_has_slow_networks() -> None:
    with kqueue.Broker() as broker, faults(broker) as made:
        (shape,) = made.script([{"shape_network": "3g", "client_id": "shop"}])
        assert shape.which.client_id == "shop"
        with pytest.raises(ValueError, match="expected a profile"):
            made.shape_network()
