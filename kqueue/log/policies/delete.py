"""`cleanup.policy=delete`: deletes segments by age and by size (SPEC S5.1).

On a topic with a remote tier this policy frees the local disk alone: local segments that the tier
has go by `local.retention.ms` and `local.retention.bytes`. How long tier and disk together keep
records is decided where both are known, in the broker. Once `remote.log.copy.disable` is set (KIP-
950), the tier gets nothing more, and the topic's retention holds for the local segments as for any
topic: what is older, in the tier too, goes with them.
"""

from __future__ import annotations

from kqueue.base.config import TopicConfig
from kqueue.log.policies.contract import CommittedOffsets, Drop
from kqueue.log.views import LogView

AS_TOPIC = -2
"""The value of a local limit that stands for the topic's own."""


class DeletePolicy:
    """Deletes segments by age and by size.

    By age: segments whose newest record is older than `retention.ms`, including the active one.
    By size: the oldest segments while the rest stays at or above `retention.bytes`. On a topic with
    a remote tier by the local limits; the active segment is rolled then, to be copied.

    Source: Kafka UnifiedLog.deleteRetentionMsBreachedSegments, deleteRetentionSizeBreachedSegments.
    """

    name = "delete"

    def plan(self, log: LogView, groups: CommittedOffsets, config: TopicConfig, now_ms: int) -> Drop | None:
        is_local = config["remote.storage.enable"] and not config["remote.log.copy.disable"]
        prefix = "local." if is_local else ""
        retention_ms = _limit(config, "retention.ms", prefix)
        retention_bytes = _limit(config, "retention.bytes", prefix)
        too_old = _too_old(log, now_ms - retention_ms) if retention_ms >= 0 else 0
        too_much = _too_much(log, retention_bytes) if retention_bytes >= 0 else 0
        count = max(too_old, too_much)
        if count == 0:
            return None
        last = log.segments[count - 1]
        by = f"retention.ms={retention_ms}" if too_old >= too_much else f"retention.bytes={retention_bytes}"
        return Drop(last.end_offset, f"{prefix}{by}", roll_active=last.is_active, local=is_local)


def _limit(config: TopicConfig, name: str, prefix: str) -> int:
    """Return a retention limit, the local one with a prefix; -1: there is none."""
    limit: int = config[f"{prefix}{name}"]
    return limit if limit != AS_TOPIC else config[name]


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
