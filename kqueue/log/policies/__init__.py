"""Cleanup policies, by their names in a topic's `cleanup.policy`."""

from __future__ import annotations

from kqueue.base.registry import Registry
from kqueue.log.policies.compact import CompactPolicy
from kqueue.log.policies.consumed import ConsumedPolicy
from kqueue.log.policies.contract import (
    Cleanup,
    CleanupPolicy,
    CommittedOffsets,
    Compact,
    Drop,
    RecordFilter,
)
from kqueue.log.policies.delete import DeletePolicy
from kqueue.log.policies.guard import check_policy
from kqueue.log.views import LogView, SegmentView

__all__ = [
    "POLICIES",
    "Cleanup",
    "CleanupPolicy",
    "CommittedOffsets",
    "Compact",
    "Drop",
    "LogView",
    "RecordFilter",
    "SegmentView",
]

POLICIES: Registry[CleanupPolicy] = Registry("kqueue.cleanup_policies", "cleanup policy", guard=check_policy)

_BUILT_IN: tuple[CleanupPolicy, ...] = (DeletePolicy(), CompactPolicy(), ConsumedPolicy())
for _policy in _BUILT_IN:
    POLICIES.add(_policy.name, _policy)
