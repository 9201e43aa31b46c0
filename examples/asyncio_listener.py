"""A listener in asyncio: messages are handled as they come, beside everything else of a service.

The service keeps the sum of each customer's orders. Its listener is a task in the event loop of the
service, and leaves it free for other tasks. A message that it cannot read is reported and skipped,
and does not stop the listener. The listener is stopped between two messages; the next one
continues there.

Run it with: python examples/asyncio_listener.py        (needs kqueue and aiokafka)
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

import kqueue

TOPIC = "orders"
ORDERS = [("Ada", 3), ("Bob", 4), ("Ada", 2), ("Cleo", 5), ("Bob", 1)]


class Service:
    """Sums by customer; `listening` is what a web framework would call at start and stop."""

    def __init__(self) -> None:
        self.sums: Counter[str] = Counter()
        self.at_work = asyncio.Lock()

    @asynccontextmanager
    async def listening(self, bootstrap: str) -> AsyncIterator[None]:
        consumer = AIOKafkaConsumer(
            TOPIC,
            bootstrap_servers=bootstrap,
            group_id="sums",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        async with consumer, asyncio.TaskGroup() as tasks:  # if the listener fails, the service does too
            listener = tasks.create_task(self.listen(consumer))
            yield
            async with self.at_work:  # never between a message's work and its commit
                listener.cancel()

    async def listen(self, consumer: AIOKafkaConsumer) -> None:
        async for message in consumer:
            async with self.at_work:
                try:
                    order = json.loads(message.value)
                    await self.handle(order["customer"], order["sum"])
                except (ValueError, KeyError) as error:
                    print(f"skipped {message.value!r} at offset {message.offset}: {error}")
                await consumer.commit()

    async def handle(self, customer: str, amount: int) -> None:
        await asyncio.sleep(0.05)  # the work: a database, another service
        self.sums[customer] += amount
        print(f"{customer} ordered for {amount}")


async def order(bootstrap: str, orders: list[tuple[str, int]], *others: bytes) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for customer, amount in orders:
            await producer.send(TOPIC, json.dumps({"customer": customer, "sum": amount}).encode())
        for value in others:
            await producer.send(TOPIC, value)


async def wait_for(service: Service, total: int) -> int:
    """Wait until the sums reach `total`; return how often this other task ran meanwhile."""
    turns = 0
    while service.sums.total() < total:
        await asyncio.sleep(0.005)
        turns += 1
    return turns


async def main() -> None:
    service = Service()
    async with kqueue.Broker() as broker:
        broker.create_topic(TOPIC)
        async with service.listening(broker.bootstrap):
            await order(broker.bootstrap, ORDERS[:2], b"not an order")
            await order(broker.bootstrap, ORDERS[2:])
            turns = await wait_for(service, total=15)
        print(f"another task ran {turns} times meanwhile: the listener leaves the event loop free")

        await order(broker.bootstrap, [("Ada", 10)])
        print("the listener was stopped, and an order has come; it starts again")
        async with service.listening(broker.bootstrap):
            await wait_for(service, total=25)
    print(f"sums: {dict(service.sums)}")


if __name__ == "__main__":
    asyncio.run(main())
