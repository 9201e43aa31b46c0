"""`python -m benchmarks`: measures a broker (its own, or that of --bootstrap), a cluster of three,
the log engine, security and the test kit.

`--only spark` compares the readers and writers of Spark; it needs kqueue[spark,fast], Java, and
Maven for Spark's own connector. `--only spark-cluster` reads and writes with one and with two
executors of a standalone cluster; it needs no Maven.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from rich.console import Console

from benchmarks import (
    beside,
    client,
    cluster,
    consumers,
    frames,
    hostile,
    kit,
    loads,
    log,
    partitions,
    rdkafka,
    replication,
    security,
    spark,
    spark_cluster,
    workers,
)
from benchmarks.results import Machine, Report, Row, save, show
from benchmarks.served import OwnBroker, Served, external, warm_pages
from kqueue.workers.process_setup import raise_open_files_limit

Step = tuple[str, Callable[[], Row]]
ONE_DEEP, FIVE_DEEP, LIBRDKAFKA, FLUSHED = 10_000, 40_000, 40_000, 5_000
GROUP = ", kqueue.flush=group"
PLAIN_WIDTH = 120
WARM_BYTES = 4 * 10**9
BROKER, CLUSTER, LOG, KIT, SECURITY, SPARK = "broker", "cluster", "log", "kit", "security", "spark"
SPARK_CLUSTER = "spark-cluster"
CPU_US_FIVE_DEEP, CPU_US_ONE_DEEP = 10, 16


def steps(served: Served) -> Iterator[Step]:
    """Yield the steps for any broker, in order; idle memory comes first, before loads grow it."""
    if served.pid is not None:
        yield "memory", lambda: loads.idle_memory(served)
    raw = frames.create_topic(served.bootstrap, "bulk-raw")
    yield "bulk produce, raw", lambda: loads.bulk_produce(served, raw)
    yield "bulk fetch, raw", lambda: loads.bulk_fetch(served, raw)
    yield "bulk fetch, kqueue.client", lambda: client.fetch(served, raw)
    frames.delete_topic(served.bootstrap, raw)
    stock = frames.create_topic(served.bootstrap, "bulk-librdkafka")
    yield "bulk produce, librdkafka", lambda: rdkafka.bulk_produce(served, stock)
    yield "bulk fetch, librdkafka", lambda: rdkafka.bulk_fetch(served, stock)
    frames.delete_topic(served.bootstrap, stock)
    yield "requests, 5 deep", lambda: loads.one_record_requests(served, 5, FIVE_DEEP, CPU_US_FIVE_DEEP)
    yield "requests, 1 deep", lambda: loads.one_record_requests(served, 1, ONE_DEEP, CPU_US_ONE_DEEP)
    yield "requests, librdkafka", lambda: rdkafka.one_record_requests(served, LIBRDKAFKA)


def flushed_steps(served: OwnBroker) -> Iterator[Step]:
    """Yield the steps for `kqueue.flush=group`, where records count after the fsync."""
    aims = loads.latency_aims_us(served.folder)
    yield "latency, flush=group", lambda: loads.latency(served, "kqueue.flush=group (target: one fsync more)", aims)
    topic = frames.create_topic(served.bootstrap, "bulk-group")
    yield (
        "bulk produce, flush=group",
        lambda: loads.bulk_produce(served, topic, name=GROUP, acks=-1, aims=False),
    )
    for depth in (1, 5):
        yield (
            f"requests, {depth} deep, flush=group",
            partial(loads.one_record_requests, served, depth, FLUSHED, None, GROUP, acks=-1),
        )
    for acks in (1, -1):
        yield (
            f"requests, librdkafka, flush=group, acks={acks}",
            partial(rdkafka.few_in_flight, served, FLUSHED, acks, GROUP),
        )


def waiting_steps(served: OwnBroker) -> Iterator[Step]:
    """Yield the steps of many consumers that wait."""
    raise_open_files_limit()
    yield "consumers of a busy topic", lambda: consumers.busy(served)
    yield "consumers of an idle topic", lambda: consumers.idle(served)


def measure(report: Report, console: Console, found: Iterator[Step]) -> None:
    for name, step in found:
        with console.status(name):
            report.rows.append(step())


def _measure_cluster(report: Report, console: Console) -> None:
    for name, rows in (
        ("replication, flush=kafka", replication.rows("kafka")),
        ("replication, flush=group", replication.rows("group")),
        ("many replicated partitions", cluster.rows()),
        ("workers", workers.rows()),
    ):
        with console.status(name):
            report.rows.extend(rows)


def _drop_aims(report: Report) -> None:
    """Remove the targets, which are kqueue's, from the figures of another broker."""
    for figure in (figure for row in report.rows for figure in row.figures):
        figure.at_most = figure.at_least = None


def _measure_there(bootstrap: str, report: Report, console: Console) -> None:
    there = external(bootstrap)
    measure(report, console, steps(there))
    measure(
        report, console, iter([("latency", lambda: loads.latency(there, "as it is set", loads.latency_aims_us(None)))])
    )
    _drop_aims(report)


def _measure_broker(report: Report, console: Console) -> None:
    measure(report, console, iter([("start", loads.start_time)]))
    with OwnBroker("kafka") as own:
        measure(report, console, steps(own))
        aims = loads.latency_aims_us(None)
        measure(report, console, iter([("latency", lambda: loads.latency(own, "kqueue.flush=kafka", aims))]))
    with OwnBroker("group") as own:
        measure(report, console, flushed_steps(own))
    with OwnBroker("kafka") as own:
        measure(report, console, waiting_steps(own))
    measure(report, console, partitions.rows())
    measure(report, console, iter([("beside hostile clients", hostile.row)]))
    measure(report, console, beside.rows())


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="measure this broker instead of a new kqueue")
    parser.add_argument(
        "--only",
        choices=(BROKER, CLUSTER, LOG, KIT, SECURITY, SPARK, SPARK_CLUSTER),
        help="one of the groups; security: TLS, SCRAM, authorizer, quotas, audit log; spark and spark-cluster run only "
        "if they are named",
    )
    parser.add_argument(
        "--quick", action="store_true", help="a small part of the sizes of log and spark, to see that they run"
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="save the figures in this file too")
    options = parser.parse_args(arguments)
    console = Console(stderr=True)
    report = Report(options.bootstrap or "kqueue", time.strftime("%Y-%m-%d %H:%M:%S"), Machine.look({os.getpid()}))
    with console.status("warming the page cache"):
        warm_pages(WARM_BYTES // (100 if options.quick else 1))
    if options.bootstrap:
        _measure_there(options.bootstrap, report, console)
    else:
        if options.only in (None, BROKER):
            _measure_broker(report, console)
        if options.only in (None, CLUSTER):
            _measure_cluster(report, console)
        if options.only in (None, SECURITY):
            with console.status("security"):
                report.rows.extend(security.rows())
        if options.only in (None, KIT):
            measure(report, console, kit.steps())
        if options.only in (None, LOG):
            raise_open_files_limit()
            measure(report, console, log.steps(log.QUICK if options.quick else log.Sizes()))
        if options.only == SPARK:
            measure(report, console, spark.steps(quick=options.quick))
        if options.only == SPARK_CLUSTER:
            measure(report, console, spark_cluster.steps(quick=options.quick))
    report.after = Machine.look({os.getpid()})
    show(report, Console() if sys.stdout.isatty() else Console(width=PLAIN_WIDTH))
    if options.json:
        save(report, options.json)
    return 0 if all(figure.passed is not False for row in report.rows for figure in row.figures) else 1


if __name__ == "__main__":
    sys.exit(main())
