"""Reads a segment from its start, in whatever state it is: the contents of its indexes, producer
state and leader epochs up to its end, and the ranges that hold no valid batch.
"""

from __future__ import annotations

import contextlib

from kqueue.base.errors import CorruptBatch
from kqueue.log.formats.filenames import LOG, file_name
from kqueue.log.formats.leader_epochs import LeaderEpochCache
from kqueue.log.formats.transaction_index import decode_aborted
from kqueue.log.index_builder import IndexBuilder
from kqueue.log.producer_state import ProducerStateManager
from kqueue.log.recovery.damage import Damage
from kqueue.log.recovery.producer_replay import apply_batch
from kqueue.log.recovery.read_verification import DamagedRange, VerificationResult, VerifiedRange
from kqueue.log.scanner.batch_scanner import AnyHeader, CorruptRange, Readable, ScannedBatch, first_offset
from kqueue.log.scanner.header_validation import misplaced_range, validated_batches
from kqueue.log.segment import Segment
from kqueue.records.batch import BatchHeader

_UNKNOWN = -1


class IndexRebuilder:
    """Reads one segment; adds its batches to `producers`, `epochs` and new indexes.

    Args: source: read instead of the segment's file, for a job in another thread.

    end, end_offset: position and offset after the last valid batch.
    damage: ranges that are kept in the log and not served.
    cut: where the log ends before the file does, and why; None: it does not.
    has_gaps: offsets are missing between batches, as compaction leaves them.
    """

    def __init__(
        self,
        segment: Segment,
        folder: str,
        interval_bytes: int,
        producers: ProducerStateManager,
        epochs: LeaderEpochCache,
        source: Readable | None = None,
    ) -> None:
        self.segment = segment
        self.source: Readable = segment.log if source is None else source
        self.size = segment.log.size
        self.name = f"{folder}/{file_name(segment.base, LOG)}"
        self.producers = producers
        self.epochs = epochs
        self.end = 0
        self.end_offset = segment.base
        self.damage: list[Damage] = []
        self.cut: CorruptRange | None = None
        self.has_gaps = False
        self.indexes = IndexBuilder(segment.base, interval_bytes)
        self._damaged_ranges: list[DamagedRange] = []  # `next_offset` -1: not known yet
        # epoch and base offset of the last batch; assigned once the next batch confirms it
        self._epoch: tuple[int, int] | None = None

    def run(self, limit: int | None, *, cut_from: int | None = None, gapless: bool = False) -> None:
        """Read the segment, up to the first damage at `cut_from` or a later offset.

        Args:
            limit: offset at which the next segment begins; None: there is none.
            cut_from: None: damage never ends the log.
            gapless: the offsets have no gaps, so one before the last batch is damage.
        Raises StorageFailed. Thread: any; writes nothing.
        """
        for item in validated_batches(self.source, self.size, self.segment.base, limit=limit, check_epochs=False):
            # Below `cut_from` everything was flushed, so damage there is kept and reported. From it
            # on damage is a torn write, and the log ends.
            ends = cut_from is not None and self.end_offset >= cut_from
            if (
                isinstance(item, ScannedBatch)
                and item.header.magic == 2
                and first_offset(item.header) > self.end_offset
            ):
                # no batch follows the last one that could confirm its offset
                if gapless and not self.has_gaps and item.end == self.size:
                    is_unflushed = cut_from is not None and item.header.last_offset >= cut_from
                    item = misplaced_range(item, self.end_offset) if is_unflushed else item
                self.has_gaps = True
            if isinstance(item, ScannedBatch):
                self._close_damaged(first_offset(item.header))
                self._add(item.position, item.header)
            elif ends:
                self.cut = item
                break
            else:
                self.damage.append(Damage(self.name, item.position, item.expected, item.found))
                damaged = DamagedRange(item.position, item.end, self.end_offset, _UNKNOWN, self.damage[-1])
                self._damaged_ranges.append(damaged)
                self.indexes.resume()
        if limit is not None:
            self._close_damaged(limit)
        self._settle_epoch()

    def _close_damaged(self, next_offset: int) -> None:
        for number in range(len(self._damaged_ranges) - 1, -1, -1):
            damaged = self._damaged_ranges[number]
            if damaged.next_offset != _UNKNOWN:
                break
            self._damaged_ranges[number] = damaged._replace(next_offset=max(next_offset, damaged.offset))

    def mark_verified(self) -> None:
        """Mark the segment's verified and damaged ranges, so that reads do not verify again."""
        if not self._damaged_ranges:
            self.segment.mark_verified()
        elif all(damaged.next_offset != _UNKNOWN for damaged in self._damaged_ranges):
            verified = VerifiedRange(0, self.segment.size, self.end_offset)
            self.segment.checks.add(VerificationResult(verified, tuple(self._damaged_ranges)))

    @property
    def is_whole(self) -> bool:
        """Whether the file holds valid batches only, up to its end."""
        return self.end == self.segment.log.size and not self.damage

    def write_indexes(self) -> None:
        """Replace offset and time index. A log that is to be cut must have been cut before.

        Raises StorageFailed.
        """
        segment = self.segment
        if self.end == segment.log.size:
            segment.replace_indexes(bytes(self.indexes.offset_index), bytes(self.indexes.time_index))
            segment.seal()
            return
        self.indexes.finish()
        segment.index.entries.replace(bytes(self.indexes.offset_index))
        segment.timeindex.replace(bytes(self.indexes.time_index))

    def write_transactions(self) -> None:
        """Replace the index of aborted transactions; `producers` must have held the state before
        the segment. Raises StorageFailed.
        """
        self.segment.txnindex.clear()
        for aborted in decode_aborted(self.indexes.transaction_index):
            self.segment.txnindex.append(aborted)

    def _add(self, position: int, header: AnyHeader) -> None:
        self.indexes.add(position, header.last_offset, header.max_timestamp)
        with contextlib.suppress(CorruptBatch):  # the checksum is right, so it was written like this
            aborted = apply_batch(self.producers, self.source, position, header)
            if aborted is not None:
                self.indexes.add_aborted(aborted)
        self._note_epoch(header)
        self.end = position + header.size
        self.end_offset = header.last_offset + 1

    def _note_epoch(self, header: AnyHeader) -> None:
        """Epochs never fall, and no checksum covers them: where one falls, the batch before it is
        wrong.
        """
        if not isinstance(header, BatchHeader):
            return
        if self._epoch is not None and self.epochs.latest <= header.leader_epoch < self._epoch[0]:
            wrong, offset = self._epoch
            expected = f"a leader epoch of {header.leader_epoch} at most in the batch of offset {offset}"
            self.damage.append(Damage(self.name, None, expected, str(wrong)))
            self._epoch = None
        self._settle_epoch()
        self._epoch = header.leader_epoch, header.base_offset

    def _settle_epoch(self) -> None:
        if self._epoch is not None and self._epoch[0] > self.epochs.latest:
            self.epochs.assign(*self._epoch)
        self._epoch = None
