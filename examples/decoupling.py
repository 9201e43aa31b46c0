"""Decoupling: orders are taken while the stock service is down, and none is lost.

The shop either calls the stock service, and then takes no order while that is down; or it sends the
order to a queue, from which the stock service takes it when it is there. Neither knows the other's
address, nor whether it runs.

Run it with: python examples/decoupling.py        (needs kqueue with the extra `cli`)
"""

from __future__ import annotations

import threading

from kafka import KafkaConsumer, KafkaProducer

import kqueue

TOPIC = "orders"
GROUP = "stock"
ORDERS = 30
DOWN = range(10, 20)
"""The orders that come while the stock service is down."""


class Stock:
    """The stock service: takes each ordered piece out of the stock, if it runs."""

    def __init__(self) -> None:
        self.pieces = ORDERS
        self.runs = True

    def reserve(self) -> None:
        if not self.runs:
            raise ConnectionRefusedError("the stock service is down")
        self.pieces -= 1


class StockListener(threading.Thread):
    """Feeds the stock service from the queue, until it is stopped."""

    def __init__(self, bootstrap: str, stock: Stock) -> None:
        super().__init__(daemon=True)
        self.bootstrap = bootstrap
        self.stock = stock
        self.stopping = threading.Event()
        self.start()

    def run(self) -> None:
        consumer = KafkaConsumer(
            TOPIC,
            bootstrap_servers=self.bootstrap,
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        while not self.stopping.is_set():
            for orders in consumer.poll(timeout_ms=1000).values():
                for _ in orders:
                    self.stock.reserve()
                consumer.commit()  # after the work: an order is handled again rather than lost
        consumer.close(autocommit=False)

    def stop(self) -> None:
        self.stopping.set()
        self.join()


def by_calls() -> None:
    stock = Stock()
    taken = 0
    for number in range(ORDERS):
        stock.runs = number not in DOWN
        try:
            stock.reserve()
            taken += 1
        except ConnectionRefusedError:
            pass  # the customer sees an error page
    print(f"by calls: {taken} of {ORDERS} orders were taken, the rest failed with the stock service")


def through_a_queue(broker: kqueue.Broker) -> None:
    stock = Stock()
    taken = 0
    broker.create_topic(TOPIC)
    listener = StockListener(broker.bootstrap, stock)
    with KafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(ORDERS):
            if number == DOWN.start:
                broker.assert_consumed(TOPIC, group=GROUP, within_s=10)
                listener.stop()
                print("the stock service goes down")
            producer.send(TOPIC, f"order {number}".encode()).get(timeout=10)
            taken += 1
            if number == DOWN.stop - 1:
                print(f"{broker.groups[GROUP].total_lag} orders wait in the queue; the stock service comes back")
                listener = StockListener(broker.bootstrap, stock)
    broker.assert_consumed(TOPIC, group=GROUP, within_s=10)
    listener.stop()

    print(f"through a queue: {taken} of {ORDERS} orders were taken, {ORDERS - stock.pieces} left the stock")
    if stock.pieces:
        raise SystemExit(f"{stock.pieces} orders were lost")


def main() -> None:
    by_calls()
    with kqueue.Broker() as broker:
        through_a_queue(broker)


if __name__ == "__main__":
    main()
