"""Archives in the stores of Spark's own file systems."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

import kqueue
from kqueue.spark.jobs.archive import archive
from kqueue.spark.jobs.replay import replay
from kqueue.spark.stores.hadoop import HadoopStore
from kqueue.tests.spark.stores.contract import check_store


def test_hadoop_file_system_fulfils_the_contract_of_stores(
    spark: SparkSession, broker: kqueue.Broker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    check_store(HadoopStore(spark, (tmp_path / "store").as_uri()))
    topic, folder, servers = new_topic(1), (tmp_path / "kept").as_uri(), {"kafka.bootstrap.servers": broker.bootstrap}
    for number in range(3):
        broker.topics[topic].produce(str(number), timestamp=number * 86_400_000)
        assert archive(spark, {**servers, "subscribe": topic}, folder).rows_total == number + 1
    assert replay(spark, folder, servers, topic=f"{topic}-again", create=True).rows == 3
    first, again = ([one.value for one in broker.topics[name].records()] for name in (topic, f"{topic}-again"))
    assert first == again
