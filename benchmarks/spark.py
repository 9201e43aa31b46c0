"""Spark reads a topic, one task at a time: from a broker, from files, and through Spark's own
connector.

A source of ready-made record batches shows the limit of any source in Python. All run in one
session on the same records, each the best of several rounds; a round that did not read all records
is an error. The rows go to Spark's `noop` sink, which reads every column and keeps nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from benchmarks.frames import asking, batch, create_topic
from benchmarks.log_data import temporary_folder
from benchmarks.results import Figure, Row
from benchmarks.served import OwnBroker
from benchmarks.spark_events import event_steps
from benchmarks.spark_sink import SinkBench, sink_steps
from kqueue.client import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Step = tuple[str, Callable[[], Row]]
ROUNDS = 3
BATCH_BYTES = 200_000
QUICK = 20
SLOTS = 1


@dataclass(frozen=True)
class Load:
    """`bytes_each`: of a record's value; `times_faster`: the aim of the compiled decoder over plain
    Python.
    """

    name: str
    bytes_each: int
    records: int
    times_faster: float | None = None


LOADS = (Load("100 B", 100, 4_000_000, times_faster=5), Load("1 KB", 1_000, 600_000))


@dataclass(frozen=True)
class SourceVariant:
    """One source format and its options. `at_path`: from the folder instead of the broker;
    `rounds`: fewer where it is slow.
    """

    name: str
    source: str = "kqueue"
    options: Mapping[str, str] = field(default_factory=dict)
    at_path: bool = False
    rounds: int = ROUNDS


WIRE = SourceVariant("wire", options={"decoder": "fast"})
PATH = SourceVariant("path", options={"decoder": "fast", "includeActiveSegment": "true"}, at_path=True)
PLAIN = SourceVariant("wire, plain Python", options={"decoder": "python"}, rounds=1)
STOCK = SourceVariant("Spark's own connector", source="kafka")
READY = SourceVariant("ready-made batches", source="ready-made")
VARIANTS = (PLAIN, READY, WIRE, PATH, STOCK)


class Bench:
    """A session and a broker with what is to be read. `why_no_stock`: why there is no connector to
    compare with; None: there is.
    """

    def __init__(self, spark: SparkSession, broker: OwnBroker, why_no_stock: str | None) -> None:
        self.spark = spark
        self._broker = broker
        self._why_no_stock = why_no_stock
        self._plain: dict[Load, float] = {}
        self._ready: dict[Load, float] = {}

    def fill(self, load: Load) -> str:
        """Create a topic with the load's records; return its name."""
        topic = create_topic(self._broker.bootstrap, f"spark-{load.bytes_each}")
        each = max(BATCH_BYTES // load.bytes_each, 1)
        with asking(self._broker.bootstrap) as client:
            for begin in range(0, load.records, each):
                client.produce(
                    {TopicPartition(topic, 0): batch(min(each, load.records - begin), bytes(load.bytes_each))}
                )
        return topic

    def row(self, variant: SourceVariant, load: Load, topic: str) -> Row:
        name = f"Spark reads {load.name}, {variant.name}"
        if variant is STOCK and self._why_no_stock is not None:
            return Row(name, [Figure(float("nan"), "records/s")], f"left out, because {self._why_no_stock}")
        seconds = min(
            self.read_seconds(variant, load, topic) for _ in range(variant.rounds + 1)
        )  # one round more, which warms it
        rate = load.records / seconds
        figures = [Figure(rate, "records/s"), Figure(rate * load.bytes_each / 1e6, "MB/s")]
        if variant is PLAIN:
            self._plain[load] = rate
        elif variant is READY:
            self._ready[load] = rate
        elif variant is not STOCK:
            figures.append(Figure(rate / self._plain[load], "times plain Python", at_least=load.times_faster))
            figures.append(Figure(100 * rate / self._ready[load], "% of ready-made"))
        return Row(name, figures, f"{load.records:,} records, {SLOTS} task at a time")

    def sink(self) -> SinkBench:
        """Yield the steps of writing."""
        return SinkBench(self.spark, self._broker.bootstrap, self._why_no_stock)

    def read_seconds(self, variant: SourceVariant, load: Load, topic: str) -> float:
        """Return the seconds, Spark's planning included."""
        from pyspark.sql import Observation
        from pyspark.sql.functions import count, lit

        where = "path" if variant.at_path else "kafka.bootstrap.servers"
        given = {
            where: str(self._broker.folder / "data") if variant.at_path else self._broker.bootstrap,
            "subscribe": topic,
            **variant.options,
        }
        if variant is READY:
            given = {"records": str(load.records), "bytes_each": str(load.bytes_each)}
        seen = Observation()
        began = time.perf_counter()
        frame = self.spark.read.format(variant.source).options(**given).load()
        frame.observe(seen, count(lit(1)).alias("records")).write.format("noop").mode("overwrite").save()
        seconds = time.perf_counter() - began
        if seen.get["records"] != load.records:
            raise RuntimeError(
                f"{variant.name}: {load.records} records are stored, and {seen.get['records']} were read"
            )
        return seconds


@contextmanager
def _started() -> Iterator[Bench]:
    from benchmarks.spark_ready import Dropping, ReadyMade
    from compat_tests.spark_connector import connector
    from kqueue.spark.session import session

    why_no_stock = connector.missing()
    jars = "" if why_no_stock else ",".join(str(jar) for jar in sorted(connector.JARS.fetch().glob("*.jar")))
    with temporary_folder() as folder, OwnBroker("kafka") as broker:
        settings = {
            "spark.driver.memory": "1g",
            "spark.local.dir": folder,
            "spark.sql.warehouse.dir": folder / "warehouse",
            "spark.jars": jars,
        }
        spark = session("kqueue-benchmark", f"local[{SLOTS}]", settings=settings)
        spark.dataSource.register(ReadyMade)
        spark.dataSource.register(Dropping)
        try:
            yield Bench(spark, broker, why_no_stock)
        finally:
            spark.stop()


def steps(*, quick: bool = False) -> Iterator[Step]:
    """Yield the steps; session and broker live until the generator ends."""
    with _started() as bench:
        for whole in LOADS:
            load = replace(whole, records=whole.records // QUICK, times_faster=None) if quick else whole
            topic = bench.fill(load)
            for variant in VARIANTS:
                yield (
                    f"Spark: {load.name}, {variant.name}",
                    lambda variant=variant, load=load, topic=topic: bench.row(variant, load, topic),
                )  # type: ignore[misc]
        yield from sink_steps(bench.sink(), quick=quick)
        yield from event_steps(bench.spark, quick=quick)
