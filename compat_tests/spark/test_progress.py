"""`LagListener` measures the lag of running queries."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import kqueue
from compat_tests.spark.sending import NOW_MS, send
from compat_tests.waits import look_until
from kqueue.spark.progress import LagListener, QueryLag

NewTopic = Callable[..., str]
DEADLINE_S = 240


def test_lag_of_a_running_query_falls_to_zero(
    spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic, checkpoint: str, tmp_path: Path
) -> None:
    """While its first batch is held, more records arrive; then it reads them, and ends."""
    topic = new_topic(2)
    reading = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    send(broker, topic, 0, [b"x" * 100] * 30)
    told: list[QueryLag] = []
    listener = LagListener(reading, tell=told.append)
    go_on, held = threading.Event(), threading.Event()

    def take(frame: DataFrame, batch: int) -> None:
        if batch == 1:
            held.set()
            assert go_on.wait(DEADLINE_S)

    frame = spark.readStream.format("kqueue").options(**reading, maxOffsetsPerTrigger="10").load()
    spark.streams.addListener(listener)
    query = frame.writeStream.queryName("behind").foreachBatch(take).option("checkpointLocation", checkpoint).start()
    try:
        assert held.wait(DEADLINE_S)
        send(broker, topic, 1, [b"y" * 1_000] * 5, time_ms=NOW_MS)
        look_until(lambda: listener.latest, lambda latest: query.id in latest, "the query", DEADLINE_S)
        assert listener.refresh(DEADLINE_S)
        lag = listener.latest[query.id]
        assert (lag.name, lag.batch, lag.running) == ("behind", 0, True)
        assert (lag.records, list(lag.topics)) == (25, [topic])
        assert lag.bytes > 20 * 100
        assert lag.seconds is not None
        assert lag.seconds > 0
        assert str(listener).startswith("behind: 25 records behind after batch 0, about ")
        go_on.set()
        look_until(lambda: listener.latest[query.id], lambda lag: lag.records == 0, "all records are read", DEADLINE_S)
        assert listener.latest[query.id].seconds == 0.0
    finally:
        go_on.set()
        query.stop()
    look_until(lambda: listener.latest[query.id], lambda lag: not lag.running, "the query ends", DEADLINE_S)
    spark.streams.removeListener(listener)
    listener.close()
    assert told[-1] == listener.latest[query.id]
    assert str(listener) == ""
