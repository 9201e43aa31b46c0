"""``python -m spark_tests.copying BOOTSTRAP SOURCE TARGET FOLDER``: from topic to topic, exactly once, to be killed."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from kqueue.spark.session import session


def stream(spark: SparkSession, bootstrap: str, source: str, target: str, folder: Path, *, once: bool = False) -> StreamingQuery:
    """The rows pass a shuffle, so that a batch that is computed again has them in another order; small batches make copying take long."""
    reading = {"kafka.bootstrap.servers": bootstrap, "subscribe": source, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "400"}
    frame = spark.readStream.format("kqueue").options(**reading).load().select("key", "value").repartition(2)
    writing = {"kafka.bootstrap.servers": bootstrap, "topic": target, "delivery": "exactly-once", "kafka.batch.size": "150"}
    writer = frame.writeStream.format("kqueue").options(**writing).option("checkpointLocation", str(folder / "checkpoint"))
    return (writer.trigger(availableNow=True) if once else writer).start()


def main(bootstrap: str, source: str, target: str, folder: Path) -> None:
    settings = {"spark.driver.memory": "600m", "spark.local.dir": folder / "scratch", "spark.sql.shuffle.partitions": 2}
    stream(session("killed", "local[2]", settings=settings), bootstrap, source, target, folder).awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))
