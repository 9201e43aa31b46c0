"""A stream changes between Spark's own source and kqueue's, and keeps its checkpoint."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from compat_tests.spark_connector.stock import Stock
from compat_tests.spark_connector.test_streaming import EARLIEST, add, broker_rows
from kqueue.cli.app import kqueue as command
from kqueue.spark.session import prepare

TEXT = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()


def own(stock: Stock) -> DataFrame:
    options = {"kafka.bootstrap.servers": stock.broker.bootstrap, "maxOffsetsPerTrigger": "8", **EARLIEST}
    return stock.spark.readStream.format("kqueue").options(**options).load()


def go_back(stock: Stock) -> None:
    (line,) = re.findall(r"^kqueue pipeline checkpoint .*$", TEXT, re.MULTILINE)
    words = line.replace("orders-checkpoint", stock.checkpoint("checkpoint")).split()[1:]
    done = CliRunner().invoke(command, words)
    assert done.exit_code == 0, done.output


def forget_last_batch(stock: Stock) -> None:
    """Leave the query as if it had stopped in its last batch, before the table had it."""
    commits = Path(stock.checkpoint("checkpoint")) / "commits"
    number = max(int(file.name) for file in commits.glob("[0-9]*"))
    assert number == 3
    for folder in (commits, Path(stock.checkpoint("found")) / "_spark_metadata"):
        (folder / str(number)).unlink()
        (folder / f".{number}.crc").unlink()


def test_there_and_back(stock: Stock) -> None:
    """Each record is read once, also in a batch that the other source began and did not finish."""
    prepare(stock.spark)
    stock.broker.create_topic("orders", 2)
    add(stock.broker, "orders", 0, 20)
    stock.drain(stock.stream(EARLIEST), "found")
    add(stock.broker, "orders", 20, 20)
    stock.drain(own(stock), "found")
    add(stock.broker, "orders", 40, 20)
    with pytest.raises(StreamingQueryException, match="@ids"):
        stock.drain(stock.stream(EARLIEST), "found")
    forget_last_batch(stock)
    go_back(stock)
    stock.drain(stock.stream(EARLIEST), "found")
    assert stock.table("found") == broker_rows(stock.broker, "orders")
    add(stock.broker, "orders", 60, 20)
    stock.drain(own(stock), "found")
    assert stock.table("found") == broker_rows(stock.broker, "orders")


def test_back_from_a_stream_that_kqueue_began(stock: Stock) -> None:
    prepare(stock.spark)
    stock.broker.create_topic("orders", 2)
    add(stock.broker, "orders", 0, 20)
    stock.drain(own(stock), "found")
    add(stock.broker, "orders", 20, 20)
    go_back(stock)
    stock.drain(stock.stream(EARLIEST), "found")
    assert stock.table("found") == broker_rows(stock.broker, "orders")
