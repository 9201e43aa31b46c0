from __future__ import annotations

import pytest

import kqueue
from kqueue.client import Client
from kqueue.spark.errors import StagingLost
from kqueue.spark.sink.journal import Journal
from kqueue.spark.sink.options import SinkOptions
from kqueue.tests.spark.sink.exactly_once import QUERY, ROWS, run_batch, watched


def test_one_producer_writes_all_batches_and_its_sequences_go_on(broker: kqueue.Broker, options: SinkOptions) -> None:
    ids = set()
    for batch_id in range(3):
        run_batch(options, batch_id, [ROWS])
        with Client(options.client) as client:
            ids.add(Journal(client, QUERY).read().producer)
    assert len(ids) == 1


def test_a_topic_that_is_no_staging_topic_is_left_alone(broker: kqueue.Broker, options: SinkOptions) -> None:
    broker.create_topic("_kqueue-sink-" + QUERY)
    with pytest.raises(StagingLost, match="is no staging topic"):
        run_batch(options, 0, [["x"]])


def test_journal_truncated_while_read_is_read_to_its_end(broker: kqueue.Broker, options: SinkOptions) -> None:
    """Another driver has done a batch meanwhile."""
    run_batch(options, 0, [["a"]])
    dropped = []

    def do_another(name: str, before: bool) -> None:
        if name == "fetch" and before and not dropped:
            dropped.append(1)
            run_batch(options, 1, [["b"]])

    with watched(do_another)(options.client) as client:
        assert Journal(client, QUERY).read().done == 1
    assert dropped
