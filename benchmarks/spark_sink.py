"""Spark writes rows with keys to a topic of four partitions: kqueue's sink with each guarantee,
Spark's own connector, and a sink in Python that drops its rows: the limit of any.

All run in one session on the same rows, one task at a time, one after the other in each round: the
JVM compiles more of Spark with each round, so that the last of several rows in turn would be the
fastest. Each is the best of its rounds. Each round has a topic of its own; a round after which the
topic lacks rows is an error.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING

from benchmarks.frames import asking
from benchmarks.results import Figure, Row
from kqueue.client import LATEST, NewTopic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Step = tuple[str, Callable[[], Row]]
ROUNDS = 6
PARTITIONS = 4
QUICK = 20
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Load:
    """`bytes_each`: of a row's value."""

    name: str
    bytes_each: int
    rows: int


LOADS = (Load("100 B", 100, 2_000_000), Load("1 KB", 1_000, 300_000))


@dataclass(frozen=True, eq=False)
class SinkVariant:
    """One sink format and its options.

    `is_once`: each write needs a number of its own. `beside`: records beside the rows, in each
    partition.
    """

    name: str
    sink: str = "kqueue"
    options: Mapping[str, str] = field(default_factory=dict)
    is_once: bool = False
    beside: int = 0


AT_LEAST_ONCE = SinkVariant("at least once")
ZSTD = SinkVariant("at least once, zstd", options={"kafka.compression.type": "zstd"})
EXACTLY_ONCE = SinkVariant("exactly once", options={"delivery": "exactly-once", "txnAppId": "benchmark"}, is_once=True)
TRANSACTIONAL = SinkVariant(
    "transactional",
    options={"delivery": "transactional", "txnAppId": "benchmark-transactional"},
    is_once=True,
    beside=3,  # a guard, and the ends of its transaction and of the task's
)
STOCK = SinkVariant("Spark's own connector", sink="kafka")
DROPPED = SinkVariant("dropped rows", sink="dropping")
VARIANTS = (AT_LEAST_ONCE, ZSTD, EXACTLY_ONCE, TRANSACTIONAL, STOCK, DROPPED)


class SinkBench:
    """A session and a broker to write to. `why_no_stock`: why there is no connector to compare
    with; None: there is.
    """

    def __init__(self, spark: SparkSession, bootstrap: str, why_no_stock: str | None) -> None:
        self._spark = spark
        self._bootstrap = bootstrap
        self._why_no_stock = why_no_stock
        self._best_s: dict[Load, dict[SinkVariant, float]] = {}

    def rows(self, load: Load, tasks: int = 1) -> DataFrame:
        """Return the rows, which Spark generates while it writes; that costs little."""
        value = f"rpad(cast(id as string), {load.bytes_each}, 'abcdefghijklmnopqrstuvwxyz')"
        return self._spark.range(0, load.rows, 1, tasks).selectExpr("cast(id as string) key", f"{value} value")

    def row(self, variant: SinkVariant, load: Load) -> Row:
        """Return the variant's row; the first one of a load measures all of them."""
        name = f"Spark writes {load.name}, {variant.name}"
        if variant is STOCK and self._why_no_stock is not None:
            return Row(name, [Figure(float("nan"), "records/s")], f"left out, because {self._why_no_stock}")
        if load not in self._best_s:
            self._best_s[load] = self._in_turn(load)
        best_s = self._best_s[load]
        rate = load.rows / best_s[variant]
        figures = [Figure(rate, "records/s"), Figure(rate * load.bytes_each / 1e6, "MB/s")]
        if variant is not DROPPED:
            figures.append(Figure(100 * best_s[DROPPED] / best_s[variant], "% of dropped rows"))
        return Row(name, figures, f"{load.rows:,} rows by key to {PARTITIONS} partitions, 1 task at a time")

    def _in_turn(self, load: Load) -> dict[SinkVariant, float]:
        rows = self.rows(load)
        best_s = dict.fromkeys((one for one in VARIANTS if one is not STOCK or self._why_no_stock is None), inf)
        for _ in range(ROUNDS):
            for variant in best_s:
                best_s[variant] = min(best_s[variant], self.write_seconds(variant, load, rows))
        return best_s

    def write_seconds(self, variant: SinkVariant, load: Load, rows: DataFrame) -> float:
        """Return the seconds, Spark's planning included."""
        number = next(_numbers)
        topic = f"spark-sink-{number}"
        with asking(self._bootstrap) as client:
            partitions = client.create_topics([NewTopic(topic, PARTITIONS)]).topics[topic].topic_partitions
            given = {"kafka.bootstrap.servers": self._bootstrap, "topic": topic, **variant.options}
            if variant.is_once:
                given["txnVersion"] = str(number)
            began = time.perf_counter()
            rows.write.format(variant.sink).mode("append").options(**given).save()
            seconds = time.perf_counter() - began
            written = sum(end.offset or 0 for end in client.offsets(dict.fromkeys(partitions, LATEST)).values())
            written -= variant.beside * PARTITIONS
            client.delete_topics([topic])
        if written != (load.rows if variant is not DROPPED else 0):
            raise RuntimeError(f"{variant.name}: {load.rows} rows were sent, and {written} records are stored")
        return seconds


def sink_steps(bench: SinkBench, *, quick: bool) -> Iterator[Step]:
    """Yield the steps, in the session of the read benchmark."""
    for whole in LOADS:
        load = replace(whole, rows=whole.rows // QUICK) if quick else whole
        for variant in VARIANTS:
            yield (
                f"Spark: {load.name}, {variant.name}",
                lambda variant=variant, load=load: bench.row(variant, load),
            )  # type: ignore[misc]
