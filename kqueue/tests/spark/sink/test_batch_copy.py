from __future__ import annotations

import itertools

import pytest

import kqueue
from kqueue.client import Client, TopicPartition
from kqueue.spark.errors import StagingLost
from kqueue.spark.sink import batch_commit, batch_copy, producer_pipeline
from kqueue.spark.sink.options import SinkOptions
from kqueue.spark.sink.write_task import BatchIdentity, stage_rows
from kqueue.tests.spark.sink.exactly_once import QUERY, ROWS, run_batch
from kqueue.tests.spark.sink.helpers import records_in, rows_of
from kqueue.tests.thorough import corners


@pytest.mark.parametrize("held_bytes", corners([1, 1_000, 10_000_000], 1, 10_000_000))
@pytest.mark.parametrize("fetch_bytes", corners([1, 1_000], 1_000))
def test_each_tasks_rows_keep_their_order_however_they_lie(
    broker: kqueue.Broker, options: SinkOptions, monkeypatch: pytest.MonkeyPatch, held_bytes: int, fetch_bytes: int
) -> None:
    monkeypatch.setattr(batch_copy, "HELD_BYTES_MAX", held_bytes)
    monkeypatch.setattr(batch_copy, "STAGING_FETCH_BYTES", fetch_bytes)
    monkeypatch.setattr(producer_pipeline, "ROUND_BYTES_MAX", 1_000)
    tasks = [[f"{task} {row}" for row in ROWS] for task in range(3)]
    run_batch(options, 0, tasks)
    records = records_in(broker, "out")
    assert sorted((one.value or b"").decode() for part in records.values() for one in part) == sorted(
        itertools.chain(*tasks)
    )
    for part, task in itertools.product(records.values(), "012"):
        mine = [one.value for one in part if (one.value or b"").startswith(task.encode())]
        assert mine == sorted(mine, key=lambda value: value or b"")


def test_staged_records_that_were_deleted_are_reported(
    broker: kqueue.Broker, options: SinkOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = stage_rows(options, BatchIdentity(QUERY, 0, 0), [rows_of(ROWS)])
    with Client(options.client) as client:
        client.delete_records(
            {TopicPartition("_kqueue-sink-" + QUERY, staging_partition): -1 for staging_partition in (1, 2)}
        )
        with pytest.raises(
            StagingLost, match=r"_kqueue-sink-3f1c-1: what was staged at 0 is gone, by retention or by hand; the rows"
        ):
            batch_commit.commit(client, QUERY, 0, outcome.staged)
