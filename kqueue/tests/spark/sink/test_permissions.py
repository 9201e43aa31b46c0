"""Users of the sink need the permissions that docs/spark.md lists."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import kqueue
from kqueue.client import Client
from kqueue.client.errors import BrokerRefused
from kqueue.spark.sink.producer_pipeline import drop_idle_producers
from kqueue.spark.sink.row_partitioning import check_target
from kqueue.spark.sink.transaction_ids import check_transactions
from kqueue.spark.sink.write_task import send_rows
from kqueue.tests.spark.sink.exactly_once import ROWS, Killed, after_calls, die, run_batch, watched
from kqueue.tests.spark.sink.helpers import options_for, rows_of


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[kqueue.Broker]:
    drop_idle_producers()
    with kqueue.Broker(acls=request.param) as running:
        running.create_topic("out", 3)
        yield running
    drop_idle_producers()


def values(broker: kqueue.Broker) -> list[str]:
    return sorted((record.value or b"").decode() for record in broker.topics["out"].records(read_committed=True))


@pytest.mark.parametrize("broker", [["User:ANONYMOUS allow write topic:out"]], indirect=True)
def test_at_least_once_needs_write_alone(broker: kqueue.Broker) -> None:
    options = options_for(broker, topic="out", kafka_compression_type="zstd")
    check_target(options)
    send_rows(options, [rows_of(ROWS)])
    assert values(broker) == sorted(ROWS)


@pytest.mark.parametrize(
    "broker",
    [
        [
            "User:ANONYMOUS allow read,write topic:out",
            "User:ANONYMOUS allow create,read,write,delete topic prefixed:_kqueue-sink-",
        ]
    ],
    indirect=True,
)
def test_exactly_once_also_needs_its_own_topics(broker: kqueue.Broker) -> None:
    options = options_for(broker, topic="out", delivery="exactly-once", stagingPartitions=2, kafka_batch_size=200)
    for batch, moment in enumerate((2, 20, 30)):
        killed = []
        try:
            run_batch(options, batch, [ROWS[:60], ROWS[60:]], watched(after_calls(moment, die)))
        except Killed:
            killed.append(moment)
            run_batch(options, batch, [ROWS[:60], ROWS[60:]])
        assert killed
        assert values(broker) == sorted(ROWS * (batch + 1))


@pytest.mark.parametrize(
    "broker",
    [
        [
            "User:ANONYMOUS allow write topic:out",
            "User:ANONYMOUS allow create,read,write,delete topic prefixed:_kqueue-sink-",
            "User:ANONYMOUS allow write transactional_id prefixed:_kqueue-sink-",
        ]
    ],
    indirect=True,
)
def test_transactions_also_need_their_own_ids(broker: kqueue.Broker) -> None:
    options = options_for(broker, topic="out", delivery="transactional", stagingPartitions=1)
    with Client(options.client) as client:
        check_transactions(client, 900_001)  # which only the broker may know
    run_batch(options, 0, [ROWS[:60], ROWS[60:]])
    assert values(broker) == sorted(ROWS)


@pytest.mark.parametrize(
    "broker", [["User:ANONYMOUS allow describe topic:out", "User:ANONYMOUS allow write topic:other"]], indirect=True
)
def test_denied_topic_is_named_and_nothing_is_written(broker: kqueue.Broker) -> None:
    words = r"Produce of out-\d: TOPIC_AUTHORIZATION_FAILED .*let this client's user do it"
    with pytest.raises(BrokerRefused, match=words):
        send_rows(options_for(broker, topic="out"), [rows_of(ROWS)])
    assert values(broker) == []
