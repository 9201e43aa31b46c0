"""A segment read from its start, whatever state it is in: what its indexes must hold, and which of
its bytes are no batches.
"""

from __future__ import annotations

import contextlib

from kqueue.base.errors import CorruptBatch
from kqueue.log.formats.filenames import LOG, file_name
from kqueue.log.formats.leader_epochs import LeaderEpochCache
from kqueue.log.formats.offset_index import ENTRY as INDEX_ENTRY
from kqueue.log.formats.time_index import ENTRY as TIME_ENTRY
from kqueue.log.formats.time_index import NO_TIMESTAMP
from kqueue.log.formats.transaction_index import AbortedTxn
from kqueue.log.producer_state import ProducerStateManager
from kqueue.log.recovery.damage import Damage
from kqueue.log.recovery.producer_replay import apply_batch
from kqueue.log.recovery.read_verification import DamagedRange, VerificationResult, VerifiedRange
from kqueue.log.scanner.batch_scanner import AnyHeader, CorruptRange, Readable, ScannedBatch, first_offset
from kqueue.log.scanner.header_validation import misplaced_range, validated_batches
from kqueue.log.segment import Segment
from kqueue.records.batch import BatchHeader


class IndexRebuilder:
    """One segment's reading: counts its batches for `producers` and `epochs`, and gathers the
    entries of its indexes.

    `end`, `end_offset`: where the last whole batch ends; `damage`: what was found broken and is
    kept; `cut`: where the log ends before the file does, and why, None: it does not; `has_gaps`:
    offsets are missing between batches, as compaction leaves it. `run` touches nothing but the
    file, for which `source` may stand in.
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
        self.interval_bytes = interval_bytes
        self.producers = producers
        self.epochs = epochs
        self.end = 0
        self.end_offset = segment.base
        self.damage: list[Damage] = []
        self.cut: CorruptRange | None = None
        self.has_gaps = False
        self.aborted: list[AbortedTxn] = []
        self._index = bytearray()
        self._times = bytearray()
        self._hurts: list[DamagedRange] = []  # `next_offset` -1: what follows is not known yet
        self._resumed = False
        self._epoch: tuple[int, int] | None = (
            None  # of the last batch, and where that begins; counted once the next one bears it out
        )
        self._last_entry = 0
        self._max_timestamp = self._indexed_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = segment.base

    def run(self, limit: int | None, *, cut_from: int | None = None, gapless: bool = False) -> None:
        """Read it all, or up to the first damage at `cut_from` or a later offset (None: damage
        never ends it).

        `gapless`: if no offset is missing up to the last batch, none is missing before that one.
        Raises StorageFailed.
        """
        for found in validated_batches(self.source, self.size, self.segment.base, limit=limit, judges_epochs=False):
            ends = cut_from is not None and self.end_offset >= cut_from
            if (
                isinstance(found, ScannedBatch)
                and found.header.magic == 2
                and first_offset(found.header) > self.end_offset
            ):
                # the last batch has none behind it to bear its offset out
                is_last = found.position + found.header.size == self.size
                if (
                    gapless
                    and is_last
                    and not self.has_gaps
                    and cut_from is not None
                    and found.header.last_offset >= cut_from
                ):
                    found = misplaced_range(found, self.end_offset)
                self.has_gaps = True
            if isinstance(found, ScannedBatch):
                self._close_hurts(first_offset(found.header))
                self._count(found.position, found.header)
            elif ends:
                self.cut = found
                break
            else:
                self.damage.append(Damage(self.name, found.position, found.expected, found.found))
                self._hurts.append(DamagedRange(found.position, found.end, self.end_offset, -1, self.damage[-1]))
                self._resumed = True
        if limit is not None:
            self._close_hurts(limit)
        self._settle_epoch()

    def _close_hurts(self, next_offset: int) -> None:
        for number in range(len(self._hurts) - 1, -1, -1):
            hurt = self._hurts[number]
            if hurt.next_offset >= 0:
                break
            self._hurts[number] = hurt._replace(next_offset=max(next_offset, hurt.offset))

    def tell_reads(self) -> None:
        """Let readers know which bytes are right and which are not, as far as that is known; so
        they are not looked at once more.
        """
        if not self._hurts:
            self.segment.mark_verified()
        elif all(hurt.next_offset >= 0 for hurt in self._hurts):
            self.segment.checks.add(
                VerificationResult(VerifiedRange(0, self.segment.size, self.end_offset), tuple(self._hurts))
            )

    @property
    def is_whole(self) -> bool:
        """Whether nothing but batches stands there, up to the end."""
        return self.end == self.segment.log.size and not self.damage

    def write_indexes(self) -> None:
        """Put the entries in place of those that are there; the log must have been cut, if it was
        to be. Raises StorageFailed.
        """
        segment = self.segment
        if self.end == segment.log.size:
            segment.replace_indexes(bytes(self._index), bytes(self._times))
            segment.seal()
            return
        if self._max_timestamp > self._indexed_timestamp:
            self._times += TIME_ENTRY.pack(self._max_timestamp, self._max_timestamp_offset - segment.base)
        segment.index.entries.replace(bytes(self._index))
        segment.timeindex.replace(bytes(self._times))

    def write_transactions(self) -> None:
        """The same for the index of aborted transactions, where all before was counted too. Raises
        StorageFailed.
        """
        self.segment.txnindex.clear()
        for aborted in self.aborted:
            self.segment.txnindex.append(aborted)

    def _count(self, position: int, unit: AnyHeader) -> None:
        base = self.segment.base
        if unit.max_timestamp > self._max_timestamp:
            self._max_timestamp, self._max_timestamp_offset = unit.max_timestamp, unit.last_offset
        if self._resumed or position - self._last_entry > self.interval_bytes:
            # one behind damage, so that nobody has to read through it
            self._index += INDEX_ENTRY.pack(unit.last_offset - base, position)
            if self._max_timestamp > self._indexed_timestamp:
                self._times += TIME_ENTRY.pack(self._max_timestamp, self._max_timestamp_offset - base)
                self._indexed_timestamp = self._max_timestamp
            self._last_entry = position
            self._resumed = False
        with contextlib.suppress(CorruptBatch):  # its checksum is right: so it was written
            aborted = apply_batch(self.producers, self.source, position, unit)
            if aborted is not None:
                self.aborted.append(aborted)
        self._note_epoch(position, unit)
        self.end = position + unit.size
        self.end_offset = unit.last_offset + 1

    def _note_epoch(self, position: int, unit: AnyHeader) -> None:
        """Epochs never fall, and lie outside of the checksum: where they do, it is the batch before
        that is wrong.
        """
        if not isinstance(unit, BatchHeader):
            return
        if self._epoch is not None and unit.leader_epoch < self._epoch[0] and unit.leader_epoch >= self.epochs.latest:
            wrong, offset = self._epoch
            expected = f"a leader epoch of {unit.leader_epoch} at most in the batch of offset {offset}"
            self.damage.append(Damage(self.name, None, expected, str(wrong)))
            self._epoch = None
        self._settle_epoch()
        self._epoch = unit.leader_epoch, unit.base_offset

    def _settle_epoch(self) -> None:
        if self._epoch is not None and self._epoch[0] > self.epochs.latest:
            self.epochs.assign(*self._epoch)
        self._epoch = None
