"""A compaction as a job: picklable, runs anywhere where the files are, touches sealed segments only."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kqueue.log.compaction.parts import (
    Cleaned,
    CleanStats,
    CompactConfig,
    Compacted,
    Group,
    RecordFilter,
    Source,
)
from kqueue.storage import Storage

__all__ = ["CleanStats", "Cleaned", "CompactConfig", "CompactTask", "Compacted", "Group", "RecordFilter", "Source"]


@dataclass(frozen=True)
class CompactTask:
    """Compact the sealed segments of one log.

    Args:
        storage: where the log's folder is; a str: the root of a `LocalStorage`.
        sources: all sealed segments from the log's first up to (not including) the first that may not be cleaned, in order.
        first_dirty: all below was cleaned before; between the first source's base and the last one's end.
        start_offset: the log start; records below it go.
        now_ms: wall clock, for tombstones and end markers.
        last_batches: producer id -> last offset of its last batch, of producers that are still known: these stay, empty if they must.
        keep: decides in the place of keys and tombstones, over all sources; `first_dirty` then means nothing.
        engine: see `engine.engine`.
        sleep, monotonic: for the throttle, in seconds.
    """

    storage: Storage | str
    folder: str
    sources: tuple[Source, ...]
    first_dirty: int
    config: CompactConfig
    start_offset: int
    now_ms: int
    last_batches: Mapping[int, int] = field(default_factory=dict)
    keep: RecordFilter | None = None
    engine: str = "auto"
    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
