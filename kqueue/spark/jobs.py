"""The jobs: they read and write, and leave what is made of records to `transforms`.

`ingest` and `archive` may be run again and again, and take what has come since; each record counts once, because Spark keeps what it has
done in checkpoints beside the results. Killed, they go on where they stood.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from kqueue.spark import transforms

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

TURN_S = 1
Tell = Callable[[str, int], None]


def silent(stage: str, rows: int) -> None:
    """Tells nobody."""


class Audited(NamedTuple):
    """What a partition holds. gaps: offsets between the first and the last that are missing; compaction and transactions leave some.

    repeated: records that have key, value and time in common with an earlier one. first_ms, last_ms: their least and greatest time.
    """

    topic: str
    partition: int
    records: int
    first: int
    last: int
    gaps: int
    repeated: int
    first_ms: int | None
    last_ms: int | None


def ingest(
    spark: SparkSession, source: Mapping[str, str], folder: str, *, lateness: str = transforms.LATENESS, tell: Tell = silent
) -> dict[str, int]:
    """Take in what has come to topics of flight events, as Parquet in ``bronze``, ``silver``, ``quarantine`` and ``gold`` under `folder`.

    Args: source: options of the kqueue source. tell: is told of each stage how many rows it has read. An hour is in gold once it is
    `lateness` in the past, by the events. Returns: how many rows each stage read. Raises: what Spark does; each stage is whole by itself.
    """
    stream = spark.readStream.format("kqueue").options(**{"startingOffsets": "earliest", **source}).load()
    bronze = transforms.bronze(stream)
    done = {"bronze": _run(bronze, folder, "bronze", tell)}
    taken = _read_stream(spark, folder, "bronze", bronze)
    silver = transforms.silver(taken, lateness)
    done["silver"] = _run(silver, folder, "silver", tell)
    done["quarantine"] = _run(transforms.quarantine(taken, lateness), folder, "quarantine", tell)
    watermarked = transforms.watermarked(_read_stream(spark, folder, "silver", silver), lateness)
    done["gold"] = _run(transforms.gold(transforms.distinct(watermarked)), folder, "gold", tell)
    return done


def archive(spark: SparkSession, source: Mapping[str, str], folder: str, *, tell: Tell = silent) -> int:
    """Write records with all that they have to Parquet under `folder`, laid out by topic and day (UTC); returns how many it has read.

    With `path` among the options of the source, those of ended segments are read, straight from the files.
    """
    options = {"startingOffsets": "earliest", "includeHeaders": "true", **source}
    records = spark.readStream.format("kqueue").options(**options).load()
    return _run(transforms.dated(records), folder, "records", tell, by=("topic", "date"))


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


def audit(spark: SparkSession, source: Mapping[str, str]) -> list[Audited]:
    """Look at every record of topics; a row for each partition that has any, in their order."""
    records = spark.read.format("kqueue").options(**source).load()
    content = F.xxhash64("key", "value", F.col("key").isNull(), F.col("value").isNull(), "timestamp")
    counted = records.groupBy("topic", "partition").agg(
        F.count("*").alias("records"),
        F.min("offset").alias("first"),
        F.max("offset").alias("last"),
        F.count_distinct(content).alias("different"),
        F.unix_millis(F.min("timestamp")).alias("first_ms"),
        F.unix_millis(F.max("timestamp")).alias("last_ms"),
    )
    return [
        Audited(
            row.topic,
            row.partition,
            row.records,
            row["first"],
            row["last"],
            row["last"] - row["first"] + 1 - row.records,
            row.records - row.different,
            row.first_ms,
            row.last_ms,
        )
        for row in counted.orderBy("topic", "partition").collect()
    ]


def _read_stream(spark: SparkSession, folder: str, stage: str, like: DataFrame) -> DataFrame:
    """What another stage has written, and goes on writing; with the columns of `like`."""
    return spark.readStream.schema(like.schema).parquet(str(PurePath(folder, stage)))


def _run(frame: DataFrame, folder: str, stage: str, tell: Tell, by: tuple[str, ...] = ()) -> int:
    """Write all that is there to ``folder/stage``; returns how many rows were read."""
    writer: DataStreamWriter = frame.writeStream.format("parquet").queryName(f"kqueue-{stage}")
    writer = writer.option("checkpointLocation", str(PurePath(folder, "checkpoints", stage))).option("path", str(PurePath(folder, stage)))
    if by:
        writer = writer.partitionBy(*by)
    query = writer.trigger(availableNow=True).start()
    rows, seen = 0, -1
    try:
        ended = False
        while not ended:
            ended = bool(query.awaitTermination(TURN_S))
            for progress in query.recentProgress:
                if progress.batchId > seen:
                    seen, rows = progress.batchId, rows + progress.numInputRows
            tell(stage, rows)
    finally:
        query.stop()
    return rows
