"""Reads partition folders with kqueue's log engine, without a broker, and compares their bytes."""

from __future__ import annotations

import hashlib
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

from compat_tests.kafka.clients import Row
from compat_tests.waits import look_until
from kqueue.base.clock import SystemClock
from kqueue.log.config import LogConfig
from kqueue.log.formats.checkpoints import LogCheckpoint
from kqueue.log.log import Log
from kqueue.records.any_format import iter_any_batches, iter_any_records
from kqueue.records.batch import BatchHeader
from kqueue.storage import LocalStorage

READ_BYTES = 1 << 20
SEGMENT_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")


def copy(folder: Path, target: Path) -> Path:
    """Copy a folder without its lock file; the copy may be written to."""
    return Path(shutil.copytree(folder, target, ignore=shutil.ignore_patterns(".lock")))


def open_log(folder: Path, *, clean: bool = True, start_offset: int = 0, **settings: object) -> Log:
    """Open the log in a partition's folder, which may be written to; `settings` are the topic's."""
    storage, config = LocalStorage(folder.parent), LogConfig.of(**settings)
    return Log.open(
        storage,
        folder.name,
        config,
        SystemClock(),
        checkpoint=LogCheckpoint(start_offset=start_offset, clean=clean),
        rng=random.Random(1),
    )


def units(log: Log) -> Iterator[tuple[BatchHeader, list[Row]] | tuple[None, list[Row]]]:
    """Yield every batch with its records as rows; the header of old formats is None."""
    partition = int(log.folder.rpartition("-")[2])
    offset = log.start_offset
    while fetched := log.read(offset, READ_BYTES, end_offset=log.end_offset):
        data = fetched.read()
        for position, unit in iter_any_batches(data):
            kind = 0 if unit.magic == 0 else 2 if unit.is_log_append_time else 1
            rows = [
                Row(partition, record.offset, kind, record.timestamp, record.key, record.value, record.headers)
                for record in iter_any_records(data[position : position + unit.size])
                if record.offset >= log.start_offset
            ]
            if isinstance(unit, BatchHeader):
                yield unit, rows
            else:
                yield None, rows
        offset = fetched.next_offset


def read(
    folder: Path, *, committed: bool = False, clean: bool = True, start_offset: int = 0, **settings: object
) -> list[Row]:
    """Return the rows that a client would read from an unused folder; recovery may write to it."""
    log = open_log(folder, clean=clean, start_offset=start_offset, **settings)
    try:
        bound = log.last_stable_offset(log.end_offset) if committed else log.end_offset
        aborted = log.reader.aborted(log.start_offset, bound) if committed else []
        rows: list[Row] = []
        for header, records in units(log):
            if header is not None and header.is_control:
                continue
            if (
                header is not None
                and header.is_transactional
                and any(
                    one.producer_id == header.producer_id and one.first_offset <= header.base_offset <= one.last_offset
                    for one in aborted
                )
            ):
                continue
            rows += [row for row in records if row.offset < bound]
        return rows
    finally:
        log.close()


def files(folder: Path, *suffixes: str) -> list[Path]:
    """The files of a folder with one of these endings (any, if none is given), in order of their
    names.
    """
    return sorted(file for file in folder.iterdir() if file.is_file() and (not suffixes or file.suffix in suffixes))


def contents(folder: Path) -> dict[str, str]:
    """Every file below a folder, with a sum of what is in it."""
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in folder.rglob("*")
        if file.is_file()
    }


def cleaned_to(data: Path, topic: str, partition: int = 0) -> int:
    """How far a partition is compacted, as the cleaner's checkpoint says; -1: not at all yet."""
    checkpoint = data / "cleaner-offset-checkpoint"
    rows = [line.split() for line in checkpoint.read_text().splitlines()] if checkpoint.exists() else []
    return max((int(row[2]) for row in rows if row[:2] == [topic, str(partition)]), default=-1)


def wait_until_cleaned(data: Path, topic: str, up_to: int) -> None:
    """Wait until the cleaner of the running broker has reached this offset."""
    look_until(lambda: cleaned_to(data, topic), up_to.__le__, f"{topic} is compacted up to {up_to}")
