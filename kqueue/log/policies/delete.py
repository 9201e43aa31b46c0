"""`cleanup.policy=delete`: deletes segments by age and by size (SPEC S5.1)."""

from __future__ import annotations

from kqueue.base.config import TopicConfig
from kqueue.log.policies.contract import CommittedOffsets, Drop
from kqueue.log.views import LogView


class DeletePolicy:
    """Deletes segments by age and by size.

    By age: segments whose newest record is older than `retention.ms`, including the active one.
    By size: the oldest segments while the rest stays at or above `retention.bytes`.

    Source: Kafka UnifiedLog.deleteRetentionMsBreachedSegments, deleteRetentionSizeBreachedSegments.
    """

    name = "delete"

    def plan(self, log: LogView, groups: CommittedOffsets, config: TopicConfig, now_ms: int) -> Drop | None:
        retention_ms: int = config["retention.ms"]
        retention_bytes: int = config["retention.bytes"]
        too_old = _too_old(log, now_ms - retention_ms) if retention_ms >= 0 else 0
        too_much = _too_much(log, retention_bytes) if retention_bytes >= 0 else 0
        count = max(too_old, too_much)
        if count == 0:
            return None
        last = log.segments[count - 1]
        why = f"retention.ms={retention_ms}" if too_old >= too_much else f"retention.bytes={retention_bytes}"
        return Drop(last.end_offset, why, roll_active=last.is_active)


def _too_old(log: LogView, before_ms: int) -> int:
    """Return how many of the oldest segments hold no record at or after `before_ms`."""
    for number, segment in enumerate(log.segments):
        empty = segment.is_active and segment.size == 0
        if segment.time_ms >= before_ms or empty or segment.end_offset > log.high_watermark:
            return number
    return len(log.segments)


def _too_much(log: LogView, bytes_max: int) -> int:
    """Return how many of the oldest segments can be deleted with at least `bytes_max` left."""
    spare = log.size - bytes_max
    for number, segment in enumerate(log.segments):
        empty = segment.is_active and segment.size == 0
        spare -= segment.size
        if spare < 0 or empty or segment.end_offset > log.high_watermark:
            return number
    return len(log.segments)
