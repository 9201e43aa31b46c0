from __future__ import annotations

from pathlib import Path

import pytest

import kqueue
from kqueue.client import Client, TopicPartition
from kqueue.spark.errors import OptionError
from kqueue.spark.source.lag import QueryLag, SourceLag, TopicLag
from kqueue.tests.spark.source.logs import BEGIN_MS, batch, send

NOW_S = BEGIN_MS / 1_000 + 60
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def lag_of(broker: kqueue.Broker, **given: object) -> SourceLag:
    source = {"kafka.bootstrap.servers": broker.bootstrap, **(given or {"subscribe": "t"})}
    return SourceLag(source, now_ms=lambda: NOW_S * 1_000)


def test_lag_is_measured_by_topic(broker: kqueue.Broker) -> None:
    broker.create_topic("t", 2)
    broker.create_topic("u", 1)
    send(broker, "t", 0, 100, time_ms=BEGIN_MS + 10_000)
    send(broker, "t", 1, 10, time_ms=BEGIN_MS)
    lag = lag_of(broker, subscribe="t,u")
    stored = len(batch([b"x" * 10] * 100))
    lags = lag.measure({T0: 0, T1: 0, U0: 0})
    assert lags == {"t": TopicLag(110, round(110 * stored / 100), 60.0), "u": TopicLag()}
    assert lag.measure({T0: 40, T1: 10, U0: 0})["t"] == TopicLag(60, round(60 * stored / 60), 49.96)
    assert lag.measure({T0: 100, T1: 10, U0: 0})["t"] == TopicLag(0, 0, 0.0)
    assert lag.measure({T0: 100, U0: 0})["t"].records == 10, "a new partition is read from its start"
    lag.close()


def test_lag_excludes_deleted_records_and_is_never_negative(broker: kqueue.Broker) -> None:
    broker.create_topic("t", 1)
    for number in range(3):
        send(broker, "t", 0, 10, time_ms=BEGIN_MS + number * 100_000)
    lag = lag_of(broker)
    with Client(broker.bootstrap) as client:
        client.delete_records({T0: 15})
    assert lag.measure({T0: 0})["t"].records == 15
    assert lag.measure({T0: 0})["t"].seconds == 0.0, "its record is from the future"
    lag.close()


def test_records_without_a_time_have_no_lag_in_seconds(broker: kqueue.Broker) -> None:
    broker.create_topic("t", 1)
    send(broker, "t", 0, 10, time_ms=-1_000)
    lag = lag_of(broker)
    assert lag.measure({T0: 4})["t"].seconds is None
    lag.close()


def test_lag_of_a_folder_is_measured(tmp_path: Path) -> None:
    with kqueue.Broker(tmp_path) as broker:
        broker.create_topic("t", 1)
        send(broker, "t", 0, 10)
    lags = SourceLag({"path": tmp_path, "subscribe": "t"}, now_ms=lambda: NOW_S * 1_000).measure({T0: 4})
    assert (lags["t"].records, lags["t"].seconds) == (6, 59.996)


def test_source_recognizes_its_queries_by_topic_ids(broker: kqueue.Broker) -> None:
    broker.create_topic("t", 1)
    with kqueue.Broker(auto_create_topics_enable=False) as other:
        other.create_topic("t", 1)
        here, there = lag_of(broker), lag_of(other)
        ids, others = here._reader.topic_ids(["t"]), there._reader.topic_ids(["t"])
        assert here.reads({T0: 0}, ids)
        assert here.reads({T0: 0}, {}), "its checkpoint is older than topic ids"
        assert not here.reads({T0: 0}, others)
        assert not here.reads({T0: 0, U0: 0}, ids)
        assert not here.reads({}, {})
        pattern, assigned = lag_of(broker, subscribePattern="t|u"), lag_of(broker, assign='{"u":[0]}')
        assert pattern.reads({T0: 0, U0: 0}, ids)
        assert not assigned.reads({T0: 0}, ids)
        for one in (here, there, pattern, assigned):
            one.close()


def test_the_options_are_checked_at_once_and_requests_bounded() -> None:
    source = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "t"}
    with pytest.raises(OptionError, match="no option 'subscribed'"):
        SourceLag({**source, "subscribed": "t"})
    client = SourceLag({**source, "Kafka.Request.Timeout.MS": 60_000}).options.client
    assert client.timeout_ms == client.request_timeout_ms == 5_000


def test_lags_are_summed_and_shown_in_one_line() -> None:
    one, other = TopicLag(10, 1_000, 5.0), TopicLag(20, 2_000, None)
    assert one.plus(other) == TopicLag(30, 3_000, 5.0)
    assert TopicLag().plus(other) == TopicLag(20, 2_000, None)
    assert TopicLag().plus(TopicLag()) == TopicLag(0, 0, 0.0)
    lag = QueryLag("id", "orders", 7, 0, {"t": one, "u": other})
    assert (lag.records, lag.bytes, lag.seconds) == (30, 3_000, 5.0)
    assert str(lag) == "orders: 30 records behind after batch 7, about 3.0 kB, the oldest 5.0 s old"
    assert str(QueryLag("id", None, 7, 0, {"t": TopicLag()})) == "id: nothing to read after batch 7"
