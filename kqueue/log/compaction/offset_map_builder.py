"""The first pass of compaction: builds the offset map of a log's dirty part."""

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
    """Return the aborted transactions that reach into these segments.

    Reads the indexes of later segments too: a transaction that began in a sealed segment may have
    its end marker, and so its entry, in the active one.

    Args: sizes: of the folder's files, in bytes, by name.
    Raises: CorruptIndex, StorageFailed; FileNotFoundError: an index that must exist is missing.
    """
    if not sources:
        return []
    upto = sources[-1].end_offset
    transactions: list[AbortedTxn] = []
    for source in sources:
        name = file_name(source.base, TXNINDEX)
        if source.has_txnindex or name in sizes:
            transactions += decode_aborted(storage.read(f"{folder}/{name}"))
    for name in sizes:
        parsed = parse_file_name(name)
        if parsed is not None and parsed[1] == TXNINDEX and parsed[0] >= upto:
            data = storage.read(f"{folder}/{name}")  # a broker may be appending; the entries that matter here are older
            whole = data[: len(data) - len(data) % TXN_ENTRY.size]
            transactions += [aborted for aborted in decode_aborted(whole) if aborted.first_offset < upto]
    return transactions


class OffsetMapBuilder:
    """Reads the dirty part of a log into an offset map."""

    def __init__(
        self,
        storage: Storage,
        folder: str,
        config: CompactionConfig,
        engine: CompactionEngine,
        throttle: Throttle,
        stats: CleanerStats,
    ) -> None:
        self._storage = storage
        self._folder = folder
        self._config = config
        self._engine = engine
        self._throttle = throttle
        self._stats = stats

    def build(self, sources: Sequence[SegmentSource], first_dirty: int, aborted: Sequence[AbortedTxn]) -> OffsetMap:
        """Return the latest offset of each key from `first_dirty` on, without control batches and
        aborted data.

        Returns: a map whose `end_offset` is the end of the sources, or less if the map is full.
        Raises: as `CompactionTask`.
        """
        config, engine = self._config, self._engine
        dirty = [source for source in sources if source.end_offset > first_dirty]
        records_max = dirty[-1].end_offset - first_dirty if dirty else 0
        offset_map = engine.make_map(
            config.dedupe_bytes, config.load_factor, records_max=records_max, start_offset=first_dirty
        )
        transactions = TransactionTracker(txn for txn in aborted if txn.last_offset >= first_dirty)
        bulk = _bulk_read(offset_map, first_dirty, engine)
        for source in dirty:
            path = f"{self._folder}/{file_name(source.base, LOG)}"
            file = self._storage.open(path)
            reader = SegmentReader(
                file, path, source.size, source.base, source.end_offset, config.io_buffer_bytes, self._throttle, bulk
            )
            try:
                for batch in reader:
                    if batch.header.last_offset < first_dirty:
                        continue
                    end_offset = self._index(offset_map, batch, first_dirty, transactions)
                    offset_map.end_offset = end_offset
                    if end_offset <= batch.header.last_offset:  # the map is full
                        self._count(offset_map, reader.position)
                        return offset_map
            except CorruptBatch as error:
                raise reader.located(error) from error
            finally:
                file.close()
            self._count(offset_map, source.size)
            offset_map.end_offset = source.end_offset
        return offset_map

    def _count(self, offset_map: OffsetMap, size: int) -> None:
        self._stats.bytes_read += size
        self._stats.map_entries = offset_map.count

    def _index(
        self, offset_map: OffsetMap, batch: ScannedBatch, first_offset: int, transactions: TransactionTracker
    ) -> int:
        """Put a batch into the map; return the offset up to which (exclusive) it is there."""
        header, limit_bytes = batch.header, self._config.decompressed_bytes_max
        if not isinstance(header, BatchHeader):
            records = [record for record in batch.messages(limit_bytes) if record.offset >= first_offset]
            count = offset_map.put_all([record.key for record in records], [record.offset for record in records], 0)
            return header.next_offset if count == len(records) else records[count].offset
        if header.is_control:
            if header.record_count:
                marker = next(decode_records(batch.records_data(limit_bytes), header))
                transactions.end(header, decode_control(marker)[0])
            return header.next_offset
        if transactions.is_aborted(header) or not header.record_count:
            return header.next_offset
        return self._engine.index_records(offset_map, batch.records_data(limit_bytes), header, first_offset)


def _bulk_read(offset_map: OffsetMap, first_offset: int, engine: CompactionEngine) -> BulkRead | None:
    """Process many small batches per call, if the engine can."""
    index_chunk = engine.index_chunk
    if index_chunk is None:
        return None

    def bulk(buf: bytes, at: int, limit: int, next_offset: int) -> tuple[int, int]:
        size, next_offset = index_chunk(offset_map, buf, at, limit, next_offset, first_offset)
        offset_map.end_offset = max(offset_map.end_offset, next_offset)
        return size, next_offset

    return bulk
