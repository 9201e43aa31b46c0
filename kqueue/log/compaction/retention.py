"""Decides which records and batches stay.

- A record stays if it is the latest of its key. All records beyond the offset map's end stay.
- A tombstone (a record without a value) stays until the delete horizon of its batch has passed. The
  horizon is set when the tombstone is first cleaned. Batches of old formats have no field for it:
  their tombstones go once they were cleaned before and are older than `delete.retention.ms` (magic
  0, which has no time: at once).
- Data of aborted transactions goes. An end marker stays while a batch of its transaction stays; the
  first cleaning that finds none sets its delete horizon, after which it goes.
- The last batch of each known producer stays, without records if need be, since it carries sequence
  and epoch; for a producer whose epoch only a marker carries, the marker stays.
- Records without a key go, and records below the log start.

Source: Kafka Cleaner, CleanedTransactionMetadata, MemoryRecords.filterTo; KIP-98, KIP-534.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kqueue.log.compaction.engine import CompactionEngine
from kqueue.log.compaction.model import RecordFilter
from kqueue.log.compaction.offset_map import OffsetMap
from kqueue.log.compaction.python_engine import NOTHING, RetainedRecords, pick
from kqueue.log.formats.transaction_index import AbortedTxn
from kqueue.records.batch import ABORT, COMMIT, BatchHeader, Record, decode_control
from kqueue.records.record import decode_records


class EndedTransaction(NamedTuple):
    """An end marker.

    is_needed: batches of its transaction came before it. aborted: the transaction, if it is needed
    and was aborted.
    """

    is_needed: bool
    aborted: AbortedTxn | None = None


class TransactionTracker:
    """Tracks the transactions of a log's batches, which must be passed in order.

    Args: aborted: all aborted transactions that reach into these batches.
    """

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self._upcoming = deque(sorted(aborted, key=lambda one: one.first_offset))
        self._aborted: dict[int, AbortedTxn] = {}
        self._with_batches: set[int] = set()  # producer ids with batches in their open transaction

    def is_aborted(self, header: BatchHeader) -> bool:
        """Return whether a batch of data is part of an aborted transaction."""
        if not header.is_transactional:
            return False
        self._with_batches.add(header.producer_id)
        aborted = self._at(header)
        return aborted is not None and header.base_offset >= aborted.first_offset

    def end(self, header: BatchHeader, kind: int | None) -> EndedTransaction:
        """Add an end marker. `kind` None: its record is gone. Other kinds are always needed."""
        if kind is None:
            return EndedTransaction(False)
        if kind not in (ABORT, COMMIT):
            return EndedTransaction(True)
        aborted = self._at(header)
        is_needed = header.producer_id in self._with_batches
        self._with_batches.discard(header.producer_id)
        return EndedTransaction(is_needed, aborted if is_needed and kind == ABORT else None)

    def _at(self, header: BatchHeader) -> AbortedTxn | None:
        while self._upcoming and self._upcoming[0].first_offset <= header.last_offset:
            started = self._upcoming.popleft()
            self._aborted[started.producer_id] = started
        aborted = self._aborted.get(header.producer_id)
        return aborted if aborted is not None and aborted.last_offset >= header.base_offset else None


class BatchRetentionResult(NamedTuple):
    """The rest of a batch after compaction.

    horizon_ms: the delete horizon that it gets now; None: none, or it has one already.
    aborted: an entry for the index of aborted transactions.
    """

    kept: RetainedRecords
    horizon_ms: int | None = None
    aborted: AbortedTxn | None = None


DROPPED = BatchRetentionResult(NOTHING)


@dataclass(slots=True)
class RetentionRules:
    """The rules of one cleaning; batches must be passed in order.

    offset_map: None: `keep` decides. clean_to: records from this offset on are not cleaned, and
    stay. Other fields: see `CompactionTask`.
    """

    engine: CompactionEngine
    offset_map: OffsetMap | None
    keep: RecordFilter | None
    transactions: TransactionTracker
    last_batches: Mapping[int, int]
    marked_epochs: Mapping[int, int]
    first_dirty: int
    clean_to: int
    start_offset: int
    now_ms: int
    delete_retention_ms: int

    def of_batch(self, header: BatchHeader, records: Callable[[], bytes]) -> BatchRetentionResult:
        """Return what stays of a batch of magic 2.

        Args: records: returns its records, decompressed. Raises CorruptBatch.
        """
        if header.is_control:
            return self._of_marker(header, records)
        is_aborted = self.transactions.is_aborted(header)
        if is_aborted or header.record_count == 0 or header.last_offset < self.start_offset:
            return DROPPED
        horizon_ms = header.delete_horizon_ms
        kept = self._kept(header, records, horizon_ms is None or self.now_ms < horizon_ms)
        if kept.has_tombstones and horizon_ms is None and header.last_offset < self.clean_to:
            return BatchRetentionResult(kept, self.now_ms + self.delete_retention_ms)
        return BatchRetentionResult(kept)

    def _kept(self, header: BatchHeader, records: Callable[[], bytes], keep_tombstones: bool) -> RetainedRecords:
        if self.offset_map is None:
            return self._filtered(header, records())
        if header.codec_id:
            marks = self.offset_map.latest_in(header.base_offset, header.next_offset)
            if marks is not None and 1 not in marks:
                return NOTHING  # without decompressing it
        return self.engine.kept(self.offset_map, records(), header, self.start_offset, keep_tombstones)

    def _filtered(self, header: BatchHeader, data: bytes) -> RetainedRecords:
        assert self.keep is not None
        stay = [record.offset >= self.start_offset and self.keep(record) for record in decode_records(data, header)]
        return pick(data, header, stay)._replace(has_tombstones=False)

    def _of_marker(self, header: BatchHeader, records: Callable[[], bytes]) -> BatchRetentionResult:
        kind = None
        if header.record_count:
            kind, _ = decode_control(next(decode_records(records(), header)))
        ended = self.transactions.end(header, kind)
        is_needed = ended.is_needed or self.marked_epochs.get(header.producer_id) == header.producer_epoch
        horizon_ms = header.delete_horizon_ms
        is_over = horizon_ms is not None and horizon_ms <= self.now_ms
        if kind is None or header.last_offset < self.start_offset or (is_over and not is_needed):
            return DROPPED
        kept = RetainedRecords(header.record_count, records(), header.max_timestamp, False)
        if horizon_ms is None and not is_needed:
            return BatchRetentionResult(kept, self.now_ms + self.delete_retention_ms)
        return BatchRetentionResult(kept, aborted=ended.aborted)

    def of_messages(self, records: list[Record], magic: int) -> list[Record]:
        """Return the records of a message of magic 0 or 1 that stay."""
        records = [record for record in records if record.offset >= self.start_offset]
        if self.keep is not None:
            return [record for record in records if self.keep(record)]
        assert self.offset_map is not None
        latest = self.offset_map.get_all([record.key for record in records])
        return [record for record, offset in zip(records, latest, strict=True) if self._stays(record, offset, magic)]

    def _stays(self, record: Record, latest: int, magic: int) -> bool:
        if record.offset >= self.clean_to:
            return True
        if record.key is None or record.offset < latest:
            return False
        if record.value is not None or record.offset >= self.first_dirty:
            return True
        return magic == 1 and record.timestamp + self.delete_retention_ms > self.now_ms

    def must_stay(self, header: BatchHeader) -> bool:
        """Return whether a batch without records stays, as the last one of a known producer."""
        return header.producer_id >= 0 and self.last_batches.get(header.producer_id) == header.last_offset
