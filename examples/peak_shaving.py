"""Peak shaving: a queue absorbs the orders of a flash sale that exceed the shop's capacity.

Orders go into a queue, and the shop processes them at its own pace. Beyond a bound on the queue new
orders are refused with a clear error, so no customer waits without limit. The length of the queue
is the log end offset minus the committed offset of the shop's group.

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
PARTITION = TopicPartition(TOPIC, 0)


class TooBusy(Exception):
    """The queue is full; the customer gets the error at once."""


class FrontDoor:
    """Accepts orders while the queue is shorter than its bound.

    It asks the broker for the length only when the queue may be full.

    """

    def __init__(self, bootstrap: str) -> None:
        self.producer = KafkaProducer(bootstrap_servers=bootstrap)
        self.admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        self.room = QUEUE_MAX

    def order(self, customer: int) -> None:
        """Put an order into the queue. Raises TooBusy: the queue holds `QUEUE_MAX` orders."""
        if self.room == 0:
            self.room = QUEUE_MAX - min(self.queue_length(), QUEUE_MAX)
        if self.room == 0:
            raise TooBusy(f"{QUEUE_MAX} orders are waiting; please try again in a moment")
        self.producer.send(TOPIC, f"order of customer {customer}".encode()).get(timeout=10)
        self.room -= 1

    def queue_length(self) -> int:
        """Return the number of orders that the shop has not processed."""
        end = self.admin.list_partition_offsets({PARTITION: OffsetSpec.LATEST})[PARTITION].offset
        committed = self.admin.list_group_offsets({GROUP: [PARTITION]})[GROUP].get(PARTITION)
        return int(end) - (max(0, committed.offset) if committed else 0)

    def close(self) -> None:
        self.producer.close()
        self.admin.close()


def shop(bootstrap: str, closing: threading.Event, handled: list[str]) -> None:
    """Process the queue at a steady pace until it is empty and the sale is over."""
    consumer = KafkaConsumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        group_id=GROUP,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=ORDERS_PER_STEP,
    )
    while True:
        orders = consumer.poll(timeout_ms=200).get(PARTITION, [])
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
