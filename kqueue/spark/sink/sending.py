"""The producers of this process, and how batches get to the brokers. Knows no Spark."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from kqueue.client import Client, ClientOptions, Produced, ProducerId, TopicPartition
from kqueue.records.columns.encoding import ProducerArgs
from kqueue.spark.sink.rows import Ready

ROUND_BYTES_MAX = 16 * 1024 * 1024
SEQUENCE_MAX = 2**31 - 1


def after(sequence: int, count: int) -> int:
    """The sequence that is `count` further on; they begin anew beyond 2**31 - 1."""
    return (sequence + count) & SEQUENCE_MAX


class Producer:
    """An id with the next sequence of each partition, so that a batch is appended once however often it is sent. See `Sequences`."""

    def __init__(self, id: ProducerId) -> None:
        self.id = id
        self._next: dict[TopicPartition, int] = {}

    def next_of(self, place: TopicPartition) -> ProducerArgs:
        return ProducerArgs(producer_id=self.id.id, epoch=self.id.epoch, base_sequence=self._next.get(place, 0))

    def took(self, place: TopicPartition, count: int) -> None:
        self._next[place] = after(self._next.get(place, 0), count)


_idle: dict[ClientOptions, Producer] = {}
_lock = threading.Lock()


@contextmanager
def lent_producer(client: Client) -> Iterator[Producer]:
    """One that this process kept, or a new one; it is kept if all went well, because brokers remember each for a day.

    After an error nobody knows which of its batches are there, so it is used no more.
    """
    with _lock:
        producer = _idle.pop(client.options, None)
    if producer is None:
        producer = Producer(client.init_producer())
    yield producer
    with _lock:
        _idle[client.options] = producer


def forget_producers() -> None:
    """Keep none."""
    with _lock:
        _idle.clear()


class Outbox:
    """Sends batches, in their order for each partition, to all partitions at the same time. Each call blocks until they are answered."""

    def __init__(self, client: Client, acks: int) -> None:
        self._client = client
        self._acks = acks

    def send(self, batches: Iterable[Ready]) -> Iterator[tuple[Ready, Produced]]:
        """Send; what was answered comes as it is. To be run to its end. Raises: ClientError."""
        waiting: dict[TopicPartition, deque[Ready]] = {}
        size = 0
        for ready in batches:
            waiting.setdefault(ready.place, deque()).append(ready)
            size += len(ready.batch)
            while size >= ROUND_BYTES_MAX:
                for sent, produced in self._round(waiting):
                    size -= len(sent.batch)
                    yield sent, produced
        while waiting:
            yield from self._round(waiting)

    def _round(self, waiting: dict[TopicPartition, deque[Ready]]) -> list[tuple[Ready, Produced]]:
        """One batch for each partition, as far as one request may take them."""
        taken: dict[TopicPartition, Ready] = {}
        size = 0
        for place in list(waiting):
            ready = waiting[place][0]
            if taken and size + len(ready.batch) > ROUND_BYTES_MAX:
                break
            size += len(ready.batch)
            taken[place] = waiting[place].popleft()
            rest = waiting.pop(place)
            if rest:
                waiting[place] = rest  # at the end: the others come first next time
        produced: Mapping[TopicPartition, Produced]
        produced = self._client.produce({place: ready.batch for place, ready in taken.items()}, acks=self._acks)
        return [(ready, produced[place]) for place, ready in taken.items()]
