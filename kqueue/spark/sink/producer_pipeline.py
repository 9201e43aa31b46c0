"""The idempotent producers of this process, and the pipeline of Produce requests. No pyspark."""

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
"""One request in flight, and one queued."""
SEQUENCE_MAX = 2**31 - 1


def sequence_after(sequence: int, count: int) -> int:
    """Return the sequence `count` after this one; sequences wrap to 0 after 2**31 - 1."""
    return (sequence + count) & SEQUENCE_MAX


class IdempotentProducer:
    """A producer id with the next sequence of each partition. See `SequenceAllocator`.

    `transactional`: its batches are part of a transaction.
    """

    def __init__(self, id: ProducerIdAndEpoch, *, transactional: bool = False) -> None:
        self.id = id
        self._transactional = transactional
        self._next: dict[TopicPartition, int] = {}

    def next_args(self, topic_partition: TopicPartition) -> ProducerArgs:
        """Return the producer arguments of the partition's next batch."""
        return ProducerArgs(
            producer_id=self.id.id,
            epoch=self.id.epoch,
            base_sequence=self._next.get(topic_partition, 0),
            transactional=self._transactional,
        )

    def advance(self, topic_partition: TopicPartition, count: int) -> None:
        """Advance the partition's sequence."""
        self._next[topic_partition] = sequence_after(self._next.get(topic_partition, 0), count)


_idle: dict[ClientOptions, IdempotentProducer] = {}
_lock = threading.Lock()


@contextmanager
def borrowed_producer(client: Client) -> Iterator[IdempotentProducer]:
    """Yield an idle producer of this process, or a new one; keep it if the block succeeds.

    Brokers remember each producer id for a day, so ids are reused. After an error it is unknown
    which batches were appended, so the producer is dropped.
    """
    with _lock:
        producer = _idle.pop(client.options, None)
    if producer is None:
        producer = IdempotentProducer(client.init_producer())
    yield producer
    with _lock:
        _idle[client.options] = producer


def drop_idle_producers() -> None:
    """Drop all idle producers."""
    with _lock:
        _idle.clear()


Round = dict[TopicPartition, ReadyBatch]


class ProducerPipeline:
    """Sends batches to all partitions in parallel, in order within each partition.

    A few batches are sent by the caller's client. For more, a thread with its own client sends
    while the caller encodes the next ones. `transactional_id`: of transactional batches.
    """

    def __init__(self, client: Client, acks: int, transactional_id: str | None = None) -> None:
        self._client = client
        self._acks = acks
        self._transactional_id = transactional_id

    def send(self, batches: Iterable[ReadyBatch]) -> Iterator[tuple[ReadyBatch, ProduceResult]]:
        """Send batches; yield each with its result. Must be run to its end.

        Raises: ClientError, and what `batches` raises.
        """
        waiting: dict[TopicPartition, deque[ReadyBatch]] = {}
        size = 0
        with closing(_Rounds(self._client, self._acks, self._transactional_id)) as rounds:
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
    """Remove and return one batch per partition, within the size of one request."""
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
    """Requests in flight, one after the other. After a failure no further one is sent."""

    def __init__(self, client: Client, acks: int, transactional_id: str | None) -> None:
        self._client = client
        self._acks = acks
        self._transactional_id = transactional_id
        self._thread: ThreadPoolExecutor | None = None
        self._under_way: deque[Future[list[tuple[ReadyBatch, ProduceResult]]]] = deque()
        self._failed = False

    def begin(self, taken: Round) -> Iterator[tuple[ReadyBatch, ProduceResult]]:
        """Send in the background; yield results of earlier requests if the queue is full."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "kqueue-sink")
            self._client = self._client.clone()  # the caller goes on asking with his
        while len(self._under_way) >= ROUNDS_AHEAD_MAX:
            yield from self._under_way.popleft().result()
        self._under_way.append(self._thread.submit(self._send, taken))

    def last(self, taken: Round) -> Iterator[tuple[ReadyBatch, ProduceResult]]:
        """Send a request when nothing remains to encode: without a thread unless one is running."""
        yield from self._send(taken) if self._thread is None else self.begin(taken)

    def rest(self) -> Iterator[tuple[ReadyBatch, ProduceResult]]:
        """Yield the results of all requests in flight."""
        while self._under_way:
            yield from self._under_way.popleft().result()

    def close(self) -> None:
        """Cancel requests that are not sent."""
        if self._thread is not None:
            self._failed = True
            self._thread.shutdown(cancel_futures=True)
            self._client.close()

    def _send(self, taken: Round) -> list[tuple[ReadyBatch, ProduceResult]]:
        if self._failed:
            return []
        try:
            produced = self._client.produce(
                {topic_partition: ready.batch for topic_partition, ready in taken.items()},
                acks=self._acks,
                transactional_id=self._transactional_id,
            )
        except BaseException:
            self._failed = True
            raise
        return [(ready, produced[topic_partition]) for topic_partition, ready in taken.items()]
