"""Verifies the files of one partition folder against each other, in one pass.

The batches are verified by their checksums; all other files are verified against the batches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from kqueue.base.errors import CorruptBatch, CorruptIndex, StorageFailed
from kqueue.base.names import INTERNAL_TOPICS, parse_partition_folder
from kqueue.log.formats.checkpoints import decode_partition_metadata
from kqueue.log.formats.filenames import (
    EPOCHS,
    INDEX,
    LOG,
    PARTITION_METADATA,
    SNAPSHOT,
    SWAP,
    TIMEINDEX,
    TXNINDEX,
    file_name,
)
from kqueue.log.formats.leader_epochs import LeaderEpochCache, decode_epochs
from kqueue.log.formats.producer_snapshot import decode_snapshot
from kqueue.log.formats.transaction_index import ENTRY as TXN_ENTRY
from kqueue.log.formats.transaction_index import AbortedTxn, decode_aborted
from kqueue.log.producer_state import ProducerStateManager
from kqueue.log.recovery.producer_replay import apply_batch
from kqueue.log.scanner.batch_scanner import CorruptRange, ScannedBatch
from kqueue.log.scanner.header_validation import validated_batches
from kqueue.log_tools.repaired_gaps import GAPS, decode_gaps
from kqueue.log_tools.segments import is_zero
from kqueue.log_tools.verify.indexes import OffsetIndexVerifier, TimeIndexVerifier
from kqueue.log_tools.verify.partition_files import PartitionFiles, list_files
from kqueue.log_tools.verify.report import ERROR, NOTE, Finding, VerificationReport
from kqueue.log_tools.verify.state import producer_differences, transaction_differences
from kqueue.records.batch import DELETE_HORIZON, BatchHeader
from kqueue.storage import File, Storage

STATE_BYTES_MAX = 256 * 1024 * 1024  # far above any snapshot, checkpoint or transaction index


@dataclass(frozen=True, slots=True)
class CheckpointedState:
    """The state of a partition by the data folder's checkpoints.

    `clean`: the last shutdown was clean; otherwise only data below `recovery_point` is known to be
    flushed. `log_start`: None: unknown. `cleaned`: the log was compacted, so offset gaps are
    expected.
    """

    clean: bool = True
    recovery_point: int = 0
    log_start: int | None = None
    cleaned: bool = False


class LogRange(NamedTuple):
    """The offsets of a log: the first one, and its end (exclusive)."""

    first_offset: int
    end_offset: int


class PartitionVerifier:
    """Verifies one partition; call `run` once.

    Findings go to `report`; `progress` receives the bytes of log that were read. Nothing is
    written.
    """

    def __init__(
        self,
        storage: Storage,
        folder: str,
        report: VerificationReport,
        known: CheckpointedState,
        *,
        deep: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self.storage = storage
        self.folder = folder
        self.report = report
        self.known = known
        self.deep = deep
        self.progress = progress or (lambda count: None)
        named = parse_partition_folder(folder.rpartition("/")[2])
        self.compacted = known.cleaned or (named is not None and named[0] in INTERNAL_TOPICS)
        self.producers = ProducerStateManager()
        self.whole = True  # all batches that the log ever had were applied
        self.damaged = False  # batches are missing, so files that derive from them cannot be verified
        self.epochs: LeaderEpochCache | None = None
        self.gaps: list[tuple[int, int]] = []  # first missing offset, next existing offset
        self._if_not_compacted: list[Finding] = []
        self._snapshots: dict[int, ProducerStateManager] = {}
        self._aborted: list[AbortedTxn] = []

    def run(self) -> LogRange | None:
        """Verify the partition. Returns: its offsets, None if there is no log.

        Raises: StorageFailed: the folder cannot be listed.
        """
        listed = list_files(self.storage, self.folder, self._find, is_clean=self.known.clean)
        self.compacted = self.compacted or listed.swapping
        self.report.partitions += 1
        bases = sorted(base for base, files in listed.segments.items() if LOG in files)
        self._read_gaps(listed)
        self._read_epochs(listed)
        self._read_snapshots(listed)
        if not bases:
            self._find("", None, "a log", "no segment", NOTE)
            return None
        self._begin_at(bases[0])
        end_offset = bases[0]
        for base, following in zip(bases, [*bases[1:], None], strict=True):
            end_offset = self._segment(base, following, listed, end_offset)
        self._snapshots_up_to(end_offset)
        self._beyond_the_end(end_offset)
        self._read_topic_id(listed)
        if not self.compacted:
            for finding in self._if_not_compacted:
                self.report.add(finding)
        return LogRange(bases[0], end_offset)

    # --- what there is

    def _path(self, name: str) -> str:
        return f"{self.folder}/{name}" if self.folder else name

    def _find(self, name: str, position: int | None, expected: str, found: str, severity: str = ERROR) -> None:
        self.report.add(Finding(self._path(name).rstrip("/") or ".", position, expected, found, severity))

    def _read(self, name: str) -> bytes | None:
        """Return a small file; None: it cannot be read, which is reported."""
        try:
            file = self.storage.open(self._path(name))
            if file.size > STATE_BYTES_MAX:
                self._find(name, None, f"at most {STATE_BYTES_MAX} bytes", f"{file.size}")
                return None
            return file.read_at(0, file.size)
        except (StorageFailed, FileNotFoundError) as error:
            self._unreadable(name, error)
            return None

    def _unless_at_work(self, offset: int) -> str:
        """Return the severity of an incomplete file for `offset`.

        It is NOTE if a broker may not have flushed the file yet.
        """
        return ERROR if self.known.clean or offset < self.known.recovery_point else NOTE

    def _unreadable(self, name: str, error: Exception) -> None:
        """Report a listed file that cannot be read.

        NOTE if a running broker may have deleted it.
        """
        gone = isinstance(error, FileNotFoundError) and not self.known.clean
        self._find(name, None, "a file that can be read", str(error), NOTE if gone else ERROR)

    def _read_gaps(self, listed: PartitionFiles) -> None:
        self._gaps: set[tuple[int, int]] = set()
        if GAPS in listed.names and (data := self._read(GAPS)) is not None:
            try:
                self._gaps = set(decode_gaps(data))
            except CorruptIndex as error:
                self._find(GAPS, None, "a list of gaps", str(error))

    def _read_epochs(self, listed: PartitionFiles) -> None:
        if EPOCHS in listed.names and (data := self._read(EPOCHS)) is not None:
            try:
                self.epochs = decode_epochs(data)
            except CorruptIndex as error:
                self._find(EPOCHS, None, "a list of leader epochs", str(error))
        self._epochs_missing = EPOCHS not in listed.names

    def _read_snapshots(self, listed: PartitionFiles) -> None:
        for offset in sorted(listed.snapshots):
            name = file_name(offset, SNAPSHOT)
            data = self._read(name)
            try:
                if data is not None:
                    self._snapshots[offset] = decode_snapshot(data, offset)
            except CorruptIndex as error:
                self._find(name, None, "a producer snapshot", str(error), self._unless_at_work(offset))

    def _read_topic_id(self, listed: PartitionFiles) -> None:
        if PARTITION_METADATA in listed.names and (data := self._read(PARTITION_METADATA)) is not None:
            try:
                decode_partition_metadata(data)
            except CorruptIndex as error:
                self._find(PARTITION_METADATA, None, "the id of a topic", str(error))

    # --- segments

    def _begin_at(self, base: int) -> None:
        """Begin at `base`.

        A log that does not begin at 0 takes its producer state from the snapshot there.
        """
        for offset in [offset for offset in self._snapshots if offset < base]:
            del self._snapshots[offset]  # its segment was deleted, so it cannot be verified
        snapshot = self._snapshots.pop(base, None)
        if snapshot is not None:
            self.producers = snapshot
        self.producers.end_offset = base
        self.whole = base == 0

    def _segment(self, base: int, following: int | None, listed: PartitionFiles, end_offset: int) -> int:
        """Verify one segment; return the offset at which it ends."""
        self.report.segments += 1
        name, files = file_name(base, LOG), listed.segments[base]
        if base > end_offset:
            self._gap(name, None, end_offset, base)
        one = _SegmentPass(self, base, following, files, listed)
        try:
            end = one.run(max(base, end_offset))
        except (StorageFailed, FileNotFoundError) as error:
            self._unreadable(name, error)
            self.damaged = True
            return following if following is not None else base
        self._transactions(base, TXNINDEX in files)
        return end

    def _gap(self, name: str, position: int | None, start: int, end: int) -> None:
        """Report that the offsets from `start` to `end` (exclusive) are missing."""
        self.gaps.append((start, end))
        if any(first <= start and end <= last for first, last in self._gaps):
            self.damaged = True  # state files may know more than what remains of the log
            self._find(
                name,
                position,
                "offsets without a gap",
                f"none from {start} to {end - 1}, which are known to be lost",
                NOTE,
            )
            return
        finding = Finding(self._path(name), position, f"offset {start}", f"{end}: {end - start} offsets are missing")
        self._if_not_compacted.append(finding)

    def _loose(self, name: str) -> Callable[[int | None, str, str], None]:
        def note(position: int | None, expected: str, what: str) -> None:
            self._if_not_compacted.append(Finding(self._path(name), position, expected, what))

        return note

    def _transactions(self, base: int, is_there: bool) -> None:
        """Verify a segment's transaction index against the transactions that ended in it."""
        name, shown, self._aborted = file_name(base, TXNINDEX), self._aborted, []
        said: list[AbortedTxn] = []
        if is_there:
            data = self._read(name)
            if data is None:
                return
            try:
                said = list(decode_aborted(data))
            except CorruptIndex as error:
                self._find(name, None, "an index of aborted transactions", str(error))
                return
        if self.damaged:
            return
        for number, expected, found in transaction_differences(said, shown, whole=self.whole, compacted=self.compacted):
            self._find(
                name,
                None if number is None else number * TXN_ENTRY.size,
                expected,
                found if is_there else "no such file",
            )

    # --- what follows from the batches

    def count(self, file: File, whole: ScannedBatch, name: str) -> None:
        """Apply a batch to the state of producers, transactions and leader epochs."""
        unit = whole.header
        self.report.batches += 1
        self.report.records += whole.record_count
        if whole.note:
            self._find(name, whole.position, "records as their header says", whole.note, NOTE)
        if not isinstance(unit, BatchHeader):
            return
        if unit.record_count != unit.last_offset_delta + 1 or unit.attributes & DELETE_HORIZON:
            self.compacted = True
        self._snapshots_up_to(unit.base_offset)
        if unit.producer_id >= 0:
            try:
                aborted = apply_batch(self.producers, file, whole.position, unit)
            except CorruptBatch as error:
                self._find(name, whole.position, "a control batch", str(error))
                self.damaged = True
                return
            if aborted is not None:
                self._aborted.append(aborted)
        self._epoch(name, whole.position, unit)

    def _epoch(self, name: str, position: int, unit: BatchHeader) -> None:
        if unit.leader_epoch < 0:
            return
        severity = self._unless_at_work(unit.base_offset)
        if self._epochs_missing:
            self._epochs_missing = False
            expected = f"epoch {unit.leader_epoch}, which a batch at offset {unit.base_offset} has"
            self._find(EPOCHS, None, expected, "no such file", severity)
        if self.epochs is None:
            return
        said = self.epochs.epoch_at(unit.base_offset)
        if said == unit.leader_epoch or (said < 0 and unit.base_offset < self._log_start()):
            return
        expected = f"epoch {unit.leader_epoch} at offset {unit.base_offset}, as in {name} at position {position}"
        self._find(EPOCHS, None, expected, str(said), severity)

    def _log_start(self) -> int:
        """Return the offset below which leader epochs may be missing."""
        if self.known.log_start is not None and self.known.clean:  # a running broker advances it
            return self.known.log_start
        entries = self.epochs.entries() if self.epochs is not None else []
        return entries[0][1] if entries else 0

    def _snapshots_up_to(self, offset: int) -> None:
        """Compare the snapshots at or before `offset`; all batches below it have been applied."""
        while self._snapshots and (at := next(iter(self._snapshots))) <= offset:
            snapshot = self._snapshots.pop(at)
            if self.damaged or self.compacted:
                continue
            for expected, found in producer_differences(snapshot, self.producers, whole=self.whole):
                self._find(file_name(at, SNAPSHOT), None, expected, found)

    def _beyond_the_end(self, end_offset: int) -> None:
        severity = ERROR if self.known.clean else NOTE
        for offset in self._snapshots:
            self._find(
                file_name(offset, SNAPSHOT), None, f"an offset up to the log's end, {end_offset}", str(offset), severity
            )
        for epoch, start in self.epochs.entries() if self.epochs is not None else ():
            if start > end_offset:
                self._find(
                    EPOCHS,
                    None,
                    f"offsets up to the log's end, {end_offset}",
                    f"epoch {epoch} from {start} on",
                    severity,
                )


class _SegmentPass:
    """Verifies one segment's log file together with its two indexes, in one pass."""

    def __init__(
        self,
        partition: PartitionVerifier,
        base: int,
        following: int | None,
        files: dict[str, int],
        listed: PartitionFiles,
    ) -> None:
        self.partition = partition
        self.base = base
        self.following = following
        self.size = 0
        self.name = file_name(base, LOG)
        self.lenient = following is None and not partition.known.clean  # a broker runs, or crashed
        self.files = files
        self.listed = listed

    def run(self, expected: int) -> int:
        """Verify the segment; return the offset at which it ends.

        Raises: StorageFailed, FileNotFoundError.
        """
        partition = self.partition
        index = OffsetIndexVerifier(
            self._entries(INDEX), self.base, self._finder(INDEX), partition._loose(file_name(self.base, INDEX))
        )
        times = TimeIndexVerifier(self._entries(TIMEINDEX), self.base, self._finder(TIMEINDEX))
        self._padding(INDEX, index.padded)
        self._padding(TIMEINDEX, times.padded)
        file = partition.storage.open(
            partition._path(self.name)
        )  # opened after its indexes, which then never exceed it
        self.size = file.size
        after_damage = False
        for one in validated_batches(
            file,
            self.size,
            self.base,
            limit=self.following,
            first=expected,
            epochs=partition.epochs,
            deep=partition.deep,
        ):
            if isinstance(one, CorruptRange):
                after_damage = not self._broken(file, one)
                index.skip(one.end)
                times.skip()
                expected = one.next_offset or expected
                continue
            unit = one.header
            if one.first_offset is not None and one.first_offset > expected and not after_damage:
                partition._gap(self.name, one.position, expected, one.first_offset)
            after_damage = False
            expected = unit.last_offset + 1
            index.batch(one.position, unit.last_offset)
            times.batch(
                unit.last_offset if one.first_offset is None else one.first_offset, unit.last_offset, unit.max_timestamp
            )
            partition.count(file, one, self.name)
            partition.report.bytes += unit.size
            partition.progress(unit.size)
        file.close()
        index.close(self.size)
        times.close(expected - 1, sealed=not self.lenient and TIMEINDEX in self.files)
        return expected

    def _broken(self, file: File, one: CorruptRange) -> bool:
        """Report damaged bytes.

        Returns: True if they are the incomplete end that a running broker or a crash
        leaves.
        """
        partition = self.partition
        tail = one.end == self.size and self.following is None and one.fix is None
        if tail and is_zero(file, one.position, one.end):
            what, unfinished = f"{one.end - one.position} zero bytes, allocated beforehand", True
        else:
            what, unfinished = one.found, one.is_truncated
        if tail and unfinished and self.lenient:
            partition._find(self.name, one.position, one.expected, f"{what}; the next start cuts them off", NOTE)
            return True
        partition.damaged = True
        lost = f" ({one.end - one.position} bytes)" if one.fix is None else " (the checksum is right)"
        partition._find(self.name, one.position, one.expected, what + lost)
        return False

    def _entries(self, suffix: str) -> memoryview:
        name = file_name(self.base, suffix)
        if suffix not in self.files:
            if name + SWAP not in self.listed.names:
                self.partition._find(name, None, "an index", "no such file", NOTE if self.lenient else ERROR)
            return memoryview(b"")
        try:
            return memoryview(self.partition.storage.read(self.partition._path(name)))
        except (StorageFailed, FileNotFoundError) as error:
            self.partition._unreadable(name, error)
            return memoryview(b"")

    def _finder(self, suffix: str) -> Callable[[int | None, str, str], None]:
        name = file_name(self.base, suffix)
        return lambda position, expected, found: self.partition._find(name, position, expected, found)

    def _padding(self, suffix: str, count: int) -> None:
        if count:
            what = f"{count} empty ones after them" + ("; the next start cuts them off" if self.lenient else "")
            self.partition._find(
                file_name(self.base, suffix), None, "entries only", what, NOTE if self.lenient else ERROR
            )
