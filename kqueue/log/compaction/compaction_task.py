"""Compaction of one log as a job: picklable, runs wherever the files are, reads sealed segments
only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kqueue.base import clock
from kqueue.base.clock import monotonic_s
from kqueue.log.compaction.engine import select_engine
from kqueue.log.compaction.model import (
    CleanerStats,
    CompactionConfig,
    CompactionResult,
    RecordFilter,
    SegmentGroup,
    SegmentSource,
)
from kqueue.log.compaction.offset_map_builder import OffsetMapBuilder, read_aborted
from kqueue.log.compaction.retention import RetentionRules, TransactionTracker
from kqueue.log.compaction.segment_rewriter import SegmentRewriter
from kqueue.log.compaction.swap_files import discard
from kqueue.log.compaction.throttle import Throttle
from kqueue.log.formats.filenames import CLEANED, INDEX, TIMEINDEX, TXNINDEX, file_name
from kqueue.log.formats.offset_index import RELATIVE_OFFSET_MAX
from kqueue.log.formats.transaction_index import AbortedTxn
from kqueue.storage import Storage


def group_sources(
    sources: Sequence[SegmentSource], sizes: Mapping[str, int], config: CompactionConfig
) -> list[list[SegmentSource]]:
    """Group neighbouring segments whose log, indexes and offsets fit into one segment.

    Args: sizes: of the folder's files, in bytes, by name.
    Returns: each segment in one group, however large it is.
    Source: Kafka Cleaner.groupSegmentsBySize.
    """
    groups: list[list[SegmentSource]] = []
    room = (0, 0, 0)
    for source in sources:
        needs = (
            source.size,
            sizes.get(file_name(source.base, INDEX), 0),
            sizes.get(file_name(source.base, TIMEINDEX), 0),
        )
        fits = all(need <= left for need, left in zip(needs, room, strict=True))
        if groups and fits and (source.size == 0 or source.end_offset - 1 - groups[-1][0].base <= RELATIVE_OFFSET_MAX):
            groups[-1].append(source)
        else:
            groups.append([source])
            room = (config.segment_bytes, config.segment_index_bytes, config.segment_index_bytes)
        log, index, timeindex = room
        room = (log - needs[0], index - needs[1], timeindex - needs[2])
    return groups


@dataclass(frozen=True)
class CompactionTask:
    """Compacts the sealed segments of one log.

    Args:
        opener: returns the storage with the log's folder; picklable if other processes share it.
        sources: all sealed segments from the log's first up to (not including) the first that may
            not be cleaned, in order.
        first_dirty: all records below were cleaned before; between the first source's base and the
            last one's end.
        start_offset: the log start; records below it go.
        now_ms: wall clock, for tombstones and end markers.
        last_batches: producer id -> last offset of its last batch, of known producers: these stay,
            without records if need be.
        marked_epochs: producer id -> epoch, of known producers of which only an end marker is left:
            the markers of this epoch stay.
        keep: decides instead of keys and tombstones, over all sources; `first_dirty` is ignored.
        engine: see `engine.select_engine`.
        sleep, monotonic: for the throttle, in seconds.
    """

    opener: Callable[[], Storage]
    folder: str
    sources: tuple[SegmentSource, ...]
    first_dirty: int
    config: CompactionConfig
    start_offset: int
    now_ms: int
    last_batches: Mapping[int, int] = field(default_factory=dict)
    marked_epochs: Mapping[int, int] = field(default_factory=dict)
    keep: RecordFilter | None = None
    engine: str = "auto"
    sleep: Callable[[float], None] = clock.sleep
    monotonic: Callable[[], float] = monotonic_s

    def __call__(self) -> CompactionResult:
        """Write the cleaned segments beside the old ones, as `<base>.<suffix>.cleaned`.

        Durability: the files and their folder are synced on return. A crash leaves the log
            unchanged; the next start removes `.cleaned` files.
        Raises: CorruptBatch: names file and position; UnsupportedCodec, CorruptIndex,
            StorageFailed, FileNotFoundError. The written files are removed.
        """
        return _Cleaning(self, self.opener()).run()


class _Cleaning:
    """One run of a task."""

    def __init__(self, task: CompactionTask, storage: Storage) -> None:
        self.task = task
        self.storage = storage
        self.stats = CleanerStats()
        self.throttle = Throttle(task.config.io_bytes_per_second, task.sleep, task.monotonic)
        self.upto = task.sources[-1].end_offset if task.sources else task.first_dirty

    def run(self) -> CompactionResult:
        started = self.task.monotonic()
        sizes = self._list()
        aborted = read_aborted(self.storage, self.task.folder, self.task.sources, sizes)
        retention = self._retention(aborted)
        groups = self._rewrite(retention, sizes)
        self.stats.seconds = self.task.monotonic() - started
        return CompactionResult(groups, retention.clean_to, self.stats)

    def _list(self) -> dict[str, int]:
        """Remove files of an earlier job; return the sizes of the others by name."""
        sizes = {}
        for entry in self.storage.list(self.task.folder):
            if entry.name.endswith(CLEANED):
                self.storage.remove(f"{self.task.folder}/{entry.name}")
            else:
                sizes[entry.name] = entry.size
        return sizes

    def _retention(self, aborted: list[AbortedTxn]) -> RetentionRules:
        task = self.task
        engine = select_engine(task.engine, sum(source.size for source in task.sources))
        offset_map = None
        clean_to = self.upto
        if task.keep is None:
            builder = OffsetMapBuilder(self.storage, task.folder, task.config, engine, self.throttle, self.stats)
            offset_map = builder.build(task.sources, task.first_dirty, aborted)
            clean_to = offset_map.end_offset
        return RetentionRules(
            engine=engine,
            offset_map=offset_map,
            keep=task.keep,
            transactions=TransactionTracker(aborted),
            last_batches=task.last_batches,
            marked_epochs=task.marked_epochs,
            first_dirty=task.first_dirty,
            clean_to=clean_to,
            start_offset=task.start_offset,
            now_ms=task.now_ms,
            delete_retention_ms=task.config.delete_retention_ms,
        )

    def _rewrite(self, retention: RetentionRules, sizes: dict[str, int]) -> tuple[SegmentGroup, ...]:
        task = self.task
        sources = [source for source in task.sources if source.base < retention.clean_to]
        rewriter = SegmentRewriter(self.storage, task.folder, task.config, retention, self.throttle, self.stats)
        groups: list[SegmentGroup] = []
        try:
            for members in group_sources(sources, sizes, task.config):
                with_txnindex = any(file_name(source.base, TXNINDEX) in sizes for source in members)
                cleaned = rewriter.rewrite(members, with_txnindex=with_txnindex)
                if cleaned is not None:
                    groups.append(SegmentGroup(tuple(source.base for source in members), cleaned))
            if groups:
                self.storage.sync_folder(task.folder)
        except Exception:
            discard(self.storage, task.folder, groups)
            raise
        return tuple(groups)
