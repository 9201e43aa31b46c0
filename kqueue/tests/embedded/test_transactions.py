"""Transactional producers of the Python clients, on an embedded broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from typing import Any, Protocol

import pytest
from aiokafka import AIOKafkaProducer
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

import kqueue

TIMEOUT_MS = 60_000


class TransactionalProducer(Protocol):
    """The calls of the tests to a producer; each method returns when it is done."""

    def begin(self) -> None: ...
    def send(self, value: bytes) -> None: ...
    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...


class KafkaPythonProducer:
    def __init__(self, bootstrap: str, id: str) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=id, transaction_timeout_ms=TIMEOUT_MS, max_block_ms=20_000
        )
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, value: bytes) -> None:
        self._producer.send("t", value).get(60)

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=1)


class AiokafkaProducer:
    def __init__(self, bootstrap: str, id: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._run(self._start(bootstrap, id))

    async def _start(self, bootstrap: str, id: str) -> None:
        self._producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=id, transaction_timeout_ms=TIMEOUT_MS
        )
        await self._producer.start()

    def _run(self, work: Any) -> None:
        self._loop.run_until_complete(work)

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, value: bytes) -> None:
        self._run(self._producer.send_and_wait("t", value))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        with suppress(Exception):
            self._run(self._producer.stop())
        self._loop.close()


class ConfluentProducer:
    def __init__(self, bootstrap: str, id: str) -> None:
        confluent = pytest.importorskip("confluent_kafka")
        self._producer = confluent.Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": id,
                "transaction.timeout.ms": TIMEOUT_MS,
                "log_level": 0,
            }
        )
        self._producer.init_transactions(20)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, value: bytes) -> None:
        errors: list[Any] = []
        self._producer.produce("t", value, on_delivery=lambda error, _: errors.append(error))
        self._producer.flush(60)
        assert errors == [None], errors

    def commit(self) -> None:
        self._producer.commit_transaction(20)

    def abort(self) -> None:
        self._producer.abort_transaction(20)

    def close(self) -> None:
        self._producer.purge()


Connect = Callable[[str, str], TransactionalProducer]


@pytest.fixture(params=[KafkaPythonProducer, AiokafkaProducer, ConfluentProducer])
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Connects a producer, and closes it at the end."""
    with ExitStack() as closing:

        def connected(bootstrap: str, id: str) -> TransactionalProducer:
            producer: TransactionalProducer = request.param(bootstrap, id)
            closing.callback(producer.close)
            return producer

        yield connected


@pytest.fixture
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker() as broker:
        yield broker


def committed(broker: kqueue.Broker) -> list[bytes]:
    """Return the records that a read_committed consumer gets up to the end."""
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    )
    partition = TopicPartition("t", 0)
    consumer.assign([partition])
    end = consumer.end_offsets([partition])[partition]
    values: list[bytes] = []
    while consumer.position(partition) < end:
        values += [record.value for records in consumer.poll(200).values() for record in records]
    consumer.close()
    return values


def test_read_committed_returns_committed_records_only(broker: kqueue.Broker, connect: Connect) -> None:
    producer = connect(broker.bootstrap, "tx")
    for value, end in ((b"1", producer.commit), (b"2", producer.abort), (b"3", producer.commit)):
        producer.begin()
        producer.send(value)
        end()
    assert committed(broker) == [b"1", b"3"]


def test_a_second_producer_fences_the_first_and_aborts_its_transaction(broker: kqueue.Broker, connect: Connect) -> None:
    first = connect(broker.bootstrap, "tx")
    first.begin()
    first.send(b"lost")
    second = connect(broker.bootstrap, "tx")
    second.begin()
    second.send(b"kept")
    with pytest.raises(Exception):  # noqa: B017, PT011  each client has its own class
        first.commit()
    second.commit()
    assert committed(broker) == [b"kept"]


def test_a_transaction_that_takes_too_long_is_aborted(broker: kqueue.Broker, connect: Connect) -> None:
    producer = connect(broker.bootstrap, "tx")
    producer.begin()
    producer.send(b"late")
    broker.clock.advance(seconds=TIMEOUT_MS / 1000 + 30)
    with pytest.raises(Exception):  # noqa: B017, PT011
        producer.commit()
    assert committed(broker) == []


def test_a_reset_forgets_transactional_ids(broker: kqueue.Broker) -> None:
    for value in (b"1", b"2"):
        broker.reset()
        with closing(KafkaPythonProducer(broker.bootstrap, "tx")) as producer:
            producer.begin()
            producer.send(value)
            producer.commit()
    assert committed(broker) == [b"2"]
