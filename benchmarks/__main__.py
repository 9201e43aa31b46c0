"""`python -m benchmarks`: measures a broker (its own, or that of --bootstrap), a cluster of three,
the log engine, tiered storage, security and the test kit.

`--against kafka,kfake` measures kqueue beside Apache Kafka (Java, Maven) and kfake (Go) instead:
one broker, then, with `--only cluster`, several processes and three brokers. `--only growth`
measures what a request costs as a broker has more to keep. With `--keep` the figures are those of
docs/benchmarks.md from then on.

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
    against,
    against_clusters,
    beside,
    client,
    cluster,
    comparison,
    consumers,
    frames,
    growth,
    hostile,
    kit,
    loads,
    log,
    page,
    partitions,
    rdkafka,
    replication,
    security,
    spark,
    spark_cluster,
    tier,
    workers,
)
from benchmarks.comparison import Comparison
from benchmarks.options import BROKER, CLUSTER, GROWTH, KIT, LOG, SECURITY, SPARK, SPARK_CLUSTER, TIER, parse
from benchmarks.results import Machine, Report, Row, keep, save, show
from benchmarks.served import OwnBroker, Served, external, warm_pages
from kqueue.workers.process_setup import raise_open_files_limit

Step = tuple[str, Callable[[], Row]]
ONE_DEEP, FIVE_DEEP, LIBRDKAFKA, FLUSHED = 10_000, 40_000, 40_000, 5_000
GROUP = ", kqueue.flush=group"
PLAIN_WIDTH = 160
GROWTH_QUICK = 100
"""The largest size of `--only growth --quick`."""
WARM_BYTES = 4 * 10**9
INTERRUPTED = 130
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


def measure(report: Report, console: Console, steps: Iterator[Step]) -> None:
    for name, step in steps:
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


def _measure_kqueue(report: Report, console: Console, only: str | None, quick: bool) -> None:
    """Measure one of the groups; None: all but those of Spark."""
    if only in (None, BROKER):
        _measure_broker(report, console)
    if only in (None, CLUSTER):
        _measure_cluster(report, console)
    if only in (None, SECURITY):
        with console.status("security"):
            report.rows.extend(security.rows())
    if only in (None, KIT):
        measure(report, console, kit.steps())
    if only in (None, LOG):
        raise_open_files_limit()
        measure(report, console, log.steps(log.QUICK if quick else log.Sizes()))
    if only in (None, TIER):
        measure(report, console, tier.steps(quick=quick))
    if only == SPARK:
        measure(report, console, spark.steps(quick=quick))
    if only == SPARK_CLUSTER:
        measure(report, console, spark_cluster.steps(quick=quick))


def _compare(options: argparse.Namespace, console: Console) -> None:
    """Measure kqueue beside the peers that `--against` names."""
    quick, names = options.quick, options.against
    one_broker = against.QUICK if quick else against.Sizes()
    sizes = against_clusters.QUICK if quick else against_clusters.Sizes()
    comparisons: list[tuple[str, str, Callable[[], Comparison]]] = [
        (BROKER, against.KEPT, lambda: against.compare(names, one_broker, console, compiled=options.compiled)),
        (
            CLUSTER,
            against_clusters.WORKERS_KEPT,
            lambda: against_clusters.compare_workers(names, sizes, console),
        ),
        (
            CLUSTER,
            against_clusters.REPLICATION_KEPT,
            lambda: against_clusters.compare_replication(names, sizes, console),
        ),
    ]
    for group, name, compare in comparisons:
        if options.only in (None, group):
            compared = compare()
            comparison.show(compared, _printer())
            for path in _files(options, name):
                compared.save(path)


def _grow(options: argparse.Namespace, console: Console) -> None:
    grown = growth.measure(console, against.build(), size_max=GROWTH_QUICK if options.quick else 0)
    for path in _files(options, growth.KEPT):
        grown.save(path)


def _files(options: argparse.Namespace, name: str) -> Iterator[Path]:
    """Yield where figures are saved. `--json` names a folder if there are several files."""
    if options.json:
        yield options.json / name if options.json.is_dir() else options.json
    if options.keep:
        yield page.KEPT / name


def _printer() -> Console:
    return Console() if sys.stdout.isatty() else Console(width=PLAIN_WIDTH)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments, __doc__)
    console = Console(stderr=True)
    report = Report(options.bootstrap or "kqueue", time.strftime("%Y-%m-%d %H:%M:%S"), Machine.look({os.getpid()}))
    try:
        with console.status("warming the page cache"):
            warm_pages(WARM_BYTES // (100 if options.quick else 1))
        if options.against:
            _compare(options, console)
        elif options.only == GROWTH:
            _grow(options, console)
        else:
            _report(options, report, console)
        if options.keep:
            page.main()
    except KeyboardInterrupt:
        console.print("interrupted; all brokers have ended")
        return INTERRUPTED
    return 0 if all(figure.passed is not False for row in report.rows for figure in row.figures) else 1


def _report(options: argparse.Namespace, report: Report, console: Console) -> None:
    """Measure kqueue, or the broker of `--bootstrap`; print the figures beside their targets."""
    if options.bootstrap:
        _measure_there(options.bootstrap, report, console)
    else:
        _measure_kqueue(report, console, options.only, options.quick)
    report.after = Machine.look({os.getpid()})
    show(report, _printer())
    report.conditions.finish()
    if options.json:
        save(report, options.json)
    if options.keep:
        keep(report, page.KEPT / page.KIT_KEPT)


if __name__ == "__main__":
    sys.exit(main())
