"""Runs queries of one topic: ``python compat_tests/spark/queries.py BOOTSTRAP FOLDER NAME...``.

The process can be killed. `kept` writes to Parquet, `once` to a topic exactly once, `whole` in
transactions, `least` to a topic at least once. The program first prints the location of kqueue; run
as a file from another folder, it uses the installed package.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

import kqueue
from kqueue.spark.session import QUIET_LOG, session

SOURCE = "orders"
DELIVERIES = {"once": "exactly-once", "whole": "transactional", "least": "at-least-once"}
COPIED = ("once", "kept", "least")
WHOLE = ("whole", "least")
"""The queries of one process, first the one that is watched. More need too much memory."""
SETTINGS: dict[str, object] = {
    "spark.driver.memory": "480m",
    "spark.driver.extraJavaOptions": (
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    ),
    "spark.sql.shuffle.partitions": 2,
}


def start(spark: SparkSession, bootstrap: str, folder: Path, name: str, *, once: bool = False) -> StreamingQuery:
    """Start or resume a query.

    Args: once: end when all current records are processed.
    """
    reading = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": SOURCE,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "300",
    }
    frame = spark.readStream.format("kqueue").options(**reading).load()
    writer = _to_files(frame, folder) if name == "kept" else _to_topic(frame, bootstrap, name)
    writer = writer.queryName(name).option("checkpointLocation", str(checkpoint(folder, name)))
    return (writer.trigger(availableNow=True) if once else writer).start()


def checkpoint(folder: Path, name: str) -> Path:
    return folder / "checkpoints" / name


def _to_files(frame: DataFrame, folder: Path) -> DataStreamWriter:
    return (
        frame.select("partition", "offset", "value").writeStream.format("parquet").option("path", str(folder / "kept"))
    )


def _to_topic(frame: DataFrame, bootstrap: str, name: str) -> DataStreamWriter:
    """Write to a topic after a shuffle, in small batches.

    The shuffle changes the row order when a batch is recomputed. Small batches make the copy take
    longer.
    """
    writing = {
        "kafka.bootstrap.servers": bootstrap,
        "topic": name,
        "delivery": DELIVERIES[name],
        "kafka.batch.size": "150",
    }
    return frame.select("key", "value").repartition(2).writeStream.format("kqueue").options(**writing)


def is_slow_start(error: Exception | None) -> bool:
    """Return whether a query failed because a Python process of it did not start in 10 s.

    No setting of Spark changes that time, and a busy machine may take longer.
    """
    return "failed to connect back" in str(error)


def main(bootstrap: str, folder: Path, names: Sequence[str]) -> None:
    assert QUIET_LOG.is_file()
    print(kqueue.__file__, flush=True)
    spark = session("killed", "local[2]", settings=SETTINGS | {"spark.local.dir": folder / "scratch"})
    running = {name: start(spark, bootstrap, folder, name) for name in names}
    while True:
        for name, query in running.items():
            if not query.isActive:
                if not is_slow_start(query.exception()):
                    query.awaitTermination()
                    return
                running[name] = start(spark, bootstrap, folder, name)
        time.sleep(0.2)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
