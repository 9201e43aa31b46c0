"""Writes what stays of a group of segments into one new segment, with indexes, as `.cleaned` files.

A batch that loses nothing is copied byte for byte. One that loses records keeps its header, except
for count, greatest time, length and checksum, and the bytes of the records that stay. Offsets never
change. The last batch of a group always stays, without records if need be: the new segment must
reach as far as those that it replaces, because a start after a crash recognizes them by that.
"""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Sequence
from typing import NamedTuple

from crc32c import crc32c

from kqueue.base.errors import CorruptBatch, StorageFailed, UnsupportedCodec
from kqueue.log.compaction.model import CleanedSegment, CleanerStats, CompactionConfig, SegmentSource
from kqueue.log.compaction.python_engine import RetainedRecords
from kqueue.log.compaction.retention import RetentionRules
from kqueue.log.compaction.segment_reader import BulkRead, SegmentReader
from kqueue.log.compaction.throttle import Throttle
from kqueue.log.formats.filenames import CLEANED, INDEX, LOG, TIMEINDEX, TXNINDEX, file_name
from kqueue.log.formats.offset_index import RELATIVE_OFFSET_MAX
from kqueue.log.formats.transaction_index import AbortedTxn
from kqueue.log.index_builder import IndexBuilder
from kqueue.log.scanner.batch_scanner import AnyHeader, ScannedBatch
from kqueue.records.batch import (
    BATCH_OVERHEAD,
    CODEC_MASK,
    CRC_START,
    DELETE_HORIZON,
    HEADER,
    LENGTH_FIELD_END,
    BatchHeader,
)
from kqueue.records.codecs import CODECS
from kqueue.records.message_set import LegacyEntry, encode_set
from kqueue.records.varints import VARINTS, read_raw
from kqueue.storage import File, Storage

_LONG_MAX = 2**63 - 1


class SegmentWriter:
    """Writes one segment. A crash leaves `.cleaned` files, which the next start removes."""

    def __init__(self, storage: Storage, folder: str, base: int, config: CompactionConfig, throttle: Throttle) -> None:
        """Create the log file. Raises StorageFailed."""
        self.base = base
        self.size = 0
        self._storage = storage
        self._folder = folder
        self._config = config
        self._throttle = throttle
        self._paths: list[str] = []
        self._log = self._create(LOG)
        self._buffer = bytearray()
        self._indexes = IndexBuilder(base, config.index_interval_bytes, bytes_max=config.segment_index_bytes)
        self._end_offset = base

    def _create(self, suffix: str) -> File:
        path = f"{self._folder}/{file_name(self.base, suffix)}{CLEANED}"
        file = self._storage.open(path, create=True)
        self._paths.append(path)
        if file.size:
            file.truncate(0)
        return file

    def add(self, data: bytes | memoryview, last_offset: int, max_timestamp: int) -> None:
        """Append one batch.

        Raises: StorageFailed; CorruptBatch: its offset is too far from the segment's base.
        """
        relative = last_offset - self.base
        if relative > RELATIVE_OFFSET_MAX:
            raise CorruptBatch(f"offset {last_offset} is too far from its segment's first, {self.base}")
        self._indexes.add(self.size, last_offset, max_timestamp)
        self.size += len(data)
        self._end_offset = last_offset + 1
        self._buffer += data
        if len(self._buffer) >= self._config.io_buffer_bytes:
            self._flush()

    def add_aborted(self, aborted: AbortedTxn) -> None:
        """Add an aborted transaction whose marker is in the segment."""
        self._indexes.add_aborted(aborted)

    def _flush(self) -> None:
        self._throttle.spend(len(self._buffer))
        self._log.append(self._buffer)
        self._buffer.clear()

    def finish(self, *, with_txnindex: bool) -> CleanedSegment:
        """Write the rest and sync all files; the caller syncs their folder.

        Args: with_txnindex: write the file even without entries, because the segment replaces one
            that has it.
        Raises StorageFailed.
        """
        if self._buffer:
            self._flush()
        indexes = self._indexes
        indexes.finish()
        files = [self._log]
        for suffix, data in (
            (INDEX, indexes.offset_index),
            (TIMEINDEX, indexes.time_index),
            (TXNINDEX, indexes.transaction_index),
        ):
            if data or suffix != TXNINDEX or with_txnindex:
                files.append(self._create(suffix))
                if data:
                    files[-1].append(data)
        for file in files:
            file.sync()
            file.close()
        has_txnindex = bool(indexes.transaction_index) or with_txnindex
        return CleanedSegment(self.base, self.size, self._end_offset, indexes.max_timestamp, has_txnindex)

    def abandon(self) -> None:
        """Remove the written files; the next job or start removes those that cannot be removed."""
        self._log.close()
        for path in self._paths:
            with contextlib.suppress(FileNotFoundError, StorageFailed):
                self._storage.remove(path)


class _RetainedBatch(NamedTuple):
    """The bytes that stay of a batch, and what its index entries need."""

    data: bytes | memoryview
    last_offset: int
    max_timestamp: int


class SegmentRewriter:
    """Rewrites groups of segments one after another, oldest first."""

    def __init__(
        self,
        storage: Storage,
        folder: str,
        config: CompactionConfig,
        retention: RetentionRules,
        throttle: Throttle,
        stats: CleanerStats,
    ) -> None:
        self._storage = storage
        self._folder = folder
        self._config = config
        self._retention = retention
        self._throttle = throttle
        self._stats = stats

    def rewrite(self, sources: Sequence[SegmentSource], *, with_txnindex: bool) -> CleanedSegment | None:
        """Write the segment that replaces these; None: the only one would not change.

        Raises: as `CompactionTask`; the written files are removed.
        """
        writer = SegmentWriter(self._storage, self._folder, sources[0].base, self._config, self._throttle)
        try:
            full = [source for source in sources if source.size]
            copied = [self._rewrite_source(writer, source, is_last=source is full[-1]) for source in full]
            if len(sources) == 1 and all(copied):
                writer.abandon()
                return None
            cleaned = writer.finish(with_txnindex=with_txnindex)
        except Exception:
            writer.abandon()
            raise
        self._stats.bytes_written += cleaned.size
        return cleaned

    def _rewrite_source(self, writer: SegmentWriter, source: SegmentSource, *, is_last: bool) -> bool:
        """Rewrite one segment; return whether every batch was copied unchanged."""
        path = f"{self._folder}/{file_name(source.base, LOG)}"
        file = self._storage.open(path)
        same = [True]
        bulk = self._bulk_read(writer, same, is_last=is_last)
        reader = SegmentReader(
            file, path, source.size, source.base, source.end_offset, self._config.io_buffer_bytes, self._throttle, bulk
        )
        try:
            for batch in reader:
                ends = is_last and batch.end == source.size
                same[0] &= self._rewrite_batch(writer, batch, ends=ends)
        except CorruptBatch as error:
            raise reader.located(error) from error
        finally:
            file.close()
        self._stats.bytes_read += source.size
        return same[0]

    def _bulk_read(self, writer: SegmentWriter, same: list[bool], *, is_last: bool) -> BulkRead | None:
        """Process many small batches per call, if the engine can; not the group's last one."""
        retention, stats = self._retention, self._stats
        keep_chunk, offset_map = retention.engine.keep_chunk, retention.offset_map
        if keep_chunk is None or offset_map is None:
            return None
        last_offsets = array("q", sorted(retention.last_batches.values()))

        def bulk(buf: bytes, at: int, limit: int, next_offset: int) -> tuple[int, int]:
            # A byte less of the last segment: its last batch has to pass `_rewrite_batch`, which
            # keeps it even without records.
            chunk = keep_chunk(offset_map, buf, at, limit - is_last, next_offset, retention.start_offset, last_offsets)
            start = 0
            for end, last_offset, max_timestamp in chunk.batches:
                writer.add(chunk.data[start:end], last_offset, max_timestamp)
                start = end
            stats.records_read += chunk.read
            stats.records_kept += chunk.kept
            same[0] &= chunk.is_same
            return chunk.size, chunk.next_offset

        return bulk

    def _rewrite_batch(self, writer: SegmentWriter, batch: ScannedBatch, *, ends: bool) -> bool:
        header = batch.header
        retained = (
            self._retained_messages(batch, header)
            if isinstance(header, LegacyEntry)
            else self._retained_batch(writer, batch, header)
        )
        if retained is None and ends:
            retained = _RetainedBatch(empty_batch(header), header.last_offset, header.max_timestamp)
        if retained is None:
            return False
        writer.add(*retained)
        return len(retained.data) == header.size and retained.data == batch.raw

    def _retained_messages(self, batch: ScannedBatch, entry: LegacyEntry) -> _RetainedBatch | None:
        records = batch.messages(self._config.decompressed_bytes_max)
        kept = self._retention.of_messages(records, entry.magic)
        self._stats.records_read += len(records)
        self._stats.records_kept += len(kept)
        if len(kept) == len(records):
            return _RetainedBatch(batch.raw, entry.last_offset, entry.max_timestamp)
        if not kept:
            return None
        data = encode_set(kept, entry.magic, entry.codec_id, log_append_time=entry.is_log_append_time)
        return _RetainedBatch(data, kept[-1].offset, max(record.timestamp for record in kept))

    def _retained_batch(self, writer: SegmentWriter, batch: ScannedBatch, header: BatchHeader) -> _RetainedBatch | None:
        kept, horizon_ms, aborted = self._retention.of_batch(
            header, lambda: batch.records_data(self._config.decompressed_bytes_max)
        )
        self._stats.records_read += header.record_count
        self._stats.records_kept += kept.records
        if aborted is not None:
            writer.add_aborted(aborted)
        last_offset = header.last_offset
        if (
            kept.records == header.record_count
            and horizon_ms is None
            and (kept.records or self._retention.must_stay(header))
        ):
            return _RetainedBatch(batch.raw, last_offset, header.max_timestamp)
        if kept.records:
            return _RetainedBatch(encode_kept(header, kept, horizon_ms), last_offset, kept.max_timestamp)
        if self._retention.must_stay(header):
            return _RetainedBatch(empty_batch(header, keep_producer=True), last_offset, header.max_timestamp)
        return None


def encode_kept(header: BatchHeader, kept: RetainedRecords, horizon_ms: int | None) -> bytes:
    """Encode the batch with the records that stay, and a new delete horizon if one is given.

    Raises: CorruptBatch: a time no longer fits. UnsupportedCodec: the codec is not registered.
    """
    data = kept.data
    attributes, base_timestamp = header.attributes, header.base_timestamp
    if horizon_ms is not None:
        data = rebase_timestamps(data, kept.records, base_timestamp - horizon_ms)
        attributes, base_timestamp = attributes | DELETE_HORIZON, horizon_ms
    if header.codec_id:
        codec = CODECS.by_id(header.codec_id)
        if codec is None:
            raise UnsupportedCodec(f"no codec has the id {header.codec_id}")
        data = codec.compress(data)
    changed = header._replace(
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=kept.max_timestamp,
        record_count=kept.records,
    )
    return _seal(changed, data)


def empty_batch(header: AnyHeader, *, keep_producer: bool = False) -> bytes:
    """Encode a batch without records, with the offsets of `header`.

    Args: keep_producer: keep the producer's fields too.

    Source: Kafka DefaultRecordBatch.writeEmptyHeader.
    """
    if isinstance(header, LegacyEntry):
        header = BatchHeader(header.offset, 0, -1, 2, 0, 0, 0, -1, header.timestamp, -1, -1, -1, 0)
    elif keep_producer:
        header = header._replace(
            attributes=header.attributes & ~(CODEC_MASK | DELETE_HORIZON), base_timestamp=-1, record_count=0
        )
    else:
        header = header._replace(
            attributes=0, base_timestamp=-1, producer_id=-1, producer_epoch=-1, base_sequence=-1, record_count=0
        )
    return _seal(header, b"")


def _seal(header: BatchHeader, records: bytes) -> bytes:
    out = bytearray(BATCH_OVERHEAD) + records
    header = header._replace(batch_length=len(out) - LENGTH_FIELD_END)
    HEADER.pack_into(out, 0, *header)
    with memoryview(out)[CRC_START:] as covered:
        crc = crc32c(covered)
    HEADER.pack_into(out, 0, *header._replace(crc=crc))
    return bytes(out)


def rebase_timestamps(data: bytes, count: int, shift: int) -> bytes:
    """Add `shift` to the time delta of each record, because their base time went back by as much.

    Raises: CorruptBatch: a delta exceeds 64 bits.
    """
    out = bytearray()
    pos = 0
    for _ in range(count):
        raw, pos = read_raw(data, pos, 32)
        end = pos + (raw >> 1)
        delta, delta_end = read_raw(data, pos + 1, 64)
        moved = (delta >> 1 ^ -(delta & 1)) + shift
        if not ~_LONG_MAX <= moved <= _LONG_MAX:
            raise CorruptBatch(f"a time delta of {moved} does not fit in 64 bits")
        time = VARINTS[moved]
        out += VARINTS[1 + len(time) + end - delta_end]
        out += data[pos : pos + 1] + time + data[delta_end:end]
        pos = end
    return bytes(out)
