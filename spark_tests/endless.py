"""``python -m spark_tests.endless BOOTSTRAP TOPIC FOLDER [once]``: a stream from a topic to Parquet, in a process that can be killed."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from kqueue.spark.session import session


def stream(spark: SparkSession, bootstrap: str, topic: str, folder: Path, once: bool = False) -> StreamingQuery:
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "300"}
    frame = spark.readStream.format("kqueue").options(**options).load().select("partition", "offset", "value")
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    return (writer.trigger(availableNow=True) if once else writer).start(str(folder / "out"))


def main(bootstrap: str, topic: str, folder: Path, once: bool) -> None:
    settings = {"spark.driver.memory": "600m", "spark.sql.warehouse.dir": folder / "warehouse", "spark.local.dir": folder / "scratch"}
    stream(session("killed", "local[2]", settings=settings), bootstrap, topic, folder, once).awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4:] == ["once"])
