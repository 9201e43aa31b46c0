"""A queue with a dead-letter topic: a share group (KIP-932) acknowledges records one by one.

Two workers share one partition, which a consumer group gives to one of them only. A worker accepts
an order that it has handled, releases one that may work later, and rejects one that never will.
Released orders come back up to the group's delivery limit. What is rejected, or delivered too
often, is copied to a dead-letter topic (a setting of the group that kqueue has and Kafka has not),
with headers that say where it is from and why. librdkafka calls its share consumer a preview.

Run it with: python examples/dead_letters.py        (needs kqueue and confluent-kafka)
"""

from __future__ import annotations

import json
import threading
from collections import Counter

from confluent_kafka import AcknowledgeType, Consumer, Message, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

import kqueue

ORDERS, DEAD, GROUP = "orders", "orders-dead", "workers"
COUNT = 40
MALFORMED = 7
"""This order can't be read."""
LATER = 11
"""The stock has not arrived yet when this one is delivered first."""
NEVER = 23
"""Each attempt at this one fails."""
LIMIT = 3


def client(bootstrap: str, settings: dict[str, str] | None = None) -> dict[str, str]:
    """Settings of a client. It logs nothing: at the end it would say that the broker is gone."""
    return {"bootstrap.servers": bootstrap, "log_level": "2", **(settings or {})}


def handle(message: Message, outcomes: Counter[str]) -> AcknowledgeType:
    """One attempt at one order: what its worker says of it."""
    try:
        number = json.loads(message.value())["order"]
    except ValueError:
        outcomes["rejected"] += 1
        return AcknowledgeType.REJECT
    if number == NEVER or (number == LATER and message.delivery_count() == 1):
        print(f"order {number} fails, delivery {message.delivery_count()}")
        outcomes["released"] += 1
        return AcknowledgeType.RELEASE
    outcomes["accepted"] += 1
    return AcknowledgeType.ACCEPT


def work(bootstrap: str, outcomes: Counter[str], has_ended: threading.Event) -> None:
    """A worker: acknowledge each order after the work, until all is done."""
    settings = {"group.id": GROUP, "share.acknowledgement.mode": "explicit"}
    with ShareConsumer(client(bootstrap, settings)) as consumer:
        consumer.subscribe([ORDERS])
        while not has_ended.is_set():
            for message in consumer.poll(timeout=0.2):
                if message.error() is None:
                    consumer.acknowledge(message, handle(message, outcomes))
            consumer.commit_sync(10.0)


def dead_letters(bootstrap: str, count: int) -> list[tuple[bytes, dict[str, str]]]:
    """Read the dead-letter topic with an ordinary consumer until it has so many records."""
    consumer = Consumer(client(bootstrap, {"group.id": "operators", "auto.offset.reset": "earliest"}))
    consumer.subscribe([DEAD])
    letters: list[tuple[bytes, dict[str, str]]] = []
    while len(letters) < count:
        for message in consumer.consume(10, timeout=1):
            if message.error() is None:
                headers = {name: value.decode() for name, value in message.headers()}
                letters.append((message.value(), headers))
    consumer.close()
    return letters


def main() -> None:
    with kqueue.Broker() as broker:
        broker.create_topic(ORDERS, partitions=1)
        broker.create_topic(DEAD, partitions=1)
        settings = {
            "share.auto.offset.reset": "earliest",
            "share.delivery.count.limit": str(LIMIT),
            "kqueue.share.dead.letter.topic": DEAD,
        }
        entries = [ConfigEntry(*pair, incremental_operation=AlterConfigOpType.SET) for pair in settings.items()]
        admin = AdminClient(client(broker.bootstrap))
        resource = ConfigResource(ResourceType.GROUP, GROUP, incremental_configs=entries)
        admin.incremental_alter_configs([resource])[resource].result(timeout=10)

        producer = Producer(client(broker.bootstrap))
        for number in range(COUNT):
            producer.produce(ORDERS, b"{" if number == MALFORMED else json.dumps({"order": number}).encode())
        producer.flush()

        outcomes: Counter[str] = Counter()
        has_ended = threading.Event()
        workers = [threading.Thread(target=work, args=(broker.bootstrap, outcomes, has_ended)) for _ in range(2)]
        for worker in workers:
            worker.start()
        letters = dead_letters(broker.bootstrap, 2)
        while outcomes["accepted"] < COUNT - 2:
            has_ended.wait(0.05)
        has_ended.set()
        for worker in workers:
            worker.join()

        print(f"{outcomes['accepted']} of {COUNT} orders were accepted, {outcomes['rejected']} was rejected")
        for value, headers in sorted(letters, key=lambda each: int(each[1]["kqueue.share.offset"])):
            own = {name.removeprefix("kqueue.share."): text for name, text in headers.items()}
            print(f"{DEAD}: {value.decode()}: {own['reason']} after {own['delivery.count']} (offset {own['offset']})")


if __name__ == "__main__":
    main()
