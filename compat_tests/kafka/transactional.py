"""Producers whose transactions are left open while brokers change: librdkafka's, which ends them as
clients did before transactions V2, and Kafka's own, which uses V2.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable

from confluent_kafka import Consumer, TopicPartition

from compat_tests.kafka.clients import QUIET, TIMEOUT_S, Sent, Writer
from compat_tests.kafka.jvm import ToolFailed
from compat_tests.kafka.tool_host import ToolHost

_numbers = itertools.count()
TIMEOUT_MS = 600_000  # a transaction that is not meant to time out


class TransactionalProducer(ABC):
    """A producer with a transactional id; it is initialized when it is made."""

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def send(self, topic: str, values: Iterable[bytes]) -> None:
        """Write values to partition 0 and wait until they are acknowledged."""

    @abstractmethod
    def offset(self, group: str, topic: str, offset: int) -> None:
        """Add an offset of partition 0 to the transaction."""

    @abstractmethod
    def end(self, *, commit: bool) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """Close it without a request."""


class Librdkafka(TransactionalProducer):
    """confluent-kafka's producer."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        settings = {"transactional.id": transactional_id, "transaction.timeout.ms": timeout_ms}
        self._bootstrap = bootstrap
        self._writer = Writer(bootstrap, **settings).init()

    def begin(self) -> None:
        self._writer.begin()

    def send(self, topic: str, values: Iterable[bytes]) -> None:
        self._writer.write(topic, [Sent(value, b"key") for value in values])

    def offset(self, group: str, topic: str, offset: int) -> None:
        consumer = Consumer({**QUIET, "bootstrap.servers": self._bootstrap, "group.id": group})
        try:
            points = [TopicPartition(topic, 0, offset)]
            self._writer.producer.send_offsets_to_transaction(points, consumer.consumer_group_metadata(), TIMEOUT_S)
        finally:
            consumer.close()

    def end(self, *, commit: bool) -> None:
        self._writer.end(commit=commit)

    def close(self) -> None:
        del self._writer


class Java(TransactionalProducer):
    """Kafka's own producer, in the JVM of the tools."""

    def __init__(self, tools: ToolHost, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._tools = tools
        self._name = f"{transactional_id} {next(_numbers)}"
        self._do("init", transactional_id, bootstrap, timeout_ms)

    def _do(self, step: str, *words: object) -> None:
        done = self._tools.run("Transactions", step, self._name, *words)
        if done.status:
            raise ToolFailed(f"{step} of {self._name}: {done.stderr}")

    def begin(self) -> None:
        self._do("begin")

    def send(self, topic: str, values: Iterable[bytes]) -> None:
        self._do("send", topic, 0, *(value.decode() for value in values))

    def offset(self, group: str, topic: str, offset: int) -> None:
        self._do("offsets", group, topic, 0, offset)

    def end(self, *, commit: bool) -> None:
        self._do("commit" if commit else "abort")

    def close(self) -> None:
        self._do("forget")
