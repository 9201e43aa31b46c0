"""Consume, transform, produce, exactly once: transactions hold results and offsets together.

A worker reads payments and writes a receipt for each. One transaction holds the receipts of twenty
payments and the group's offsets behind them. The worker dies in the middle of one. The next worker
has the same `transactional.id`: the broker aborts the transaction of the dead one, and the offsets
are where the last complete one has left them. Whoever reads with `read_committed` sees one receipt
for each payment.

Run it with: python examples/exactly_once.py        (needs kqueue and confluent-kafka)
"""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter

from confluent_kafka import Consumer, Producer, TopicPartition

import kqueue

PAYMENTS, RECEIPTS = "payments", "receipts"
COUNT = 200
AT_ONCE = 20
DIES_AT = 110


def work(bootstrap: str, dies_at: int | None) -> None:
    """A worker's process: write a receipt for each payment that has none yet."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": "receipts-1",
            "log_level": 3,  # errors only: it retries until the dead worker's transaction has ended
        }
    )
    producer.init_transactions()  # aborts what a dead worker has left open
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "receipts",
            "group.instance.id": "receipts-1",  # takes the place of the dead worker at once
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,  # the transactions commit the offsets
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([PAYMENTS])
    done = 0
    while done < COUNT:
        messages = consumer.consume(AT_ONCE, timeout=5)
        if not messages:
            continue
        producer.begin_transaction()
        for message in messages:
            producer.produce(RECEIPTS, b"paid: " + message.value(), key=message.key())
            if int(message.key()) == dies_at:
                producer.flush()  # so that the broker has the receipts of the transaction
                print(f"the worker dies at payment {dies_at}, in the middle of a transaction", flush=True)
                os._exit(1)
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata())
        producer.commit_transaction()
        done = positions[0].offset
    consumer.close()


def run_worker(bootstrap: str, dies_at: int | None = None) -> None:
    process = multiprocessing.get_context("spawn").Process(target=work, args=(bootstrap, dies_at))
    process.start()
    process.join()


def count_receipts(bootstrap: str, isolation_level: str) -> Counter[int]:
    """Return how many receipts each payment has."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "audit",
            "enable.auto.commit": False,
            "isolation.level": isolation_level,
        }
    )
    partition = TopicPartition(RECEIPTS, 0, 0)
    consumer.assign([partition])
    end = consumer.get_watermark_offsets(partition)[1]
    receipts: Counter[int] = Counter()
    while consumer.position([partition])[0].offset < end:
        receipts.update(int(message.key()) for message in consumer.consume(1000, timeout=0.2))
    consumer.close()
    return receipts


def main() -> None:
    with kqueue.Broker() as broker:
        broker.create_topic(PAYMENTS)
        broker.create_topic(RECEIPTS)
        broker.topics[PAYMENTS].produce_all((str(number), "10 euros") for number in range(COUNT))

        run_worker(broker.bootstrap, dies_at=DIES_AT)
        print("another worker continues")
        run_worker(broker.bootstrap)
        written = count_receipts(broker.bootstrap, "read_uncommitted")
        receipts = count_receipts(broker.bootstrap, "read_committed")

    print(f"read_uncommitted: {written.total()} receipts for {COUNT} payments")
    print(f"read_committed:   {receipts.total()} receipts for {COUNT} payments")
    if receipts != Counter(range(COUNT)):
        raise SystemExit("a payment has no receipt, or two")


if __name__ == "__main__":
    main()
