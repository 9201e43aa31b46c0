from __future__ import annotations

from itertools import pairwise

import pytest

import kqueue
from kqueue.client import Client
from kqueue.records.batch import iter_batches
from kqueue.spark.errors import RowRefused
from kqueue.spark.sink.options import SinkOptions
from kqueue.spark.sink.write_task import BatchIdentity, send_rows, stage_rows
from kqueue.tests.spark.sink.exactly_once import QUERY, ROWS, run_batch
from kqueue.tests.spark.sink.helpers import options_for, records_in, rows_of, values_in


def test_staged_rows_are_invisible_before_the_commit(broker: kqueue.Broker, options: SinkOptions) -> None:
    outcome = stage_rows(options, BatchIdentity(QUERY, 0, 0), [rows_of(ROWS)])
    assert outcome.staged
    assert values_in(broker, "out") == []


def test_a_repeated_task_of_a_batch_that_is_done_stages_nothing(broker: kqueue.Broker, options: SinkOptions) -> None:
    run_batch(options, 0, [ROWS])
    assert stage_rows(options, BatchIdentity(QUERY, 0, 0), [rows_of(ROWS)]).staged is None
    assert values_in(broker, "out") == sorted(ROWS)


def stored_bytes(broker: kqueue.Broker, topic: str) -> list[int]:
    """The size of each batch of the only partition."""
    with Client(broker.bootstrap) as client:
        data = client.fetch({(topic, 0): 0})[(topic, 0)].records  # type: ignore[dict-item]
    positions = [position for position, _ in iter_batches(data)]
    return [end - begin for begin, end in pairwise([*positions, len(data)])]


@pytest.mark.parametrize(("codec", "low", "high"), [("gzip", 1, 9), ("lz4", 9, 17), ("zstd", -50, 19)])
def test_a_higher_level_makes_smaller_batches(broker: kqueue.Broker, codec: str, low: int, high: int) -> None:
    rows = rows_of(f"{number * 7919 % 1009} of {number}" for number in range(2000))
    sizes = []
    for level in (low, high):
        broker.create_topic(f"level{level}")
        given = {"kafka_compression_type": codec, f"kafka_compression_{codec}_level": level}
        send_rows(options_for(broker, topic=f"level{level}", **given), [rows])
        sizes.append(sum(stored_bytes(broker, f"level{level}")))
        assert len(values_in(broker, f"level{level}")) == 2000
    assert sizes[1] < sizes[0]


def test_no_batch_is_larger_than_max_request_size(broker: kqueue.Broker) -> None:
    broker.create_topic("small")
    options = options_for(broker, topic="small", kafka_max_request_size=5_000)
    send_rows(options, [rows_of("x" * 1_000 for _ in range(10))])
    assert len(values_in(broker, "small")) == 10
    assert max(stored_bytes(broker, "small")) <= 5_000
    with pytest.raises(RowRefused, match=r"a row for small-0 takes 1\d{4} bytes .* kafka.max.request.size is 5000"):
        send_rows(options, [rows_of(["x" * 6_000])])
    assert len(values_in(broker, "small")) == 10


def test_keys_are_ignored_where_asked_for(broker: kqueue.Broker) -> None:
    for topic, ignored in (("by-key", "false"), ("ignored", "true")):
        broker.create_topic(topic, 4)
        rows = rows_of(["x" * 1_000] * 100)
        send_rows(options_for(broker, topic=topic, kafka_partitioner_ignore_keys=ignored), [rows])
    filled = [sum(map(bool, records_in(broker, topic).values())) for topic in ("by-key", "ignored")]
    assert filled[0] == 1
    assert filled[1] > 1
