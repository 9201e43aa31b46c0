"""Brokers with records for tests of the source."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import kqueue
from kqueue.client import Client, TopicPartition
from kqueue.records.builder import BatchBuilder
from kqueue.spark.source.options import SourceOptions, parse_options
from kqueue.spark.source.read_task import read_ranges
from kqueue.spark.source.split_planner import OffsetRange

BEGIN_MS = int(time.time()) * 1_000
"""Not long ago: older records would be deleted while a test looks."""


def batch(values: Iterable[bytes], *, codec: str = "none", time_ms: int = BEGIN_MS) -> bytes:
    """One batch; record n has key ``k{n}`` and time `time_ms` + n."""
    builder = BatchBuilder(codec)
    for number, value in enumerate(values):
        builder.append(time_ms + number, b"k%d" % number, value, [("h", b"%d" % number)])
    return bytes(builder.build())


def send(
    broker: kqueue.Broker, topic: str, partition: int, count: int, *, codec: str = "none", time_ms: int = BEGIN_MS
) -> None:
    """Append a batch of this many records."""
    with Client(broker.bootstrap) as client:
        client.produce({TopicPartition(topic, partition): batch([b"x" * 10] * count, codec=codec, time_ms=time_ms)})


def options(broker: kqueue.Broker | None = None, *, streaming: bool = True, **given: object) -> SourceOptions:
    """Options for a broker; dots in names are written as two underscores."""
    texts = {name.replace("__", "."): str(value) for name, value in given.items()}
    if broker is not None:
        texts["kafka.bootstrap.servers"] = broker.bootstrap
    return parse_options(texts, streaming=streaming)


def rows(source_options: SourceOptions, ranges: Iterable[OffsetRange]) -> list[Mapping[str, Any]]:
    """Return the rows of these ranges."""
    return [row for piece in read_ranges(source_options, tuple(ranges)) for row in piece.to_pylist()]


def positions(source_options: SourceOptions, ranges: Iterable[OffsetRange]) -> list[tuple[str, int, int]]:
    """Topic, partition and offset of what is read."""
    return [(row["topic"], row["partition"], row["offset"]) for row in rows(source_options, ranges)]
