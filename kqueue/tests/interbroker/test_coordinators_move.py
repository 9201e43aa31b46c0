"""Three brokers over sockets, of which one stops: transactions and groups go on at the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kqueue.client import Client, NewTopic
from kqueue.tests.served_cluster import bootstrap, served_cluster
from kqueue.tests.waits import HangLimit

SETTINGS = {
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "group.initial.rebalance.delay.ms": 0,
}
PARTITIONS = 3
END_S = 60.0
IDS = [f"tx{number}" for number in range(4)]
GROUPS = [f"g{number}" for number in range(4)]


def transact(producer: Any, values: str, *, commit: bool = True) -> None:
    """One transaction with a record in each partition."""
    producer.begin_transaction()
    for partition in range(PARTITIONS):
        producer.produce("t", f"{values}-{partition}", partition=partition)
    producer.commit_transaction(END_S) if commit else producer.abort_transaction(END_S)


def read(consumer: Any, count: int) -> list[str]:
    """Read so many values, commit the position, and return them sorted."""
    values: list[str] = []
    limit = HangLimit(f"{count} records")
    while len(values) < count:
        limit.check()
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            values.append(message.value().decode())
    consumer.commit(asynchronous=False)
    return sorted(values)


def expected(*values: str) -> list[str]:
    return sorted(f"{value}-{id}-{partition}" for value in values for id in IDS for partition in range(PARTITIONS))


@pytest.mark.long
def test_transactions_and_groups_outlive_a_broker(tmp_path: Path) -> None:
    confluent = pytest.importorskip("confluent_kafka")
    with served_cluster(tmp_path, settings=SETTINGS) as brokers:
        where = {"bootstrap.servers": bootstrap(brokers), "log_level": 0}
        with Client(bootstrap(brokers)) as client:
            client.create_topics([NewTopic("t", PARTITIONS, 3)])
        producers = {id: confluent.Producer({**where, "transactional.id": id}) for id in IDS}
        settings = {**where, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        consumers = [
            confluent.Consumer({**settings, "group.id": group, "session.timeout.ms": 6000}) for group in GROUPS
        ]
        for id, producer in producers.items():
            producer.init_transactions(END_S)
            transact(producer, f"first-{id}")
            transact(producer, f"aborted-{id}", commit=False)
        for consumer in consumers:
            consumer.subscribe(["t"])
            assert read(consumer, len(IDS) * PARTITIONS) == expected("first")
        brokers[2].stop()
        for id, producer in producers.items():
            transact(producer, f"second-{id}")
        for consumer in consumers:
            assert read(consumer, len(IDS) * PARTITIONS) == expected("second"), "from the committed offsets on"
            consumer.close()
