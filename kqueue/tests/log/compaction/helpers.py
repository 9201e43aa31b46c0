"""Logs to compact, the steps of a compaction one after another, and what a reader sees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from kqueue.log.compaction import swap_files
from kqueue.log.compaction.compaction_task import CompactionTask
from kqueue.log.compaction.model import CompactionConfig, CompactionResult, SegmentSource
from kqueue.log.formats.filenames import LOG, TXNINDEX, file_name, parse_file_name
from kqueue.log.log import Log
from kqueue.log.scanner.batch_scanner import AnyHeader, scan
from kqueue.records.any_format import iter_any_batches
from kqueue.records.batch import BatchHeader, Record, check_crc, iter_records, read_header
from kqueue.records.builder import build_batch
from kqueue.records.message_set import check_entry, entry_records
from kqueue.storage import MemoryStorage, Storage
from kqueue.tests.log.helpers import START_MS, open_log, stable_end

FOLDER = "t-0"
DAY_MS = 86_400_000
LIMIT = 1 << 24


def config(**settings: Any) -> CompactionConfig:
    """Small segments and buffers, so that tests meet their ends."""
    defaults: dict[str, Any] = {
        "segment_bytes": 1 << 20,
        "segment_index_bytes": 1 << 16,
        "index_interval_bytes": 200,
        "delete_retention_ms": DAY_MS,
        "dedupe_bytes": 1 << 16,
        "io_buffer_bytes": 300,
    }
    return CompactionConfig(**{**defaults, **settings})


def open_compacted(storage: Storage, **settings: Any) -> Log:
    """The log in `FOLDER`."""
    return open_log(storage, **{"cleanup_policy": "compact", "index_interval_bytes": 200, **settings})


def put(log: Log, *pairs: tuple[bytes | None, bytes | None], time_ms: int = START_MS, **settings: Any) -> int:
    """Append a batch of these keys and values; returns its base offset."""
    records = [Record(number, time_ms + number, key, value) for number, (key, value) in enumerate(pairs)]
    batch = build_batch(records, base_offset=0, **settings)
    return log.append(batch, read_header(batch), leader_epoch=0).base_offset


def sources_of(storage: Storage, upto: int | None = None, folder: str = FOLDER) -> tuple[SegmentSource, ...]:
    """The segments of a folder below `upto` (None: all but the last)."""
    sizes = {entry.name: entry.size for entry in storage.list(folder)}
    bases = sorted(parsed[0] for name in sizes if (parsed := parse_file_name(name)) and parsed[1] == LOG)
    sources = [
        SegmentSource(base, after, sizes[file_name(base, LOG)], file_name(base, TXNINDEX) in sizes)
        for base, after in pairwise(bases)
    ]
    return tuple(source for source in sources if upto is None or source.end_offset <= upto)


def task(storage: Storage, *, sources: tuple[SegmentSource, ...] | None = None, **settings: Any) -> CompactionTask:
    """A task for all segments but the last; `settings`: of the task, or of its config."""
    known = CompactionTask.__dataclass_fields__
    own = {name: settings.pop(name) for name in list(settings) if name in known}
    defaults: dict[str, Any] = {
        "first_dirty": 0,
        "start_offset": 0,
        "now_ms": START_MS,
        "engine": "python",
        "config": config(**settings),
    }
    chosen = sources_of(storage) if sources is None else sources
    return CompactionTask(**{**defaults, "opener": lambda: storage, "folder": FOLDER, "sources": chosen, **own})


def swap_in(storage: Storage, done: CompactionResult, folder: str = FOLDER) -> None:
    """All that follows a task."""
    for group in done.groups:
        swap_files.commit(storage, folder, group)
        deleted = swap_files.install(storage, folder, group)
        storage.sync_folder(folder)
        for path in deleted:
            storage.remove(path)


def compact(storage: Storage, **settings: Any) -> CompactionResult:
    """Run a task and swap its result in."""
    done = task(storage, **settings)()
    swap_in(storage, done)
    return done


def units(storage: Storage, folder: str = FOLDER) -> Iterator[tuple[AnyHeader, list[Record]]]:
    """Every batch of the folder in order, checked, with its records."""
    for entry in storage.list(folder):
        parsed = parse_file_name(entry.name)
        if parsed and parsed[1] == LOG:
            yield from units_of(storage.read(f"{folder}/{entry.name}"), storage, f"{folder}/{entry.name}")


def units_of(data: bytes, storage: Storage, path: str) -> Iterator[tuple[AnyHeader, list[Record]]]:
    end = 0
    for position, unit, *_ in scan(storage.open(path), 0, len(data)):
        raw = data[position : position + unit.size]
        if isinstance(unit, BatchHeader):
            check_crc(raw, 0, unit)
            yield unit, list(iter_records(raw))
        else:
            check_entry(data, unit._replace(position=position))
            yield unit, entry_records(unit, LIMIT)
        end = position + unit.size
    assert end == len(data), "bytes after the last whole batch"


def data_records(storage: Storage, folder: str = FOLDER) -> list[Record]:
    """All records but markers."""
    return [record for unit, records in units(storage, folder) if not is_control(unit) for record in records]


def is_control(unit: AnyHeader) -> bool:
    return isinstance(unit, BatchHeader) and unit.is_control


def committed(log: Log) -> list[Record]:
    """Return the records that a consumer of read_committed is shown, by the rules that clients
    follow.
    """
    aborted = sorted(log.reader.aborted(log.start_offset, log.end_offset), key=lambda one: one.first_offset)
    dropping: set[int] = set()
    records: list[Record] = []
    offset = log.start_offset
    while fetched := log.read(offset, 1 << 20, end_offset=stable_end(log)):
        data = fetched.read()
        for position, unit in iter_any_batches(data):
            while aborted and aborted[0].first_offset <= unit.last_offset:
                dropping.add(aborted.pop(0).producer_id)
            if not isinstance(unit, BatchHeader):
                records += entry_records(unit, LIMIT)
            elif unit.is_control:
                dropping.discard(unit.producer_id)
            elif not (unit.is_transactional and unit.producer_id in dropping):
                records += iter_records(data, position)
        offset = fetched.next_offset
    return records


def table(records: Iterable[Record]) -> dict[bytes, bytes]:
    """The state that the records add up to: key -> last value, without those whose last is a
    tombstone.
    """
    state: dict[bytes, bytes] = {}
    for record in records:
        if record.key is not None:
            state.pop(record.key, None)
            if record.value is not None:
                state[record.key] = record.value
    return state


def new_log(**settings: Any) -> tuple[MemoryStorage, Log]:
    storage = MemoryStorage()
    return storage, open_compacted(storage, **settings)
