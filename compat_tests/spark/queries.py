"""``python compat_tests/spark/queries.py BOOTSTRAP FOLDER``: three queries of one topic, in a
process that can be killed.

`kept` writes to Parquet, `once` to a topic exactly once, `least` to a topic at least once. It says
first where its kqueue is: started as a file, from elsewhere, it has the one that is installed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

import kqueue
from kqueue.spark.session import QUIET_LOG, session

SOURCE = "orders"
DELIVERIES = {"once": "exactly-once", "least": "at-least-once"}
QUERIES = ("kept", *DELIVERIES)
SETTINGS: dict[str, object] = {
    "spark.driver.memory": "480m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": 2,
}


def start(spark: SparkSession, bootstrap: str, folder: Path, name: str, *, once: bool = False) -> StreamingQuery:
    """Start one of `QUERIES`, or go on with it where it stood. once: until nothing is left."""
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
    """The rows pass a shuffle, so that a batch that is computed again has them in another order;
    small batches make copying take long.
    """
    writing = {
        "kafka.bootstrap.servers": bootstrap,
        "topic": name,
        "delivery": DELIVERIES[name],
        "kafka.batch.size": "150",
    }
    return frame.select("key", "value").repartition(2).writeStream.format("kqueue").options(**writing)


def main(bootstrap: str, folder: Path) -> None:
    assert QUIET_LOG.is_file()
    print(kqueue.__file__, flush=True)
    spark = session("killed", "local[2]", settings=SETTINGS | {"spark.local.dir": folder / "scratch"})
    for name in QUERIES:
        start(spark, bootstrap, folder, name)
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
