"""Appends records to a topic without a client, by the same rules: the topic's partitioner, checks,
codec and acks=all.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kqueue.base.errors import InvalidTopic
from kqueue.base.text import short_repr
from kqueue.broker.produce.append_path import PRODUCE_VERSION_BATCHES
from kqueue.broker.purgatory import DelayedOperation
from kqueue.embedded.argument_checks import check_kind
from kqueue.embedded.inspection.records import Record
from kqueue.records.builder import BatchBuilder
from kqueue.records.json_records import INT64_MAX, document_bytes
from kqueue.records.partitioners import Partitioner, make_partitioner

if TYPE_CHECKING:
    from kqueue.app import Server
    from kqueue.broker.replicas.partition import Partition
    from kqueue.broker.topics.topics import Topic

BATCH_BYTES = 256 * 1024
PARTITIONER_SETTING = "kqueue.partitioner"
Bytes: TypeAlias = bytes | bytearray | str | None
Value: TypeAlias = Bytes | Mapping[str, Any] | list[Any]
"""A value; a dict or a list stands for its JSON."""
Headers: TypeAlias = Iterable[tuple[str, Bytes]] | Mapping[str, Bytes]
Time: TypeAlias = int | datetime | None
Partitioners: TypeAlias = dict[tuple[bytes, str], Partitioner]
"""One per topic (by its id) and partitioner name: partitioners have state between records."""


class NewRecord(NamedTuple):
    """A record to append.

    `timestamp`: in ms; None: the broker's time, -1: none. `partition`: None: the partitioner
    chooses.
    """

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int | None
    partition: int | None = None


class _Appended(NamedTuple):
    """One appended batch: the numbers of its records, and the offset that must be committed."""

    partition: Partition
    numbers: list[int]
    base_offset: int
    end_offset: int
    append_time_ms: int


def seed(value: Value, key: Bytes = None, headers: Headers | None = (), timestamp: Time = None) -> NewRecord:
    """Return a record to append, converted to bytes and milliseconds.

    Raises: TypeError: a value, key, header or time of another type. ValueError: a time without a
        time zone, or a value that JSON can't have.
    """
    return NewRecord(raw(key, "key"), raw_value(value), raw_headers(headers), _ms(timestamp))


def raw(value: Bytes, name: str = "value") -> bytes | None:
    """Return bytes unchanged, and text in UTF-8. Raises TypeError: `name` is of another type."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, str):
        return value.encode()
    raise TypeError(f"{name}: expected bytes, text or None, found {type(value).__name__}: {short_repr(value)}")


def raw_value(value: Value) -> bytes | None:
    """Return the bytes of a value, those of a dict or a list as `json.dumps` writes it.

    Raises: TypeError: a value of another type, also within. ValueError: NaN or infinity within.
    """
    if isinstance(value, (Mapping, list)):
        return document_bytes(value)
    if value is None or isinstance(value, (bytes, bytearray, memoryview, str)):
        return raw(value)
    raise TypeError(
        f"value: expected bytes, text, None, or a dict or list for JSON, found {type(value).__name__}: "
        f"{short_repr(value)}"
    )


def raw_headers(headers: Headers | None) -> tuple[tuple[str, bytes | None], ...]:
    """Return headers as pairs; None: there are none. Raises TypeError."""
    if headers is None:
        return ()
    expected = "headers: expected a dict, or a list of (name, value) pairs"
    if isinstance(headers, (str, bytes)) or not isinstance(headers, Iterable):
        raise TypeError(f"{expected}, found {short_repr(headers)}")
    pairs = []
    for pair in headers.items() if isinstance(headers, Mapping) else headers:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"{expected}, found {short_repr(pair)} in it")
        name, value = pair
        check_kind("headers: a name", name, str, "text")
        pairs.append((name, raw(value, f"header {name}")))
    return tuple(pairs)


def _ms(timestamp: Time) -> int | None:
    if timestamp is None:
        return None
    check_kind("timestamp", timestamp, (int, datetime), "milliseconds since 1970, or a datetime with a time zone")
    if not isinstance(timestamp, datetime):
        if not -1 <= timestamp <= INT64_MAX:
            raise ValueError(f"timestamp={timestamp}: expected milliseconds since 1970, or -1 for none")
        return timestamp
    if timestamp.tzinfo is None:
        raise ValueError(f"timestamp={timestamp!r}: expected a datetime with a time zone, such as tzinfo=UTC")
    return round(timestamp.timestamp() * 1000)


async def append(
    server: Server, topic: Topic, seeds: list[NewRecord], index: int | None, partitioners: Partitioners
) -> list[Record]:
    """Append records, and wait until consumers can read them.

    Thread: the broker's own. Raises: see `Topic.produce`.
    """
    if topic.is_internal:
        raise InvalidTopic(f"topic {topic.name} is the broker's own; clients may not write to it")
    now_ms = server.broker.scheduler.clock.wall_ms()
    by_partition: dict[int, list[int]] = {}
    for number, one in enumerate(seeds):
        chosen = index if index is not None else choose_partition(topic, one, partitioners)
        by_partition.setdefault(chosen, []).append(number)
    places = {chosen: topic.partition(chosen) for chosen in by_partition}  # all exist before anything is written
    appended = [
        batch
        for chosen, numbers in by_partition.items()
        for batch in _append_to(topic, places[chosen], seeds, numbers, now_ms)
    ]
    await _committed(server, appended)
    records: dict[int, Record] = {}
    for batch in appended:
        for offset, number in enumerate(batch.numbers, batch.base_offset):
            one = seeds[number]
            timestamp = one.timestamp if one.timestamp is not None else now_ms
            timestamp = batch.append_time_ms if batch.append_time_ms >= 0 else timestamp
            shown_timestamp = timestamp if timestamp >= 0 else None
            records[number] = Record(
                topic.name, batch.partition.index, offset, shown_timestamp, one.key, one.value, one.headers
            )
    return [records[number] for number in range(len(seeds))]


def choose_partition(topic: Topic, one: NewRecord, partitioners: Partitioners) -> int:
    """Return the partition of a record: its own, or what the topic's partitioner chooses."""
    if one.partition is not None:
        return one.partition
    name = topic.config[PARTITIONER_SETTING]
    partitioner = partitioners.get((topic.id, name))
    if partitioner is None:
        partitioner = partitioners[topic.id, name] = make_partitioner(name, random.Random())
    return partitioner.partition(one.key, len(topic.partitions), value=one.value, topic=topic.name)


def _append_to(
    topic: Topic, partition: Partition, seeds: list[NewRecord], numbers: list[int], now_ms: int
) -> list[_Appended]:
    """Append in as few batches as `BATCH_BYTES` allows."""
    appended: list[_Appended] = []
    builder, held = BatchBuilder(), list[int]()

    def write() -> None:
        batch = memoryview(builder.build())
        done = topic.appender.append_now(partition, batch, now_ms=now_ms, produce_version=PRODUCE_VERSION_BATCHES)
        appended.append(_Appended(partition, held, done.base_offset, done.last_offset + 1, done.log_append_time_ms))

    for number in numbers:
        key, value, headers, timestamp, _ = seeds[number]
        if held and builder.size_estimate + len(key or b"") + len(value or b"") > BATCH_BYTES:
            write()
            builder, held = BatchBuilder(), []
        builder.append(now_ms if timestamp is None else timestamp, key, value, headers)
        held.append(number)
    if held:
        write()
    return appended


async def _committed(server: Server, appended: list[_Appended]) -> None:
    """Return once all batches are below the high watermarks.

    Raises: StorageFailed: a log went offline before.
    """
    loop = asyncio.get_running_loop()
    settled: asyncio.Future[bool] = loop.create_future()

    def are_committed() -> bool:
        return all(one.partition.is_committed(one.end_offset) for one in appended)

    def failed(error: Exception) -> None:
        if not settled.done():
            settled.set_exception(error)

    def done(_: bool) -> None:
        if not settled.done():
            settled.set_result(True)

    if not are_committed():
        keys = tuple({one.partition for one in appended})
        server.broker.scheduler.purgatory.add(
            DelayedOperation(keys, None, lambda expired: are_committed() or None), done, failed
        )
        await settled
