"""What a user of kafka-python or aiokafka gets: records produced and consumed again, end to end."""

from __future__ import annotations

import asyncio
import time

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafka import KafkaConsumer, KafkaProducer

from benchmarks import frames
from benchmarks.loads import RECORD
from benchmarks.served import Served

VALUE = RECORD[:100]
TIMEOUT_MS = 60_000


def kafka_python(served: Served, records: int) -> float:
    """Produce records of 100 bytes, then consume all; return the seconds of both."""
    topic = frames.create_topic(served.bootstrap, "kafka-python")
    began = time.perf_counter()
    with KafkaProducer(bootstrap_servers=served.bootstrap) as producer:
        for _ in range(records):
            producer.send(topic, VALUE)
        producer.flush(TIMEOUT_MS / 1000)
    consumer = KafkaConsumer(
        topic, bootstrap_servers=served.bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=TIMEOUT_MS
    )
    left = records
    while left > 0:
        polled = consumer.poll(TIMEOUT_MS)
        if not polled:
            raise RuntimeError(f"{left} of {records} records did not come")
        left -= sum(map(len, polled.values()))
    seconds = time.perf_counter() - began
    consumer.close()
    return seconds


def aiokafka(served: Served, records: int) -> float:
    """Do as `kafka_python` does, with aiokafka."""
    return asyncio.run(_aiokafka(served.bootstrap, records))


async def _aiokafka(bootstrap: str, records: int) -> float:
    topic = await asyncio.to_thread(frames.create_topic, bootstrap, "aiokafka")
    began = time.perf_counter()
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        futures = [await producer.send(topic, VALUE) for _ in range(records)]
        await asyncio.gather(*futures)
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    async with consumer:
        left = records
        while left > 0:
            polled = await consumer.getmany(timeout_ms=TIMEOUT_MS)
            if not polled:
                raise RuntimeError(f"{left} of {records} records did not come")
            left -= sum(map(len, polled.values()))
        return time.perf_counter() - began
