"""Loads through librdkafka (confluent-kafka), a fast stock client."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks import frames
from benchmarks.loads import GB, RECORD, ROUNDS
from benchmarks.results import Figure, Row
from benchmarks.served import Served

BULK_RECORDS = 800_000
CHUNK = 10_000
QUIET = {"log_level": 2}


def bulk_produce(served: Served, topic: str) -> Row:
    best = min(produce(served, topic, BULK_RECORDS) for _ in range(ROUNDS))
    size = BULK_RECORDS * len(RECORD)
    return Row(
        "bulk produce, 1 KB records, librdkafka",
        [Figure(size / 1e6 / best[0], "MB/s", at_least=800), Figure(best[1] / (size / GB), "CPU s/GB", at_most=0.60)],
        "acks=1; the client runs on the same cores",
    )


def produce(served: Served, topic: str, records: int) -> tuple[float, float]:
    """Produce records of 1 KB with acks=1; return seconds, and CPU seconds of the broker.

    Raises: RuntimeError: not all are stored.
    """
    producer = Producer(
        {
            **QUIET,
            "bootstrap.servers": served.bootstrap,
            "acks": 1,
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "batch.num.messages": 10_000,
            "queue.buffering.max.messages": 200_000,
            "queue.buffering.max.kbytes": 400_000,
        }
    )
    producer.produce(topic, RECORD, partition=0)
    producer.flush(30)
    before = frames.end_offset(served.bootstrap, topic)
    several = [{"value": RECORD}] * CHUNK
    cpu_s = served.cpu_s()
    started = time.perf_counter()
    left = records
    while left:
        try:
            left -= producer.produce_batch(topic, several[: min(left, CHUNK)], partition=0)
        except BufferError:
            producer.poll(0.01)
        while len(producer) > 150_000:
            producer.poll(0.005)
    producer.flush(60)
    seconds = time.perf_counter() - started
    cpu_s = served.cpu_s() - cpu_s
    stored = frames.settled_end(served.bootstrap, topic, before + records) - before
    if stored != records:
        raise RuntimeError(f"{records} records were sent and {stored} are stored")
    return seconds, cpu_s


def bulk_fetch(served: Served, topic: str) -> Row:
    best = min(fetch(served, topic, BULK_RECORDS) for _ in range(ROUNDS))
    size = BULK_RECORDS * len(RECORD)
    return Row(
        "bulk fetch, 1 KB records, librdkafka",
        [Figure(size / 1e6 / best[0], "MB/s"), Figure(best[1] / (size / GB), "CPU s/GB", at_most=0.60)],
        "the client makes a Python object of each record",
    )


def fetch(served: Served, topic: str, records: int) -> tuple[float, float]:
    """Consume so many records from the begin of a topic; return seconds, and CPU seconds of the
    broker.
    """
    consumer = Consumer(
        {
            **QUIET,
            "bootstrap.servers": served.bootstrap,
            "group.id": "not used",
            "enable.auto.commit": False,
            "fetch.max.bytes": 50 * 2**20,
            "max.partition.fetch.bytes": 8 * 2**20,
            "queued.max.messages.kbytes": 200_000,
            "queued.min.messages": 200_000,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        cpu_s = served.cpu_s()
        started = time.perf_counter()
        got = 0
        while got < records:
            messages = consumer.consume(min(CHUNK, records - got), 10)
            if not messages:
                raise RuntimeError(f"no more records after {got}")
            got += len(messages)
        return time.perf_counter() - started, served.cpu_s() - cpu_s
    finally:
        consumer.close()


def one_record_requests(served: Served, count: int) -> Row:
    """Measure with as many requests under way as librdkafka likes."""
    return _one_record_requests(served, count, 1, None, "", 25_000)


def few_in_flight(served: Served, count: int, acks: int, name: str) -> Row:
    """Measure with five requests under way, as an idempotent producer has."""
    return _one_record_requests(served, count, acks, 5, name, None)


def _one_record_requests(
    served: Served, count: int, acks: int, in_flight: int | None, name: str, rate_aim: float | None
) -> Row:
    seconds, cpu_s = one_record(served, count, acks, in_flight)
    return Row(
        f"one-record requests, librdkafka{name}",
        [
            Figure(count / seconds, "requests/s", at_least=rate_aim),
            Figure(cpu_s / count * 1e6, "CPU µs/request"),
        ],
        f"100 bytes each, acks={acks}, batch.num.messages=1{'' if in_flight is None else f', {in_flight} unanswered'}",
    )


def one_record(served: Served, count: int, acks: int, in_flight: int | None) -> tuple[float, float]:
    """Produce records of 100 bytes, each in a request of its own; return seconds, and CPU seconds
    of the broker.

    Args: in_flight: requests that are unanswered at a time; None: as librdkafka likes.
    Raises: RuntimeError: not all are stored.
    """
    topic = frames.create_topic(served.bootstrap, f"librdkafka-one-{acks}")
    producer = Producer(
        {
            **QUIET,
            "bootstrap.servers": served.bootstrap,
            "acks": acks,
            **({} if in_flight is None else {"max.in.flight": in_flight}),
            "linger.ms": 0,
            "batch.num.messages": 1,
            "queue.buffering.max.messages": 200_000,
        }
    )
    producer.produce(topic, RECORD[:100], partition=0)
    producer.flush(30)
    several = [{"value": RECORD[:100]}] * count
    cpu_s = served.cpu_s()
    started = time.perf_counter()
    queued = producer.produce_batch(topic, several, partition=0)
    producer.flush(60)
    seconds = time.perf_counter() - started
    cpu_s = served.cpu_s() - cpu_s
    stored = frames.settled_end(served.bootstrap, topic, count + 1) - 1
    if not queued == stored == count:
        raise RuntimeError(f"{queued} of {count} records were sent and {stored} are stored")
    return seconds, cpu_s
