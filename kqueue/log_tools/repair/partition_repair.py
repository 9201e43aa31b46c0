"""Repairs one partition: removes damaged ranges, then rebuilds the files that derive from batches.

Every step is durable before the next. Valid files stay even if they know more than what remains of
the log, such as a snapshot or an index of aborted transactions.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from kqueue.base.errors import CorruptIndex, StorageFailed, TooManyOpenFiles
from kqueue.base.names import parse_partition_folder
from kqueue.log.formats.checkpoints import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, decode_partition_metadata
from kqueue.log.formats.filenames import (
    EPOCHS,
    INDEX,
    LOG,
    PARTITION_METADATA,
    SEGMENT_SUFFIXES,
    SNAPSHOT,
    TIMEINDEX,
    TXNINDEX,
    file_name,
    parse_file_name,
)
from kqueue.log.formats.leader_epochs import LeaderEpochCache, decode_epochs
from kqueue.log_tools.repair.index_rebuild import IndexRebuild
from kqueue.log_tools.repair.log_rewrite import LogRewrite, LostRange, apply_rewrite, plan_rewrite
from kqueue.log_tools.repaired_gaps import GAPS, decode_gaps, encode_gaps
from kqueue.log_tools.verify.data_folder import DataFolderState
from kqueue.log_tools.verify.partition import PartitionVerifier
from kqueue.log_tools.verify.report import VerificationReport
from kqueue.storage import Storage

ROUNDS_MAX = 5


class RepairAction(NamedTuple):
    """A change of one file."""

    file: str
    what: str


@dataclass(slots=True)
class PartitionRepairResult:
    """The result for one partition. `lost`: removed byte ranges; `done`: all changes."""

    lost: list[LostRange] = field(default_factory=list)
    done: list[RepairAction] = field(default_factory=list)


class PartitionRepair:
    """Plans or performs the repair of one partition.

    Raises: StorageFailed, FileNotFoundError: a file cannot be read or written.
    """

    def __init__(self, storage: Storage, folder: str, data: DataFolderState, *, deep: bool, allow_gaps: bool) -> None:
        self.storage = storage
        self.folder = folder
        self.data = data
        self.deep = deep
        self.known = data.known(folder, allow_gaps=allow_gaps)
        self.key = parse_partition_folder(folder) or (folder, 0)
        self.result = PartitionRepairResult()

    def plan(self) -> PartitionRepairResult:
        """Return what `repair` would do to the logs; only reads."""
        cuts, end = self._plan()
        for cut in cuts:
            self._report(cut)
        if end is not None:
            self.result.done.append(
                RepairAction(
                    self._path(file_name(end, LOG)),
                    "would be created, empty: the log is known to have reached this offset",
                )
            )
        return self.result

    def repair(self) -> PartitionRepairResult:
        """Repair the folder.

        Durability: after a crash the finished steps stay, and the next repair resumes.
        """
        for _ in range(ROUNDS_MAX):  # a batch is validated by its neighbours, which a removal changes
            cuts, end = self._plan()
            if end is not None:
                self._begin_at(end)
            for cut in cuts:
                if cut.is_needed:
                    apply_rewrite(self.storage, self.folder, cut)
                    self._report(cut)
            if not any(cut.is_needed for cut in cuts):
                break
        self._remove_orphans()
        self._note_gaps()
        self._rebuild()
        self.storage.sync_folder(self.folder)
        return self.result

    def is_too_short(self) -> bool:
        """Return whether the log ends before both checkpoints.

        False if that cannot be determined.
        """
        try:
            return self._known_end() > 0 and self._plan()[1] is not None
        except (StorageFailed, FileNotFoundError):
            return False

    def _path(self, name: str) -> str:
        return f"{self.folder}/{name}"

    def _names(self) -> set[str]:
        return {entry.name for entry in self.storage.list(self.folder) if not entry.is_folder}

    def _bases(self) -> list[int]:
        return sorted(parsed[0] for name in self._names() if (parsed := parse_file_name(name)) and parsed[1] == LOG)

    # --- logs

    def _plan(self) -> tuple[list[LogRewrite], int | None]:
        """Return the change of each log file, and the base of an empty segment that must follow.

        The empty segment prevents that offsets are assigned twice; None: it is not needed.
        """
        bases, epochs = self._bases(), self._epochs()
        cuts: list[LogRewrite] = []
        first = bases[0] if bases else 0
        for base, limit in pairwise((*bases, None)):
            assert base is not None
            cuts.append(
                plan_rewrite(self.storage, self.folder, base, limit, max(first, base), epochs=epochs, deep=self.deep)
            )
            first = max(cuts[-1].end_offset, base)
        end = self._known_end()
        if end <= first:
            return cuts, None
        if bases and cuts[-1].is_needed:
            start = max(cuts[-2].end_offset, bases[-1]) if len(cuts) > 1 else bases[-1]
            cuts[-1] = plan_rewrite(self.storage, self.folder, bases[-1], end, start, epochs=epochs, deep=self.deep)
        return cuts, end

    def _epochs(self) -> LeaderEpochCache | None:
        with contextlib.suppress(FileNotFoundError, CorruptIndex):
            return decode_epochs(self.storage.read(self._path(EPOCHS)))
        return None

    def _known_end(self) -> int:
        """Return the end offset that both checkpoints confirm.

        A single checkpoint may be damaged itself.
        """
        offsets = self.data.offsets
        return min(offsets[RECOVERY_POINTS].get(self.key, 0), offsets[HIGH_WATERMARKS].get(self.key, 0))

    def _begin_at(self, offset: int) -> None:
        for suffix in (INDEX, TIMEINDEX, LOG):
            file = self.storage.open(self._path(file_name(offset, suffix)), create=True)
            file.sync()
            file.close()
        self.storage.sync_folder(self.folder)
        self._did(
            file_name(offset, LOG),
            "created, empty: the log is known to have reached this offset, and no offset may be assigned twice",
        )

    def _report(self, cut: LogRewrite) -> None:
        name = file_name(cut.base, LOG)
        if cut.lost:
            self.result.lost += cut.lost
            self._did(name, f"{sum(lost.size for lost in cut.lost)} bytes removed")
        for position, stamp in cut.header_fixes.items():
            self._did(
                name,
                f"base offset {stamp.base_offset} and leader epoch {stamp.leader_epoch}"
                f" corrected at position {position}",
            )

    def _did(self, name: str, what: str) -> None:
        self.result.done.append(RepairAction(self._path(name), what))

    # --- what belongs to them

    def _remove_orphans(self) -> None:
        names = self._names()
        for name in sorted(names):
            parsed = parse_file_name(name)
            if parsed and parsed[1] in SEGMENT_SUFFIXES and file_name(parsed[0], LOG) not in names:
                self._remove(name, "removed: it has no log file")

    def _remove(self, name: str, what: str) -> None:
        self.storage.remove(self._path(name))
        self._did(name, what)

    def _check(self) -> tuple[PartitionVerifier, list[str]]:
        """Verify the partition; return the verifier and the names of wrong files."""
        report = VerificationReport(self.folder)
        check = PartitionVerifier(self.storage, self.folder, report, self.known, deep=self.deep)
        check.run()
        return check, sorted({finding.file.rpartition("/")[2] for finding in report.errors})

    def _note_gaps(self) -> None:
        """Record the missing offsets, so that later checks do not report them as a new loss."""
        check, _ = self._check()
        if check.compacted or not check.gaps:
            return
        known: list[tuple[int, int]] = []
        if GAPS in self._names():
            with contextlib.suppress(CorruptIndex):
                known = decode_gaps(self.storage.read(self._path(GAPS)))
        missing = [gap for gap in check.gaps if not any(first <= gap[0] and gap[1] <= end for first, end in known)]
        if missing:
            self.storage.write_atomic(self._path(GAPS), encode_gaps([*known, *missing]))
            ranges = ", ".join(f"{first} to {end - 1}" for first, end in missing)
            self._did(GAPS, f"offsets {ranges} recorded as lost")

    def _rebuild(self) -> None:
        _, wrong = self._check()
        wanted = [name for name in wrong if name.endswith((INDEX, TIMEINDEX, TXNINDEX, SNAPSHOT)) or name == EPOCHS]
        if wanted:
            bases = self._bases()
            # A checkpointed start below the first segment is that of a log with a remote tier.
            log_start = self.data.offsets[LOG_STARTS].get(self.key, bases[0] if bases else 0)
            rebuild = IndexRebuild(self.storage, self.folder, bases, wanted, log_start)
            rebuild.run()
            for name in wanted:
                self._put(name, rebuild.files.get(name))
        if PARTITION_METADATA in wrong:
            self._mend_topic_id()
        if GAPS in wrong:
            self._remove(GAPS, "removed: it cannot be read")

    def _put(self, name: str, data: bytes | None) -> None:
        """Write a rebuilt file; remove a snapshot or transaction index that would be empty."""
        if data is None or (not data and name.endswith(TXNINDEX)):
            if name in self._names():
                self._remove(name, "removed: the log has nothing to store in it")
            return
        self.storage.write_atomic(self._path(name), data)
        self._did(name, "rebuilt")

    def _mend_topic_id(self) -> None:
        """Copy the topic id from another partition.

        Without one, remove the file: a broker writes it again.
        """
        for (topic, _), folder in sorted(self.data.partitions.items()):
            if topic != self.key[0] or folder == self.folder:
                continue
            try:
                data = self.storage.read(f"{folder}/{PARTITION_METADATA}")
                decode_partition_metadata(data)
            except TooManyOpenFiles:
                raise
            except (FileNotFoundError, CorruptIndex, StorageFailed):
                continue
            self.storage.write_atomic(self._path(PARTITION_METADATA), data)
            self._did(PARTITION_METADATA, f"rebuilt, with the topic id that {folder} has")
            return
        self._remove(PARTITION_METADATA, "removed: the broker knows the topic's id and writes it again")
