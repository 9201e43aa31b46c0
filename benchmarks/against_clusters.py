"""`python -m benchmarks --against kafka --only cluster`: several processes and several brokers on
one machine, beside Apache Kafka on the same cores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import Progress

from benchmarks import against, loads, peers, replication, workers
from benchmarks.against import CPU_US, MB_S, P50_US, P99_US, RATE
from benchmarks.cluster import OwnCluster, ServedCluster
from benchmarks.comparison import Comparison, Measure
from benchmarks.peers import KAFKA_NAME
from benchmarks.replication import IN_SYNC
from benchmarks.served import OwnBroker, Served
from kqueue.client import NewTopic

WORKERS = 2
ONE, SEVERAL = "kqueue, one process", f"kqueue --workers {WORKERS}"
THREE_KAFKA, THREE_GROUP, THREE_PEERS = "kqueue, flush=kafka", "kqueue, flush=group", f"{KAFKA_NAME}, three nodes"
WORKERS_KEPT, REPLICATION_KEPT = "workers.json", "replication.json"
FOUR_CLIENTS = "four clients with librdkafka"
THREE_BROKERS = "acks=all on three brokers"
WORKER_MEASURES = (
    RATE,
    CPU_US,
    Measure("MB/s produced", True),
    Measure("MB/s consumed", True),
    Measure("MB when idle", False),
)
REPLICATION_MEASURES = (
    MB_S,
    Measure("CPU s/GB of the leader", False),
    Measure("CPU s/GB of a follower", False),
    P50_US,
    P99_US,
    Measure("MB of a broker, after", False),
)


class Sizes(NamedTuple):
    """How much is sent."""

    rounds: int = 3
    small: int = 20_000
    large: int = 100_000
    batches: int = 200


QUICK = Sizes(rounds=1, small=500, large=2_000, batches=10)
Columns = dict[str, Callable[[], AbstractContextManager[Any]]]


def compare_workers(names: Sequence[str], sizes: Sizes, console: Console) -> Comparison:
    """Measure one process, several workers, and Kafka, if it is named."""
    result = against.begin(sizes.rounds, {SEVERAL: [ONE, KAFKA_NAME]})
    columns: Columns = {ONE: partial(OwnBroker, "kafka"), SEVERAL: partial(OwnBroker, "kafka", workers=WORKERS)}
    if _has_kafka(names, result, console):
        columns[KAFKA_NAME] = peers.kafka

    def figures(served: Served) -> Sequence[float]:
        idle_mb = workers.prepare(served)
        workers.run_clients(served, "requests", "small", workers.SMALL, sizes.small)  # a JVM compiles what runs often
        return *workers.measure(served, 1, sizes.small, sizes.large), idle_mb

    _run(result, columns, FOUR_CLIENTS, WORKER_MEASURES, figures, console)
    return result


def compare_replication(names: Sequence[str], sizes: Sizes, console: Console) -> Comparison:
    """Measure clusters of three brokers."""
    result = against.begin(sizes.rounds, {THREE_KAFKA: [THREE_PEERS], THREE_GROUP: [THREE_PEERS]})
    columns: Columns = {THREE_KAFKA: partial(OwnCluster, "kafka"), THREE_GROUP: partial(OwnCluster, "group")}
    if _has_kafka(names, result, console):
        columns[THREE_PEERS] = peers.KafkaCluster

    def figures(cluster: ServedCluster) -> Sequence[float]:
        cluster.create_all([NewTopic("bulk", 1, 3, IN_SYNC), NewTopic("replicated", 1, 3, IN_SYNC)])
        replication.replicate(cluster, "bulk", sizes.batches)
        replication.latencies_ms(cluster, "replicated")
        gigabytes, taken = replication.replicate(cluster, "bulk", sizes.batches)
        p50, p99 = loads.quantiles(replication.latencies_ms(cluster, "replicated"))
        memory = max(broker.memory_bytes() for broker in cluster.brokers.values()) / 1e6
        return (
            gigabytes * 1000 / taken.seconds,
            taken.leader_cpu_s / gigabytes,
            taken.follower_cpu_s / gigabytes,
            p50 * 1000,
            p99 * 1000,
            memory,
        )

    _run(result, columns, THREE_BROKERS, REPLICATION_MEASURES, figures, console)
    return result


def _has_kafka(names: Sequence[str], result: Comparison, console: Console) -> bool:
    return any(against.available([name for name in names if name == peers.KAFKA], peers.columns, result, console))


def _run(
    result: Comparison,
    columns: Columns,
    load: str,
    measures: Sequence[Measure],
    figures: Callable[[Any], Sequence[float]],
    console: Console,
) -> None:
    result.columns = list(columns)
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("", total=result.rounds * len(columns))
        for number in range(result.rounds):
            for name, start in columns.items():
                progress.update(task, description=f"round {number + 1} of {result.rounds}: {name}")
                with start() as served:
                    result.add(name, load, measures, figures(served))
                progress.advance(task)
    result.conditions.finish()
