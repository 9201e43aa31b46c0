"""Batches, logs and what must hold of any log, for the tests of this folder."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any

from kqueue.base.jobs import IoJob
from kqueue.log.config import LogConfig
from kqueue.log.folders.log_dirs import LogDirDescription
from kqueue.log.formats.checkpoints import LogCheckpoint
from kqueue.log.formats.transaction_index import AbortedTxn
from kqueue.log.log import PRODUCER_EXPIRATION_MS_DEFAULT, Log
from kqueue.log.manager import LogManager
from kqueue.log.producer_state import ProducerStateEntry, ProducerStateManager
from kqueue.log.recovery.producer_replay import apply_batch
from kqueue.log.results import AppendResult, ReadResult
from kqueue.log.scanner.batch_scanner import CheckLevel, scan
from kqueue.log.start_snapshot import start_snapshot_job
from kqueue.records.batch import (
    BatchHeader,
    Record,
    check_crc,
    control_key_value,
    iter_batches,
    iter_records,
    read_header,
)
from kqueue.records.builder import BatchBuilder
from kqueue.storage import MemoryStorage, Storage
from kqueue.testing.manual_clock import ManualClock

START_MS = 1_700_000_000_000


def batch(*values: bytes, time_ms: int = START_MS, step_ms: int = 1, **settings: Any) -> bytearray:
    """A batch with these values; `settings` are those of BatchBuilder."""
    builder = BatchBuilder(**settings)
    for number, value in enumerate(values):
        builder.append(time_ms + number * step_ms, None, value)
    return builder.build()


def marker(
    kind: int, producer_id: int, epoch: int = 0, coordinator_epoch: int = 0, time_ms: int = START_MS
) -> bytearray:
    """The control batch that ends a transaction."""
    builder = BatchBuilder(producer_id=producer_id, epoch=epoch, transactional=True, control=True)
    builder.append(time_ms, *control_key_value(kind, coordinator_epoch))
    return builder.build()


def append(log: Log, *values: bytes, leader_epoch: int = 0, client: bool = True, **settings: Any) -> AppendResult:
    buf = batch(*values, **settings)
    return log.append(buf, read_header(buf), leader_epoch=leader_epoch, client=client)


def end_transaction(log: Log, kind: int, producer_id: int, leader_epoch: int = 0, **settings: Any) -> AppendResult:
    buf = marker(kind, producer_id, **settings)
    return log.append(buf, read_header(buf), leader_epoch=leader_epoch, client=False)


def open_log(storage: Storage | None = None, clock: ManualClock | None = None, **settings: Any) -> Log:
    """Open the log in ``t-0``; `settings`: fields of LogCheckpoint, else settings of the topic."""
    checkpoint = LogCheckpoint(**{name: settings.pop(name) for name in LogCheckpoint._fields if name in settings})
    expiration_ms = settings.pop("producer_expiration_ms", PRODUCER_EXPIRATION_MS_DEFAULT)
    return Log.open(
        storage or MemoryStorage(),
        "t-0",
        LogConfig.of(**settings),
        clock or ManualClock(START_MS),
        checkpoint=checkpoint,
        producer_expiration_ms=expiration_ms,
        rng=random.Random(1),
    )


def stable_end(log: Log) -> int:
    """The last stable offset if all of the log was below the high watermark."""
    return max(min(log.producers.first_open(), log.end_offset), log.start_offset)


def log_dirs(manager: LogManager) -> list[LogDirDescription]:
    """All data folders, those that serve first."""
    listings, offline = manager.list_log_dirs()
    return [listing.run() for listing in listings] + offline


def run_job(job: IoJob[None] | None) -> None:
    assert job is not None
    job.run()
    job.finish(None, None)


def flush(log: Log) -> None:
    job = log.flush_job()
    if job is not None:
        run_job(job)


def keep_producers(log: Log, offset: int) -> bool:
    """Run the job that has to come before `log.delete_before(offset)`; False: there is none."""
    start = log.start_after_deletion(offset)
    job = start_snapshot_job(log, start, lambda error: None) if start is not None else None
    if job is not None:
        run_job(job)
    return job is not None


def read_checked(log: Log, offset: int, max_bytes: int, end_offset: int) -> ReadResult:
    """A read as a fetch does it: what has to be checked is, and then it is read again."""
    while (fetched := log.read(offset, max_bytes, end_offset=end_offset, min_one_batch=True)).check is not None:
        log.reader.verify_now(fetched.check)
    return fetched


def read_batches(
    log: Log, max_bytes: int = 1 << 20, end_offset: int | None = None
) -> list[tuple[BatchHeader, list[Record]]]:
    """Everything from the local start on, by following reads."""
    batches = []
    offset = log.local_start_offset
    bound = log.end_offset if end_offset is None else end_offset
    while fetched := read_checked(log, offset, max_bytes, bound):
        data = fetched.read()
        assert len(data) == len(fetched)
        for position, header in iter_batches(data):
            check_crc(data, position, header)
            batches.append((header, list(iter_records(data, position))))
        assert fetched.next_offset > offset
        offset = fetched.next_offset
    return batches


def read_records(log: Log, max_bytes: int = 1 << 20, end_offset: int | None = None) -> list[Record]:
    return [
        record
        for _, records in read_batches(log, max_bytes, end_offset)
        for record in records
        if record.offset >= log.start_offset
    ]


def read_values(log: Log, **bounds: int) -> list[bytes | None]:
    return [record.value for record in read_records(log, **bounds)]


def check_log(log: Log, *, forgotten: bool = False) -> None:
    """Indexes, epochs, producers and transactions say of the batches what is true. Raises
    AssertionError.

    Args: forgotten: batches were taken out of the log, so that its producers may be more, and know
    more, than those that are left tell; nothing is said of producers and transactions then.
    """
    aborted: list[AbortedTxn] = []
    producers = ProducerStateManager()
    offset = log.segments[0].base
    assert log.end_offset >= offset
    for number, segment in enumerate(log.segments):
        assert segment.base >= offset
        units = {
            batch.position: batch.header for batch in scan(segment.log, 0, segment.size, check=CheckLevel.CHECKSUMS)
        }
        assert sum(unit.size for unit in units.values()) == segment.size == segment.log.size
        _check_index(segment, units, log.config.index_interval_bytes)
        _check_timeindex(segment, units, sealed=number + 1 < len(log.segments))
        own = []
        for position, unit in units.items():
            assert isinstance(unit, BatchHeader)
            assert unit.base_offset >= offset
            offset = unit.last_offset + 1
            if unit.base_offset >= log.start_offset:
                assert log.epochs.epoch_at(unit.base_offset) == unit.leader_epoch
            one = apply_batch(producers, segment.log, position, unit)
            own += [one] if one is not None else []
        # below the log start files may be half gone
        is_below = number + 1 < len(log.segments) and log.segments[number + 1].base <= log.start_offset
        assert is_below or forgotten or segment.txnindex.read() == own
        aborted += own
    assert log.end_offset >= offset
    if not forgotten:
        assert log.reader.aborted(log.start_offset, log.end_offset) == [
            one for one in aborted if one.last_offset >= log.start_offset
        ]
        _check_producers(log.producers, producers)
        assert stable_end(log) == max(min(producers.first_open(), log.end_offset), log.start_offset)


def _check_index(segment: Any, units: dict[int, Any], interval_bytes: int) -> None:
    index = segment.index
    index.check()
    expected = []
    last_position = 0
    for position, unit in units.items():
        if position - last_position > interval_bytes:
            expected.append((unit.last_offset, position))
            last_position = position
    assert [tuple(index._at(number)) for number in range(index.entries.count)] == expected
    assert index.entries.data() == index.entries.file.read_at(0, 1 << 20)


def _check_timeindex(segment: Any, units: dict[int, Any], *, sealed: bool) -> None:
    timeindex = segment.timeindex
    timeindex.check()
    for number in range(timeindex.entries.count):
        entry = timeindex._at(number)
        so_far = [unit for unit in units.values() if unit.last_offset <= entry.offset]
        assert max(unit.max_timestamp for unit in so_far) == entry.timestamp == so_far[-1].max_timestamp
    greatest = max((unit.max_timestamp for unit in units.values()), default=-1)
    assert segment.max_timestamp == greatest
    if sealed:
        assert timeindex.last().timestamp == greatest


def _check_producers(actual: ProducerStateManager, expected: ProducerStateManager) -> None:
    def facts(producers: ProducerStateManager) -> dict[int, tuple[object, ...]]:
        def of(one: ProducerStateEntry) -> tuple[object, ...]:
            last = [batch[:3] for batch in one.batches][-1:]
            return one.epoch, last, one.last_timestamp, one.coordinator_epoch, one.transaction_offset

        return {producer_id: of(one) for producer_id, one in producers.items()}

    assert facts(actual) == facts(expected)
    assert actual.first_open() == expected.first_open()


def run_through(steps: Iterable[object]) -> None:
    """Take all steps of work that is done in slices."""
    for _ in steps:
        pass


def note_high_watermarks(manager: LogManager, high_watermarks: Mapping[tuple[str, int], int]) -> LogManager:
    for (topic, partition), offset in high_watermarks.items():
        manager.checkpoints.note_high_watermark(topic, partition, offset)
    return manager
