"""A partitioner of your own, used by kafka-python and by aiokafka: both choose the same partition.

The key of a message is `customer/order`. A client's default would spread a customer's orders over
the partitions; this partitioner hashes the customer alone, so that the orders of one customer stay
in their order. It is a class of a few lines, given to the broker by name, and to both clients by
`kqueue.partitioner`. docs/plugins.md shows how to install it as a plugin.

Run it with: python examples/custom_partitioner.py (needs kqueue with the extra `cli`, and aiokafka)
"""

from __future__ import annotations

import asyncio
import random
import zlib
from collections.abc import Sequence

from aiokafka import AIOKafkaProducer
from kafka import KafkaProducer

import kqueue

TOPIC = "orders"
PARTITIONS = 6
CUSTOMERS = ("Ada", "Bob", "Cleo", "Dan")
KEYS = [f"{customer}/{number}".encode() for customer in CUSTOMERS for number in range(5)]


class ByCustomer:
    """Every order of a customer goes to the customer's partition."""

    def __init__(self, rng: random.Random) -> None:
        """`rng` is for partitioners that choose at random."""

    def partition(
        self,
        key: bytes | None,
        count: int,
        *,
        available: Sequence[int] | None = None,
        value: bytes | None = None,
        topic: str = "",
    ) -> int:
        customer = (key or b"").partition(b"/")[0]
        return zlib.crc32(customer) % count


def send_by_kafka_python(bootstrap: str, name: str | None) -> None:
    chosen = {} if name is None else {"partitioner": kqueue.partitioner(name)}
    with KafkaProducer(bootstrap_servers=bootstrap, **chosen) as producer:
        for key in KEYS:
            producer.send(TOPIC, b"kafka-python", key=key)


async def send_by_aiokafka(bootstrap: str, name: str) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, partitioner=kqueue.partitioner(name)) as producer:
        for key in KEYS:
            await producer.send(TOPIC, b"aiokafka", key=key)


def partitions_by_customer(broker: kqueue.Broker) -> dict[str, dict[str, list[int]]]:
    """Return the partitions that each customer's messages are in, by client."""
    places: dict[str, dict[str, set[int]]] = {}
    for record in broker.topics[TOPIC].records():
        customer = record.key.decode().partition("/")[0]
        places.setdefault(record.value.decode(), {}).setdefault(customer, set()).add(record.partition)
    return {client: {name: sorted(partitions[name]) for name in CUSTOMERS} for client, partitions in places.items()}


def show(partitioner: str, client: str, places: dict[str, list[int]]) -> None:
    listed = "; ".join(f"{customer} in {', '.join(map(str, where))}" for customer, where in places.items())
    print(f"{partitioner}, {client}: {listed}")


def main() -> None:
    with kqueue.Broker(partitioners={"by-customer": ByCustomer}) as broker:
        broker.create_topic(TOPIC, partitions=PARTITIONS)
        send_by_kafka_python(broker.bootstrap, None)
        for client, where in partitions_by_customer(broker).items():
            show("default", client, where)

        broker.reset()
        broker.create_topic(TOPIC, partitions=PARTITIONS, kqueue_partitioner="by-customer")
        send_by_kafka_python(broker.bootstrap, "by-customer")
        asyncio.run(send_by_aiokafka(broker.bootstrap, "by-customer"))
        places = partitions_by_customer(broker)

    for client, where in places.items():
        show("by-customer", client, where)
    if places["kafka-python"] != places["aiokafka"] or any(len(where) > 1 for where in places["aiokafka"].values()):
        raise SystemExit("the clients chose different partitions")


if __name__ == "__main__":
    main()
