"""The loads that `benchmarks.guard` counts. Import this module only after its `stop_clocks`."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import NamedTuple

from benchmarks import frames, stepped
from benchmarks.counts import CallMeter, Counts, InstructionMeter, MemoryMeter, Meter
from benchmarks.stepped import Client, Script
from kqueue.wire.messages import fetch

TOPIC = "t"
RECORD, LARGE_RECORD = b"x" * 100, b"x" * 10**6
FETCH_BYTES_MAX = 2**22
PIECE_BYTES = 64 * 1024
ROUNDS_BEFORE, ROUNDS = 100, 40
"""The rounds before fill what is kept up to a number: cancelled timers, lists of free objects."""
SETTLE_S = 0.05
"""By then a thread that has ended a job waits for the next one."""


class Load(NamedTuple):
    """One row of the guard.

    Attributes:
        rounds: what the client does in so many rounds.
        depth: requests that each connection has in flight.
        requests: how many of them a round has; what is counted is divided by it.
        partitions: of the topic.
    """

    name: str
    flush: str
    rounds: Callable[[Client, int, Load], Script]
    connections: int = 1
    depth: int = 1
    requests: int = 1
    partitions: int = 1
    acks: int = 1
    meters: tuple[type[Meter], ...] = (CallMeter, InstructionMeter, MemoryMeter)

    @property
    def title(self) -> str:
        return f"flush={self.flush}: {self.name}"

    def why_skipped(self) -> str:
        """Return why it can't be counted on this machine; "": it can."""
        if self.rounds is _produce or self.rounds is _produce_large or tells_cached_pages():
            return ""
        return f"the file system of {tempfile.gettempdir()} does not tell what is in the page cache"

    def measure(self) -> Counts:
        """Return what one of its requests costs."""
        counts: Counts = {}
        for meter_class in self.meters:
            meter = meter_class()
            try:
                stepped.run(self.flush, partial(self._script, meter), meter)
            finally:
                meter.stop()
            counts |= meter.counts(ROUNDS * self.requests)
        return counts

    def _script(self, meter: Meter, client: Client) -> Script:
        yield from client.connect(self.connections)
        yield from client.create_topic(TOPIC, self.partitions)
        yield from self.rounds(client, ROUNDS_BEFORE, self)
        time.sleep(SETTLE_S)
        meter.begin()
        yield from self.rounds(client, ROUNDS, self)
        time.sleep(SETTLE_S)
        meter.end()


@cache
def tells_cached_pages() -> bool:
    """Return whether reads that must not wait for a disk work: else a Fetch takes other calls."""
    with tempfile.TemporaryFile() as file:
        file.write(RECORD)
        file.flush()
        try:
            return os.preadv(file.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT) == 1
        except OSError:
            return False


@cache
def _produce_frame(acks: int, value: bytes) -> bytes:
    """Return a Produce of one record: the same bytes each time, so that a client allocates none."""
    return frames.produce_frame(TOPIC, frames.batch(1, value), acks)


def _produce(client: Client, rounds: int, load: Load) -> Script:
    """Each connection sends its requests at once, and receives all responses."""
    sent = _produce_frame(load.acks, RECORD) * load.depth
    for _ in range(rounds):
        for connection in client.connections:
            connection.sendall(sent)
        yield load.connections
        for number in range(load.connections):
            _check_produced(client.receive(number, load.depth))


def _check_produced(response: memoryview) -> None:
    # correlation id 4, topics 4, name 3, partitions 4, index 4, then the error
    assert bytes(response[19:21]) == b"\0\0", "the records were refused"


def _fetch(client: Client, rounds: int, load: Load) -> Script:
    """A Fetch of one record."""
    if not client.end_offset:
        yield from _produce(client, 1, load)
        client.end_offset = 1
    sent = frames.fetch_frame(TOPIC, 0, max_bytes=FETCH_BYTES_MAX)
    for _ in range(rounds):
        client.connections[0].sendall(sent)
        yield 1
        assert len(client.receive(0, 1)) > len(RECORD), "the response has no record"


def _fetch_at_end(client: Client, rounds: int, load: Load) -> Script:
    """A Fetch waits at the log end until a Produce of another connection."""
    consumer, producer = client.connections
    sent = _produce_frame(load.acks, RECORD)
    for _ in range(rounds):
        consumer.sendall(frames.fetch_frame(TOPIC, client.end_offset, max_bytes=FETCH_BYTES_MAX))
        yield 1
        producer.sendall(sent)
        yield 1
        assert len(client.receive(0, 1)) > len(RECORD), "the response has no record"
        _check_produced(client.receive(1, 1))
        client.end_offset += 1


def _fetch_in_session(client: Client, rounds: int, load: Load) -> Script:
    """A Fetch of a session waits at the ends of all partitions until a Produce to one of them."""
    consumer, producer = client.connections
    for _ in range(rounds):
        if client.session == (0, 0):
            consumer.sendall(_session_frame(client, range(load.partitions), max_wait_ms=0))
            yield 1
            client.session = int.from_bytes(client.receive(0, 1)[10:14]), 1  # after correlation, throttle and error
        consumer.sendall(_session_frame(client, (0,), max_wait_ms=500))
        yield 1
        producer.sendall(_produce_frame(load.acks, RECORD))
        yield 1
        assert len(client.receive(0, 1)) > len(RECORD), "the response has no record"
        _check_produced(client.receive(1, 1))
        client.end_offset += 1
        client.session = client.session[0], client.session[1] + 1


def _session_frame(client: Client, indexes: Iterable[int], *, max_wait_ms: int) -> bytes:
    partitions = [
        fetch.FetchPartition(
            partition=index, fetch_offset=client.end_offset if index == 0 else 0, partition_max_bytes=FETCH_BYTES_MAX
        )
        for index in indexes
    ]
    session_id, session_epoch = client.session
    request = fetch.FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=FETCH_BYTES_MAX,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[fetch.FetchTopic(topic=TOPIC, partitions=partitions)],
    )
    return frames.frame(1, frames.FETCH, request)


def _produce_large(client: Client, rounds: int, load: Load) -> Script:
    """A Produce of 1 MB."""
    sent = memoryview(_produce_frame(load.acks, LARGE_RECORD))
    for _ in range(rounds):
        for position in range(0, len(sent), PIECE_BYTES):
            client.connections[0].sendall(sent[position : position + PIECE_BYTES])
            yield 1
        _check_produced(client.receive(0, 1))


def _fetch_large(client: Client, rounds: int, load: Load) -> Script:
    """A Fetch of 1 MB."""
    yield from _produce_large(client, 1, load)
    sent = frames.fetch_frame(TOPIC, 0, max_bytes=FETCH_BYTES_MAX)
    for _ in range(rounds):
        client.connections[0].sendall(sent)
        yield 1
        yield from client.receive_large(0)


MEMORY_ONLY = (MemoryMeter,)
"""How many turns a large request takes depends on the buffers of the sockets."""
LOADS = (
    Load("Produce, 5 in flight", "kafka", _produce, depth=5, requests=5),
    Load("Produce, one at a time", "kafka", _produce),
    Load("Produce, 10 connections", "kafka", _produce, connections=10, requests=10),
    Load("Produce of 1 MB", "kafka", _produce_large, meters=MEMORY_ONLY),
    Load("Fetch", "kafka", _fetch),
    Load("Fetch of 1 MB", "kafka", _fetch_large, meters=MEMORY_ONLY),
    Load("Fetch that waits, and its Produce", "kafka", _fetch_at_end, connections=2),
    Load("the same, in a session of 100 partitions", "kafka", _fetch_in_session, connections=2, partitions=100),
    Load("Produce, 5 in flight", "group", _produce, depth=5, requests=5, acks=-1),
    Load("Produce, one at a time", "group", _produce, acks=-1),
    Load("Produce, 10 connections", "group", _produce, connections=10, requests=10, acks=-1),
    Load("Fetch that waits, and its Produce", "group", _fetch_at_end, connections=2, acks=-1),
)
