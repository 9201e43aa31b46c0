"""`python -m benchmarks.workers`: what several processes of one machine serve together.

One broker, and `kqueue serve --workers` with 1, 2 and 4 of them, under the same load: clients in
processes of their own, each with librdkafka and partitions of its own. Clients and brokers share
the machine's cores, so the last step says as much of the machine as of kqueue.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

import psutil

from benchmarks.results import Figure, Row
from benchmarks.served import OwnBroker, Served
from kqueue.client import Client, NewTopic
from kqueue.testing.process_environment import process_environment

COUNTS = (0, 1, 2, 4)
"""Numbers of workers; 0: a single broker, without a supervisor."""
CLIENTS = 4
PARTITIONS_EACH = 2
SMALL, LARGE = 100, 1024
SMALL_RECORDS, LARGE_RECORDS = 40_000, 200_000
ROUNDS = 3
WAIT_S = 120
_CLIENT = """
import sys, time
from confluent_kafka import Consumer, Producer, TopicPartition
bootstrap, what, topic = sys.argv[1:4]
first, partitions, size, count = map(int, sys.argv[4:])
mine = range(first, first + partitions)
small = {"batch.num.messages": 1, "linger.ms": 0} if what == "requests" else {"batch.size": 1_000_000, "linger.ms": 5}
if what == "fetch":
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False,
        "queued.min.messages": 200_000, "queued.max.messages.kbytes": 200_000, "fetch.max.bytes": 50 << 20,
        "max.partition.fetch.bytes": 8 << 20})
    consumer.list_topics(topic, timeout=60)
else:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": 1, "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 1_000_000, **small})
    for partition in mine:
        producer.produce(topic, bytes(size), partition=partition)
    assert producer.flush(60) == 0
print("ready", flush=True)
sys.stdin.readline()
if what == "fetch":
    consumer.assign([TopicPartition(topic, partition, 0) for partition in mine])
    while count > 0:
        messages = consumer.consume(min(count, 10_000), 30)
        assert messages, "no more records"
        count -= len(messages)
    consumer.close()
else:
    several = [{"value": bytes(size)}] * (count // partitions)
    assert sum(producer.produce_batch(topic, several, partition=partition) for partition in mine) == count
    assert producer.flush(120) == 0
print("done", flush=True)
"""


def processes(served: Served) -> list[psutil.Process]:
    """Return the broker, or the supervisor and its workers."""
    own = psutil.Process(served.pid)
    return [own, *own.children()]


def memory_mb(served: Served) -> float:
    """Return the memory of all its processes; what they share counts once."""
    return float(sum(process.memory_full_info().pss for process in processes(served))) / 1e6


def cpu_s(served: Served) -> float:
    """Return the CPU seconds of all its processes so far."""
    return float(sum(times.user + times.system for times in (process.cpu_times() for process in processes(served))))


def run_clients(served: Served, what: str, topic: str, size: int, count: int) -> tuple[float, float]:
    """Let all clients do the same at the same time, each `count` records.

    Args: what: requests (one record each), produce, fetch.
    Returns: seconds until the last one is done, and the brokers' CPU seconds.
    """
    clients = [
        subprocess.Popen(
            [
                *(sys.executable, "-c", _CLIENT, served.bootstrap, what, topic),
                *map(str, (number * PARTITIONS_EACH, PARTITIONS_EACH, size, count)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=process_environment(),
        )
        for number in range(CLIENTS)
    ]
    try:
        _hear(clients, "ready\n")
        used_s, began = cpu_s(served), time.perf_counter()
        for client in clients:
            assert client.stdin is not None
            client.stdin.write("\n")
            client.stdin.flush()
        _hear(clients, "done\n")
        return time.perf_counter() - began, cpu_s(served) - used_s
    finally:
        for client in clients:
            client.kill()
            client.communicate()


def _hear(clients: list[subprocess.Popen[str]], expected: str) -> None:
    for client in clients:
        assert client.stdout is not None
        if client.stdout.readline() != expected:
            raise RuntimeError("a client failed; its error is above")


class FourClients(NamedTuple):
    """What four clients measured."""

    requests_s: float
    cpu_us: float
    produced_mb_s: float
    consumed_mb_s: float


def prepare(served: Served) -> float:
    """Create the topics; return the memory before in MB."""
    with Client(served.bootstrap, timeout_ms=WAIT_S * 1000) as client:
        client.metadata([])
        time.sleep(1)
        idle_mb = memory_mb(served)
        client.create_topics([NewTopic(name, CLIENTS * PARTITIONS_EACH, 1) for name in ("small", "large")])
    return idle_mb


def rows() -> Iterator[Row]:
    """Yield a row for each number of workers."""
    for count in COUNTS:
        began = time.perf_counter()
        with OwnBroker("kafka", workers=count) as served:
            with Client(served.bootstrap, timeout_ms=WAIT_S * 1000) as client:
                client.metadata([])
            started_s = time.perf_counter() - began
            idle_mb = prepare(served)
            yield _row(measure(served), count, started_s, idle_mb)


def measure(
    served: Served, rounds: int = ROUNDS, small: int = SMALL_RECORDS, large: int = LARGE_RECORDS
) -> FourClients:
    """Let the clients produce and consume, each so many records; keep the best of the rounds."""

    def best(what: str, topic: str, size: int, count: int) -> tuple[float, float]:
        return min(run_clients(served, what, topic, size, count) for _ in range(rounds))

    small_s, small_cpu_s = best("requests", "small", SMALL, small)
    produce_s, _ = best("produce", "large", LARGE, large)
    fetch_s, _ = best("fetch", "large", LARGE, large)
    requests, bulk_mb = CLIENTS * small, CLIENTS * large * LARGE / 1e6
    return FourClients(requests / small_s, small_cpu_s / requests * 1e6, bulk_mb / produce_s, bulk_mb / fetch_s)


def _row(measured: FourClients, count: int, started_s: float, idle_mb: float) -> Row:
    return Row(
        f"{count} workers" if count else "a single broker",
        [
            Figure(measured.requests_s, "one-record Produce requests/s"),
            Figure(measured.cpu_us, "CPU µs/request"),
            Figure(measured.produced_mb_s, "MB/s produced"),
            Figure(measured.consumed_mb_s, "MB/s consumed"),
            Figure(idle_mb, "MB, idle"),
            Figure(started_s, "s until the first answer"),
        ],
        f"{CLIENTS} clients with librdkafka, {CLIENTS * PARTITIONS_EACH} partitions",
    )


def main() -> None:
    for row in rows():
        print(row.name, f"({row.note})", flush=True)
        for figure in row.figures:
            print(f"    {figure.value:10.2f} {figure.unit}", flush=True)


if __name__ == "__main__":
    main()
