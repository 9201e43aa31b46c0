"""Decoder of fetched or stored batches to chunks of Arrow columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from kqueue.base.errors import CorruptBatch
from kqueue.records.any_format import iter_any_batches
from kqueue.records.arrow.contract import LONG_MAX, BatchSpan, ChunkLimits, ColumnChunk, CorruptBatchAt, RecordRange
from kqueue.records.arrow.engine import EngineName, chunk_builder
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
from kqueue.records.message_set import LegacyEntry, check_entry, entry_records

Unit = BatchHeader | LegacyEntry
_GROUP_MAX = 1_024  # batches decoded in one call
_SMALL_BYTES = 4_096  # size up to which `add_small` may read a batch


class ColumnDecoder:
    """Decodes batches of any number of fetches to chunks of columns.

    Attributes:
        bounds: the records to decode; may change between two calls.
        next_offset: after the last batch that `feed` read; None: it read none.
    Thread: one at a time. The compiled engine releases the GIL.
    """

    def __init__(
        self,
        bounds: RecordRange | None = None,
        limits: ChunkLimits | None = None,
        *,
        check: bool = True,
        limit_bytes: int = DECOMPRESSED_BYTES_MAX,
        engine: EngineName = "auto",
        data_bytes: int | None = None,
    ) -> None:
        """Args:
            check: compare checksums.
            limit_bytes: most bytes that one batch may decompress to.
            engine, data_bytes: as for `chunk_builder`.
        Raises: as `chunk_builder`.
        """
        self.next_offset: int | None = None
        self.bounds = bounds or RecordRange()
        self._collector = chunk_builder(limits or ChunkLimits(), engine, data_bytes)
        self._check = check
        self._limit_bytes = limit_bytes

    def feed(self, buf: Buffer, *, aborted: Iterable[tuple[int, int]] = (), tag: Any = None) -> Iterator[ColumnChunk]:
        """Decode fetched batches of any magic; yield each chunk when it is full.

        Control batches and an incomplete last batch are skipped. `finish` yields the rest. Run the
        iterator to its end; `buf` is not kept. `ColumnChunk.runs` has (tag, header or entry).
        Args: aborted: (producer id, first offset) of the aborted transactions of the Fetch
            response; their records are omitted.
        Raises:
            CorruptBatch: with the position in `buf`; the records before the damage were decoded.
            UnsupportedCodec, PluginError.
        """
        transactions = _Aborted(aborted)
        pos: int | None = 0
        while pos is not None:
            try:
                pos, self.next_offset = yield from self._collector.add_small(
                    buf,
                    pos,
                    self.bounds,
                    tag,
                    transactional=transactions.is_empty,
                    check=self._check,
                    next_offset=self.next_offset,
                )
                group = self._group(buf, pos, transactions)
                yield from self._add_group(buf, group.batches, tag)
            except CorruptBatchAt as error:
                self.next_offset = error.next_offset
                raise
            pos, self.next_offset = group.end, group.next_offset
            if group.failure is not None:
                raise group.failure

    def add(self, buf: Buffer, unit: Unit, pos: int = 0, tag: Any = None) -> Iterator[ColumnChunk]:
        """Decode one batch, also a control batch, with the header or entry `unit`.

        The checksum is not compared.
        Raises: as `iter_records`, with the same words; the records before the damage were decoded.
        """
        if not isinstance(unit, BatchHeader):
            records = entry_records(unit, self._limit_bytes)
            if any(not -LONG_MAX <= record.offset < LONG_MAX for record in records):
                raise CorruptBatch(f"offsets inside of the message at offset {unit.offset} leave 64 bits")
            yield from self._collector.add_records(records, tag, self.bounds)
        elif (unit.codec_id and unit.record_count) or pos + unit.size > len(buf):
            content = decompressed(buf, pos, unit, self._limit_bytes)
            yield from self._collector.add(content, [BatchSpan(unit, 0, len(content), tag)], self.bounds)
        else:
            yield from self._collector.add(
                buf, [BatchSpan(unit, pos + BATCH_OVERHEAD, pos + unit.size, tag)], self.bounds
            )

    def finish(self) -> Iterator[ColumnChunk]:
        """Yield the rest, if any. The decoder may be used again."""
        while (piece := self._collector.take()) is not None:
            yield piece

    def _group(self, buf: Buffer, pos: int, aborted: _Aborted) -> _Group:
        """Return the next batches to decode: uncompressed ones together, others one by one."""
        group = _Group([], pos, self.next_offset)
        try:
            for at, unit in iter_any_batches(buf, pos):
                batches = group.batches
                if batches and (len(batches) == _GROUP_MAX or not _in_place(unit) or not _in_place(batches[0].unit)):
                    return group
                if at > pos and unit.size <= _SMALL_BYTES:  # `add_small` may read it
                    return group
                if self._is_wanted(buf, at, unit, aborted):
                    batches.append(_BatchAt(at, unit, group.next_offset))
                group.end, group.next_offset = at + unit.size, unit.next_offset
        except CorruptBatch as error:
            group.failure = error
        group.end = None
        return group

    def _is_wanted(self, buf: Buffer, pos: int, unit: Unit, aborted: _Aborted) -> bool:
        if isinstance(unit, BatchHeader):
            if self._check:
                check_crc(buf, pos, unit)
            if aborted.leave_out(buf, pos, unit) or (
                self.bounds.end_offset is not None and unit.base_offset >= self.bounds.end_offset
            ):
                return False
        elif self._check:
            check_entry(buf, unit)
        since, start = self.bounds.since_ms, self.bounds.start_offset
        return (since is None or unit.max_timestamp >= since) and (start is None or unit.last_offset >= start)

    def _add_group(self, buf: Buffer, batches: list[_BatchAt], tag: Any) -> Iterator[ColumnChunk]:
        try:
            if len(batches) == 1:
                yield from self.add(buf, batches[0].unit, batches[0].pos, (tag, batches[0].unit))
            elif batches:
                yield from self._collector.add(buf, [batch.span(tag) for batch in batches], self.bounds)
        except CorruptBatch as error:
            failed = batches[self._collector.at if len(batches) > 1 else 0]
            raise CorruptBatchAt(failed.pos, failed.next_offset, error) from error


class _BatchAt(NamedTuple):
    """A batch or entry to decode. `next_offset`: the offset after the batch before it."""

    pos: int
    unit: Unit
    next_offset: int | None

    def span(self, tag: Any) -> BatchSpan:
        assert isinstance(self.unit, BatchHeader), "only batches of magic 2 are grouped"
        return BatchSpan(self.unit, self.pos + BATCH_OVERHEAD, self.pos + self.unit.size, (tag, self.unit))


@dataclass(slots=True)
class _Group:
    """Batches to decode next. `end`: position after them, None: the end. `failure`: raised
    after they are decoded.
    """

    batches: list[_BatchAt]
    end: int | None
    next_offset: int | None
    failure: CorruptBatch | None = None


def _in_place(unit: Unit) -> bool:
    return isinstance(unit, BatchHeader) and not unit.codec_id


class _Aborted:
    """Finds the batches of aborted transactions, from the list in a Fetch response and the
    markers.
    """

    def __init__(self, transactions: Iterable[tuple[int, int]]) -> None:
        self._begin = sorted(
            ((first, producer_id) for producer_id, first in transactions), reverse=True
        )  # the earliest last
        self._open: set[int] = set()

    @property
    def is_empty(self) -> bool:
        """Whether only control batches are still omitted."""
        return not self._begin and not self._open

    def leave_out(self, buf: Buffer, pos: int, header: BatchHeader) -> bool:
        """Return whether to omit the next batch: aborted, or a control batch.

        Raises: CorruptBatch: an invalid marker.
        """
        while self._begin and self._begin[-1][0] <= header.last_offset:
            self._open.add(self._begin.pop()[1])
        if not header.is_control:
            return header.is_transactional and header.producer_id in self._open
        if self._open and header.is_transactional:
            marker = next(iter_records(buf, pos), None)
            if marker is not None and decode_control(marker)[0] == ABORT:
                self._open.discard(header.producer_id)
        return True
