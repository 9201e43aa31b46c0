"""Real producers whose batches are read record by record, in slices and threads."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

import kqueue
from kqueue.tests.tables import for_each

COUNT = 6000


@for_each("codec", [None, "gzip"])
@for_each("configs", [{"cleanup_policy": "compact"}, {"compression_type": "lz4"}])
def test_long_and_short_batches_of_an_idempotent_producer_stay_in_order(
    codec: str | None, configs: dict[str, str]
) -> None:
    with kqueue.Broker() as broker:
        broker.create_topic("t", **configs)
        values = asyncio.run(exchange(broker.bootstrap, codec))
    assert values == [b"%d" % number for number in range(COUNT)]


async def exchange(bootstrap: str, codec: str | None) -> list[bytes | None]:
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        enable_idempotence=True,
        compression_type=codec,
        linger_ms=20,
        max_batch_size=60_000,
    ) as producer:
        sent = []
        for number in range(COUNT):
            sent.append(await producer.send("t", b"%d" % number, key=b"%d" % number, partition=0))
            if number % 2500 == 0:
                await producer.flush()  # a batch of few records among those of thousands
        offsets = [metadata.offset for metadata in await asyncio.gather(*sent)]
    assert offsets == list(range(COUNT))
    values: list[bytes | None] = []
    async with AIOKafkaConsumer("t", bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        async for record in consumer:
            values.append(record.value)
            if len(values) == COUNT:
                return values
    raise AssertionError("the consumer ended")
