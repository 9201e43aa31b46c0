"""Consume, transform, produce: each record once, whatever crashes between which steps.

A worker reads records of a topic, writes the transformed ones to another, and commits its offsets,
in one transaction. It dies at random steps, and the broker restarts at random steps; its successor
takes over the transactional id and the group.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable, Iterator

import pytest

from compat_tests.clients import protocol_client
from compat_tests.clients.adapters.contract import TRANSACTIONS, Consumer, Place, Producer, Record
from compat_tests.clients.brokers import RunningBroker
from compat_tests.clients.conftest import ClientFactory
from compat_tests.clients.group_members import eventually
from compat_tests.clients.scenario_helpers import collect, nothing_more, numbered, send_all

Name = Callable[[str], str]
TXN_OFFSET_COMMIT = 28
LONG = "KQUEUE_EXACTLY_ONCE_LONG" in os.environ
"""Also restart the broker, where clients wait for some of their timeouts: minutes, beside CI."""
PARTITIONS = 2
RECORDS = 24
CRASHES = 6
ABORT_SHARE = 0.25


@pytest.fixture(autouse=True)
def _transactions(needs: Callable[[str], None], own_broker: RunningBroker) -> None:
    needs(TRANSACTIONS)
    if TXN_OFFSET_COMMIT not in protocol_client.served_apis(own_broker.bootstrap):
        pytest.skip("the broker does not serve TxnOffsetCommit")


class Crash(Exception):
    """The worker dies here."""


class Worker:
    """One life of the worker. `at_step` is called between any two steps."""

    def __init__(self, producer: Producer, consumer: Consumer, target: str, at_step: Callable[[], None]) -> None:
        self._producer = producer
        self._consumer = consumer
        self._target = target
        self._at_step = at_step
        self._read: dict[Place, int] = {}

    def transform_some(self, rng: random.Random) -> int:
        """Transform what one poll returns; return how many records were committed."""
        records = self._poll()
        if not records:
            return 0
        self._at_step()
        self._producer.begin_transaction()
        pending = []
        for record in records:
            pending.append(self._producer.send(self._target, b"done " + (record.value or b"")))
            self._at_step()
        self._producer.flush()
        for sent in pending:
            sent.result()
        self._at_step()
        self._producer.send_offsets({record.place: record.offset + 1 for record in records}, self._consumer)
        self._at_step()
        if rng.random() < ABORT_SHARE:
            self._producer.abort_transaction()
            for record in reversed(records):  # read them again
                self._consumer.seek(record.place, record.offset)
            return 0
        self._producer.commit_transaction()
        self._at_step()
        return len(records)

    def _poll(self) -> list[Record]:
        return self._consumer.poll(0.5)


@contextlib.contextmanager
def life(
    connect: ClientFactory, bootstrap: str, source: str, group: str, transactional_id: str
) -> Iterator[tuple[Producer, Consumer]]:
    """Yield a producer, which ends what its predecessor left open, and then a consumer."""
    producer = connect.producer(bootstrap, transactional_id=transactional_id, linger_ms=0)
    consumer = connect.consumer(bootstrap, source, group=group, read_committed=True, poll_records_max=5)
    try:
        yield producer, consumer
    finally:
        with contextlib.suppress(Exception):
            consumer.close()  # the producer just stops, its transaction stays open


@pytest.mark.parametrize("seed", [1, 2] if LONG else [1])
@pytest.mark.parametrize(
    "restarts", [False, True] if LONG else [False], ids=["worker", "broker"] if LONG else ["worker"]
)
def test_each_record_is_transformed_once(
    own_broker: RunningBroker, connect: ClientFactory, name: Name, seed: int, restarts: bool
) -> None:
    source, target, group, transactional_id = name("source"), name("target"), name("group"), name("txn")
    protocol_client.create_topic(own_broker.bootstrap, source, PARTITIONS)
    protocol_client.create_topic(own_broker.bootstrap, target)
    plain = connect.producer(own_broker.bootstrap)
    for partition in range(PARTITIONS):
        send_all(plain, source, numbered(RECORDS, f"p{partition}"), partition=partition)
    rng = random.Random(seed)
    crashes = 0

    def at_step() -> None:
        nonlocal crashes
        if crashes < CRASHES and rng.random() < 0.15:
            crashes += 1
            if restarts and rng.random() < 0.5:
                own_broker.restart()  # the worker goes on
            else:
                raise Crash

    def committed() -> int:
        asker = connect.consumer(own_broker.bootstrap, group=group)
        try:
            return sum(asker.committed(Place(source, partition)) or 0 for partition in range(PARTITIONS))
        finally:
            asker.close()

    for _ in range(10 * CRASHES):
        try:
            with life(connect, own_broker.bootstrap, source, group, transactional_id) as (producer, consumer):
                worker = Worker(producer, consumer, target, at_step)
                idle = 0
                while idle < 8:
                    idle = 0 if worker.transform_some(rng) else idle + 1
        except Crash:
            continue
        except Exception:  # a restart of the broker may break a transaction: the worker dies of it
            if not restarts:
                raise
            continue
        break
    assert crashes == CRASHES
    eventually(lambda: committed() == PARTITIONS * RECORDS, "all offsets are committed")
    reader = connect.consumer(own_broker.bootstrap, assign=[Place(target, 0)], read_committed=True)
    found = [record.value for record in collect(reader, PARTITIONS * RECORDS)]
    nothing_more(reader)
    expected = [b"done " + value for partition in range(PARTITIONS) for value in numbered(RECORDS, f"p{partition}")]
    assert sorted(value or b"" for value in found) == sorted(expected)
