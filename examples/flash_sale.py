"""Peak shaving: a queue absorbs the orders of a flash sale that exceed the shop's capacity.

Orders go into a queue, and the shop processes them at its own pace. The topic has a bound on what
the shop has not processed yet (`kqueue.backlog.messages.max`): beyond it the broker refuses an
order at once with a clear error, so no customer waits without limit, and accepts orders again when
the shop has caught up. Producer and consumer are stock clients.

Run it with: python examples/flash_sale.py        (needs kqueue with the extra `cli`)
"""

from __future__ import annotations

import threading
import time

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import PolicyViolationError

import kqueue

TOPIC = "orders"
GROUP = "shop"
QUEUE_MAX = 100
CUSTOMERS = 1000
ORDERS_PER_STEP = 10
STEP_S = 0.2
CUSTOMER_EVERY_S = 0.001
PARTITION = TopicPartition(TOPIC, 0)


def shop(bootstrap: str, opened: threading.Event, closing: threading.Event, handled: list[str]) -> None:
    """Process the queue at a steady pace until it is empty and the sale is over."""
    consumer = KafkaConsumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        group_id=GROUP,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=ORDERS_PER_STEP,
    )
    # Without knowing the partitions kafka-python 3.0 joins the group twice, and if the second join
    # outlasts its `poll`, it never reads what it is assigned.
    consumer.partitions_for_topic(TOPIC)
    while True:
        orders = consumer.poll(timeout_ms=200).get(PARTITION, [])
        if consumer.assignment():
            opened.set()
        if not orders and closing.is_set():
            break
        time.sleep(STEP_S)  # the work
        handled.extend(order.value.decode() for order in orders)
        consumer.commit()  # makes room in the queue
    consumer.close(autocommit=False)


def main() -> None:
    opened, closing = threading.Event(), threading.Event()
    handled: list[str] = []
    longest = 0
    with kqueue.Broker() as broker:
        with KafkaAdminClient(bootstrap_servers=broker.bootstrap) as admin:
            bound = {"kqueue.backlog.messages.max": str(QUEUE_MAX)}
            admin.create_topics({TOPIC: {"num_partitions": 1, "configs": bound}}, wait_for_metadata=True)
        worker = threading.Thread(target=shop, args=(broker.bootstrap, opened, closing, handled))
        worker.start()
        opened.wait(timeout=30)

        accepted, refused = 0, 0
        # an idempotent producer of kafka-python 3.0 does not recover from such an error
        with KafkaProducer(bootstrap_servers=broker.bootstrap, enable_idempotence=False) as producer:
            for customer in range(CUSTOMERS):
                try:
                    producer.send(TOPIC, f"order of customer {customer}".encode()).get(timeout=10)
                    accepted += 1
                except PolicyViolationError:  # the client does not retry it
                    refused += 1
                backlog = broker.topics[TOPIC].backlog
                longest = max(longest, backlog.messages if backlog else 0)
                time.sleep(CUSTOMER_EVERY_S)
        closing.set()
        worker.join()

    print(f"{CUSTOMERS} customers came: {accepted} orders were accepted, {refused} refused at once")
    print(f"the queue never held more than {longest} orders; the shop handled {len(handled)} of them")
    if len(handled) != accepted:
        raise SystemExit(f"{accepted - len(handled)} accepted orders were lost")


if __name__ == "__main__":
    main()
