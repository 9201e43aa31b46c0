"""Many consumers that wait: their cost while nothing comes, and one busy topic for all of them."""

from __future__ import annotations

import contextlib
import selectors
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks import frames
from benchmarks.frames import Connection
from benchmarks.loads import RECORD, quantiles
from benchmarks.results import Figure, Row
from benchmarks.served import Served
from kqueue.wire.messages import fetch

IDLE, IDLE_S, MAX_WAIT_MS = 1_000, 10.0, 500
"""As many fetch sessions as the broker keeps by default."""
READERS, RECORDS, INTERVAL_S = 200, 200, 0.02
FETCH_BYTES = 2**20


class SessionConsumer:
    """A consumer of one partition with a fetch session, as clients have; `read_fetched` then `send`
    again.
    """

    def __init__(self, bootstrap: str, topic: str, offset: int) -> None:
        self.connection = Connection(bootstrap)
        self._topic = topic
        self._offset = offset
        self._session_id = self._epoch = 0
        self._moved = False
        self.send(0)
        self.read_fetched()

    def send(self, max_wait_ms: int = MAX_WAIT_MS) -> None:
        """Send a Fetch, incremental from the second on; it names the partition if that moved."""
        topics = []
        if self._epoch == 0 or self._moved:
            partition = fetch.FetchPartition(partition=0, fetch_offset=self._offset, partition_max_bytes=FETCH_BYTES)
            topics = [fetch.FetchTopic(topic=self._topic, partitions=[partition])]
        request = fetch.FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=topics,
        )
        self.connection.socket.sendall(frames.frame(1, frames.FETCH, request))
        self._epoch += 1

    def read_fetched(self) -> bool:
        """Read a response; return whether it has the next record, which every batch has one of."""
        response = self.connection.read_reply()
        # correlation id 4, throttle 4, error 2, session 4
        error, session_id = struct.unpack_from(">hi", response, 8)
        if error:
            raise RuntimeError(f"a Fetch of a session failed with error {error}")
        if session_id == 0:  # the broker keeps no more sessions: each Fetch is a full one
            self._epoch = 0
        self._session_id = session_id
        self._moved = len(response) > frames.fetch_head_bytes(self._topic)
        self._offset += self._moved
        return self._moved


@contextmanager
def _consumers(served: Served, topic: str, count: int) -> Iterator[selectors.BaseSelector]:
    """Yield a selector of so many consumers at the end of a topic, whose Fetches wait."""
    end = frames.end_offset(served.bootstrap, topic)
    with contextlib.ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        for _ in range(count):
            consumer = SessionConsumer(served.bootstrap, topic, end)
            stack.callback(consumer.connection.close)
            selector.register(consumer.connection.socket, selectors.EVENT_READ, consumer)
            consumer.send()
        yield selector


def idle(served: Served) -> Row:
    """Measure consumers whose Fetches all expire."""
    topic = frames.create_topic(served.bootstrap, "idle-consumers")
    with _consumers(served, topic, IDLE) as selector:
        _answer(selector, MAX_WAIT_MS / 1000)
        cpu_s = served.cpu_s()
        fetches = _answer(selector, IDLE_S)
        cpu_s = served.cpu_s() - cpu_s
    return Row(
        f"{IDLE:,} consumers of an idle topic",
        [
            Figure(cpu_s / IDLE_S * 100, "% of a core", at_most=2),
            Figure(cpu_s / fetches * 1e6, "CPU µs/fetch"),
            Figure(fetches / IDLE_S, "fetches/s"),
        ],
        f"a session each, fetch.max.wait.ms={MAX_WAIT_MS}",
    )


def _answer(selector: selectors.BaseSelector, seconds: float) -> int:
    """Send a Fetch after each response for so long; return how many there were."""
    count, until = 0, time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        for key, _ in selector.select(left):
            key.data.read_fetched()
            key.data.send()
            count += 1
    return count


def busy(served: Served) -> Row:
    """Measure one topic that many consumers read as it grows."""
    topic = frames.create_topic(served.bootstrap, "busy-topic")
    produce = frames.produce_frame(topic, frames.batch(1, RECORD[:100]))
    taken_us: list[float] = []
    with _consumers(served, topic, READERS) as selector, Connection(served.bootstrap) as producer:
        cpu_s = served.cpu_s()
        for _ in range(RECORDS):
            began = time.perf_counter()
            producer.socket.sendall(produce)
            received = 0
            while received < READERS:
                for key, _ in selector.select():
                    if key.data.read_fetched():
                        received += 1
                        taken_us.append((time.perf_counter() - began) * 1e6)
                    key.data.send()
            producer.read_reply()
            time.sleep(INTERVAL_S)
        cpu_s = served.cpu_s() - cpu_s
    p50, p99 = quantiles(taken_us)
    return Row(
        f"{READERS} consumers of a busy topic",
        [
            Figure(cpu_s / RECORDS / READERS * 1e6, "CPU µs/consumer and record"),
            Figure(p50 / 1000, "ms p50"),
            Figure(p99 / 1000, "ms p99"),
        ],
        f"{RECORDS} records, each read by all of them before the next; the client runs on the same cores",
    )
