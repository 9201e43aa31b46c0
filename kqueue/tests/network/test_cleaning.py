"""Cleaning on a real disk, with jobs in threads and processes."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from kqueue.app import Server
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.topics.topics import NewTopic
from kqueue.log.policies import POLICIES, Cleanup, CommittedOffsets, Compact, Drop, LogView
from kqueue.log.sealed_segments import SealedSegments
from kqueue.records.batch import Record, iter_batches, iter_records, read_header
from kqueue.records.builder import build_batch
from kqueue.tests.network.harness import serving, until
from kqueue.tests.thorough import corners

SETTINGS = {"log.cleaner.backoff.ms": 20, "log.retention.check.interval.ms": 20, "log.cleaner.threads": 2}
SEGMENT = {"segment.bytes": "2000", "file.delete.delay.ms": "50"}


async def topic(server: Server, name: str, **configs: str) -> Partition:
    return (
        await server.result(server.broker.topics.create(NewTopic(name, 1, configs={**SEGMENT, **configs})))
    ).partition(0)


async def fill(server: Server, partition: Partition, count: int) -> None:
    """Append records, each flushed before the next.

    Segments are then no larger than configured.
    """
    for _ in range(count):
        number = partition.log_end_offset
        data = build_batch([Record(0, server.clock.wall_ms(), b"key-%d" % (number % 10), b"%d" % number + b"." * 300)])
        await append(partition, data)


async def append(partition: Partition, data: bytearray) -> None:
    end_offset = partition.append(memoryview(data), read_header(data)).last_offset + 1
    await until(lambda: partition.high_watermark >= end_offset)


def records(partition: Partition) -> list[Record]:
    read_records: list[Record] = []
    offset = partition.log_start_offset
    while data := (fetched := partition.read_now(offset, 1 << 20)).read():
        read_records += [record for position, _ in iter_batches(data) for record in iter_records(data, position)]
        offset = fetched.next_offset
    return read_records


@pytest.mark.thorough
def test_segments_of_an_earlier_run_are_compacted(tmp_path: Path) -> None:
    """Segments of an earlier run are compacted.

    None of their state is in memory: compaction reads it before the files are renamed.
    """

    async def test() -> None:
        async with serving(tmp_path, **{"log.cleaner.enable": "false"}) as server:
            partition = await topic(server, "t", **{"cleanup.policy": "compact", "segment.bytes": "100000"})
            for _ in range(4):  # several segments become one
                await fill(server, partition, 25)
                partition.roll()
        async with serving(tmp_path, **SETTINGS) as server:
            partition = server.broker.topics.partition("t", 0)
            partition.log  # noqa: B018  only open logs are compacted
            cleaner = server.broker.upkeep.cleanup.cleaner
            await until(
                lambda: (
                    (server.broker.logs.checkpoints.cleaner_offset(("t", 0)) or 0) > 80
                    and not cleaner.is_busy(("t", 0))
                )
            )
            assert len(records(partition)) < 30
            assert (partition.log.health.failure, cleaner.uncleanable) == (None, {})

    asyncio.run(test())


@pytest.mark.long
def test_retention_and_compaction_run_during_a_fetch(tmp_path: Path) -> None:
    """S5.1, S5.2: compaction runs in its own process; a concurrent fetch keeps the data that it
    reads.
    """

    async def test() -> None:
        async with serving(tmp_path, **SETTINGS) as server:
            compacted = await topic(server, "compacted", **{"cleanup.policy": "compact"})
            kept = await topic(server, "kept", **{"retention.bytes": "5000"})
            await fill(server, compacted, 100)
            await fill(server, kept, 100)
            await until(lambda: kept.high_watermark == compacted.high_watermark == 100)
            under_way = compacted.read_now(0, 1 << 20)
            before = under_way.read()
            cleaner = server.broker.upkeep.cleanup.cleaner
            await until(
                lambda: (
                    (server.broker.logs.checkpoints.cleaner_offset(("compacted", 0)) or 0) > 80
                    and not cleaner.is_busy(("compacted", 0))
                )
            )
            await until(lambda: kept.log_start_offset > 80)
            latest = {record.key: (record.value or b"")[:2] for record in records(compacted)}
            assert latest == {b"key-%d" % number: b"9%d" % number for number in range(10)}
            assert len(records(compacted)) < 30
            assert kept.log.segments.size >= 5000
            await until(lambda: not list(tmp_path.rglob("*.deleted")))
            assert under_way.read() == before
            assert cleaner.uncleanable == {}
            compacted_records, start = records(compacted), kept.log_start_offset
        async with serving(tmp_path, **SETTINGS) as server:
            assert records(server.broker.topics.partition("compacted", 0)) == compacted_records
            assert server.broker.topics.partition("kept", 0).log_start_offset == start

    asyncio.run(test())


class KeepEven:
    """A plugin's filter: a picklable object."""

    def __call__(self, record: Record) -> bool:
        return record.offset % 2 == 0


class EvenOnly:
    name = "even-only"

    def plan(self, log: LogView, groups: CommittedOffsets, config: object, now_ms: int) -> Cleanup | None:
        return Compact(keep=KeepEven()) if log.first_dirty < log.segments[-1].base_offset else None


@pytest.mark.long
def test_plugin_filter_runs_in_the_compaction_process(tmp_path: Path) -> None:
    async def test() -> None:
        async with serving(tmp_path, **SETTINGS) as server:
            partition = await topic(server, "t", **{"cleanup.policy": "even-only"})
            await fill(server, partition, 21)
            await until(
                lambda: (
                    (server.broker.logs.checkpoints.cleaner_offset(("t", 0)) or 0) == partition.log.segments[-1].base
                )
            )
            active = partition.log.segments[-1].base
            assert [record.offset for record in records(partition) if record.offset < active] == list(
                range(0, active, 2)
            )

    with POLICIES.added("even-only", EvenOnly(), "a test"):
        asyncio.run(test())


@dataclass(frozen=True)
class CopyTo:
    """A plugin's `pre_delete` task: writes offsets and its process id to a file in `folder`."""

    folder: Path

    def __call__(self, segments: SealedSegments) -> None:
        lines = [f"{record.offset}\n" for record in segments.records()]
        (self.folder / f"{segments.start_offset}-{os.getpid()}").write_text("".join(lines))
        if (self.folder / "die").exists():
            os._exit(3)


@dataclass(frozen=True)
class WaitForever:
    """A `pre_delete` task that keeps reading and never ends."""

    folder: Path

    def __call__(self, segments: SealedSegments) -> None:
        (self.folder / "begun").touch()
        while True:
            for _ in segments.batches():
                pass


class AllWith:
    name = "all-with"

    def __init__(self, first: CopyTo | WaitForever) -> None:
        self._first = first

    def plan(self, log: LogView, groups: CommittedOffsets, config: object, now_ms: int) -> Cleanup | None:
        return (
            Drop(log.segments[-1].base_offset, "copied", before_delete=self._first) if len(log.segments) > 1 else None
        )


@pytest.mark.long
def test_pre_delete_runs_in_its_own_process_and_is_retried_after_a_crash(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    copies = tmp_path / "copies"
    copies.mkdir()
    (copies / "die").touch()

    async def test() -> None:
        async with serving(tmp_path / "data", **SETTINGS) as server:
            partition = await topic(server, "t", **{"cleanup.policy": "all-with"})
            await fill(server, partition, 21)
            await until(lambda: len(list(copies.glob("0-*"))) > 1)  # the broker retried
            assert partition.log_start_offset == 0
            (copies / "die").unlink()
            await until(lambda: partition.log_start_offset == partition.log.segments[-1].base > 0)
            last = max(copies.glob("0-*"), key=lambda path: path.stat().st_mtime_ns)
            assert [int(line) for line in last.read_text().split()] == list(range(partition.log_start_offset))
            assert str(os.getpid()) != last.name.partition("-")[2]

    with POLICIES.added("all-with", AllWith(CopyTo(copies)), "a test"):
        asyncio.run(test())
    messages = [record.getMessage() for record in caplog.records if "failed on offsets" in record.getMessage()]
    assert len(messages) == 1
    assert "status 3" in messages[0]


@pytest.mark.long
@pytest.mark.parametrize("storage", corners(["local", "memory"]))
def test_stop_does_not_wait_for_pre_delete(tmp_path: Path, storage: str) -> None:
    async def test() -> None:
        async with serving(tmp_path / "data", **SETTINGS, **{"kqueue.storage": storage}) as server:
            partition = await topic(server, "t", **{"cleanup.policy": "all-with"})
            await fill(server, partition, 21)
            await until((tmp_path / "begun").exists)
            assert partition.log_start_offset == 0

    with POLICIES.added("all-with", AllWith(WaitForever(tmp_path)), "a test"):
        asyncio.run(asyncio.wait_for(test(), 90))


@pytest.mark.long
def test_configured_codecs_work_in_the_compaction_process(tmp_path: Path) -> None:
    """A codec with an unknown id, and one that replaces gzip: both recompress compacted batches."""

    async def test() -> None:
        async with serving(
            tmp_path, kqueue_codecs="kqueue.tests.plugged:MARKED,kqueue.tests.plugged:NAMED_GZIP", **SETTINGS
        ) as server:
            for name, codec, mark in (("mine", "marked", b"mine:"), ("zipped", "gzip", b"kq\0")):
                partition = await topic(
                    server, name, **{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
                )
                for turn in range(40):
                    keys = (b"key", b"once-%d" % turn)
                    data = build_batch(
                        [Record(at, server.clock.wall_ms(), key, b"." * 300) for at, key in enumerate(keys)],
                        codec=codec,
                    )
                    assert mark in data
                    await append(partition, data)
                active = partition.log.segments[-1].base
                await until(lambda: (server.broker.logs.checkpoints.cleaner_offset((name, 0)) or 0) == active)  # noqa: B023
                remaining = [record.key for record in records(partition)]
                assert len(remaining) < 60
                assert {b"once-%d" % turn for turn in range(40)} <= set(remaining)
                half_empty = next(iter_batches(partition.read_now(0, 100).read()))[1]
                assert half_empty.record_count == 1
                assert mark in partition.read_now(0, 100).read()
            assert server.broker.upkeep.cleanup.cleaner.uncleanable == {}

    asyncio.run(test())
