"""Which segments of the tier have expired, by the retention of the whole log."""

from __future__ import annotations

from typing import NamedTuple

from kqueue.base.config import TopicConfig
from kqueue.tier.manifest import Manifest

UNBOUNDED = -1


class TotalRetention(NamedTuple):
    """Bounds on tier and local log together.

    retention_ms, retention_bytes: -1: none. local_bytes: of what is not in the tier.
    """

    retention_ms: int
    retention_bytes: int
    local_bytes: int
    now_ms: int

    @classmethod
    def of(cls, config: TopicConfig, local_bytes: int, now_ms: int) -> TotalRetention:
        """Return the bounds that a topic's settings give; none without cleanup.policy=delete."""
        deletes = "delete" in config["cleanup.policy"]
        return cls(
            config["retention.ms"] if deletes else UNBOUNDED,
            config["retention.bytes"] if deletes else UNBOUNDED,
            local_bytes,
            now_ms,
        )


def expired_end(manifest: Manifest, retention: TotalRetention) -> int:
    """Return the offset behind the segments that have expired, the oldest first; 0: none has. May
    block for pages of the manifest.

    By size, as Kafka: a segment goes if at least `retention_bytes` are left without it. A segment
    without times expires by the time of its copy.
    """
    root = manifest.root
    end, size = 0, root.size + retention.local_bytes
    for segment in manifest.segments(root.log_start_offset):
        newest_ms = segment.max_timestamp if segment.max_timestamp >= 0 else segment.copied_ms
        is_old = retention.retention_ms >= 0 and newest_ms + retention.retention_ms < retention.now_ms
        is_excess = retention.retention_bytes >= 0 and size - segment.size >= retention.retention_bytes
        if not (is_old or is_excess):
            break
        end, size = segment.end_offset, size - segment.size
    return end
