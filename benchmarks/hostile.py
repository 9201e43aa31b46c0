"""The latency of a client beside clients that pipeline expensive requests."""

from __future__ import annotations

import select
import socket
import subprocess
import sys
import time

from benchmarks import frames
from benchmarks.frames import Connection
from benchmarks.loads import RECORD, quantiles
from benchmarks.results import Figure, Row
from benchmarks.served import OwnBroker
from kqueue.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kqueue.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

TOPICS = 2_000
HOSTILE = 40
PIPELINED = 450
SECONDS = 8.0
PAUSE_S = 0.005
P99_MS_AIM = 100
CREATE_TOPICS, CREATE_TOPICS_VERSION = 19, 4
METADATA, METADATA_VERSION = 3, 1


def row() -> Row:
    """Send Metadata of one topic, Produce and Fetch in turn, while other clients request all
    topics without end.
    """
    with OwnBroker("kafka") as served:
        topic = _make_topics(served.bootstrap)
        hostile = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.hostile", served.bootstrap], stdout=subprocess.PIPE
        )
        try:
            assert hostile.stdout is not None
            with Connection(served.bootstrap) as connection:
                _ask(connection, topic, 0.0)
                hostile.stdout.readline()
                taken_ms = _ask(connection, topic, SECONDS)
        finally:
            hostile.kill()
            hostile.wait()
    p50, p99 = quantiles(taken_ms)
    return Row(
        f"a good client beside {HOSTILE} hostile ones",
        [Figure(p99, "ms p99", at_most=P99_MS_AIM), Figure(max(taken_ms), "ms max"), Figure(p50, "ms p50")],
        f"Metadata, Produce, Fetch; the others pipeline {PIPELINED} Metadata of {TOPICS} topics each",
    )


def _make_topics(bootstrap: str) -> str:
    topics = [
        CreatableTopic(name=f"hostile-{number:05}", num_partitions=1, replication_factor=1) for number in range(TOPICS)
    ]
    with Connection(bootstrap) as connection:
        connection.call(
            CREATE_TOPICS,
            CREATE_TOPICS_VERSION,
            CreateTopicsRequest(topics=topics, timeout_ms=60_000),
            CreateTopicsResponse,
        )
    return topics[0].name


def _ask(connection: Connection, topic: str, seconds: float) -> list[float]:
    """Return the milliseconds of each response; at least one of each kind."""
    metadata = frames.frame(METADATA, METADATA_VERSION, MetadataRequest(topics=[MetadataRequestTopic(name=topic)]))
    produce = frames.produce_frame(topic, frames.batch(1, RECORD[:100]))
    fetch = frames.fetch_frame(topic, 0, max_bytes=1_000, max_wait_ms=0)
    taken_ms: list[float] = []
    end = time.perf_counter() + seconds
    while not taken_ms or time.perf_counter() < end:
        for request in (metadata, produce, fetch):
            began = time.perf_counter()
            connection.socket.sendall(request)
            connection.read_reply()
            taken_ms.append((time.perf_counter() - began) * 1e3)
        time.sleep(PAUSE_S)
    return taken_ms


def _be_hostile(host: str, port: int) -> None:
    """Pipeline requests on many connections until killed."""
    requests = frames.frame(METADATA, METADATA_VERSION, MetadataRequest(topics=None)) * PIPELINED
    unsent: dict[socket.socket, bytes] = {}
    for _ in range(HOSTILE):
        sock = socket.create_connection((host, port))
        sock.setblocking(False)
        unsent[sock] = requests
    print("ready", flush=True)
    while True:
        readable, writable, _ = select.select(unsent, [sock for sock, data in unsent.items() if data], [], 1)
        for sock in readable:
            sock.recv(1 << 20)
        for sock in writable:
            unsent[sock] = unsent[sock][sock.send(unsent[sock]) :] or b""


if __name__ == "__main__":
    address, _, number = sys.argv[1].rpartition(":")
    _be_hostile(address, int(number))
