"""Cleaning on a real disk, with jobs in threads and processes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kqueue.broker.partition import Partition
from kqueue.broker.topics import NewTopic
from kqueue.log.policies import POLICIES, Cleanup, Compact, LogView, Progress
from kqueue.records.batch import Record, iter_batches, iter_records, read_header
from kqueue.records.builder import build_batch
from kqueue.server.app import Server
from kqueue.tests.server.wiring import serving, until

SETTINGS = {"log.cleaner.backoff.ms": 20, "log.retention.check.interval.ms": 20, "log.cleaner.threads": 2}
SEGMENT = {"segment.bytes": "2000", "file.delete.delay.ms": "50"}


async def topic(server: Server, name: str, **configs: str) -> Partition:
    return (await server.result(server.broker.topics.create(NewTopic(name, 1, configs={**SEGMENT, **configs})))).partition(0)


def fill(server: Server, partition: Partition, count: int) -> None:
    for _ in range(count):
        number = partition.log_end_offset
        data = build_batch([Record(0, server.clock.wall_ms(), b"key-%d" % (number % 10), b"%d" % number + b"." * 300)])
        partition.append(memoryview(data), read_header(data))


def records(partition: Partition) -> list[Record]:
    found: list[Record] = []
    offset = partition.log_start_offset
    while data := (fetched := partition.read_now(offset, 1 << 20)).read():
        found += [record for position, _ in iter_batches(data) for record in iter_records(data, position)]
        offset = fetched.next_offset
    return found


def test_segments_go_and_keys_keep_their_last_values_beside_a_reader(tmp_path: Path) -> None:
    """S5.1, S5.2: compaction in a process of its own; a fetch that is under way keeps what it reads."""

    async def test() -> None:
        async with serving(tmp_path, **SETTINGS) as server:
            compacted = await topic(server, "compacted", **{"cleanup.policy": "compact"})
            kept = await topic(server, "kept", **{"retention.bytes": "5000"})
            fill(server, compacted, 100)
            fill(server, kept, 100)
            await until(lambda: kept.high_watermark == compacted.high_watermark == 100)
            under_way = compacted.read_now(0, 1 << 20)
            before = under_way.read()
            cleaner = server.broker.cleaning.cleaner
            await until(lambda: (server.broker.logs.cleaner_offset(("compacted", 0)) or 0) > 80 and not cleaner.is_busy(("compacted", 0)))
            await until(lambda: kept.log_start_offset > 80)
            latest = {record.key: (record.value or b"")[:2] for record in records(compacted)}
            assert latest == {b"key-%d" % number: b"9%d" % number for number in range(10)}
            assert len(records(compacted)) < 30
            assert kept.log.size >= 5000
            await until(lambda: not list(tmp_path.rglob("*.deleted")))
            assert under_way.read() == before
            assert cleaner.uncleanable == {}
            found, start = records(compacted), kept.log_start_offset
        async with serving(tmp_path, **SETTINGS) as server:
            assert records(server.broker.topics.partition("compacted", 0)) == found
            assert server.broker.topics.partition("kept", 0).log_start_offset == start

    asyncio.run(test())


class KeepEven:
    """A filter as a plugin would bring it: an object that can go to another process."""

    def __call__(self, record: Record) -> bool:
        return record.offset % 2 == 0


class EvenOnly:
    name = "even-only"

    def plan(self, log: LogView, groups: Progress, config: object, now_ms: int) -> Cleanup | None:
        return Compact(keep=KeepEven()) if log.first_dirty < log.segments[-1].base_offset else None


def test_a_plugins_filter_goes_to_the_process(tmp_path: Path) -> None:
    async def test() -> None:
        async with serving(tmp_path, **SETTINGS) as server:
            partition = await topic(server, "t", **{"cleanup.policy": "even-only"})
            fill(server, partition, 21)
            await until(lambda: (server.broker.logs.cleaner_offset(("t", 0)) or 0) == partition.log.segments()[-1].base)
            active = partition.log.segments()[-1].base
            assert [record.offset for record in records(partition) if record.offset < active] == list(range(0, active, 2))

    with POLICIES.added("even-only", EvenOnly(), "a test"):
        asyncio.run(test())
