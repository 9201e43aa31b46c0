"""Peak shaving: a flash sale sends far more orders than the shop can handle at once, and the queue
takes the peak.

Orders go into a queue, and the shop works through it at its own pace. Past a bound on the queue the
front door refuses new orders with a clear error, instead of letting everybody wait without end. How
long the queue is, the broker knows: the end of the log less what the shop's group has committed.

Run it with: python examples/peak_shaving.py        (needs kqueue with the extra `cli`)
"""

from __future__ import annotations

import threading
import time

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import OffsetSpec

import kqueue

TOPIC = "orders"
GROUP = "shop"
QUEUE_MAX = 100
CUSTOMERS = 1000
ORDERS_PER_STEP = 20
PLACE = TopicPartition(TOPIC, 0)


class TooBusy(Exception):
    """The queue is full; the customer is told at once."""


class FrontDoor:
    """Takes orders while the queue is shorter than its bound. It asks for the length again once the
    queue may be full.
    """

    def __init__(self, bootstrap: str) -> None:
        self.producer = KafkaProducer(bootstrap_servers=bootstrap)
        self.admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        self.room = QUEUE_MAX

    def order(self, customer: int) -> None:
        """Put an order into the queue. Raises TooBusy: the queue holds `QUEUE_MAX` orders already."""
        if self.room == 0:
            self.room = QUEUE_MAX - min(self.queue_length(), QUEUE_MAX)
        if self.room == 0:
            raise TooBusy(f"{QUEUE_MAX} orders are waiting; please try again in a moment")
        self.producer.send(TOPIC, f"order of customer {customer}".encode()).get(timeout=10)
        self.room -= 1

    def queue_length(self) -> int:
        """Orders that are in the log and that the shop has not handled yet."""
        end = self.admin.list_partition_offsets({PLACE: OffsetSpec.LATEST})[PLACE].offset
        committed = self.admin.list_group_offsets({GROUP: [PLACE]})[GROUP].get(PLACE)
        return int(end) - (max(0, committed.offset) if committed else 0)

    def close(self) -> None:
        self.producer.close()
        self.admin.close()


def shop(bootstrap: str, closing: threading.Event, handled: list[str]) -> None:
    """Work through the queue at a steady pace until it is empty and the sale is over."""
    consumer = KafkaConsumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        group_id=GROUP,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=ORDERS_PER_STEP,
    )
    while True:
        orders = consumer.poll(timeout_ms=200).get(PLACE, [])
        if not orders and closing.is_set():
            break
        time.sleep(0.1)  # the work
        handled.extend(order.value.decode() for order in orders)
        consumer.commit()
    consumer.close(autocommit=False)


def main() -> None:
    closing = threading.Event()
    handled: list[str] = []
    with kqueue.Broker() as broker:
        with KafkaAdminClient(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics({TOPIC: {"num_partitions": 1}}, wait_for_metadata=True)
        worker = threading.Thread(target=shop, args=(broker.bootstrap, closing, handled))
        worker.start()

        door = FrontDoor(broker.bootstrap)
        accepted, refused, why = 0, 0, ""
        for customer in range(CUSTOMERS):
            try:
                door.order(customer)
                accepted += 1
            except TooBusy as error:
                refused += 1
                why = str(error)
        door.close()
        closing.set()
        worker.join()

    print(f"{CUSTOMERS} customers came: {accepted} orders were accepted, {refused} refused")
    if refused:
        print(f"the refused ones were told: {why}")
    print(f"the shop handled {len(handled)} orders, never more than {ORDERS_PER_STEP} at a time")
    if len(handled) != accepted:
        raise SystemExit(f"{accepted - len(handled)} accepted orders were lost")


if __name__ == "__main__":
    main()
