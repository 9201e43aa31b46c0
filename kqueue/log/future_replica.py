"""A future replica: the copy of a log in another data folder, which is to replace it.

The copy follows the log segment by segment, in steps: each copies at most `STEP_BYTES` and syncs
what it wrote. The last step runs while nothing is appended, and makes the folder that of a log
after a clean stop. Bytes are copied as they are, so positions stay valid.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kqueue.base.errors import StorageFailed
from kqueue.log.formats.filenames import (
    EPOCHS,
    INDEX,
    LOG,
    PARTITION_METADATA,
    SNAPSHOT,
    TIMEINDEX,
    TXNINDEX,
    file_name,
    parse_file_name,
)
from kqueue.log.formats.leader_epochs import encode_epochs
from kqueue.log.formats.producer_snapshot import encode_snapshot
from kqueue.log.log import Log
from kqueue.log.recovery.damage import Damage
from kqueue.log.recovery.recovered_log import RecoveredLog, RecoveredSegment
from kqueue.log.segment import Segment
from kqueue.storage import Region, Storage

STEP_BYTES = 8 * 1024 * 1024
CHUNK_BYTES = 1024 * 1024


class _SegmentCopy(NamedTuple):
    """Part of a segment to copy. `regions`: of its log, to write at `position`; `whole`: its other
    files too.
    """

    base: int
    position: int
    regions: Sequence[Region]
    whole: bool

    @property
    def end(self) -> int:
        return self.position + sum(region.size for region in self.regions)


class CopyStep:
    """One step of the copy. `run` may be called in any thread, `FutureReplica.done` then on the
    owner's.
    """

    def __init__(
        self,
        replica: FutureReplica,
        parts: Sequence[_SegmentCopy],
        small_files: dict[str, bytes],
        snapshot_bases: Sequence[int] | None = None,
    ) -> None:
        self.parts = parts
        self.size = sum(region.size for part in parts for region in part.regions)
        self.snapshots: list[int] = []  # those in the folder after the last step
        self.segments = tuple(replica.log.segments)  # a flush that ends later may roll the old log
        self.active_size = replica.log.segments.active.size
        self._source, self._folder = replica.log.storage, replica.log.folder
        self._target, self._path = replica.target, replica.path
        self._small_files = small_files
        self._snapshot_bases = snapshot_bases  # None: not the last step

    def run(self) -> None:
        """Copy. Blocks.

        Durability: what was copied is synced on return; a folder of a complete copy too.
        Raises: StorageFailed: of either folder.
        """
        try:
            for part in self.parts:
                self._copy(part)
            for name, data in self._small_files.items():
                self._write(name, data)
            if self._snapshot_bases is not None:
                self._copy_snapshots(frozenset(self._snapshot_bases))
                self._target.open(f"{self._path}/{PARTITION_METADATA}").sync()
                self._target.sync_folder(self._path)
                self._target.sync_folder("")
        except FileNotFoundError as error:
            raise StorageFailed(f"{self._folder} can't be copied: a file is gone: {error}") from error

    def _copy(self, part: _SegmentCopy) -> None:
        file = self._target.open(f"{self._path}/{file_name(part.base, LOG)}", create=True)
        try:
            if file.size < part.position:
                raise StorageFailed(f"{self._target.location}: {self._path} has lost bytes while it was written")
            if file.size > part.position:
                file.truncate(part.position)
            for region in part.regions:
                file.append(region.read())
            if part.regions:
                file.sync()
        finally:
            file.close()
        for suffix in (INDEX, TIMEINDEX, TXNINDEX) if part.whole else ():
            name = file_name(part.base, suffix)
            if suffix != TXNINDEX or self._source.exists(f"{self._folder}/{name}"):
                self._write(name, self._source.read(f"{self._folder}/{name}"))

    def _copy_snapshots(self, bases: frozenset[int]) -> None:
        for entry in self._source.list(self._folder):
            parsed = parse_file_name(entry.name)
            if parsed is not None and parsed[1] == SNAPSHOT and parsed[0] in bases:
                self._write(entry.name, self._source.read(f"{self._folder}/{entry.name}"))
                self.snapshots.append(parsed[0])
        own = (parse_file_name(name) for name in self._small_files)
        self.snapshots = sorted({*self.snapshots, *(parsed[0] for parsed in own if parsed is not None)})

    def _write(self, name: str, data: bytes) -> None:
        file = self._target.open(f"{self._path}/{name}", create=True)
        try:
            file.truncate(0)
            file.append(data)
            if data:
                file.sync()
        finally:
            file.close()


class FutureReplica:
    """The copy of `log` in the folder `path` of `target`, which exists.

    Attributes: copied_bytes: of batches. copied_offset: all below is copied.
    Thread: owner thread.
    """

    def __init__(self, log: Log, target: Storage, path: str) -> None:
        self.log = log
        self.target = target
        self.path = path
        self.copied_offset = log.segments.base_offset
        self._copied: dict[int, int] = {}  # by base offset of the segment
        self._whole: set[int] = set()

    @property
    def copied_bytes(self) -> int:
        """Bytes of batches that are copied."""
        return sum(self._copied.values())

    @property
    def remaining_bytes(self) -> int:
        """Bytes of batches that are not copied yet."""
        return self.log.segments.size - self.copied_bytes

    def next_step(self, bytes_max: int = STEP_BYTES) -> CopyStep | None:
        """Return the next step, of at most `bytes_max` bytes of batches; None: all is copied that
        the log has now, but for the last step.
        """
        active = self.log.segments.active
        for segment in self.log.segments:
            copied = self._copied.get(segment.base, 0)
            if copied < segment.size or (segment is not active and segment.base not in self._whole):
                part = self._part(segment, bytes_max)
                return CopyStep(self, [part._replace(whole=segment is not active and part.end == segment.size)], {})
        return None

    def last_step(self) -> CopyStep:
        """Return the step that completes the copy. Nothing may be appended until its end.

        Raises: StorageFailed.
        """
        log = self.log
        log.segments.active.finish_timeindex()
        parts = [
            self._part(segment)._replace(whole=True) for segment in log.segments if segment.base not in self._whole
        ]
        small_files = {}
        if log.end_offset > log.segments.base_offset:
            small_files[file_name(log.end_offset, SNAPSHOT)] = encode_snapshot(log.producers)
        if log.epochs.entries():
            small_files[EPOCHS] = encode_epochs(log.epochs)
        return CopyStep(self, parts, small_files, [segment.base for segment in log.segments])

    def done(self, step: CopyStep) -> None:
        """Note that a step has run."""
        segments = list(self.log.segments)
        for part in step.parts:
            self._copied[part.base] = part.end
            if part.whole:
                self._whole.add(part.base)
        for number, segment in enumerate(segments):
            if self._copied.get(segment.base, 0) < segment.size:
                break
            is_last = number + 1 == len(segments)
            self.copied_offset = self.log.end_offset if is_last else segments[number + 1].base

    def recovered(self, step: CopyStep) -> RecoveredLog:
        """Return the state of the log after its last step, to open the copy with."""
        log = self.log
        return RecoveredLog(
            tuple(
                RecoveredSegment(one.base, one.unverified_size, one.checks if one.unverified_size else None)
                for one in step.segments
            ),
            log.pending_start_offset,
            log.end_offset,
            log.epochs,
            log.producers,
            step.snapshots,
            [damage for damage in log.damage if isinstance(damage, Damage)],
            has_tier_start=not log.lacks_start,
        )

    def _part(self, segment: Segment, limit: int | None = None) -> _SegmentCopy:
        begin = self._copied.get(segment.base, 0)
        end = segment.size if limit is None else min(segment.size, begin + limit)
        regions = [
            segment.log.region(position, min(CHUNK_BYTES, end - position))
            for position in range(begin, end, CHUNK_BYTES)
        ]
        return _SegmentCopy(segment.base, begin, regions, False)
