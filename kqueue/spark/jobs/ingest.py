"""Events to tables: bronze, silver, quarantine, gold."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kqueue.spark import transforms
from kqueue.spark.jobs.running import Tell, read_stream, run_to_end, silent
from kqueue.spark.shapes import FLIGHTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def ingest(
    spark: SparkSession, source: Mapping[str, str], folder: str, *, lateness: str = FLIGHTS.lateness, tell: Tell = silent
) -> dict[str, int]:
    """Take in what has come to topics of flight events, as Parquet in ``bronze``, ``silver``, ``quarantine`` and ``gold`` under `folder`.

    Args: source: options of the kqueue source. tell: is told of each stage how many rows it has read. An hour is in gold once it is
    `lateness` in the past, by the events. Returns: how many rows each stage read. Raises: what Spark does; each stage is whole by itself.
    """
    shape = dataclasses.replace(FLIGHTS, lateness=lateness)
    stream = spark.readStream.format("kqueue").options(**{"startingOffsets": "earliest", **source}).load()
    bronze = transforms.bronze(stream)
    done = {"bronze": run_to_end(bronze, folder, "bronze", tell)}
    taken = read_stream(spark, folder, "bronze", bronze)
    silver = transforms.silver(taken, shape)
    done["silver"] = run_to_end(silver, folder, "silver", tell)
    done["quarantine"] = run_to_end(transforms.quarantine(taken, shape), folder, "quarantine", tell)
    watermarked = transforms.watermarked(read_stream(spark, folder, "silver", silver), shape)
    done["gold"] = run_to_end(transforms.gold(transforms.distinct(watermarked, shape), shape), folder, "gold", tell)
    return done
