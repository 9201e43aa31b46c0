"""Runs streaming queries to their end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

TURN_S = 1
Tell = Callable[[str, int], None]


def silent(stage: str, rows: int) -> None:
    """Tells nobody."""


def read_stream(spark: SparkSession, folder: str, stage: str, like: DataFrame) -> DataFrame:
    """What another stage has written, and goes on writing; with the columns of `like`."""
    return spark.readStream.schema(like.schema).parquet(str(PurePath(folder, stage)))


def run_to_end(frame: DataFrame, folder: str, stage: str, tell: Tell, by: tuple[str, ...] = ()) -> int:
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
