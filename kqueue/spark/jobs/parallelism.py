"""Shares the records of one read among the cores. No pyspark at import."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kqueue.spark.remote import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS_MIN = 10_000
"""Records of a task at least: starting it takes as long as reading some thousand."""


def rows_per_task(spark: SparkSession, rows: int) -> int:
    """Return how many records a task reads at most, so that each core has a task.

    The source alone has small partitions share a task, however many cores are idle.
    """
    cores = 1 if is_remote(spark) else spark.sparkContext.defaultParallelism
    return max(ROWS_MIN, -(-rows // cores))
