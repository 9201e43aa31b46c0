"""Has Spark look at the SQL of a shape before anything is read or written: its parser and analyzer know best."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from kqueue.base.errors import OptionError
from kqueue.spark import transforms
from kqueue.spark.shapes.shape import Shape

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS = {
    "key": "binary", "value": "binary", "topic": "string", "partition": "int", "offset": "bigint", "timestamp": "timestamp",
}  # fmt: skip
WORDS_MAX = 400


def no_records(spark: SparkSession) -> DataFrame:
    """An empty frame with the columns of the source."""
    return _empty(spark, RECORDS)


def _empty(spark: SparkSession, columns: Mapping[str, str]) -> DataFrame:
    return spark.range(0).selectExpr(*(f"cast(null as {type}) as {name}" for name, type in columns.items()))


def check(spark: SparkSession, shape: Shape) -> None:
    """Raises OptionError: a rule or an aggregate is no SQL, or none that can stand there; one sentence."""
    bare = dataclasses.replace(shape, rules={})
    bronze = transforms.bronze(no_records(spark))
    events = _empty(spark, dict(transforms.checked(bronze, bare).drop("reason").dtypes))
    silver = _empty(spark, dict(transforms.silver(bronze, bare).dtypes))
    for words, sql in shape.rules.items():
        _try(f"rules: {words!r}", lambda sql=sql: _steady(events.where(F.expr(sql))))  # type: ignore[misc]
    for name, sql in shape.gold.items():
        _try(f"gold: {name}", lambda name=name, sql=sql: transforms.gold(silver, dataclasses.replace(bare, gold={name: sql})))  # type: ignore[misc]


def _steady(frame: DataFrame) -> None:
    """Raises OptionError: a rule would say one thing where silver is written, and another where quarantine is."""
    plan = frame._jdf.queryExecution().analyzed()
    now = frame.sparkSession._jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
    if not plan.deterministic() or plan.containsPattern(now):
        raise OptionError("it hangs on chance or on the time of the day; an event is right or wrong by itself")


def _try(what: str, make: Callable[[], object]) -> None:
    try:
        make()
    except PySparkException as error:
        raise OptionError(f"{what}: {plain(error)}") from None
    except OptionError as error:
        raise OptionError(f"{what}: {error}") from None


def plain(error: PySparkException) -> str:
    """What Spark says, on one line, without its classes of errors, plans and stacks."""
    text = re.split(r"\n== |;\n'|JVM stacktrace|SQLSTATE:", str(error))[0]
    text = re.sub(r"^\[[\w.]+\]\s*", "", text.strip())
    return " ".join(text.split())[:WORDS_MAX].rstrip(" .;")
