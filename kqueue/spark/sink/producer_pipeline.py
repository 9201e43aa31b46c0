"""The producers of this process, and how batches get to the brokers. Knows no Spark."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager

from kqueue.client import Client, ClientOptions, ProduceResult, ProducerIdAndEpoch, TopicPartition
from kqueue.records.arrow.encoder import ProducerArgs
from kqueue.spark.sink.batcher import ReadyBatch

ROUND_BYTES_MAX = 16 * 1024 * 1024
ROUNDS_AHEAD_MAX = 2
"""One is sent, and the next one waits."""
SEQUENCE_MAX = 2**31 - 1


def after(sequence: int, count: int) -> int:
    """The sequence that is `count` further on; they begin anew beyond 2**31 - 1."""
    return (sequence + count) & SEQUENCE_MAX


class Producer:
    """An id with the next sequence of each partition, so that a batch is appended once however
    often it is sent. See `SequenceAllocator`.
    """

    def __init__(self, id: ProducerIdAndEpoch) -> None:
        self.id = id
        self._next: dict[TopicPartition, int] = {}

    def next_of(self, topic_partition: TopicPartition) -> ProducerArgs:
        return ProducerArgs(
            producer_id=self.id.id, epoch=self.id.epoch, base_sequence=self._next.get(topic_partition, 0)
        )

    def took(self, topic_partition: TopicPartition, count: int) -> None:
        self._next[topic_partition] = after(self._next.get(topic_partition, 0), count)


_idle: dict[ClientOptions, Producer] = {}
_lock = threading.Lock()


@contextmanager
def borrowed_producer(client: Client) -> Iterator[Producer]:
    """One that this process kept, or a new one; it is kept if all went well, because brokers
    remember each for a day.

    After an error nobody knows which of its batches are there, so it is used no more.
    """
    with _lock:
        producer = _idle.pop(client.options, None)
    if producer is None:
        producer = Producer(client.init_producer())
    yield producer
    with _lock:
        _idle[client.options] = producer


def drop_idle_producers() -> None:
    """Keep none."""
    with _lock:
        _idle.clear()


Round = dict[TopicPartition, ReadyBatch]


class ProducerPipeline:
    """Sends batches, in their order for each partition, to all partitions at the same time.

    A few are sent by the client itself. Of many a thread sends some, with a client of its own,
    while the next are made.
    """

    def __init__(self, client: Client, acks: int) -> None:
        self._client = client
        self._acks = acks

    def send(self, batches: Iterable[ReadyBatch]) -> Iterator[tuple[ReadyBatch, ProduceResult]]:
        """Send; what was answered comes as it is. To be run to its end. Raises: ClientError, and
        what `batches` does.
        """
        waiting: dict[TopicPartition, deque[ReadyBatch]] = {}
        size = 0
        with closing(_Rounds(self._client, self._acks)) as rounds:
            for ready in batches:
                waiting.setdefault(ready.topic_partition, deque()).append(ready)
                size += len(ready.batch)
                while size >= ROUND_BYTES_MAX:
                    taken = _take(waiting)
                    size -= sum(len(one.batch) for one in taken.values())
                    yield from rounds.begin(taken)
            while waiting:
                yield from rounds.last(_take(waiting))
            yield from rounds.rest()


def _take(waiting: dict[TopicPartition, deque[ReadyBatch]]) -> Round:
    """One batch for each partition, as far as one request may take them."""
    taken: Round = {}
    size = 0
    for topic_partition in list(waiting):
        ready = waiting[topic_partition][0]
        if taken and size + len(ready.batch) > ROUND_BYTES_MAX:
            break
        size += len(ready.batch)
        taken[topic_partition] = waiting[topic_partition].popleft()
        rest = waiting.pop(topic_partition)
        if rest:
            waiting[topic_partition] = rest  # at the end: the others come first next time
    return taken


class _Rounds:
    """Rounds that are on their way, one after the other. After one that failed none is sent any
    more.
    """

    def __init__(self, client: Client, acks: int) -> None:
        self._client = client
        self._acks = acks
        self._thread: ThreadPoolExecutor | None = None
        self._under_way: deque[Future[list[tuple[ReadyBatch, ProduceResult]]]] = deque()
        self._failed = False

    def begin(self, taken: Round) -> Iterator[tuple[ReadyBatch, ProduceResult]]:
        """Have it sent meanwhile; gives what was answered of earlier ones, as far as it had to be
        waited for.
        """
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "kqueue-sink")
            self._client = self._client.clone()  # the caller goes on asking with his
        while len(self._under_way) >= ROUNDS_AHEAD_MAX:
            yield from self._under_way.popleft().result()
        self._under_way.append(self._thread.submit(self._send, taken))

    def last(self, taken: Round) -> Iterator[tuple[ReadyBatch, ProduceResult]]:
        """Nothing is made meanwhile: without a thread unless there is one."""
        yield from self._send(taken) if self._thread is None else self.begin(taken)

    def rest(self) -> Iterator[tuple[ReadyBatch, ProduceResult]]:
        """What was answered of those that are still on their way."""
        while self._under_way:
            yield from self._under_way.popleft().result()

    def close(self) -> None:
        """What is not sent yet is not sent any more."""
        if self._thread is not None:
            self._failed = True
            self._thread.shutdown(cancel_futures=True)
            self._client.close()

    def _send(self, taken: Round) -> list[tuple[ReadyBatch, ProduceResult]]:
        if self._failed:
            return []
        try:
            produced = self._client.produce(
                {topic_partition: ready.batch for topic_partition, ready in taken.items()}, acks=self._acks
            )
        except BaseException:
            self._failed = True
            raise
        return [(ready, produced[topic_partition]) for topic_partition, ready in taken.items()]
