"""A transactional outbox: an order is confirmed only when the queue has confirmed it.

The shop writes each order together with a row of its outbox, in one transaction of its database.
It sends the rows of the outbox, waits for the queue's confirmation, and then confirms the order and
deletes the row, again in one transaction. The shop dies between the two confirmations. Started
again it cannot know that the queue has the order, and sends it a second time. Billing knows the
order by its id and skips it. In the end the database and the queue agree.

Run it with: python examples/order_outbox.py        (needs kqueue with the extra `cli`)
"""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer

import kqueue

TOPIC = "orders"
ORDERS = [f"order {number}" for number in range(1, 11)]
DIES_AT = "order 5"
TABLES = """
CREATE TABLE orders (id TEXT PRIMARY KEY, state TEXT);
CREATE TABLE outbox (id TEXT PRIMARY KEY REFERENCES orders);
CREATE TABLE bills (order_id TEXT PRIMARY KEY);
"""


def place_orders(database: Path) -> None:
    """Write each order as pending; what the queue must get is in the outbox from then on."""
    with closing(sqlite3.connect(database)) as db:
        db.executescript(TABLES)
        for order in ORDERS:
            with db:  # one transaction: both rows or none
                db.execute("INSERT INTO orders VALUES (?, 'pending')", (order,))
                db.execute("INSERT INTO outbox VALUES (?)", (order,))


def send_outbox(database: Path, bootstrap: str, dies_at: str | None) -> None:
    """The shop's process: send what is in the outbox, and confirm each order that the queue has."""
    with closing(sqlite3.connect(database)) as db, KafkaProducer(bootstrap_servers=bootstrap) as producer:
        for (order,) in db.execute("SELECT id FROM outbox ORDER BY rowid").fetchall():
            producer.send(TOPIC, key=order.encode(), value=b"one coffee").get(timeout=10)  # the queue has confirmed
            if order == dies_at:
                print(f"the queue has confirmed {order}; the shop dies before it writes that down", flush=True)
                os._exit(1)
            with db:
                db.execute("UPDATE orders SET state = 'confirmed' WHERE id = ?", (order,))
                db.execute("DELETE FROM outbox WHERE id = ?", (order,))


def bill_orders(database: Path, bootstrap: str, count: int) -> int:
    """Write a bill for each order among `count` messages; return how many were sent twice."""
    consumer = KafkaConsumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        group_id="billing",
        auto_offset_reset="earliest",
        consumer_timeout_ms=20_000,
    )
    repeated = 0
    with closing(sqlite3.connect(database)) as db:
        for _ in range(count):
            order = next(consumer).key.decode()
            with db:
                is_new = db.execute("INSERT OR IGNORE INTO bills VALUES (?)", (order,)).rowcount == 1
            repeated += not is_new
    consumer.close()
    return repeated


def run_shop(database: Path, bootstrap: str, dies_at: str | None = None) -> None:
    process = multiprocessing.get_context("spawn").Process(target=send_outbox, args=(database, bootstrap, dies_at))
    process.start()
    process.join()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, kqueue.Broker() as broker:
        broker.create_topic(TOPIC)
        database = Path(folder, "shop.db")
        place_orders(database)
        with closing(sqlite3.connect(database)) as db:

            def show() -> int:
                states = db.execute("SELECT count(*) || ' ' || state FROM orders GROUP BY state")
                messages = len(broker.topics[TOPIC].records())
                print(f"orders: {', '.join(text for (text,) in states)}; messages in the queue: {messages}", flush=True)
                return messages

            show()
            run_shop(database, broker.bootstrap, dies_at=DIES_AT)
            show()
            run_shop(database, broker.bootstrap)
            repeated = bill_orders(database, broker.bootstrap, count=show())
            confirmed = db.execute("SELECT id FROM orders WHERE state = 'confirmed' ORDER BY rowid").fetchall()
            billed = db.execute("SELECT order_id FROM bills ORDER BY rowid").fetchall()

    print(f"{len(confirmed)} of {len(ORDERS)} orders are confirmed, {len(billed)} are billed")
    print(f"{repeated} message came twice and was billed once")
    if not (ORDERS == [order for (order,) in confirmed] == [order for (order,) in billed]):
        raise SystemExit("the database and the queue do not agree")


if __name__ == "__main__":
    main()
