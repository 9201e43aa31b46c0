"""Spark makes checked events of JSON values, as `ingest` does, one task at a time.

Parsing alone shows what the rest adds. The rows go to Spark's `noop` sink.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from benchmarks.results import Figure, Row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Step = tuple[str, Callable[[], Row]]
RECORDS = 1_000_000
QUICK = 20
ROUNDS = 3
PER_S_MIN = 100_000
"""Records of four fields that a core checks in a second, at least."""
EVENTS = """
id = "number"
time = "ordered"
[fields]
number = "bigint"
shop = "string"
ordered = "timestamp"
amount = "decimal(10,2)"
{more}
[rules]
"amount: below 0" = "amount >= 0"
"""
MORE = 'city = "string"\ncount = "int"\nweight = "double"\npaid = "boolean"'
VALUES = (
    "id as number", "concat('s', id % 50) as shop", "concat('2024-05-01T12:00:0', id % 10, '.123Z') as ordered",
    "cast(id % 9999 / 100 as decimal(6,2)) as amount", "'Ulm' as city", "id % 7 as count", "id / 7 as weight",
    "id % 2 = 0 as paid",
)  # fmt: skip


class EventBench:
    """A session, with values in its cache."""

    def __init__(self, spark: SparkSession, records: int) -> None:
        self._spark = spark
        self._records = records

    def row(self, fields: int) -> Row:
        """Return the rates of parsing and of checking events with 4 or 8 fields."""
        from pyspark.sql import functions as F

        from kqueue.spark import transforms
        from kqueue.spark.event_schema import parse

        values = self._spark.range(0, self._records, 1, 1).selectExpr(*VALUES[:fields])
        value = F.to_json(F.struct("*")).cast("binary").alias("value")
        position = (
            "'orders' as topic", "0 as partition", "0L as offset",
            "timestamp '2024-05-01 12:01:00+00:00' as timestamp", "cast('k' as binary) as key",
        )  # fmt: skip
        bronze = transforms.bronze(values.select(value, *map(F.expr, position))).persist()
        try:
            bronze.count()
            schema = parse(EVENTS.format(more=MORE if fields > len(VALUES) // 2 else ""))
            parsed = self._rate(bronze.select(F.try_parse_json(F.col("value").cast("string"))))
            checked = self._rate(transforms.checked(bronze, schema))
        finally:
            bronze.unpersist()
        aim = PER_S_MIN if fields <= len(VALUES) // 2 else None
        figures = [Figure(checked, "records/s", at_least=aim), Figure(parsed, "records/s, parsed only")]
        return Row(
            f"Spark checks JSON events of {fields} fields", figures, f"{self._records:,} records, 1 task at a time"
        )

    def _rate(self, frame: DataFrame) -> float:
        seconds = []
        for _ in range(ROUNDS + 1):  # one round more, which warms it
            began = time.perf_counter()
            frame.write.format("noop").mode("overwrite").save()
            seconds.append(time.perf_counter() - began)
        return self._records / min(seconds)


def event_steps(spark: SparkSession, *, quick: bool = False) -> Iterator[Step]:
    """Yield the steps."""
    bench = EventBench(spark, RECORDS // QUICK if quick else RECORDS)
    for fields in (4, 8):
        yield f"Spark: events of {fields} fields", lambda fields=fields: bench.row(fields)  # type: ignore[misc]
