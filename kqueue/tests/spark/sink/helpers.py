"""Rows, options, and what stands in topics afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

import kqueue
from kqueue.client import EARLIEST, LATEST, Client, TopicPartition
from kqueue.records.batch import iter_batches, iter_records
from kqueue.records.record import Record
from kqueue.spark.sink.options import SinkOptions, parse_options


def options_for(broker: kqueue.Broker, *, streaming: bool = True, **given: Any) -> SinkOptions:
    """Options by keywords: ``kafka_acks`` is ``kafka.acks``."""
    values = {
        name.replace("_", ".") if name.startswith("kafka_") else name: str(value) for name, value in given.items()
    }
    return parse_options({"kafka.bootstrap.servers": broker.bootstrap, **values}, streaming=streaming)


def rows_of(values: Iterable[str], **columns: Sequence[Any]) -> pa.RecordBatch:
    """Rows with these values, which are their keys too unless a column says otherwise."""
    texts = pa.array(list(values), pa.string())
    arrays: dict[str, Any] = {"key": texts, "value": texts.cast(pa.binary())}
    arrays |= {name: column if isinstance(column, pa.Array) else pa.array(column) for name, column in columns.items()}
    return pa.record_batch(arrays)


def records_in(broker: kqueue.Broker, topic: str) -> dict[int, list[Record]]:
    """Return the records of each partition."""
    records: dict[int, list[Record]] = {}
    with Client(broker.bootstrap) as client:
        for topic_partition in client.metadata([topic]).topics[topic].topic_partitions:
            records[topic_partition.partition] = []
            at, end = (
                client.offsets({topic_partition: which})[topic_partition].offset or 0 for which in (EARLIEST, LATEST)
            )
            while at < end:
                data = client.fetch({topic_partition: at})[topic_partition].records
                for position, header in iter_batches(data):
                    records[topic_partition.partition] += iter_records(data, position)
                    at = header.next_offset
    return records


def values_in(broker: kqueue.Broker, topic: str) -> list[str]:
    """All values of a topic, sorted."""
    return sorted((one.value or b"").decode() for part in records_in(broker, topic).values() for one in part)


def committed_in(broker: kqueue.Broker, topic: str) -> list[str]:
    """The values that readers of committed records see now, sorted."""
    seen: list[str] = []
    with Client(broker.bootstrap) as client:
        for topic_partition in client.metadata([topic]).topics[topic].topic_partitions:
            position = client.offsets({topic_partition: LATEST}, isolation="read_committed")[topic_partition]
            if position.offset:
                seen += committed_values(client, topic_partition, position.offset)
    return sorted(seen)


def committed_values(client: Client, topic_partition: TopicPartition, end: int) -> Iterator[str]:
    """The values before `end` as consumers find them: all but those of aborted transactions."""
    at = 0
    aborted: set[int] = set()
    while at < end:
        fetched = client.fetch({topic_partition: at}, isolation="read_committed")[topic_partition]
        begins = sorted(fetched.aborted, key=lambda one: one.first_offset)
        for position, header in iter_batches(fetched.records):
            at = header.next_offset
            while begins and begins[0].first_offset < at:
                aborted.add(begins.pop(0).producer_id)
            if header.is_control:
                aborted.discard(header.producer_id)
            elif not header.is_transactional or header.producer_id not in aborted:
                for one in iter_records(fetched.records, position):
                    yield (one.value or b"").decode()
