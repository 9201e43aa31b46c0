"""Queries of a tier in an object store, alone and with brokers that have the end of each log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from pyspark.sql import DataFrame, SparkSession

from kqueue.tests.spark.source.tiers import TieredBroker, drop_local, put_tier_record
from kqueue.tests.spark.stores.s3_server import BUCKET, KEYS
from kqueue.tier.stores.address import open_store

SECRET = KEYS["AWS_SECRET_ACCESS_KEY"]


@pytest.fixture
def tiered(s3: dict[str, str], tmp_path: Path) -> Iterator[TieredBroker]:
    """30 batches of 5 records, of which the broker has the last ones only."""
    given = {
        "endpoint": s3["AWS_ENDPOINT_URL"],
        "region": s3["AWS_REGION"],
        "access_key_id": s3["AWS_ACCESS_KEY_ID"],
        "secret_access_key": SECRET,
    }
    url = f"s3://{BUCKET}/{tmp_path.name}?{urlencode(given)}"
    store = open_store(url)
    put_tier_record(store)
    made = TieredBroker(tmp_path, url, store)
    made.send(30)
    drop_local(made.broker, "t", made.copy().end_offset - 20)
    yield made
    made.broker.stop()
    store.close()


def read(spark: SparkSession, tiered: TieredBroker, *, brokers: bool = True, **options: object) -> DataFrame:
    reader = spark.read.format("kqueue").option("path", str(tiered.path)).option("subscribe", "t")
    if brokers:
        reader = reader.option("kafka.bootstrap.servers", tiered.broker.bootstrap)
    return reader.options(**{name: str(value) for name, value in options.items()}).load()


def offsets(frame: DataFrame) -> list[int]:
    return sorted(row.offset for row in frame.select("offset").collect())


def test_query_has_each_record_once_from_tier_and_brokers(spark: SparkSession, tiered: TieredBroker) -> None:
    frame = read(spark, tiered, splitBytes=1)
    assert frame.rdd.getNumPartitions() == 6
    assert offsets(frame) == list(range(tiered.end))
    assert offsets(frame.where("offset % 7 = 0")) == list(range(0, tiered.end, 7))
    shown = frame._jdf.queryExecution().toString()
    assert SECRET not in shown


def test_backfill_sends_no_fetch_to_brokers(spark: SparkSession, tiered: TieredBroker) -> None:
    border, before = tiered.copy().end_offset, tiered.fetches()
    assert offsets(read(spark, tiered, endingOffsets=f'{{"t":{{"0":{border}}}}}')) == list(range(border))
    assert offsets(read(spark, tiered, brokers=False)) == list(range(border))
    assert tiered.fetches() == before


def test_stream_goes_on_with_and_without_the_tier(
    spark: SparkSession, tiered: TieredBroker, checkpoint: str, tmp_path: Path
) -> None:
    def run(*, tier: bool, **options: object) -> list[int]:
        reader = spark.readStream.format("kqueue").option("kafka.bootstrap.servers", tiered.broker.bootstrap)
        if tier:
            reader = reader.option("path", str(tiered.path))
        frame = reader.options(subscribe="t", startingOffsets="earliest", **options).load()
        query = (
            frame.select("offset")
            .writeStream.format("parquet")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start(str(tmp_path / "table"))
        )
        query.awaitTermination()
        assert SECRET not in f"{query.lastProgress} {query._jsq.explainInternal(True)}"
        return offsets(spark.read.parquet(str(tmp_path / "table")))

    assert run(tier=True, maxOffsetsPerTrigger=60) == list(range(tiered.end))
    tiered.send(10)
    assert run(tier=False) == list(range(tiered.end))
    tiered.send(10)
    tiered.copy()
    assert run(tier=True) == list(range(tiered.end))
