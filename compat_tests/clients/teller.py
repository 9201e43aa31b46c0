"""A teller of the money-transfer test: a process that carries out orders until it is killed.

It reads orders, writes the two entries of each, and stores its position, in one transaction. After
any error it starts over, as a program in production would.

Arguments: client, bootstrap, transactional id, topic of the orders, topic of the entries, group,
session in ms.
"""

from __future__ import annotations

import contextlib
import sys
import time
import traceback

from compat_tests.clients import adapters
from compat_tests.clients.adapters.contract import Client, ConsumerOptions, ProducerOptions, Record

PAUSE_S = 0.2
POLL_S = 1.0
BATCH = 7


def entries(order: Record) -> list[tuple[bytes, bytes]]:
    """The two entries of an order: account, and order number with amount."""
    number, source, target, amount = (int(word) for word in (order.value or b"").split())
    return [(b"%d" % source, b"%d %d" % (number, -amount)), (b"%d" % target, b"%d %d" % (number, amount))]


def work(
    client: Client, bootstrap: str, transactional_id: str, orders: str, target: str, options: ConsumerOptions
) -> None:
    """Carry out orders until something fails."""
    with contextlib.ExitStack() as stack:
        # before the position is read: what a predecessor left open is aborted
        producer = client.producer(bootstrap, ProducerOptions(transactional_id=transactional_id))
        stack.callback(producer.close)
        consumer = client.consumer(bootstrap, options)
        stack.callback(consumer.close)
        consumer.subscribe([orders])
        while True:
            records = consumer.poll(POLL_S)
            for begin in range(0, len(records), BATCH):
                batch = records[begin : begin + BATCH]
                producer.begin_transaction()
                sent = [
                    producer.send(target, value, key=account, partition=int(account) % 2)
                    for order in batch
                    for account, value in entries(order)
                ]
                producer.flush()
                for one in sent:
                    one.result()
                offsets = {}
                for order in batch:
                    offsets[order.place] = max(offsets.get(order.place, 0), order.offset + 1)
                producer.send_offsets(offsets, consumer)
                producer.commit_transaction()


def main(words: list[str]) -> None:
    name, bootstrap, transactional_id, orders, target, group, session_ms = words
    client = adapters.load(name)
    options = ConsumerOptions(group=group, read_committed=True, session_ms=int(session_ms), poll_records_max=3 * BATCH)
    while True:
        try:
            work(client, bootstrap, transactional_id, orders, target, options)
        except Exception:
            traceback.print_exc()
            time.sleep(PAUSE_S)


if __name__ == "__main__":
    main(sys.argv[1:])
