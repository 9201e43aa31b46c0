"""Records to Parquet with all that they have, and back to a broker."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING

from kqueue.spark import transforms
from kqueue.spark.jobs.running import Tell, run_to_end, silent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def archive(spark: SparkSession, source: Mapping[str, str], folder: str, *, tell: Tell = silent) -> int:
    """Write records with all that they have to Parquet under `folder`, laid out by topic and day (UTC); returns how many it has read.

    With `path` among the options of the source, those of ended segments are read, straight from the files.
    """
    options = {"startingOffsets": "earliest", "includeHeaders": "true", **source}
    records = spark.readStream.format("kqueue").options(**options).load()
    return run_to_end(transforms.dated(records), folder, "records", tell, by=("topic", "date"))


def replay(spark: SparkSession, folder: str, bootstrap: str, *, topic: str | None = None) -> int:
    """Send an archive to its topics again, or all to `topic`, which must be there; returns how many records.

    Each goes to the partition that it was in, in the order of the offsets, with its own time. If it fails, what was sent stays sent.
    """
    records = spark.read.parquet(str(PurePath(folder, "records")))
    ordered = records.repartition("topic", "partition").sortWithinPartitions("topic", "partition", "offset")
    frame = ordered.select("key", "value", "headers", "timestamp", "topic", "partition")
    writer = frame.write.format("kqueue").mode("append").option("kafka.bootstrap.servers", bootstrap)
    (writer if topic is None else writer.option("topic", topic)).save()
    count: int = records.count()
    return count
