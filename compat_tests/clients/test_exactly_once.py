"""Consume, transform, produce: each record once, whatever crashes between which steps.

A worker reads records of a topic, writes the transformed ones to another, and commits its offsets,
in one transaction. It dies at random steps, and its successor takes over the transactional id and
the group; its producer lives on, as that of a process that hangs may. In the second test the broker
is killed at random steps too, and the worker goes on if its client does.

``--exactly-once-seeds=20`` runs other sequences of crashes too.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat_tests.clients import protocol_client
from compat_tests.clients.adapters.contract import (
    RECONNECTING_TRANSACTIONS,
    TRANSACTIONS,
    Consumer,
    Place,
    Producer,
    Record,
)
from compat_tests.clients.brokers import EXTERNAL, RunningBroker, killable
from compat_tests.clients.conftest import ClientFactory
from compat_tests.clients.scenario_helpers import collect, nothing_more, numbered, send_all

Name = Callable[[str], str]
TXN_OFFSET_COMMIT = 28
PARTITIONS = 2
RECORDS = 24
ALL = PARTITIONS * RECORDS
CRASHES = 6
CRASH_SHARE = 0.15
ABORT_SHARE = 0.25
SESSION_MS = 2_000
FLUSH_S = 10
"""The worker dies after it: kafka-python may lose a transactional request to a broker that is down,
and then waits for nothing.
"""
WORK_S = 150


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("seed", range(1, metafunc.config.getoption("exactly_once_seeds") + 1))


@pytest.fixture(autouse=True)
def _transactions(needs: Callable[[str], None]) -> None:
    needs(TRANSACTIONS)


class Crash(Exception):
    """The worker dies here."""


class Worker:
    """One life of the worker. `at_step` is called between any two steps."""

    def __init__(self, producer: Producer, consumer: Consumer, target: str, at_step: Callable[[], None]) -> None:
        self._producer = producer
        self._consumer = consumer
        self._target = target
        self._at_step = at_step

    def transform_some(self, rng: random.Random) -> bool:
        """Transform what one poll returns; return whether a transaction was committed."""
        records = self._poll()
        if not records:
            return False
        self._at_step()
        self._producer.begin_transaction()
        pending = []
        for record in records:
            pending.append(self._producer.send(self._target, b"done " + (record.value or b"")))
            self._at_step()
        self._producer.flush(FLUSH_S)
        for sent in pending:
            sent.result(FLUSH_S)
        self._at_step()
        self._producer.send_offsets({record.place: record.offset + 1 for record in records}, self._consumer)
        self._at_step()
        if rng.random() < ABORT_SHARE:
            self._producer.abort_transaction()
            for record in reversed(records):  # read them again
                self._consumer.seek(record.place, record.offset)
            return False
        self._producer.commit_transaction()
        self._at_step()
        return True

    def _poll(self) -> list[Record]:
        return self._consumer.poll(0.5)


class Job:
    """All records of a topic, transformed by one worker after the other."""

    def __init__(self, bootstrap: str, connect: ClientFactory, name: Name, seed: int) -> None:
        self.crashes = self.restarts = self.lives = self.transactions = 0
        self._bootstrap = bootstrap
        self._connect = connect
        self._source, self._target, self._group = name("source"), name("target"), name("group")
        self._transactional_id = name("txn")
        self._rng = random.Random(seed)

    def prepare(self) -> None:
        """Create the topics and the records."""
        protocol_client.create_topic(self._bootstrap, self._source, PARTITIONS)
        protocol_client.create_topic(self._bootstrap, self._target)
        plain = self._connect.producer(self._bootstrap)
        for partition in range(PARTITIONS):
            send_all(plain, self._source, numbered(RECORDS, f"p{partition}"), partition=partition)

    def run(self, restart: Callable[[], object] | None) -> None:
        """Work until all is done. `restart` restarts the broker; None: only workers die."""
        places = [Place(self._source, partition) for partition in range(PARTITIONS)]
        deadline = time.monotonic() + WORK_S

        def is_done() -> bool:
            count = sum(protocol_client.committed(self._bootstrap, self._group, places))
            assert time.monotonic() < deadline, f"{count} of {ALL} records after {WORK_S} s"
            return count == ALL

        def at_step() -> None:
            if self.crashes + self.restarts < CRASHES and self._rng.random() < CRASH_SHARE:
                if restart is not None and self._rng.random() < 0.5:
                    self.restarts += 1
                    restart()  # the worker goes on
                else:
                    self.crashes += 1
                    raise Crash

        with contextlib.ExitStack() as zombies:
            while not is_done():
                try:
                    self.lives += 1
                    with self._life(zombies) as (producer, consumer):
                        worker = Worker(producer, consumer, self._target, at_step)
                        while not is_done():
                            self.transactions += worker.transform_some(self._rng)
                except Crash:
                    pass
                except AssertionError:
                    raise
                except Exception:  # a restart of the broker may break a transaction: the worker dies of it
                    if not self.restarts:
                        raise
        assert self.crashes + self.restarts == CRASHES

    @contextlib.contextmanager
    def _life(self, zombies: contextlib.ExitStack) -> Iterator[tuple[Producer, Consumer]]:
        """Yield a producer, which ends what its predecessor left open, and then a consumer."""
        producer = self._connect.producer(self._bootstrap, transactional_id=self._transactional_id)
        zombies.callback(producer.abandon)
        consumer = self._connect.consumer(
            self._bootstrap,
            self._source,
            group=self._group,
            read_committed=True,
            poll_records_max=5,
            session_ms=SESSION_MS,
        )
        try:
            yield producer, consumer
        finally:
            with contextlib.suppress(Exception):
                consumer.close()

    def check(self) -> None:
        """Assert that each record was transformed once."""
        reader = self._connect.consumer(self._bootstrap, assign=[Place(self._target, 0)], read_committed=True)
        outputs = [record.value for record in collect(reader, ALL)]
        nothing_more(reader)
        expected = [b"done " + value for partition in range(PARTITIONS) for value in numbered(RECORDS, f"p{partition}")]
        assert sorted(value or b"" for value in outputs) == sorted(expected)


@pytest.mark.one_client
def test_each_record_is_transformed_once(
    own_broker: RunningBroker, connect: ClientFactory, name: Name, seed: int
) -> None:
    if TXN_OFFSET_COMMIT not in protocol_client.served_apis(own_broker.bootstrap):
        pytest.skip("the broker does not serve TxnOffsetCommit")
    job = Job(own_broker.bootstrap, connect, name, seed)
    job.prepare()
    job.run(None)
    job.check()


@pytest.mark.long
def test_each_record_is_transformed_once_by_a_broker_that_is_killed(
    storage: str, tmp_path: Path, connect: ClientFactory, name: Name, needs: Callable[[str], None], seed: int
) -> None:
    needs(RECONNECTING_TRANSACTIONS)
    if storage == EXTERNAL:
        pytest.skip("an external broker cannot be killed")
    with killable(storage, tmp_path) as process, contextlib.ExitStack() as stack:
        job = Job(process.bootstrap, ClientFactory(connect.client, stack), name, seed)
        job.prepare()
        begin = time.monotonic()
        job.run(process.crash)
        print(
            f"{job.crashes} crashes of workers, {job.restarts} kills of the broker, {job.lives} workers, "
            f"{job.transactions} transactions, {time.monotonic() - begin:.1f} s"
        )
        job.check()
        process.crash()
        job.check()
