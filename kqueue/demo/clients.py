"""The two clients of the demo: kafka-python sends, a group of aiokafka consumers reads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kqueue.base.clock import monotonic_s
from kqueue.client.kafka_python import closed_at_end, flush
from kqueue.demo.delivery_tracker import DeliveryTracker
from kqueue.demo.flights import Flight

if TYPE_CHECKING:
    from aiokafka import AIOKafkaConsumer
    from kafka import KafkaProducer

TOPIC = "flights"
GROUP = "departures"
PARTITIONS = 4
CONSUMERS = 2
BATCH_BYTES = 512 * 1024
LINGER_MS = 50
SILENCE_S = 20.0
CLOSE_S = 10.0
SHOW_EVERY = 1000

Progress = Callable[[int], None]


class DemoFailed(Exception):
    """The broker or a client did not do what the demo requires; the message is half a sentence."""


def create_topic(bootstrap: str, replicas: int = 1, min_in_sync: int = 1) -> None:
    """Create the demo's topic. Raises: KafkaError."""
    from kafka import KafkaAdminClient

    topic = {
        "num_partitions": PARTITIONS,
        "replication_factor": replicas,
        "configs": {"min.insync.replicas": str(min_in_sync)},
    }
    with KafkaAdminClient(bootstrap_servers=bootstrap) as client:
        client.create_topics({TOPIC: topic}, wait_for_metadata=True)


def new_producer(
    bootstrap: str, *, batch_bytes: int, linger_ms: int, request_timeout_ms: int = 30_000
) -> KafkaProducer:
    """Return an idempotent kafka-python producer with acks=all. Raises: KafkaError."""
    from kafka import KafkaProducer

    return KafkaProducer(
        bootstrap_servers=bootstrap,
        acks="all",
        enable_idempotence=True,
        compression_type="zstd",
        batch_size=batch_bytes,
        linger_ms=linger_ms,
        metrics_enabled=False,
        request_timeout_ms=request_timeout_ms,
    )


def send(
    bootstrap: str,
    flights: Iterable[Flight],
    tracker: DeliveryTracker,
    progress: Progress,
    *,
    confirmed: Callable[[int], None] | None = None,
    request_timeout_ms: int = 30_000,
) -> None:
    """Send all flights with kafka-python and wait for their confirmation.

    Args:
        confirmed: called with the partition of each confirmed flight, by the producer's thread.
        request_timeout_ms: after which the producer asks another broker.
    Raises: DemoFailed: how many were not confirmed, and why.
    """
    failures: list[BaseException] = []
    producer = new_producer(
        bootstrap, batch_bytes=BATCH_BYTES, linger_ms=LINGER_MS, request_timeout_ms=request_timeout_ms
    )
    with closed_at_end(producer, CLOSE_S):
        for flight in flights:
            sent = producer.send(TOPIC, flight.value, flight.key).add_errback(failures.append)
            if confirmed is not None:
                sent.add_callback(lambda stored: confirmed(stored.partition))
            tracker.note_sent(flight)
            if tracker.sent % SHOW_EVERY == 0:
                progress(tracker.sent)
        flush(producer)
    progress(tracker.sent)
    if failures:
        raise DemoFailed(f"the broker did not take {len(failures):,} of {tracker.sent:,} flights ({failures[0]})")


def stored(bootstrap: str) -> int:
    """Return the number of records in the topic, from the broker's offsets."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    try:
        partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        ends, starts = consumer.end_offsets(partitions), consumer.beginning_offsets(partitions)
        return sum(ends[partition] - starts[partition] for partition in partitions)
    finally:
        consumer.close()


@dataclass(slots=True)
class GroupRead:
    """One read by the group: records of each consumer, and the committed offset where it began."""

    counts: list[int] = field(default_factory=lambda: [0] * CONSUMERS)
    began_at: int = 0
    seconds: float = 0.0

    @property
    def count(self) -> int:
        """Records of all consumers."""
        return sum(self.counts)


def read(bootstrap: str, tracker: DeliveryTracker, progress: Progress, *, until: int | None) -> GroupRead:
    """Read with a group of two aiokafka consumers from the committed offsets on; commit at the end.

    Args:
        until: end once the tracker has this many records; None: at the end of all partitions.
    Raises: DemoFailed: no record came for `SILENCE_S` seconds.
    """
    return asyncio.run(_read(bootstrap, tracker, progress, until))


async def _read(bootstrap: str, tracker: DeliveryTracker, progress: Progress, until: int | None) -> GroupRead:
    from aiokafka import AIOKafkaConsumer

    result = GroupRead()
    consumers = [
        AIOKafkaConsumer(
            TOPIC,
            bootstrap_servers=bootstrap,
            group_id=GROUP,
            client_id=f"reader-{number + 1}",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        for number in range(CONSUMERS)
    ]
    try:
        await asyncio.gather(*(consumer.start() for consumer in consumers))
        await _all_assigned(consumers)
        result.began_at = await _positions(consumers)
        started_s = monotonic_s()
        tasks = [
            _read_one(consumer, number, result, tracker, progress, until) for number, consumer in enumerate(consumers)
        ]
        await asyncio.gather(*tasks)
        await asyncio.gather(*(consumer.commit() for consumer in consumers))
        result.seconds = monotonic_s() - started_s
    finally:
        await asyncio.gather(*(consumer.stop() for consumer in consumers))
    return result


async def _all_assigned(consumers: list[AIOKafkaConsumer]) -> None:
    """Wait until every partition has one consumer, and every consumer has partitions."""
    deadline_s = monotonic_s() + SILENCE_S
    while True:
        held = [consumer.assignment() for consumer in consumers]
        if all(held) and sum(map(len, held)) == PARTITIONS == len(set().union(*held)):
            return
        if monotonic_s() > deadline_s:
            raise DemoFailed(f"the group did not come together within {SILENCE_S:.0f} s")
        await asyncio.sleep(0.02)


async def _positions(consumers: list[AIOKafkaConsumer]) -> int:
    """Return the sum of the group's positions."""
    return sum([await consumer.position(partition) for consumer in consumers for partition in consumer.assignment()])


async def _read_one(
    consumer: AIOKafkaConsumer,
    number: int,
    result: GroupRead,
    tracker: DeliveryTracker,
    progress: Progress,
    until: int | None,
) -> None:
    ends: dict[Any, int] = await consumer.end_offsets(consumer.assignment())
    last_record_s = monotonic_s()
    while not (await _at_ends(consumer, ends) if until is None else tracker.read >= until):
        batches = await consumer.getmany(timeout_ms=200, max_records=2000)
        for records in batches.values():
            for record in records:
                tracker.note_read(record.key, record.value)
            result.counts[number] += len(records)
        if batches:
            last_record_s = monotonic_s()
            progress(tracker.read)
            await asyncio.sleep(0)  # prefetched records return at once; let the other consumer run
        elif until is not None and await _at_ends(consumer, ends):
            return  # the other consumer reads the remaining records
        elif monotonic_s() - last_record_s > SILENCE_S:
            raise DemoFailed(
                f"nothing more came for {SILENCE_S:.0f} s, after {tracker.read:,} of {tracker.sent:,} flights"
            )


async def _at_ends(consumer: AIOKafkaConsumer, ends: dict[Any, int]) -> bool:
    return all([await consumer.position(partition) >= end for partition, end in ends.items()])
