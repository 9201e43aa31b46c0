"""Jobs compute each expression once; Spark's optimizer would repeat it for each use of its column.

The plans of the jobs are counted, not run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kqueue.spark import transforms
from kqueue.spark.event_schema import FLIGHTS, EventSchema, parse
from kqueue.spark.jobs.audit.record_scan import SEEN, group_equal, slim
from kqueue.spark.jobs.sql_validation import no_records
from kqueue.spark.value_formats.opening import find_schema
from kqueue.spark.value_formats.options import value_settings

ORDERS = parse("""
id = "number"
time = ["paid", "ordered"]
by = "shop"
[fields]
number = "bigint"
shop = "string"
ordered = "timestamp"
paid = "timestamp_ms?"
amount = "decimal(10,2)"
day = "date?"
[rules]
"amount: below 0" = "amount >= 0"
"shop: unknown" = "not shop rlike 'a+b'"
[gold]
revenue = "sum(amount)"
""")
AVRO = json.dumps(
    {
        "type": "record",
        "name": "order",
        "fields": [
            {"name": "number", "type": "long"},
            {"name": "shop", "type": "string"},
            {"name": "ordered", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "amount", "type": "double"},
        ],
    }
)
PARSE, PARTS, KIND, TEXT = "parseJson", "try_variant_get(parsed event", "schemaOfVariant(part of", "StructsToJson"
RULE, DAY = "a+b", "to_utc_timestamp"


@pytest.fixture
def bronze(spark: SparkSession) -> DataFrame:
    """Rows of which the optimizer knows nothing."""
    columns = [f"cast(cast(id as string) as {type}) as {name}" for name, type in no_records(spark).dtypes]
    return transforms.bronze(spark.range(9).selectExpr(*columns))


def counts(frame: DataFrame, *names: str) -> dict[str, int]:
    """Return how often the optimized plan has each of these."""
    plan = frame._jdf.queryExecution().optimizedPlan().toString()
    return {name: plan.count(name) for name in names}


def stages(bronze: DataFrame, schema: EventSchema) -> Mapping[str, DataFrame]:
    silver = transforms.silver(bronze, schema)
    distinct = transforms.distinct(transforms.watermarked(silver, schema), schema)
    return {
        "checked": transforms.checked(bronze, schema),
        "silver": silver,
        "quarantine": transforms.quarantine(bronze, schema),
        "silver of some": silver.where(F.col(schema.id) > 5).select(schema.id, "event_time"),
        "gold": transforms.gold(distinct, schema),
    }


@pytest.mark.parametrize("schema", [ORDERS, FLIGHTS], ids=["orders", "flights"])
def test_each_value_is_parsed_once_in_every_plan(bronze: DataFrame, schema: EventSchema) -> None:
    fields = len(schema.fields)
    for name, frame in stages(bronze, schema).items():
        assert counts(frame, PARSE, PARTS, KIND, TEXT) == {PARSE: 1, PARTS: 1, KIND: fields, TEXT: fields}, name


def test_each_rule_is_evaluated_once_in_every_plan(bronze: DataFrame) -> None:
    for name, frame in stages(bronze, ORDERS).items():
        assert counts(frame, RULE) == {RULE: 1}, name


def test_a_decoded_value_becomes_a_variant_once(bronze: DataFrame) -> None:
    settings = value_settings({"valueFormat": "avro", "valueSchema": AVRO})
    assert settings is not None
    for frame in (transforms.silver, transforms.quarantine):
        counted = counts(frame(bronze, ORDERS, find_schema(settings)), "to_variant_object", KIND)
        assert counted == {"to_variant_object": 1, KIND: len(ORDERS.fields)}


def test_checked_records_that_are_kept_are_not_parsed_again(bronze: DataFrame) -> None:
    checked = transforms.checked(bronze, ORDERS).persist()
    try:
        for frame in (transforms.valid(checked, ORDERS), transforms.invalid(checked, ORDERS)):
            plan = frame._jdf.queryExecution().withCachedData().toString()
            assert plan.count("InMemoryRelation") == 1
            assert "Generate" not in plan.partition("InMemoryRelation")[0]
    finally:
        checked.unpersist()


def test_records_are_hashed_and_dated_once(spark: SparkSession, bronze: DataFrame) -> None:
    headers = F.array(F.struct(F.lit("a").alias("key"), F.col("value").alias("value")))
    rows = slim(bronze.withColumn("headers", headers))
    assert counts(rows.mapInArrow(lambda batches: batches, rows.schema), "xxhash64", "unix_millis") == {
        "xxhash64": 2,
        "unix_millis": 1,
    }
    assert "xxhash64" not in str(
        group_equal(
            spark.range(1).selectExpr(
                *(f"cast(null as {column.split()[1]}) as {column.split()[0]}" for column in SEEN.split(", "))
            )
        )
        ._jdf.queryExecution()
        .optimizedPlan()
        .toString()
    )
    archived = bronze.hint("rebalance", "topic", "date").sortWithinPartitions("topic", "date")
    assert counts(archived, DAY) == {DAY: 1}
