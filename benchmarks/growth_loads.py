"""Loads of `benchmarks.growth` through raw sockets: requests that take turns, idle connections, and
a fetch session.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from benchmarks import frames, loads
from benchmarks.frames import Connection
from benchmarks.served import Served
from kqueue.wire.messages import fetch

DEPTH = 5
WAIT_MS = 10_000
SMALL = frames.batch(1, loads.RECORD[:100])


def in_turn(connection: Connection, several: Sequence[bytes], count: int) -> None:
    """Send `count` of these requests, each in its turn, with up to five unanswered."""
    requests = itertools.islice(itertools.cycle(several), count)
    sent = 0
    for request in itertools.islice(requests, DEPTH):
        connection.socket.sendall(request)
        sent += 1
    for request in requests:
        connection.read_reply()
        connection.socket.sendall(request)
    for _ in range(sent):
        connection.read_reply()


@contextmanager
def idle_connections(served: Served, count: int) -> Iterator[None]:
    """Open connections that have sent their first requests."""
    with ExitStack() as opened:
        for _ in range(count):
            frames.greet(opened.enter_context(Connection(served.bootstrap)))
        yield


def fetch_anywhere(connection: Connection, topic: str, end: int, count: int) -> None:
    """Fetch one batch at so many offsets of a log, the same offsets in every call."""
    offsets = random.Random(count)
    for _ in range(count):
        connection.socket.sendall(frames.fetch_frame(topic, offsets.randrange(end), max_bytes=1))
        connection.read_reply()


class FetchSession:
    """A consumer with an incremental fetch session, and a producer to its partitions in turn."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._topic = topic
        self._consumer, self._producer = Connection(bootstrap), Connection(bootstrap)
        self._produces = [frames.produce_frame(topic, SMALL, partition=index) for index in range(partitions)]
        self._offsets = [0] * partitions
        self._changed = itertools.cycle(random.Random(partitions).sample(range(partitions), partitions))
        answer = self._consumer.call(
            1, frames.FETCH, self._request(0, 0, range(partitions), max_wait_ms=0), fetch.FetchResponse
        )
        if answer.error_code or not answer.session_id:
            raise RuntimeError(f"no fetch session was made: error {answer.error_code}")
        self._session_id = answer.session_id
        self._epoch = 1
        self._last: tuple[int, ...] = ()

    def __enter__(self) -> FetchSession:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()
        self._producer.close()

    def run(self, count: int) -> None:
        """Let the consumer wait, and produce to a partition, so many times."""
        for _ in range(count):
            request = self._request(self._session_id, self._epoch, self._last, WAIT_MS)
            self._consumer.socket.sendall(frames.frame(1, frames.FETCH, request))
            partition = next(self._changed)
            self._producer.socket.sendall(self._produces[partition])
            self._producer.read_reply()
            reply = self._consumer.read_reply()
            if len(reply) < len(SMALL):
                raise RuntimeError("the consumer was answered without the record")
            self._offsets[partition] += 1
            self._last = (partition,)
            self._epoch += 1

    def _request(self, session_id: int, epoch: int, partitions: Sequence[int], max_wait_ms: int) -> fetch.FetchRequest:
        listed = [
            fetch.FetchPartition(partition=index, fetch_offset=self._offsets[index], partition_max_bytes=2**20)
            for index in partitions
        ]
        return fetch.FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=2**24,
            session_id=session_id,
            session_epoch=epoch,
            topics=[fetch.FetchTopic(topic=self._topic, partitions=listed)] if listed else [],
        )
