"""Compares the output of `compat_tests.spark.queries` with their topic and the confirmed values."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlparse

import pyarrow.parquet as pq
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPartition

from compat_tests.spark.queries import SOURCE, checkpoint
from kqueue.client import EARLIEST, LATEST, Client
from kqueue.records.batch import iter_batches, iter_records


class Row(NamedTuple):
    partition: int
    offset: int
    value: bytes


def check(bootstrap: str, folder: Path, names: Sequence[str], confirmed: list[bytes]) -> None:
    """Assert that the output of these queries is complete.

    `kept`, `once` and `whole` have each record exactly once, `least` at least once. No confirmed
    value is missing.
    """
    records = sorted(topic_rows(bootstrap, SOURCE))
    sent = Counter(row.value for row in records)
    assert not set(confirmed) - set(sent), "the broker lost what it had confirmed"
    if "kept" in names:
        assert sorted(file_rows(folder / "kept")) == records
    if "once" in names:
        assert Counter(row.value for row in topic_rows(bootstrap, "once")) == sent
    if "whole" in names:
        assert Counter(committed(bootstrap, "whole")) == sent
    if "least" in names:
        least = Counter(row.value for row in topic_rows(bootstrap, "least"))
        assert least >= sent
        assert set(least) == set(sent)


def topic_rows(bootstrap: str, topic: str) -> Iterator[Row]:
    with Client(bootstrap) as client:
        for topic_partition in client.metadata([topic]).topics[topic].topic_partitions:
            at, end = (
                client.offsets({topic_partition: which})[topic_partition].offset or 0 for which in (EARLIEST, LATEST)
            )
            while at < end:
                data = client.fetch({topic_partition: at})[topic_partition].records
                for position, header in iter_batches(data):
                    for record in iter_records(data, position):
                        yield Row(topic_partition.partition, record.offset, bytes(record.value or b""))
                    at = header.next_offset


def committed(bootstrap: str, topic: str) -> list[bytes]:
    """Return the values that readers of committed records see."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed", enable_auto_commit=False)
    try:
        with Client(bootstrap) as client:
            partitions = client.metadata([topic]).topics[topic].topic_partitions
            ends = client.offsets(dict.fromkeys(partitions, LATEST), isolation="read_committed")
            assert ends == client.offsets(dict.fromkeys(partitions, LATEST)), "a transaction is open"
        consumer.assign([KafkaPartition(*one) for one in partitions])
        consumer.seek_to_beginning()
        values: list[bytes] = []
        while any(consumer.position(KafkaPartition(*one)) < (end.offset or 0) for one, end in ends.items()):
            for records in consumer.poll(timeout_ms=500).values():
                values += [bytes(record.value) for record in records]
        return values
    finally:
        consumer.close()


def file_rows(folder: Path) -> Iterator[Row]:
    """Return what the log of Spark's file sink lists; other files do not count."""
    entries = [path for path in (folder / "_spark_metadata").iterdir() if not path.name.startswith(".")]
    since = max((int(path.stem) for path in entries if path.suffix == ".compact"), default=-1)
    for path in entries:
        if int(path.stem) > since or (path.suffix == ".compact" and int(path.stem) == since):
            for line in path.read_text().splitlines()[1:]:
                table = pq.ParquetFile(unquote(urlparse(json.loads(line)["path"]).path)).read()
                yield from (Row(row["partition"], row["offset"], row["value"]) for row in table.to_pylist())


def batches(folder: Path, query: str, kind: str = "commits") -> int:
    """Return the number of committed batches of a query; kind="offsets": of started batches."""
    return len([path for path in (checkpoint(folder, query) / kind).glob("*") if path.name.isdecimal()])
