"""The first pass: the dirty part of the log into an offset map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kqueue.base.errors import CorruptBatch
from kqueue.log.compaction.engine import CompactionEngine
from kqueue.log.compaction.model import CleanerStats, CompactionConfig, SegmentSource
from kqueue.log.compaction.offset_map import OffsetMap
from kqueue.log.compaction.retention import TransactionTracker
from kqueue.log.compaction.segment_reader import BulkRead, SegmentReader
from kqueue.log.compaction.throttle import Throttle
from kqueue.log.formats.filenames import LOG, TXNINDEX, file_name, parse_file_name
from kqueue.log.formats.transaction_index import ENTRY as TXN_ENTRY
from kqueue.log.formats.transaction_index import AbortedTxn, decode_aborted
from kqueue.log.scanner.batch_scanner import ScannedBatch
from kqueue.records.batch import BatchHeader, decode_control
from kqueue.records.record import decode_records
from kqueue.storage import Storage


def read_aborted(
    storage: Storage, folder: str, sources: Sequence[SegmentSource], sizes: Mapping[str, int]
) -> list[AbortedTxn]:
    """The aborted transactions that reach into these segments: from their indexes, and from those
    of later segments.

    A transaction that began in a sealed segment may have its marker, and so its entry, in the
    active one. Raises: CorruptIndex, StorageFailed; FileNotFoundError: a segment should have such
    an index, and has none.
    """
    if not sources:
        return []
    upto = sources[-1].end_offset
    found: list[AbortedTxn] = []
    for source in sources:
        name = file_name(source.base, TXNINDEX)
        if source.has_txnindex or name in sizes:
            found += decode_aborted(storage.read(f"{folder}/{name}"))
    for name in sizes:
        parsed = parse_file_name(name)
        if parsed is not None and parsed[1] == TXNINDEX and parsed[0] >= upto:
            data = storage.read(
                f"{folder}/{name}"
            )  # it may be written to just now; what we need has been there for long
            whole = data[: len(data) - len(data) % TXN_ENTRY.size]
            found += [aborted for aborted in decode_aborted(whole) if aborted.first_offset < upto]
    return found


def build_map(
    storage: Storage,
    folder: str,
    sources: Sequence[SegmentSource],
    first_dirty: int,
    config: CompactionConfig,
    aborted: Sequence[AbortedTxn],
    engine: CompactionEngine,
    throttle: Throttle,
    stats: CleanerStats,
) -> OffsetMap:
    """The latest offset of each key from `first_dirty` on, without control batches and aborted
    data.

    Returns: a map whose `end_offset` is the end of the sources, or less: where it was full. Raises:
    as `CompactionTask`.
    """
    dirty = [source for source in sources if source.end_offset > first_dirty]
    records_max = dirty[-1].end_offset - first_dirty if dirty else 0
    offset_map = engine.make_map(
        config.dedupe_bytes, config.load_factor, records_max=records_max, start_offset=first_dirty
    )
    transactions = TransactionTracker(one for one in aborted if one.last_offset >= first_dirty)
    take = _taking(offset_map, first_dirty, engine)
    for source in dirty:
        path = f"{folder}/{file_name(source.base, LOG)}"
        file = storage.open(path)
        reader = SegmentReader(
            file, path, source.size, source.base, source.end_offset, config.io_buffer_bytes, throttle, take
        )
        try:
            for batch in reader:
                if batch.header.last_offset < first_dirty:
                    continue
                end = _index(offset_map, batch, first_dirty, transactions, engine, config.decompressed_bytes_max)
                offset_map.end_offset = end
                if end <= batch.header.last_offset:
                    return _counted(offset_map, stats, reader.position)
        except CorruptBatch as error:
            raise reader.located(error) from error
        finally:
            file.close()
        _counted(offset_map, stats, source.size)
        offset_map.end_offset = source.end_offset
    return offset_map


def _taking(offset_map: OffsetMap, first_offset: int, engine: CompactionEngine) -> BulkRead | None:
    """Many small batches at once, where the engine can."""
    index_chunk = engine.index_chunk
    if index_chunk is None:
        return None

    def take(buf: bytes, at: int, limit: int, next_offset: int) -> tuple[int, int]:
        size, next_offset = index_chunk(offset_map, buf, at, limit, next_offset, first_offset)
        offset_map.end_offset = max(offset_map.end_offset, next_offset)
        return size, next_offset

    return take


def _counted(offset_map: OffsetMap, stats: CleanerStats, size: int) -> OffsetMap:
    stats.bytes_read += size
    stats.map_entries = offset_map.count
    return offset_map


def _index(
    offset_map: OffsetMap,
    batch: ScannedBatch,
    first_offset: int,
    transactions: TransactionTracker,
    engine: CompactionEngine,
    limit_bytes: int,
) -> int:
    """Put a batch into the map; returns the offset up to which (exclusive) it is there."""
    header = batch.header
    if not isinstance(header, BatchHeader):
        records = [record for record in batch.messages(limit_bytes) if record.offset >= first_offset]
        taken = offset_map.put_all([record.key for record in records], [record.offset for record in records], 0)
        return header.next_offset if taken == len(records) else records[taken].offset
    if header.is_control:
        if header.record_count:
            transactions.end(header, decode_control(next(decode_records(batch.records_data(limit_bytes), header)))[0])
        return header.next_offset
    if transactions.is_aborted(header) or not header.record_count:
        return header.next_offset
    return engine.index_records(offset_map, batch.records_data(limit_bytes), header, first_offset)
