"""`cleanup.policy=compact`: keeps the last value of each key (SPEC S5.2).

This module decides when a log is compacted; `kqueue.log.compaction` compacts it.

    log:  | clean: compacted | dirty: not compacted yet | not cleanable: too young, unstable, active
    |
                             first_dirty                upto

Too young is younger than min.compaction.lag.ms.
"""

from __future__ import annotations

from typing import NamedTuple

from kqueue.base.config import TopicConfig
from kqueue.base.settings import LONG_MAX
from kqueue.log.policies.contract import CommittedOffsets, Compact
from kqueue.log.views import LogView, SegmentView


class LogToClean(NamedTuple):
    """A log, and the part of it that can be cleaned.

    Attributes:
        upto: offset at which cleaning must end.
        clean_bytes: size of the compacted segments.
        dirty_bytes: size of the dirty segments before `upto`; a partly dirty one counts as dirty.
        overdue: a dirty record is older than `max.compaction.lag.ms`.
    """

    upto: int
    clean_bytes: int
    dirty_bytes: int
    overdue: bool

    @property
    def ratio(self) -> float:
        """Dirty share of what can be cleaned, from 0 to 1; 0 for an empty log."""
        return self.dirty_bytes / max(self.clean_bytes + self.dirty_bytes, 1)


class CompactPolicy:
    """Compacts logs with enough dirty bytes, or with a dirty record that is too old.

    Enough is more than `min.cleanable.dirty.ratio` of what can be cleaned; too old is older than
    `max.compaction.lag.ms`. Source: Kafka LogCleanerManager.grabFilthiestCompactedLog,
    cleanableOffsets.
    """

    name = "compact"

    def plan(self, log: LogView, groups: CommittedOffsets, config: TopicConfig, now_ms: int) -> Compact | None:
        log_to_clean = find_log_to_clean(log, config, now_ms)
        if log_to_clean.dirty_bytes == 0:
            return None
        if log_to_clean.overdue:
            return Compact(upto_offset=log_to_clean.upto, why="max.compaction.lag.ms is over")
        if log_to_clean.ratio > config["min.cleanable.dirty.ratio"]:
            return Compact(upto_offset=log_to_clean.upto, why=f"{log_to_clean.ratio:.0%} of it is dirty")
        return None


def find_log_to_clean(log: LogView, config: TopicConfig, now_ms: int) -> LogToClean:
    """Return which part of the log is dirty and can be cleaned now."""
    lag_min_ms: int = config["min.compaction.lag.ms"]
    upto = _upto(log, now_ms - lag_min_ms if lag_min_ms else LONG_MAX)
    clean = sum(segment.size for segment in log.segments if segment.end_offset <= log.first_dirty)
    dirty = [segment for segment in log.segments if log.first_dirty < segment.end_offset <= upto]
    lag_max_ms: int = config["max.compaction.lag.ms"]
    overdue = lag_max_ms < LONG_MAX and any(0 <= segment.first_timestamp < now_ms - lag_max_ms for segment in dirty)
    return LogToClean(upto, clean, sum(segment.size for segment in dirty), overdue)


def _upto(log: LogView, before_ms: int) -> int:
    """Return the base offset of the first segment that cannot be cleaned yet."""
    return next(segment.base_offset for segment in log.segments if not _cleanable(log, segment, before_ms))


def _cleanable(log: LogView, segment: SegmentView, before_ms: int) -> bool:
    too_young = segment.end_offset > log.first_dirty and segment.time_ms > before_ms
    return not segment.is_active and not too_young and segment.end_offset <= min(log.high_watermark, log.stable_offset)
