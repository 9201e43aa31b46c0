"""How far queries are behind, measured by `LagListener`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import kqueue
from compat_tests.spark.sending import NOW_MS, send
from kqueue.spark.progress import LagListener, QueryLag

NewTopic = Callable[..., str]
DEADLINE_S = 240


def until(condition: Callable[[], bool], listener: LagListener) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, listener.latest
        time.sleep(0.1)


def test_how_far_a_query_is_behind(
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
        until(lambda: query.id in listener.latest, listener)
        assert listener.refresh(DEADLINE_S)
        found = listener.latest[query.id]
        assert (found.name, found.batch, found.running) == ("behind", 0, True)
        assert (found.records, list(found.topics)) == (25, [topic])
        assert found.bytes > 20 * 100
        assert found.seconds is not None
        assert found.seconds > 0
        assert str(listener).startswith("behind: 25 records behind after batch 0, about ")
        go_on.set()
        until(lambda: listener.latest[query.id].records == 0, listener)
        assert listener.latest[query.id].seconds == 0.0
    finally:
        go_on.set()
        query.stop()
    until(lambda: not listener.latest[query.id].running, listener)
    spark.streams.removeListener(listener)
    listener.close()
    assert told[-1] == listener.latest[query.id]
    assert str(listener) == ""
