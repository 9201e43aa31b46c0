"""Appends records to a topic without a client, by the same rules: the topic's partitioner, checks,
codec and acks=all.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kqueue.base.errors import InvalidTopic
from kqueue.broker.append_path import PRODUCE_VERSION_BATCHES
from kqueue.broker.purgatory import DelayedOperation
from kqueue.embedded.inspection.records import Record
from kqueue.records.builder import BatchBuilder
from kqueue.records.partitioners import Partitioner, make_partitioner

if TYPE_CHECKING:
    from kqueue.app import Server
    from kqueue.broker.partition import Partition
    from kqueue.broker.topics import Topic

BATCH_BYTES = 256 * 1024
PARTITIONER_SETTING = "kqueue.partitioner"
Bytes: TypeAlias = bytes | bytearray | str | None
Headers: TypeAlias = Iterable[tuple[str, Bytes]] | Mapping[str, Bytes]
Time: TypeAlias = int | datetime | None
Partitioners: TypeAlias = dict[tuple[bytes, str], Partitioner]
"""One per topic (by its id) and partitioner name: partitioners have state between records."""


class NewRecord(NamedTuple):
    """A record to append; `timestamp` in ms, None: the broker's time."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int | None


class _Appended(NamedTuple):
    """One appended batch: the numbers of its records, and the offset that must be committed."""

    partition: Partition
    numbers: list[int]
    base_offset: int
    end_offset: int
    append_time_ms: int


def seed(value: Bytes, key: Bytes = None, headers: Headers = (), timestamp: Time = None) -> NewRecord:
    """Return a record to append, converted to bytes and milliseconds.

    Raises: TypeError: neither bytes nor text. ValueError: a time without a time zone.
    """
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return NewRecord(raw(key), raw(value), tuple((name, raw(one)) for name, one in pairs), _ms(timestamp))


def raw(value: Bytes) -> bytes | None:
    """Return bytes unchanged, and text in UTF-8. Raises TypeError."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, str):
        return value.encode()
    raise TypeError(f"keys and values are bytes, text or None, not {type(value).__name__}: {value!r}")


def _ms(timestamp: Time) -> int | None:
    if not isinstance(timestamp, datetime):
        return timestamp
    if timestamp.tzinfo is None:
        raise ValueError(f"a time without a time zone could be any of 24: {timestamp!r}")
    return round(timestamp.timestamp() * 1000)


async def append(
    server: Server, topic: Topic, seeds: list[NewRecord], index: int | None, partitioners: Partitioners
) -> list[Record]:
    """Append records, and wait until consumers can read them.

    Thread: the broker's own. Raises: see `Topic.produce`.
    """
    if topic.is_internal:
        raise InvalidTopic(f"topic {topic.name} is the broker's own; clients may not write to it")
    now_ms = server.broker.clock.wall_ms()
    by_partition: dict[int, list[int]] = {}
    for number, one in enumerate(seeds):
        chosen = index if index is not None else _choose(topic, one, partitioners)
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
            records[number] = Record(
                topic.name, batch.partition.index, offset, timestamp, one.key, one.value, one.headers
            )
    return [records[number] for number in range(len(seeds))]


def _choose(topic: Topic, one: NewRecord, partitioners: Partitioners) -> int:
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
        key, value, headers, timestamp = seeds[number]
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
        server.broker.purgatory.add(DelayedOperation(keys, None, lambda expired: are_committed() or None), done, failed)
        await settled
