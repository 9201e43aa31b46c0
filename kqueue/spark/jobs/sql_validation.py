"""Validates the SQL of an event schema with Spark's parser and analyzer, before any write."""

from __future__ import annotations

import dataclasses
import functools
import operator
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from kqueue.spark import transforms
from kqueue.spark.errors import SqlRefused
from kqueue.spark.event_schema.schema import EventSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS = {
    "key": "binary", "value": "binary", "topic": "string", "partition": "int", "offset": "bigint",
    "timestamp": "timestamp",
}  # fmt: skip
WORDS_MAX = 400


def no_records(spark: SparkSession) -> DataFrame:
    """Return an empty frame with the columns of the source."""
    return _empty(spark, RECORDS)


def _empty(spark: SparkSession, columns: Mapping[str, str]) -> DataFrame:
    return spark.range(0).selectExpr(*(f"cast(null as {type}) as {name}" for name, type in columns.items()))


def check(spark: SparkSession, schema: EventSchema) -> None:
    """Raise SqlRefused, in one sentence, if a rule or an aggregate is not valid SQL."""
    bare = dataclasses.replace(schema, rules={})
    columns = dict(transforms.silver(transforms.bronze(no_records(spark)), bare).dtypes)
    silver, events = _empty(spark, columns), _empty(spark, {**RECORDS, **columns})

    def rules(chosen: Mapping[str, str]) -> None:
        _check_steady(events.where(functools.reduce(operator.and_, map(F.expr, chosen.values()), F.lit(True))))

    def gold(chosen: Mapping[str, str]) -> None:
        transforms.gold(silver, dataclasses.replace(bare, gold=chosen))

    _each_if_not_all("rules", schema.rules, rules)
    _each_if_not_all("gold", schema.gold, gold)


def _each_if_not_all(key: str, all_of_it: Mapping[str, str], check: Callable[[Mapping[str, str]], None]) -> None:
    """Check all at once, which is fast; on an error check one by one to find the culprit."""
    try:
        check(all_of_it)
        return
    except (PySparkException, SqlRefused):
        pass
    for words, sql in all_of_it.items():
        try:
            check({words: sql})
        except PySparkException as error:
            raise SqlRefused(f"{key}: {words!r}: {plain(error)}") from None
        except SqlRefused as error:
            raise SqlRefused(f"{key}: {words!r}: {error}") from None
    check(all_of_it)


def _check_steady(frame: DataFrame) -> None:
    """Raise SqlRefused if a rule is not deterministic.

    It could then give silver and quarantine different results.
    """
    plan = frame._jdf.queryExecution().analyzed()
    now = frame.sparkSession._jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
    if not plan.deterministic() or plan.containsPattern(now):
        raise SqlRefused("it hangs on chance or on the time of the day; an event is right or wrong by itself")


def plain(error: PySparkException) -> str:
    """Return Spark's message on one line, without error classes, plans and stacks."""
    text = re.split(r"\n== |;\n'|JVM stacktrace|SQLSTATE:", str(error))[0]
    text = re.sub(r"^\[[\w.]+\]\s*", "", text.strip())
    return " ".join(text.split())[:WORDS_MAX].rstrip(" .;")
