from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

import kqueue
from kqueue.spark.source.lag import QueryLag
from kqueue.spark.source.lag_watch import ENDED_MAX, LagWatch
from kqueue.tests.spark.source.logs import send

WAIT_S = 30
SOMETIME_S = 3_600.0


def started(broker: kqueue.Broker, every_s: float = SOMETIME_S, **how: Any) -> LagWatch:
    return LagWatch([{"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "t"}], every_s, **how)


def telling() -> tuple[threading.Semaphore, Callable[[QueryLag], None]]:
    told = threading.Semaphore(0)
    return told, lambda _: told.release()


def ends(offset: int) -> str:
    return json.dumps({"t": {"0": offset}})


def test_each_query_is_measured_after_its_batch(broker: kqueue.Broker) -> None:
    broker.create_topic("t", 1)
    send(broker, "t", 0, 10)
    watch = started(broker)
    assert watch.refresh(WAIT_S), "there is no query"
    watch.note("a", "first", 3, [ends(4), None, "17"])
    watch.note("b", None, 0, [ends(10), json.dumps({"other": {"0": 1}})])
    watch.note("c", None, 0, ["null"])
    assert watch.refresh(WAIT_S)
    assert {query: one.records for query, one in watch.latest.items()} == {"a": 6, "b": 0}
    assert (watch.latest["a"].name, watch.latest["a"].batch, watch.latest["a"].running) == ("first", 3, True)
    watch.note("a", "first", 4, [ends(7), ends(9)])
    assert watch.refresh(WAIT_S)
    assert watch.latest["a"].records == 4, "the query has two sources of the topic"
    watch.close()


def test_a_query_is_measured_between_batches_too(broker: kqueue.Broker) -> None:
    broker.create_topic("t", 1)
    told, tell = telling()
    watch = started(broker, every_s=0.01, tell=tell)
    watch.note("a", None, 0, [ends(0)])
    for _ in range(3):
        assert told.acquire(timeout=WAIT_S)
    assert watch.latest["a"].records == 0
    watch.close()
    watch.note("a", None, 1, [ends(0)])  # of no effect, as is a second close
    watch.close()


def test_the_last_measurement_of_a_query_stays(broker: kqueue.Broker) -> None:
    broker.create_topic("t", 1)
    send(broker, "t", 0, 5)
    watch = started(broker)
    watch.end("unknown")
    for number in range(ENDED_MAX + 3):
        watch.note(str(number), None, 0, [ends(0)])
    assert watch.refresh(WAIT_S)
    assert len(watch.latest) == ENDED_MAX + 3
    for number in range(ENDED_MAX + 2):
        watch.end(str(number))
    assert watch.refresh(WAIT_S)
    assert len(watch.latest) == ENDED_MAX + 1
    assert not watch.latest["50"].running
    assert watch.latest["50"].records == 5
    assert watch.latest[str(ENDED_MAX + 2)].running
    watch.close()


def test_a_failure_is_logged_once_until_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    with kqueue.Broker(acls=["User:ANONYMOUS allow describe topic:u"]) as broker:
        watch = LagWatch([{"kafka.bootstrap.servers": broker.bootstrap, "assign": '{"t":[0]}'}], SOMETIME_S)
        with caplog.at_level(logging.WARNING, "kqueue.spark"):
            for number in range(2):
                watch.note("a", None, number, [ends(0)])
                assert watch.refresh(WAIT_S)
            watch.end("a")
            assert watch.refresh(WAIT_S)
        watch.close()
    assert watch.latest == {}
    assert len([one for one in caplog.records if "how far queries are behind" in one.message]) == 1
