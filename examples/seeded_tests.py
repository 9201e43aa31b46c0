"""Test a service against a snapshot: every test starts with the same data, without a client of its
own.

The service under test reads orders and writes bills. Its data is seeded once and kept as a
snapshot. Each run starts with a copy of it and emulates another version of Kafka, which tests an
upgrade before it is made.

Run it with: python examples/seeded_tests.py        (needs kqueue with the extra `cli`)
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer

import kqueue

PRICES = {"coffee": 3, "tea": 2}


def bill_orders(bootstrap: str, count: int) -> None:
    """The service: takes `count` orders and writes a bill for each."""
    consumer = KafkaConsumer("orders", bootstrap_servers=bootstrap, group_id="billing", auto_offset_reset="earliest")
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for _ in range(count):
        order = next(consumer)
        bill = {"table": order.key.decode(), "sum": PRICES[order.value.decode()]}
        producer.send("bills", json.dumps(bill).encode(), key=order.key)
    producer.close()
    consumer.commit()
    consumer.close()


def seed(folder: Path) -> None:
    with kqueue.Broker() as broker:
        broker.create_topic("orders")
        broker.create_topic("bills")
        broker.topics["orders"].produce_all([("table 1", "coffee"), ("table 2", "tea"), ("table 1", "tea")])
        broker.snapshot(folder)


def check(folder: Path, version: str) -> None:
    with kqueue.Broker(snapshot=folder, as_version=version) as broker:
        bill_orders(broker.bootstrap, count=3)
        bills = [{"table": "table 1", "sum": 3}, {"table": "table 2", "sum": 2}, {"table": "table 1", "sum": 2}]
        broker.assert_produced("bills", bills, keys=["table 1", "table 2", "table 1"], decode=json.loads)
        broker.assert_consumed("orders", group="billing")
        print(f"as Kafka {version}: {broker.groups['billing']}")

        broker.topics["orders"].produce("tea", key="table 3")
        try:
            broker.assert_consumed("orders", group="billing")
        except AssertionError as error:
            print(f"  one more order, and nobody there: {error}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        seed(Path(folder))
        for version in ("2.8", "3.9", "4.3"):
            check(Path(folder), version)


if __name__ == "__main__":
    main()
