from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kqueue.spark.jobs.parallelism import ROWS_MIN, rows_per_task
from kqueue.tests.tables import for_each


def session(cores: int, module: str = "pyspark.sql.session") -> Any:
    """A stand-in for a session of Spark, local or of Spark Connect."""
    attributes = {} if "connect" in module else {"sparkContext": SimpleNamespace(defaultParallelism=cores)}
    return type("SparkSession", (), {**attributes, "__module__": module})()


@for_each(
    "cores, rows, per_task",
    [
        (4, 4 * ROWS_MIN, ROWS_MIN),
        (4, 4 * ROWS_MIN + 1, ROWS_MIN + 1),
        (4, 400_000, 100_000),
        (4, 3 * ROWS_MIN, ROWS_MIN),
        (1, 1_000_000, 1_000_000),
        (8, 0, ROWS_MIN),
    ],
)
def test_records_are_shared_among_the_cores(cores: int, rows: int, per_task: int) -> None:
    assert rows_per_task(session(cores), rows) == per_task
    assert per_task * cores >= rows


def test_records_of_a_remote_session_are_one_task() -> None:
    assert rows_per_task(session(0, "pyspark.sql.connect.session"), 1_000_000) == 1_000_000
