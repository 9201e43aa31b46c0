"""Spark makes checked events of JSON values, as `ingest` does, one task at a time.

Parsing alone shows what the rest adds, and how fast the machine is: the aim is relative to it. The
rates are those of the task's CPU time, so other processes of the machine hardly change them. The
rows go to Spark's `noop` sink.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from benchmarks.results import Figure, Row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Step = tuple[str, Callable[[], Row]]
RECORDS = 1_000_000
QUICK = 20
ROUNDS = 3
RATE_MIN = 100_000
"""Records of four fields that one core checks in a second, at least."""
SHARE_MIN = 18
"""The same as a percentage of the rate of parsing alone, at least, which says how fast the machine
is. 20 to 21 were measured: beside the parse, whose time is one of five parts, each record is cut
into its fields, each field's kind is looked at, and its text is cast.
"""
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
            parsing = bronze.select(F.try_parse_json(F.col("value").cast("string")))
            parsed, checked = self._rates(parsing, transforms.checked(bronze, schema))
        finally:
            bronze.unpersist()
        is_bounded = fields <= len(VALUES) // 2
        figures = [
            Figure(checked, "records/s", at_least=RATE_MIN if is_bounded else None),
            Figure(parsed, "records/s, parsed only"),
            Figure(100 * checked / parsed, "% of the rate of parsing", at_least=SHARE_MIN if is_bounded else None),
        ]
        return Row(
            f"Spark checks JSON events of {fields} fields", figures, f"{self._records:,} records, CPU time of 1 task"
        )

    def _rates(self, *frames: DataFrame) -> list[float]:
        """Return the best rate of each frame; the frames take turns, so all meet the same load."""
        seconds: list[list[float]] = [[] for _ in frames]
        for _ in range(ROUNDS + 1):  # one round more, which warms it
            for rounds_s, frame in zip(seconds, frames, strict=True):
                frame.write.format("noop").mode("overwrite").save()
                rounds_s.append(self._task_cpu_s())
        return [self._records / min(rounds_s) for rounds_s in seconds]

    def _task_cpu_s(self) -> float:
        """Return the CPU time of the tasks of the last job."""
        context = self._spark._jsc.sc()
        context.listenerBus().waitUntilEmpty()
        store = context.statusStore()
        stages = store.jobsList(None).head().stageIds()
        return sum(store.lastStageAttempt(stages.apply(at)).executorCpuTime() for at in range(stages.size())) / 1e9


def event_steps(spark: SparkSession, *, quick: bool = False) -> Iterator[Step]:
    """Yield the steps."""
    bench = EventBench(spark, RECORDS // QUICK if quick else RECORDS)
    for fields in (4, 8):
        yield f"Spark: events of {fields} fields", lambda fields=fields: bench.row(fields)  # type: ignore[misc]
