from __future__ import annotations

import random
import zlib
from collections.abc import Mapping
from typing import Any

import pytest

from kqueue.base.errors import (
    InvalidRecord,
    InvalidRequest,
    TelemetryTooLarge,
    ThrottlingQuotaExceeded,
    UnknownSubscriptionId,
    UnsupportedCodec,
)
from kqueue.base.names import UUID_ZERO
from kqueue.base.promise import Promise
from kqueue.base.timers import Timers
from kqueue.broker.client_telemetry import subscriptions as client_telemetry
from kqueue.broker.client_telemetry.receivers import ClientMetricsPush, MemoryReceiver
from kqueue.broker.client_telemetry.subscriptions import (
    INTERVAL_MS_DEFAULT,
    ClientIdentity,
    ClientInstance,
    ClientTelemetry,
    identity_of,
)
from kqueue.records.codecs import CODECS
from kqueue.testing.manual_clock import ManualClock
from kqueue.testing.stepped_jobs import SteppedJobs
from kqueue.tests.broker.client_telemetry.otlp_payload import gauge, payload
from kqueue.tests.tables import for_each

PYTHON = ClientIdentity("orders-1", "kafka-python", "3.0", "127.0.0.1", "5000")
JAVA = ClientIdentity("billing", "apache-kafka-java", "4.3.0", "127.0.0.1", "5001")
ID = b"0123456789abcdef"
DATA = payload(gauge("g", 1))


class Subscriptions:
    """Client metrics resources."""

    def __init__(self) -> None:
        self.generation = 0
        self.resources: dict[str, dict[str, Any]] = {}

    def put(self, name: str, metrics: list[str], interval_ms: int = 1000, match: list[str] | None = None) -> None:
        self.generation += 1
        self.resources[name] = {"metrics": metrics, "interval.ms": interval_ms, "match": match or []}

    def names(self) -> list[str]:
        return sorted(self.resources)

    def values(self, resource: str) -> Mapping[str, Any]:
        return self.resources[resource]


class World:
    """Telemetry on a manual clock."""

    def __init__(self, bytes_max: int = 1000) -> None:
        self.clock = ManualClock()
        self.timers = Timers(self.clock)
        self.subscriptions = Subscriptions()
        self.receiver = MemoryReceiver()
        self.jobs = SteppedJobs()
        self.woken: list[Promise[None]] = []
        self.telemetry = ClientTelemetry(
            self.subscriptions,
            self.receiver,
            bytes_max,
            clock=self.clock,
            rng=random.Random(1),
            timers=self.timers,
            jobs=self.jobs,
            wake=self.woken.append,
        )

    def advance(self, ms: float) -> None:
        self.clock.advance(ms)
        self.timers.run_due(self.clock.monotonic_ms())

    def push(self, instance: ClientInstance, data: bytes = DATA, codec_id: int = 0, **given: Any) -> None:
        subscription_id = given.pop("subscription_id", instance.subscription_id)
        terminating = given.pop("terminating", False)
        promise = self.telemetry.push(instance.id, PYTHON, subscription_id, codec_id, data, terminating=terminating)
        assert promise.done is not bool(data), "a payload is read in a job"
        self.jobs.run_all()
        assert self.woken == [promise] * bool(data)
        self.woken.clear()
        promise.result()


def test_a_client_without_a_subscription_asks_again_later() -> None:
    instance = World().telemetry.subscribe(UUID_ZERO, PYTHON)
    assert (instance.metrics, instance.interval_ms) == ([], INTERVAL_MS_DEFAULT)
    assert instance.id != UUID_ZERO


def test_all_subscriptions_that_match_are_joined() -> None:
    world = World()
    world.subscriptions.put("all", ["org.apache.kafka.producer."], 5000)
    world.subscriptions.put("python", ["org.apache.kafka.consumer."], 2000, ["client_software_name=kafka-.*"])
    world.subscriptions.put("java", ["*"], 100, ["client_software_name=apache.*", "client_id=bill.*"])
    world.subscriptions.put("off", [], 100)
    python, java = (world.telemetry.subscribe(id, one) for id, one in ((b"a" * 16, PYTHON), (b"b" * 16, JAVA)))
    assert python.metrics == ["org.apache.kafka.consumer.", "org.apache.kafka.producer."]
    assert python.interval_ms == 2000
    assert (java.metrics, java.interval_ms) == (["*"], 100)
    assert python.subscription_id != java.subscription_id
    assert -(2**31) <= python.subscription_id < 2**31


def test_a_push_reaches_the_receiver() -> None:
    world = World()
    world.subscriptions.put("all", ["*"])
    instance = world.telemetry.subscribe(ID, PYTHON)
    world.push(instance)
    (push,) = world.receiver.pushes
    assert (push.client_id, push.software_name, push.software_version) == PYTHON[:3]
    assert (push.address, push.terminating, push.payload) == ("127.0.0.1", False, DATA)
    assert [metric.name for metric in push.metrics] == ["g"]
    world.advance(1000)
    world.push(instance, b"")
    assert len(world.receiver.pushes) == 1, "an empty push only says that the client is there"


@for_each("has_receiver", [True, False])
def test_a_push_is_forwarded_beside_the_receiver_or_without_one(has_receiver: bool) -> None:
    world = World()
    if not has_receiver:
        world.telemetry.receiver = None
    assert world.telemetry.is_enabled is has_receiver
    forwarded: list[ClientMetricsPush] = []
    world.telemetry.forward_to(forwarded.append)
    assert world.telemetry.is_enabled
    world.push(world.telemetry.subscribe(ID, PYTHON))
    assert [push.payload for push in forwarded] == [DATA]
    assert len(world.receiver.pushes) == has_receiver


@for_each("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_pushes(codec: str) -> None:
    world = World()
    instance = world.telemetry.subscribe(ID, PYTHON)
    world.push(instance, CODECS.get(codec).compress(DATA), CODECS.get(codec).id)
    assert world.receiver.pushes[0].payload == DATA


def test_pushes_and_questions_keep_their_interval() -> None:
    world = World()
    world.subscriptions.put("all", ["*"], 1000)
    instance = world.telemetry.subscribe(ID, PYTHON)
    with pytest.raises(ThrottlingQuotaExceeded, match="at most once in 1000 ms"):
        world.telemetry.subscribe(ID, PYTHON)
    world.push(instance)  # at once after a question
    for ms in (0, 999):
        world.advance(ms)
        with pytest.raises(ThrottlingQuotaExceeded):
            world.push(instance)
        with pytest.raises(ThrottlingQuotaExceeded):
            world.telemetry.subscribe(ID, PYTHON)
    world.advance(1)
    world.push(instance)
    world.advance(1000)
    world.telemetry.subscribe(ID, PYTHON)


def test_the_last_push_may_come_early_and_ends_the_session() -> None:
    world = World()
    instance = world.telemetry.subscribe(ID, PYTHON)
    world.push(instance)
    world.push(instance, terminating=True)
    assert [push.terminating for push in world.receiver.pushes] == [False, True]
    with pytest.raises(InvalidRequest, match="has pushed its last metrics"):
        world.push(instance)


def test_a_change_of_subscriptions_makes_the_client_ask_again() -> None:
    world = World()
    world.subscriptions.put("all", ["a."])
    instance = world.telemetry.subscribe(ID, PYTHON)
    world.push(instance)
    world.subscriptions.put("all", ["b."])
    world.advance(1000)
    with pytest.raises(UnknownSubscriptionId):
        world.push(instance)
    changed = world.telemetry.subscribe(ID, PYTHON)  # at once
    assert changed.metrics == ["b."]
    world.push(changed)
    assert len(world.receiver.pushes) == 2


def test_a_push_without_an_id_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="client instance id"):
        World().telemetry.push(UUID_ZERO, PYTHON, 0, 0, b"", terminating=False)


@for_each(
    "given, error",
    [
        ({"subscription_id": 7}, UnknownSubscriptionId),
        ({"codec_id": 5}, UnsupportedCodec),
        ({"codec_id": -1}, UnsupportedCodec),
        ({"data": b"x" * 1001}, TelemetryTooLarge),
        ({"data": b"\x0b"}, InvalidRecord),
        ({"data": b"no gzip", "codec_id": 1}, InvalidRecord),
        ({"data": zlib.compress(bytes(100_000), wbits=31), "codec_id": 1}, InvalidRecord),
    ],
)
def test_bad_pushes_are_refused_and_not_received(given: dict[str, Any], error: type[Exception]) -> None:
    world = World()
    instance = world.telemetry.subscribe(ID, PYTHON)
    with pytest.raises(error):
        world.push(instance, **given)
    assert world.receiver.pushes == []
    if error in (UnknownSubscriptionId, UnsupportedCodec):
        world.telemetry.subscribe(ID, PYTHON)  # these clients ask at once what is right
    else:
        with pytest.raises(ThrottlingQuotaExceeded):
            world.telemetry.subscribe(ID, PYTHON)


def test_a_receiver_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    world = World()

    def fail(push: object) -> None:
        raise RuntimeError("no")

    world.telemetry.receiver = fail
    with pytest.raises(InvalidRecord, match="the broker's log says why"):
        world.push(world.telemetry.subscribe(ID, PYTHON))
    assert "RuntimeError('no')" in caplog.text


def test_idle_clients_are_forgotten() -> None:
    world = World()
    world.subscriptions.put("all", ["*"], 100_000)
    world.telemetry.subscribe(ID, PYTHON)
    world.advance(300_000)
    assert len(world.telemetry) == 1
    world.advance(60_000)
    assert len(world.telemetry) == 0


def test_clients_in_memory_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_telemetry, "INSTANCES_MAX", 3)
    world = World()
    for number in range(10):
        world.telemetry.subscribe(bytes([number]) * 16, PYTHON)
    assert len(world.telemetry) == 3
    with pytest.raises(ThrottlingQuotaExceeded):
        world.telemetry.subscribe(bytes([9]) * 16, PYTHON)


def test_a_stored_pattern_that_is_not_allowed_any_more_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.subscriptions.put("bad", ["*"], 100, ["client_id=(a{100})"])
    assert world.telemetry.subscribe(ID, PYTHON).metrics == []
    assert "client metrics subscription bad is ignored" in caplog.text


def test_an_identity_is_cut() -> None:
    identity = identity_of("c" * 1000, ("s" * 1000, "1"), "127.0.0.1", "5000")
    assert [len(part) for part in identity] == [64, 64, 1, 9, 4]
    assert identity_of(None, ("", ""), "", "").client_id == ""
