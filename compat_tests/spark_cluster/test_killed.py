"""Writes on a cluster whose parts are killed: sums stay equal.

`KQUEUE_KILLS` (default 0): so many more kills, of random parts at random times; more than one
needs `-o faulthandler_timeout=0`. `KQUEUE_SEED`: the random seed.
"""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import kqueue
from compat_tests.spark import killing, queries
from compat_tests.spark.comparing import batches, check
from compat_tests.spark.killing import SEED, Served
from compat_tests.spark.test_killed import produced
from compat_tests.spark_cluster import driver as program
from compat_tests.spark_cluster.conftest import Filled
from compat_tests.spark_cluster.driver import NAMES
from compat_tests.spark_cluster.standalone import Standalone

KILLS = int(os.environ.get("KQUEUE_KILLS", "0"))
ALONE = tuple((name,) for name in ("python", "broker", "master", "executor", "worker"))
"""An executor after the master: one that was started again gives executors anew."""
TOGETHER = (("python", "broker", "master", "worker"),)
"""The same in one turn: with a worker its executor is killed."""
TURN_S = 300
EXECUTORS = 2


class Parts:
    """A cluster, a broker, and a driver whose queries copy its topic: each can be killed."""

    def __init__(self, cluster: Standalone, served: Served, folder: Path, archive: Path, rng: random.Random) -> None:
        self.cluster = cluster
        self.served = served
        self.folder = folder
        self.rng = rng
        self._archive = archive
        self._driver: subprocess.Popen[bytes] | None = None

    def start_driver(self) -> None:
        arguments = (self.served.bootstrap, self.folder, self.cluster.master, self._archive)
        self._driver = killing.start(self.folder, program.__file__, *arguments)
        killing.first_line(self._driver.stdout, self.folder)

    def kill(self, name: str) -> None:
        """Kill a part, and start it again if Spark does not."""
        if name == "python":
            for executor in self.cluster.executors():
                for child in executor.children(recursive=True):
                    child.kill()
        elif name == "executor":
            self.rng.choice(self.cluster.executors()).kill()
        elif name == "worker":
            self.cluster.kill_worker(self.rng.choice(self.cluster.workers))
            self.cluster.start_worker()
        elif name == "master":
            self.cluster.kill_master()
        elif name == "broker":
            self.served.kill()
            time.sleep(1)
            self.served.start()
        else:
            self.kill_driver()
            self.start_driver()

    def kill_driver(self) -> None:
        assert self._driver is not None
        killing.kill(self._driver)

    def wait_for_batches(self) -> None:
        """Wait until all executors are there, and each query has committed another batch."""
        before = {name: batches(self.folder, name) for name in NAMES}
        self._until(lambda: len(self.cluster.executors()) >= EXECUTORS, "all executors")
        self._until(lambda: all(batches(self.folder, name) > before[name] for name in NAMES), "a batch of each query")

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        assert self._driver is not None
        killing.until(condition, partial(killing.check_alive, self._driver, self.folder), what)


@pytest.mark.timeout(600 + TURN_S * KILLS)
@pytest.mark.thorough
@pytest.mark.parametrize("turns", [pytest.param(TOGETHER, id="together"), pytest.param(ALONE, id="alone")])
def test_streams_outlive_each_part(
    cluster: Standalone,
    archive: Path,
    late_spark: Callable[[], SparkSession],
    tmp_path: Path,
    turns: tuple[tuple[str, ...], ...],
) -> None:
    """The driver is killed last, and its queries end in another one, from their checkpoints."""
    rng = random.Random(SEED)
    more = [rng.choice([*ALONE, ("driver",)]) for _ in range(KILLS)]
    with produced(tmp_path, rng) as (served, producer):
        parts = Parts(cluster, served, tmp_path, archive, rng)
        parts.start_driver()
        try:
            for names in (*turns, *more):
                parts.wait_for_batches()
                time.sleep(rng.uniform(0, 0.5))
                for name in names:
                    parts.kill(name)
            parts.wait_for_batches()
        finally:
            parts.kill_driver()
        producer.end()
        spark = late_spark()
        for query in [queries.start(spark, served.bootstrap, tmp_path, name, once=True) for name in NAMES]:
            assert query.awaitTermination(killing.DEADLINE_S)
        check(served.bootstrap, tmp_path, NAMES, producer.confirmed)


def test_a_second_attempt_of_a_task_counts_once(
    spark: SparkSession, broker: kqueue.Broker, filled: Filled, tmp_path: Path
) -> None:
    """Two attempts of a task have handed over their rows before one of them ends."""
    attempts = tmp_path / "attempts"
    attempts.mkdir()

    def slow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = cast("TaskContext", TaskContext.get())  # an assert would need pytest on executors
        yield from batches
        if context.partitionId() == 0:
            (attempts / str(context.attemptNumber())).touch()
            other = attempts / str(1 - min(context.attemptNumber(), 1))
            for _ in range(400):  # a busy machine takes a minute for the other tasks, after which Spark speculates
                if other.exists():
                    break
                time.sleep(0.5)
            if context.attemptNumber() == 0:
                time.sleep(3)

    topic = filled(1000)
    broker.create_topic("out", 4)
    options = {"kafka.bootstrap.servers": broker.bootstrap}
    frame = spark.read.format("kqueue").options(**options, subscribe=topic, minPartitions="6").load()
    rows = frame.select("key", "value").mapInArrow(slow, "key binary, value binary")
    writer = rows.write.format("kqueue").mode("append").options(**options, topic="out", delivery="exactly-once")
    writer.option("txnAppId", "speculative").option("txnVersion", "1").save()
    assert {file.name for file in attempts.iterdir()} == {"0", "1"}
    written, read = (sorted(one.value for one in broker.topics[name].records()) for name in ("out", topic))
    assert written == read
