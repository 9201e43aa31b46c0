"""`cleanup.policy=consumed`: a queue, which keeps a message until it is consumed (SPEC S5.4)."""

from __future__ import annotations

from kqueue.base.config import TopicConfig
from kqueue.log.policies.contract import CommittedOffsets, Drop
from kqueue.log.views import LogView


class ConsumedPolicy:
    """Deletes sealed segments below the committed offsets of all `kqueue.consumed.groups`.

    A group without a committed offset (it has not started, or its offsets expired) blocks deletion,
    and so does an empty list of groups. To expire messages that no group consumes, combine
    ``consumed`` with ``delete``."""

    name = "consumed"

    def plan(self, log: LogView, groups: CommittedOffsets, config: TopicConfig, now_ms: int) -> Drop | None:
        names: list[str] = config["kqueue.consumed.groups"]
        committed = [groups.committed(group, log.topic, log.partition) for group in names]
        consumed = min((-1 if offset is None else offset for offset in committed), default=-1)
        ends = [
            segment.end_offset for segment in log.segments if segment.end_offset <= consumed and not segment.is_active
        ]
        return Drop(ends[-1], f"consumed by {', '.join(names)}") if ends else None
