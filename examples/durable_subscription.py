"""A durable subscription: a subscriber that was away gets what it missed.

The subscriber has a group, and the broker keeps the group's position (its committed offset) while
the subscriber is away, and over a restart of the broker. A visitor without a group has no position:
it sees only what is published while it is there.

Run it with: python examples/durable_subscription.py        (needs kqueue with the extra `cli`)
"""

from __future__ import annotations

import tempfile

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

import kqueue

TOPIC = "news"
PARTITION = TopicPartition(TOPIC, 0)


def publish(bootstrap: str, *days: str) -> None:
    with KafkaProducer(bootstrap_servers=bootstrap) as producer:
        for day in days:
            producer.send(TOPIC, f"the news of {day}".encode())
    print(f"published: {', '.join(days)}")


def subscribe(bootstrap: str) -> KafkaConsumer:
    return KafkaConsumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        group_id="subscriber",
        auto_offset_reset="earliest",  # where a new subscription begins
    )


def read(name: str, consumer: KafkaConsumer) -> None:
    """Read up to the end of the topic, and go away."""
    days: list[str] = []
    while True:
        # A poll that ends while kafka-python joins its group may leave it without partitions.
        for messages in consumer.poll(timeout_ms=1000).values():
            days += [message.value.decode().split()[-1] for message in messages]
        if consumer.assignment() and consumer.position(PARTITION) == consumer.end_offsets([PARTITION])[PARTITION]:
            break
    consumer.close()  # commits the position of its group, if it has one
    print(f"{name} got: {', '.join(days) or 'nothing'}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, kqueue.Broker(path=folder) as broker:
        broker.create_topic(TOPIC)
        publish(broker.bootstrap, "Monday", "Tuesday")
        read("the subscriber", subscribe(broker.bootstrap))

        print("the subscriber is away; the broker restarts")
        broker.restart()
        publish(broker.bootstrap, "Wednesday", "Thursday")

        visitor = KafkaConsumer(bootstrap_servers=broker.bootstrap)
        visitor.assign([PARTITION])
        visitor.seek_to_end()
        visitor.position(PARTITION)  # returns when the visitor knows the end, where it begins
        publish(broker.bootstrap, "Friday")
        read("a visitor", visitor)

        read("the subscriber, back again,", subscribe(broker.bootstrap))


if __name__ == "__main__":
    main()
