"""Loads through raw sockets: the broker's limits when the client is not the bottleneck."""

from __future__ import annotations

import selectors
import socket
import statistics
import struct
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from benchmarks import frames
from benchmarks.frames import Connection
from benchmarks.results import Figure, Row
from benchmarks.served import Served, fsync_ms

GB = 1e9
RECORD = bytes(range(256)) * 4
BATCH_RECORDS = 1_000
BULK_BATCHES = 1_000
BULK_DEPTH = 5
FETCH_BYTES = 16 * 2**20
ROUNDS = 3
IDLE_CONNECTIONS = 400
LATENCY_SAMPLES = 1_200
LATENCY_WARM_UP = 100
START_ROUNDS = 3


def pump(sock: socket.socket, frame: bytes, reply_bytes: int, count: int, depth: int) -> float:
    """Send `frame` `count` times with up to `depth` unanswered; returns the seconds until the last
    answer.

    All answers must be of one size, which they are: same request, same fields.
    """
    several = [frame * number for number in range(depth + 1)]
    room = bytearray(1 << 16)
    sent = min(depth, count)
    done = spare = 0
    started = time.perf_counter()
    sock.sendall(several[sent])
    while done < count:
        got = sock.recv_into(room)
        if not got:
            raise ConnectionError("the broker closed the connection")
        fresh, spare = divmod(spare + got, reply_bytes)
        done += fresh
        more = min(fresh, count - sent)
        if more:
            sock.sendall(several[more])
            sent += more
    return time.perf_counter() - started


def produce_many(served: Served, topic: str, data: bytes, count: int, depth: int, acks: int = 1) -> tuple[float, float]:
    """Produce one batch `count` times; returns seconds and the broker's CPU seconds. Raises: not
    all of it was stored.
    """
    frame = frames.produce_frame(topic, data, acks)
    before = frames.end_offset(served.bootstrap, topic)
    with Connection(served.load_bootstrap, served.tls) as connection:
        connection.socket.sendall(frame)
        reply_bytes = 4 + len(connection.read_reply())
        per_batch = frames.settled_end(served.bootstrap, topic, before + 1) - before
        cpu_s = served.cpu_s()
        seconds = pump(connection.socket, frame, reply_bytes, count, depth)
        cpu_s = served.cpu_s() - cpu_s
    stored = frames.settled_end(served.bootstrap, topic, before + per_batch * (count + 1)) - before
    if stored != per_batch * (count + 1):
        raise RuntimeError(f"{count + 1} batches were sent and {stored} records are stored")
    return seconds, cpu_s


def bulk_produce(served: Served, topic: str, *, name: str = "", acks: int = 1, aims: bool = True) -> Row:
    data = frames.batch(BATCH_RECORDS, RECORD)
    size = len(data) * BULK_BATCHES
    best = min(produce_many(served, topic, data, BULK_BATCHES, BULK_DEPTH, acks) for _ in range(ROUNDS))
    return Row(
        f"bulk produce, 1 KB records, raw socket{name}",
        [
            Figure(size / 1e6 / best[0], "MB/s", at_least=800 if aims else None),
            Figure(best[1] / (size / GB), "CPU s/GB", at_most=0.60 if aims else None),
        ],
        f"batches of {BATCH_RECORDS}, {BULK_DEPTH} unanswered, acks={acks}",
    )


def bulk_fetch(served: Served, topic: str, *, name: str = "", aims: bool = True) -> Row:
    """Read the topic of `bulk_produce` twice; the pages are in memory by then."""
    best = min(fetch_all(served, topic) for _ in range(ROUNDS))
    return Row(
        f"bulk fetch, raw socket{name}",
        [
            Figure(best[2] / 1e6 / best[0], "MB/s", at_least=1_000 if aims else None),
            Figure(best[1] / (best[2] / GB), "CPU s/GB", at_most=0.60 if aims else None),
        ],
        f"fetches of {FETCH_BYTES >> 20} MiB, the next one sent before the last is read",
    )


def fetch_all(served: Served, topic: str) -> tuple[float, float, int]:
    """Read the topic of `bulk_produce` whole.

    Returns: seconds, CPU seconds of the broker, and bytes.
    """
    end = frames.end_offset(served.bootstrap, topic)
    batch_bytes = len(frames.batch(BATCH_RECORDS, RECORD))
    head_bytes = frames.fetch_head_bytes(topic)
    room = bytearray(1 << 20)
    total = offset = 0
    with Connection(served.load_bootstrap, served.tls) as connection:
        sock = connection.socket
        cpu_s = served.cpu_s()
        started = time.perf_counter()
        sock.sendall(frames.fetch_frame(topic, offset, max_bytes=FETCH_BYTES))
        while offset < end:
            head = connection.read_exactly(head_bytes)
            size = struct.unpack_from(">i", head, head_bytes - 4)[0]
            batches = size // batch_bytes  # a broker may add the beginning of one more
            if not batches:
                raise RuntimeError(f"an answer with {size} bytes of records, expected batches of {batch_bytes}")
            offset += batches * BATCH_RECORDS
            if offset < end:
                sock.sendall(frames.fetch_frame(topic, offset, max_bytes=FETCH_BYTES))
            left = size
            while left:
                left -= sock.recv_into(room, min(left, len(room)))
            total += batches * batch_bytes
        seconds = time.perf_counter() - started
        return seconds, served.cpu_s() - cpu_s, total


def one_record_requests(
    served: Served, depth: int, count: int, cpu_us_aim: float | None, name: str = "", acks: int = 1
) -> Row:
    topic = frames.create_topic(served.bootstrap, f"one-{depth}-deep")
    data = frames.batch(1, RECORD[:100])
    with served.same_core() as same:
        produce_many(served, topic, data, count // 10, depth, acks)
        seconds, cpu_s = min(produce_many(served, topic, data, count, depth, acks) for _ in range(ROUNDS))
    return Row(
        f"one-record Produce requests, {depth} deep{name}",
        [
            Figure(cpu_s / count * 1e6, "CPU µs/request", at_most=cpu_us_aim),
            Figure(count / seconds, "requests/s"),
        ],
        f"100 bytes each, acks={acks}, one connection{', client and broker on one core' if same else ''}",
    )


def latency(served: Served, name: str, aims_us: tuple[float, float]) -> Row:
    """Measure from the send of a Produce until a waiting consumer has the record."""
    p50, p99 = quantiles(waits_of_a_consumer_us(served, LATENCY_SAMPLES))
    return Row(
        f"produce -> consume, {name}",
        [Figure(p50, "µs p50", at_most=aims_us[0]), Figure(p99, "µs p99", at_most=aims_us[1])],
        f"{LATENCY_SAMPLES} records one by one, the consumer waiting",
    )


def waits_of_a_consumer_us(served: Served, count: int) -> list[float]:
    """Return how long each of so many records takes from its producer to a waiting consumer."""
    topic = frames.create_topic(served.bootstrap, "latency")
    frame = frames.produce_frame(topic, frames.batch(1, RECORD[:100]))
    taken_us = []
    with Connection(served.bootstrap) as producer, Connection(served.bootstrap) as consumer:
        for offset in range(count + LATENCY_WARM_UP):
            request = frames.fetch_frame(topic, offset, max_bytes=2**20, max_wait_ms=5_000)
            consumer.socket.sendall(request)
            time.sleep(0.0005)  # by then the fetch waits at the broker
            started = time.perf_counter()
            producer.socket.sendall(frame)
            while len(consumer.read_reply()) < len(frame) - 60:  # without the record: a consumer asks again
                consumer.socket.sendall(request)
            taken_us.append((time.perf_counter() - started) * 1e6)
            producer.read_reply()
    return taken_us[LATENCY_WARM_UP:]


def one_at_a_time(served: Served, count: int) -> tuple[list[float], float]:
    """Produce records of 100 bytes, acks=all, each after the response to the one before.

    Returns: the microseconds of each, and CPU seconds of the broker.
    """
    topic = frames.create_topic(served.bootstrap, "one-at-a-time")
    frame = frames.produce_frame(topic, frames.batch(1, RECORD[:100]), acks=-1)
    taken_us = []
    with Connection(served.bootstrap) as producer:
        for number in range(count + LATENCY_WARM_UP):
            if number == LATENCY_WARM_UP:
                cpu_s = served.cpu_s()
            started = time.perf_counter()
            producer.socket.sendall(frame)
            producer.read_reply()
            taken_us.append((time.perf_counter() - started) * 1e6)
        cpu_s = served.cpu_s() - cpu_s
    return taken_us[LATENCY_WARM_UP:], cpu_s


def side_by_side(served: Served, topic: str, connections: int, count: int) -> tuple[float, float]:
    """Produce `count` records of 100 bytes, acks=1, from connections that each have one request
    unanswered; return seconds, and CPU seconds of the broker.
    """
    frame = frames.produce_frame(topic, frames.batch(1, RECORD[:100]))
    with ExitStack() as opened, selectors.DefaultSelector() as selector:
        for _ in range(connections):
            connection = opened.enter_context(Connection(served.bootstrap))
            connection.socket.sendall(frame)
            connection.read_reply()
            selector.register(connection.socket, selectors.EVENT_READ, connection)
        cpu_s, started = served.cpu_s(), time.perf_counter()
        unsent = count - connections
        for key in selector.get_map().values():
            key.data.socket.sendall(frame)
        done = 0
        while done < count:
            for key, _ in selector.select():
                key.data.read_reply()
                done += 1
                if unsent > 0:
                    key.data.socket.sendall(frame)
                    unsent -= 1
        return time.perf_counter() - started, served.cpu_s() - cpu_s


def latency_aims_us(folder: Path | None) -> tuple[float, float]:
    """Return the targets; with a folder, plus one fsync in it."""
    p50_ms, p99_ms = quantiles(fsync_ms(folder)) if folder is not None else (0.0, 0.0)
    return 250 + p50_ms * 1000, 800 + p99_ms * 1000


def quantiles(values: list[float]) -> tuple[float, float]:
    """Return the median and the 99th percentile."""
    cuts = statistics.quantiles(values, n=100)
    return cuts[49], cuts[98]


def idle_memory(served: Served) -> Row:
    with Connection(served.bootstrap) as connection:
        frames.greet(connection)
        time.sleep(0.2)
        alone = served.memory_bytes()
        several = [Connection(served.bootstrap) for _ in range(IDLE_CONNECTIONS)]
        for each in several:
            frames.greet(each)
        time.sleep(0.2)
        together = served.memory_bytes()
        for each in several:
            each.close()
    return Row(
        "memory: idle broker, idle connection",
        [
            Figure(alone / 1e6, "MB", at_most=45),
            Figure((together - alone) / IDLE_CONNECTIONS / 1e3, "KB/connection", at_most=20),
        ],
        f"resident; {IDLE_CONNECTIONS} connections after ApiVersions and Metadata",
    )


_START = """
import time
begun = time.perf_counter()
import kqueue
imported = time.perf_counter()
with kqueue.Broker():
    first = time.perf_counter()
again = time.perf_counter()
with kqueue.Broker():
    second = time.perf_counter()
print(imported - begun, first - imported, second - again)
"""


def start_time() -> Row:
    rounds_ms = []
    for _ in range(START_ROUNDS):
        printed = subprocess.run(
            [sys.executable, "-c", _START], capture_output=True, text=True, check=True, timeout=60
        ).stdout
        rounds_ms.append([float(part) * 1000 for part in printed.split()])
    imported, first, second = (min(column) for column in zip(*rounds_ms, strict=True))
    return Row(
        "start of kqueue.Broker()",
        [
            Figure(first, "ms, the first", at_most=500),
            Figure(second, "ms, another one"),
            Figure(imported, "ms, import kqueue"),
        ],
        "in memory; the first start imports modules",
    )
