"""A log that was recovered elsewhere: what a process or thread found, to open the log with.

`RecoveredLog.of` takes the state out of a `LoadedLog`, without its files, so that it can be sent
between processes. `load` opens the same log from it and reads only the end of the last segment.
Both give the state that recovery in place gives: producers with their last five batches, leader
epochs, and which bytes are verified.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kqueue.base.errors import CorruptData, StorageFailed
from kqueue.log.config import LogConfig
from kqueue.log.formats.checkpoints import LogCheckpoint
from kqueue.log.formats.leader_epochs import LeaderEpochCache
from kqueue.log.producer_state import ProducerStateManager
from kqueue.log.recovery.damage import Damage
from kqueue.log.recovery.log_loader import LoadedLog, load_log
from kqueue.log.recovery.read_verification import SegmentVerification
from kqueue.log.segment import Segment
from kqueue.storage import Storage


class RecoveredSegment(NamedTuple):
    """The state of one segment as recovery found it. verification: None: all its bytes are
    verified.
    """

    base: int
    unverified_size: int
    verification: SegmentVerification | None


@dataclass(frozen=True, slots=True)
class RecoveredLog:
    """State of a recovered log; see `LoadedLog`. Valid until the log's files change."""

    segments: tuple[RecoveredSegment, ...]
    start_offset: int
    end_offset: int
    epochs: LeaderEpochCache
    producers: ProducerStateManager
    snapshots: list[int]
    damage: list[Damage]
    has_tier_start: bool = False

    @classmethod
    def of(cls, loaded: LoadedLog) -> RecoveredLog:
        """Return the state of `loaded`, and close its files."""
        segments = tuple(
            RecoveredSegment(segment.base, segment.unverified_size, segment.checks if segment.unverified_size else None)
            for segment in loaded.segments
        )
        for segment in loaded.segments:
            segment.files.close()
        return cls(
            segments, loaded.start_offset, loaded.end_offset, loaded.epochs, loaded.producers, loaded.snapshots,
            loaded.damage, loaded.has_tier_start,
        )  # fmt: skip

    def open(self, storage: Storage, folder: str, config: LogConfig, now_ms: int) -> LoadedLog:
        """Open the log's files, and return its state.

        Raises: StorageFailed: the files are not those that recovery left.
        """
        try:
            sizes = {entry.name: entry.size for entry in storage.list(folder) if not entry.is_folder}
            segments = [Segment.open(storage, folder, segment.base, now_ms, sizes=sizes) for segment in self.segments]
            for segment, recovered in zip(segments, self.segments, strict=True):
                segment.restore_checks(recovered.unverified_size, recovered.verification)
            last = segments[-1]
            end_offset = last.read_tail() if last.size else last.base
        except FileNotFoundError as error:
            raise StorageFailed(f"{storage.location}: {folder}: a file was removed after recovery: {error}") from error
        except CorruptData as error:
            raise StorageFailed(f"{storage.location}: {folder} can't be opened after recovery: {error}") from error
        if end_offset != self.end_offset:
            raise StorageFailed(
                f"{storage.location}: {folder} ended at offset {self.end_offset} after recovery, now at {end_offset}"
            )
        last.note_full(config.segment_index_bytes)
        return LoadedLog(
            segments, self.start_offset, self.end_offset, self.epochs, self.producers, self.snapshots, self.damage,
            self.has_tier_start,
        )  # fmt: skip


def load(
    storage: Storage, folder: str, config: LogConfig, now_ms: int, origin: LogCheckpoint | RecoveredLog
) -> LoadedLog:
    """Open the log in `folder`: from what recovery found, or as `load_log` from a checkpoint.

    Raises: StorageFailed.
    """
    if isinstance(origin, RecoveredLog):
        return origin.open(storage, folder, config, now_ms)
    return load_log(storage, folder, config, now_ms, **origin._asdict())
