"""Lines of offset and time indexes, with each entry checked against the log.

Source: Kafka DumpLogSegments, OffsetIndex, TimeIndex.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from kqueue.base.errors import CorruptBatch, UnsupportedCodec
from kqueue.log.formats.filenames import LOG
from kqueue.log.formats.offset_index import ENTRY as INDEX_ENTRY
from kqueue.log.formats.time_index import ENTRY as TIME_ENTRY
from kqueue.log.formats.time_index import NO_TIMESTAMP
from kqueue.log_tools.dump.kafka_format import records_of
from kqueue.log_tools.dump.options import DumpOptions
from kqueue.log_tools.dump.problems import Problems
from kqueue.log_tools.dump.source_files import DumpFile
from kqueue.log_tools.segments import Batch, walk
from kqueue.storage import File

CHUNK_ENTRIES = 8192


def dump_index(source: DumpFile, options: DumpOptions, problems: Problems) -> Iterator[str]:
    """Return the lines of an offset index.

    An entry names the last offset of the batch at its position.
    """
    base = source.base_offset()
    file = source.open()
    if file.size < INDEX_ENTRY.size:
        yield f"{source.shown} is empty."
        return
    if options.sanity_only:
        yield from _sanity(source, problems, _index_fault(source, file, base))
        return
    log = _log_of(source, problems)
    for relative, position in _entries(file, INDEX_ENTRY):
        if log is not None:
            _check_position(source, log, base + relative, position, options, problems)
        if not options.verify_only:
            yield f"offset: {base + relative} position: {position}"


def dump_time_index(source: DumpFile, options: DumpOptions, problems: Problems) -> Iterator[str]:
    """Return the lines of a time index.

    An entry names a batch's last offset and greatest timestamp.
    """
    base = source.base_offset()
    file = source.open()
    if options.sanity_only:
        yield from _sanity(source, problems, _time_index_fault(source, file, base))
        return
    log = _log_of(source, problems)
    finder = _Finder(log, source.shown) if log is not None else None
    previous = NO_TIMESTAMP
    for timestamp, relative in _entries(file, TIME_ENTRY):
        if finder is not None:
            _check_time(source, finder, timestamp, base + relative, previous, problems)
        if not options.verify_only:
            yield f"timestamp: {timestamp} offset: {base + relative}"
        previous = timestamp


def _entries(file: File, entry: struct.Struct) -> Iterator[tuple[int, int]]:
    """Return the entries before the zeros of preallocation or a crash at the end of the file.

    The offset of an entry is the relative one. An entry after the first that names the base offset
    is padding, as in Kafka's own tool.
    """
    relative_at = 0 if entry is INDEX_ENTRY else 1
    count = file.size // entry.size
    for first in range(0, count, CHUNK_ENTRIES):
        wanted = min(CHUNK_ENTRIES, count - first) * entry.size
        data = file.read_at(first * entry.size, wanted)
        for number, fields in enumerate(entry.iter_unpack(data[: len(data) - len(data) % entry.size]), first):
            if fields[relative_at] == 0 and number > 0:
                return
            yield fields


def _log_of(source: DumpFile, problems: Problems) -> File | None:
    try:
        return source.open(LOG)
    except FileNotFoundError as error:
        problems.complain(f"{source.shown}: its entries can't be checked: {error}")
        return None


def _check_position(
    source: DumpFile, log: File, offset: int, position: int, options: DumpOptions, problems: Problems
) -> None:
    end = min(log.size, position + options.max_message_size)
    item = next(walk(log, source.shown, position, end, check=False), None) if 0 <= position < log.size else None
    if not isinstance(item, Batch):
        problems.complain(
            f"{source.shown}: offset {offset} at position {position}: "
            f"no batch of at most {options.max_message_size} bytes begins there"
        )
    elif item.last_offset != offset:
        # In the old formats an entry names the last offset of one append, often of several
        # messages.
        harmless = item.magic < 2 and item.last_offset < offset
        problems.index_mismatch(source.path, offset, item.last_offset, harmless=harmless)


def _check_time(
    source: DumpFile, finder: _Finder, timestamp: int, offset: int, previous: int, problems: Problems
) -> None:
    batch = finder.find(offset)
    if batch is None:
        problems.time_offset_not_found(source.path, offset, -1, harmless=False)
        return
    if batch.last_offset != offset:
        # Kafka 2.8 and older named a record within the batch.
        problems.time_offset_not_found(source.path, offset, batch.last_offset, harmless=batch.base_offset <= offset)
        return
    try:
        latest = max((record.timestamp for record, _ in records_of(batch)), default=NO_TIMESTAMP)
    except (CorruptBatch, UnsupportedCodec) as error:
        problems.complain(f"{source.shown}: offset {offset} can't be checked: {error}")
        return
    if max(latest, NO_TIMESTAMP) != timestamp:
        problems.time_mismatch(source.path, timestamp, latest)
    if previous >= timestamp:
        problems.time_out_of_order(source.path, timestamp, previous)


class _Finder:
    """Finds the first batch that ends at an offset or later.

    Rising offsets need one pass of the log.
    """

    def __init__(self, log: File, location: str) -> None:
        self._log = log
        self._place = location
        self._batch: Batch | None = None
        self._rest: Iterator[object] = iter(())
        self._last = -1

    def find(self, offset: int) -> Batch | None:
        if self._batch is None or offset < self._last:
            self._batch = None
            self._rest = walk(self._log, self._place, 0, self._log.size, check=False)
        self._last = offset
        while self._batch is None or self._batch.last_offset < offset:
            item = next(self._rest, None)
            if not isinstance(item, Batch):
                self._batch = None
                return None
            self._batch = item
        return self._batch


def _sanity(source: DumpFile, problems: Problems, fault: str | None) -> Iterator[str]:
    if fault is None:
        yield f"{source.shown} passed sanity check."
    else:
        problems.complain(f"{source.shown} failed its sanity check: {fault}")


def _index_fault(source: DumpFile, file: File, base: int) -> str | None:
    """Return the error for which a starting broker would rebuild the index; None: there is none."""
    count = file.size // INDEX_ENTRY.size
    relative, _ = INDEX_ENTRY.unpack(file.read_at((count - 1) * INDEX_ENTRY.size, INDEX_ENTRY.size))
    if relative < 0:
        return f"expected a last offset of {base} or more, found {base + relative}"
    return _size_fault(file, INDEX_ENTRY)


def _time_index_fault(source: DumpFile, file: File, base: int) -> str | None:
    count = file.size // TIME_ENTRY.size
    if count:
        first, _ = TIME_ENTRY.unpack(file.read_at(0, TIME_ENTRY.size))
        last, relative = TIME_ENTRY.unpack(file.read_at((count - 1) * TIME_ENTRY.size, TIME_ENTRY.size))
        if last < first:
            return f"expected a last time of {first} or later, found {last}"
        if relative < 0:
            return f"expected a last offset of {base} or more, found {base + relative}"
    return _size_fault(file, TIME_ENTRY)


def _size_fault(file: File, entry: struct.Struct) -> str | None:
    return f"expected a multiple of {entry.size} bytes, found {file.size}" if file.size % entry.size else None
