from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import kqueue
from kqueue.client import Client, ClientOptions, TopicPartition
from kqueue.client.errors import BrokerUnreachable
from kqueue.console.history.broker_metrics import BrokerMetrics, MetricsUnavailable
from kqueue.console.history.sampler import RETRY_SAMPLES, Sampler, wait_ms
from kqueue.console.history.series import Point
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.client.serving import batch
from kqueue.tests.waits import eventually

ZERO = TopicPartition("orders", 0)
STEP_MS = 10_000
NOWHERE = ClientOptions(bootstrap="127.0.0.1:1")


def unreachable(*arguments: object, **keywords: object) -> None:
    raise BrokerUnreachable("no broker answers")


@pytest.fixture
def without_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Client, "metadata", unreachable)


def values(points: list[Point]) -> list[float]:
    return [point.value for point in points if point.value is not None]


@pytest.fixture
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker() as broker:
        broker.create_topic("orders")
        yield broker


def test_a_cluster_is_sampled(broker: kqueue.Broker) -> None:
    clock = ManualClock()
    sampler = Sampler(ClientOptions(bootstrap=broker.bootstrap), clock=clock)
    with Client(broker.bootstrap) as client:
        client.produce({ZERO: batch([b"x"] * 100)})
        client.commit("billing", {ZERO: 100})
        sampler.sample()
        clock.advance(STEP_MS)
        client.produce({ZERO: batch([b"x"] * 100)})
        sampler.sample()
        clock.advance(STEP_MS)
        sampler.sample()
    sampler.stop()
    history = sampler.history
    assert values(history.topic_records("orders")) == [10, 0]
    assert values(history.group_lags("billing")) == [0, 100, 100]
    since = history.latest.groups["billing"].since
    assert since is not None
    assert since.time_ms == clock.wall_ms() - STEP_MS
    assert history.latest.problems == []
    assert values(history.cluster("brokers")) == [1, 1, 1]


def test_a_cluster_that_does_not_answer_is_a_gap_and_comes_back(
    broker: kqueue.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    sampler = Sampler(ClientOptions(bootstrap=broker.bootstrap), clock=clock)
    sampler.sample()
    clock.advance(STEP_MS)
    with monkeypatch.context() as patch:
        patch.setattr(Client, "metadata", unreachable)
        sampler.sample()
    assert sampler.history.latest.problems == ("no broker answers",)
    clock.advance(STEP_MS)
    sampler.sample()
    sampler.stop()
    assert [point.value for point in sampler.history.cluster("brokers")[-3:]] == [1, None, 1]


def test_an_error_that_nobody_foresaw_is_logged_and_a_gap(caplog: pytest.LogCaptureFixture) -> None:
    sampler = Sampler(NOWHERE, clock=ManualClock(), make_client=lambda options: object())  # type: ignore[arg-type,return-value]
    sampler.sample()
    assert "has no attribute" in sampler.history.latest.problems[0]
    assert "a sample of the cluster failed" in caplog.text


@pytest.mark.usefixtures("without_broker")
def test_metrics_that_can_not_be_read_are_named_and_asked_for_less_often() -> None:
    asked = []

    def read(url: str) -> str:
        asked.append(url)
        raise MetricsUnavailable(f"{url} can't be read: refused")

    clock = ManualClock()
    sampler = Sampler(NOWHERE, metrics=[BrokerMetrics("http://a", read=read)], clock=clock)
    for _ in range(RETRY_SAMPLES + 1):
        sampler.sample()
        clock.advance(STEP_MS)
        (load,) = sampler.history.loads
        assert (load.load, load.problem) == (None, "http://a/metrics can't be read: refused")
    sampler.stop()
    assert len(asked) == 2


@pytest.mark.usefixtures("without_broker")
def test_metrics_that_break_the_parser_are_named(caplog: pytest.LogCaptureFixture) -> None:
    def read(url: str) -> str:
        raise RecursionError

    sampler = Sampler(NOWHERE, metrics=[BrokerMetrics("http://a", read=read)], clock=ManualClock())
    sampler.sample()
    sampler.stop()
    assert sampler.history.loads[0].problem == "RecursionError"
    assert "can't be used" in caplog.text


def test_a_wall_clock_that_is_set_back_does_not_stop_the_history(broker: kqueue.Broker) -> None:
    clock = ManualClock()
    sampler = Sampler(ClientOptions(bootstrap=broker.bootstrap), clock=clock)
    sampler.sample()
    for _ in range(3):
        clock.advance(STEP_MS)
        clock.set_wall(1_000_000_000_000)
        sampler.sample()
    sampler.stop()
    assert len(values(sampler.history.cluster("brokers"))) == 4


def test_the_thread_samples_until_it_is_stopped(broker: kqueue.Broker) -> None:
    sampler = Sampler(ClientOptions(bootstrap=broker.bootstrap), interval_ms=3_600_000)
    assert not sampler.wait_for_first(0)
    sampler.start()
    sampler.start()
    assert sampler.wait_for_first(60)
    first_ms = sampler.history.latest.time_ms
    sampler.wake()
    eventually(lambda: sampler.history.latest.time_ms != first_ms, "a second sample, long before the interval ends")
    sampler.stop()
    assert "kqueue-console-history" not in [thread.name for thread in threading.enumerate()]


def test_samples_are_a_quarter_into_their_slot() -> None:
    assert wait_ms(1_002_600, 100, 10_000) == 9_900
    assert wait_ms(1_009_999, 100, 10_000) == 2_501
    assert wait_ms(1_002_500, 0, 10_000) == 10_000


def test_a_sample_that_takes_long_is_followed_by_a_longer_pause() -> None:
    assert wait_ms(1_007_500, 5_000, 10_000) == 25_000
