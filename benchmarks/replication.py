"""What replicas cost: throughput and latency of acks=all, and a new replica that copies old
segments while clients produce. Three brokers on this machine, see `benchmarks.cluster`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

from benchmarks import frames, loads
from benchmarks.cluster import BROKERS, OwnCluster, ServedCluster
from benchmarks.frames import Connection
from benchmarks.results import Figure, Row
from kqueue.client import Client, NewTopic, TopicPartition

BATCHES = 500
LATENCY_SAMPLES = 1_000
WARM_UP = 100
COPIED_BATCHES = 1_000
BULK_MB_MIN = 40
COPY_MB_MIN = 40
P50_MS_MAX = 5
BESIDE_P99_MS_MAX = 100
POLL_S = 0.01
SMALL = frames.batch(1, loads.RECORD[:100])
IN_SYNC = {"min.insync.replicas": "2"}


def rows(flush: str) -> Iterator[Row]:
    """Yield the rows of one flush mode."""
    with OwnCluster(flush) as cluster:
        cluster.create_all(
            [
                NewTopic("bulk", 1, BROKERS, IN_SYNC),
                NewTopic("replicated", 1, BROKERS, IN_SYNC),
                NewTopic("single", 1, 1),
                NewTopic("grown", 1, BROKERS - 1, IN_SYNC),
            ]
        )
        yield bulk(cluster, flush)
        yield latency(cluster, flush)
        yield beside_copying(cluster, flush)


class Replicated(NamedTuple):
    """What producing to a replicated partition takes."""

    seconds: float
    leader_cpu_s: float
    follower_cpu_s: float


def replicate(cluster: ServedCluster, topic: str, batches: int = BATCHES) -> tuple[float, Replicated]:
    """Produce batches of 1 MB with acks=all; return the gigabytes, and what they took."""
    leader = cluster.leader(topic)
    data = frames.batch(loads.BATCH_RECORDS, loads.RECORD)
    before = {node: broker.cpu_s() for node, broker in cluster.brokers.items()}
    seconds, cpu_s = loads.produce_many(cluster.brokers[leader], topic, data, batches, loads.BULK_DEPTH, acks=-1)
    followers = [broker.cpu_s() - before[node] for node, broker in cluster.brokers.items() if node != leader]
    return len(data) * batches / loads.GB, Replicated(seconds, cpu_s, max(followers))


def bulk(cluster: OwnCluster, flush: str) -> Row:
    """Produce with acks=all, best of a few rounds."""
    gigabytes, best = min(replicate(cluster, "bulk") for _ in range(loads.ROUNDS))
    return Row(
        f"replication, 1 KB records, factor {BROKERS}, kqueue.flush={flush}",
        [
            Figure(gigabytes * 1000 / best.seconds, "MB/s", at_least=BULK_MB_MIN),
            Figure(best.leader_cpu_s / gigabytes, "CPU s/GB of the leader"),
            Figure(best.follower_cpu_s / gigabytes, "CPU s/GB of a follower"),
        ],
        f"one partition, min.insync.replicas=2; batches of {loads.BATCH_RECORDS}, {loads.BULK_DEPTH} unanswered, "
        "acks=all",
    )


def latency(cluster: OwnCluster, flush: str) -> Row:
    """Compare acks=all with and without other replicas."""
    with_replicas = loads.quantiles(latencies_ms(cluster, "replicated"))
    alone = loads.quantiles(latencies_ms(cluster, "single"))
    return Row(
        f"acks=all, kqueue.flush={flush}",
        [
            Figure(with_replicas[0], f"ms p50, factor {BROKERS}", at_most=P50_MS_MAX),
            Figure(with_replicas[1], f"ms p99, factor {BROKERS}"),
            Figure(alone[0], "ms p50, factor 1"),
            Figure(alone[1], "ms p99, factor 1"),
        ],
        f"{LATENCY_SAMPLES} records of 100 bytes one by one, until the response",
    )


def beside_copying(cluster: OwnCluster, flush: str) -> Row:
    """Add a replica to a partition, and produce to it while the new one copies its old segments."""
    leader = cluster.leader("grown")
    data = frames.batch(loads.BATCH_RECORDS, loads.RECORD)
    loads.produce_many(cluster.brokers[leader], "grown", data, COPIED_BATCHES, loads.BULK_DEPTH, acks=-1)
    before = loads.quantiles(latencies_ms(cluster, "grown"))
    place = TopicPartition("grown", 0)
    beside: list[float] = []
    with Client(cluster.bootstrap) as client:
        partition = client.metadata(["grown"]).topics["grown"].partitions[0]
        added = next(node for node in cluster.brokers if node not in partition.replicas)
        began = time.monotonic()
        copied = threading.Event()
        taken = threading.Thread(target=lambda: beside.extend(latencies_ms(cluster, "grown", copied)))
        taken.start()
        try:
            refused = client.cluster.reassign({place: [*partition.replicas, added]})
            if refused:
                raise RuntimeError(f"the new replica was refused: {refused}")
            while client.cluster.reassignments([place]):
                time.sleep(POLL_S)
            seconds = time.monotonic() - began
        finally:
            copied.set()
            taken.join()
    megabytes = len(data) * COPIED_BATCHES / 1e6
    p50, p99 = loads.quantiles(beside)
    return Row(
        f"a new replica copies {megabytes:,.0f} MB of old segments, kqueue.flush={flush}",
        [
            Figure(megabytes / seconds, "MB/s", at_least=COPY_MB_MIN),
            Figure(p50, "ms p50 of acks=all meanwhile"),
            Figure(p99, "ms p99 of acks=all meanwhile", at_most=BESIDE_P99_MS_MAX),
            Figure(before[0], "ms p50 of acks=all before"),
            Figure(before[1], "ms p99 of acks=all before"),
        ],
        f"one partition; records of 100 bytes one by one to the same partition, {len(beside)} meanwhile",
    )


def latencies_ms(cluster: ServedCluster, topic: str, until: threading.Event | None = None) -> list[float]:
    """Produce records one by one; return the milliseconds of each.

    Args: until: go on until it is set; None: a fixed number, after a warm-up.
    """
    frame = frames.produce_frame(topic, SMALL, acks=-1)
    taken_ms: list[float] = []
    with Connection(cluster.brokers[cluster.leader(topic)].bootstrap) as producer:
        while len(taken_ms) < WARM_UP + LATENCY_SAMPLES if until is None else not until.is_set():
            started = time.perf_counter()
            producer.socket.sendall(frame)
            producer.read_reply()
            taken_ms.append((time.perf_counter() - started) * 1000)
    return taken_ms[WARM_UP if until is None else 0 :]
