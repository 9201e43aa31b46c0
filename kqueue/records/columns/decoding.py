"""Batches as they are fetched or stand in files, to pieces of columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kqueue.base.errors import CorruptBatch
from kqueue.records.batch import (
    ABORT,
    BATCH_OVERHEAD,
    DECOMPRESSED_BYTES_MAX,
    BatchHeader,
    check_crc,
    decode_control,
    decompressed,
    iter_records,
)
from kqueue.records.codecs import Buffer
from kqueue.records.columns.contract import LONG_MAX, Bounds, Limits, Piece, Span
from kqueue.records.columns.engine import EngineName, collector
from kqueue.records.legacy import LegacyEntry, check_entry, entry_records, iter_units

Unit = BatchHeader | LegacyEntry
_GROUP_MAX = 4_096  # batches that are handed on at once


class Decoder:
    """Makes pieces of columns from batches, over as many fetches as there are.

    `bounds`: which records are taken; may be changed between two calls. `next_offset`: after the last batch that was gone through by
    `feed`, whether its records were taken or not; None: there was none.
    One thread at a time; the compiled engine lets go of the interpreter's lock.
    """

    def __init__(
        self,
        bounds: Bounds | None = None,
        limits: Limits | None = None,
        *,
        check: bool = True,
        limit_bytes: int = DECOMPRESSED_BYTES_MAX,
        engine: EngineName = "auto",
        data_bytes: int | None = None,
    ) -> None:
        """Args: check: compare checksums. limit_bytes: what one batch may decompress to. engine, data_bytes: as for `collector`.
        Raises: as `collector`."""
        self.next_offset: int | None = None
        self.bounds = bounds or Bounds()
        self._collector = collector(limits or Limits(), engine, data_bytes)
        self._check = check
        self._limit_bytes = limit_bytes

    def feed(self, buf: Buffer, *, aborted: Iterable[tuple[int, int]] = (), tag: Any = None) -> Iterator[Piece]:
        """Take what was fetched: batches of any magic, one after another; what is cut off at the end is passed over.

        Control batches are left out. Pieces come as they are full, `finish` has the rest. To be run to its end; `buf` is not kept.
        Args: aborted: (producer id, first offset) of the aborted transactions, as Fetch answers them, to be left out.
        tag: `Piece.runs` has (tag, header or entry of the batch).
        Raises: CorruptBatch: names the position in `buf`; the records before the damage have been taken. UnsupportedCodec. PluginError.
        """
        for group, after in self._steps(buf, _Aborted(aborted)):
            yield from self._add_group(buf, group, tag)
            self.next_offset = after

    def add(self, buf: Buffer, unit: Unit, pos: int = 0, tag: Any = None) -> Iterator[Piece]:
        """Take the records of one batch, a control batch too, whose header or entry is `unit`; its checksum is not looked at.

        Raises: as `iter_records`, with the same words; the records before the damage have been taken.
        """
        if not isinstance(unit, BatchHeader):
            records = entry_records(unit, self._limit_bytes)
            if any(not -LONG_MAX <= record.offset < LONG_MAX for record in records):
                raise CorruptBatch(f"offsets inside of the message at offset {unit.offset} leave 64 bits")
            yield from self._collector.add_records(records, tag, self.bounds)
        elif (unit.codec_id and unit.record_count) or pos + unit.size > len(buf):
            content = decompressed(buf, pos, unit, self._limit_bytes)
            yield from self._collector.add(content, [Span(unit, 0, len(content), tag)], self.bounds)
        else:
            yield from self._collector.add(buf, [Span(unit, pos + BATCH_OVERHEAD, pos + unit.size, tag)], self.bounds)

    def finish(self) -> Iterator[Piece]:
        """What is left, perhaps nothing; the decoder may be fed again."""
        while (piece := self._collector.take()) is not None:
            yield piece

    def _steps(self, buf: Buffer, aborted: _Aborted) -> Iterator[tuple[list[tuple[int, Unit]], int | None]]:
        """Batches that are wanted, those that can be read in place together, others by themselves; and the offset after them."""
        group: list[tuple[int, Unit]] = []
        after, failure = self.next_offset, None
        try:
            for pos, unit in iter_units(buf):
                if self._is_wanted(buf, pos, unit, aborted):
                    if group and (len(group) == _GROUP_MAX or not _in_place(unit) or not _in_place(group[0][1])):
                        yield group, after
                        group = []
                    group.append((pos, unit))
                after = unit.next_offset
        except CorruptBatch as error:
            failure = error
        yield group, after
        if failure is not None:
            raise failure

    def _is_wanted(self, buf: Buffer, pos: int, unit: Unit, aborted: _Aborted) -> bool:
        if isinstance(unit, BatchHeader):
            if self._check:
                check_crc(buf, pos, unit)
            if aborted.leave_out(buf, pos, unit) or (self.bounds.end_offset is not None and unit.base_offset >= self.bounds.end_offset):
                return False
        elif self._check:
            check_entry(buf, unit)
        since, start = self.bounds.since_ms, self.bounds.start_offset
        return (since is None or unit.max_timestamp >= since) and (start is None or unit.last_offset >= start)

    def _add_group(self, buf: Buffer, group: list[tuple[int, Unit]], tag: Any) -> Iterator[Piece]:
        try:
            if len(group) == 1:
                yield from self.add(buf, group[0][1], group[0][0], (tag, group[0][1]))
            elif group:
                spans = [Span(*_placed(pos, unit), (tag, unit)) for pos, unit in group]
                yield from self._collector.add(buf, spans, self.bounds)
        except CorruptBatch as error:
            at = self._collector.at if len(group) > 1 else 0
            raise CorruptBatch(f"the batch at position {group[at][0]}: {error}") from error


def _placed(pos: int, unit: Unit) -> tuple[BatchHeader, int, int]:
    assert isinstance(unit, BatchHeader), "others don't come in groups"
    return unit, pos + BATCH_OVERHEAD, pos + unit.size


def _in_place(unit: Unit) -> bool:
    return isinstance(unit, BatchHeader) and not unit.codec_id


class _Aborted:
    """Which batches belong to aborted transactions, as a consumer finds out: from their list, and the markers that end them."""

    def __init__(self, transactions: Iterable[tuple[int, int]]) -> None:
        self._begin = sorted(((first, producer_id) for producer_id, first in transactions), reverse=True)  # the earliest last
        self._open: set[int] = set()

    def leave_out(self, buf: Buffer, pos: int, header: BatchHeader) -> bool:
        """Whether the next batch is one of them, or a control batch. Raises: CorruptBatch: a marker that is none."""
        while self._begin and self._begin[-1][0] <= header.last_offset:
            self._open.add(self._begin.pop()[1])
        if not header.is_control:
            return header.is_transactional and header.producer_id in self._open
        if self._open and header.is_transactional:
            marker = next(iter_records(buf, pos), None)
            if marker is not None and decode_control(marker)[0] == ABORT:
                self._open.discard(header.producer_id)
        return True
