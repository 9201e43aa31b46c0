"""Spark on a standalone cluster with one executor and with two, of one core each: reading from a
broker and from its folder, and writing with each guarantee.

Broker, driver, master, workers and executors share this machine, so a second executor helps as far
as there are cores. Each figure is the best of several rounds after one that warms it, Spark's
planning included; a round that lacks records is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import spark, spark_sink
from benchmarks.frames import asking, batch
from benchmarks.log_data import temporary_folder
from benchmarks.results import Figure, Row
from benchmarks.served import OwnBroker
from benchmarks.spark_sink import AT_LEAST_ONCE, EXACTLY_ONCE, TRANSACTIONAL, SinkBench, SinkVariant
from kqueue.client import NewTopic, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Step = tuple[str, Callable[[], Row]]
Measured = Callable[[], float]
ROUNDS = 3
EXECUTORS = (1, 2)
TASKS = 4
"""Partitions of what is read, and tasks of each query."""
QUICK = 20
SETTINGS = {
    "spark.driver.memory": "700m",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "700m",
    "spark.sql.shuffle.partitions": TASKS,
}
LOADS = (spark.Load("100 B", 100, 2_000_000), spark.Load("1 KB", 1_000, 400_000))
READS = tuple(replace(one, options={**one.options, "minPartitions": str(TASKS)}) for one in (spark.WIRE, spark.PATH))
WRITES = (AT_LEAST_ONCE, EXACTLY_ONCE, replace(TRANSACTIONAL, beside=TRANSACTIONAL.beside + TASKS - 1))


class Figures:
    """What was measured: the rate of one executor is compared with that of two."""

    def __init__(self) -> None:
        self._rates: dict[tuple[str, int], float] = {}

    def row(self, name: str, load: spark.Load, executors: int, measured: Measured) -> Row:
        rate = load.records / min(measured() for _ in range(ROUNDS + 1))
        self._rates[name, executors] = rate
        figures = [Figure(rate, "records/s"), Figure(rate * load.bytes_each / 1e6, "MB/s")]
        if executors > 1:
            figures.append(Figure(rate / self._rates[name, 1], "times one executor"))
        return Row(
            f"{name}, {executors} executor{'s' * (executors > 1)}", figures, f"{load.records:,} records, {TASKS} tasks"
        )


def fill(bootstrap: str, load: spark.Load) -> str:
    """Create a topic with the load's records; return its name."""
    topic = f"cluster-{load.bytes_each}"
    each = max(spark.BATCH_BYTES // load.bytes_each, 1)
    with asking(bootstrap) as client:
        client.create_topics([NewTopic(topic, TASKS)])
        for number, begin in enumerate(range(0, load.records, each)):
            records = batch(min(each, load.records - begin), bytes(load.bytes_each))
            client.produce({TopicPartition(topic, number % TASKS): records})
    return topic


@contextmanager
def _session(master: str, executors: int, folder: Path) -> Iterator[SparkSession]:
    from kqueue.spark.session import session

    settings = {**SETTINGS, "spark.cores.max": executors, "spark.local.dir": folder}
    made = session("kqueue-benchmark", master, settings={**settings, "spark.sql.warehouse.dir": folder / "warehouse"})
    try:
        yield made
    finally:
        made.stop()


def steps(*, quick: bool = False) -> Iterator[Step]:
    """Yield the steps; cluster and broker live until the generator ends."""
    from compat_tests.spark_cluster.standalone import Standalone

    loads = [replace(one, records=one.records // (QUICK if quick else 1)) for one in LOADS]
    figures = Figures()
    with temporary_folder() as folder, OwnBroker("kafka") as broker, Standalone(folder) as cluster:
        topics = {load: fill(broker.bootstrap, load) for load in loads}
        for executors in EXECUTORS:
            with _session(cluster.master, executors, folder) as made:
                bench = spark.Bench(made, broker, None)
                sink = SinkBench(made, broker.bootstrap, None)
                for load in loads:
                    for variant in READS:
                        read = partial(bench.read_seconds, variant, load, topics[load])
                        name = f"Spark reads {load.name}, {variant.name}"
                        yield name, partial(figures.row, name, load, executors, read)
                    for write in WRITES:
                        name = f"Spark writes {load.name}, {write.name}"
                        yield name, partial(figures.row, name, load, executors, _written(sink, write, load))


def _written(sink: SinkBench, variant: SinkVariant, load: spark.Load) -> Measured:
    rows = spark_sink.Load(load.name, load.bytes_each, load.records)
    return partial(sink.write_seconds, variant, rows, sink.rows(rows, TASKS))
