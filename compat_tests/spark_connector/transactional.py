"""Transactions through the Java producer that comes with the connector, and what they committed."""

from __future__ import annotations

from typing import Any

from compat_tests.spark_connector.stock import Stock

Row = tuple[str, int, int, str]
"""Topic, partition, offset and value, as `Stock.table` has them."""


class Transactions:
    """One transactional producer. `committed` has the rows of all transactions of this kind that
    were committed, `written` those of all.

    The end of a transaction takes an offset of each partition that it wrote to, for its marker.
    """

    def __init__(self, stock: Stock, transactional_id: str) -> None:
        self._jvm: Any = stock.spark._jvm
        settings = self._jvm.java.util.Properties()
        settings.put("bootstrap.servers", stock.broker.bootstrap)
        settings.put("transactional.id", transactional_id)
        serializers = self._jvm.org.apache.kafka.common.serialization
        self._producer = self._jvm.org.apache.kafka.clients.producer.KafkaProducer(
            settings, serializers.StringSerializer(), serializers.StringSerializer()
        )
        self._producer.initTransactions()
        self._open: list[Row] = []
        self.committed: list[Row] = []
        self.written: list[Row] = []

    def begin(self, topic: str, *values: str) -> None:
        """Write to the partitions 0 and 1 in turn, in a transaction that stays open."""
        record = self._jvm.org.apache.kafka.clients.producer.ProducerRecord
        self._producer.beginTransaction()
        for number, value in enumerate(values):
            metadata = self._producer.send(record(topic, number % 2, "key", value)).get()
            self._open.append((topic, metadata.partition(), metadata.offset(), value))
        self.written += self._open

    def commit(self) -> None:
        self._producer.commitTransaction()
        self.committed += self._open
        self._open = []

    def abort(self) -> None:
        self._producer.abortTransaction()
        self._open = []

    def close(self) -> None:
        """An open transaction is aborted."""
        self._producer.close()
