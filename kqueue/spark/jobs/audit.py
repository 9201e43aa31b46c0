"""What topics hold, and what is missing or repeated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
