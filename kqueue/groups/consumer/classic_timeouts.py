"""Deadlines of classic members within consumer groups: to join again once they were told to, and to
send SyncGroup after JoinGroup. Both last their rebalance timeout.
They are in memory only: after a restart a member stays until its session ends.

Source: Kafka GroupMetadataManager.
"""

from __future__ import annotations

from kqueue.groups.consumer.group import ConsumerGroup
from kqueue.groups.consumer.manager import ConsumerGroupManager
from kqueue.groups.consumer.member import ConsumerGroupMember
from kqueue.groups.lazy_timer import LazyTimer
from kqueue.groups.modern.environment import Environment


class ClassicTimeouts:
    """The deadlines of all consumer groups, which keep them. On the owner thread."""

    def __init__(self, environment: Environment, manager: ConsumerGroupManager) -> None:
        self._timers = environment.timers
        self._clock = environment.clock
        self._manager = manager

    def await_join(self, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
        """Start the time to join again, unless it runs."""
        if member.member_id not in group.join_deadlines:
            self._start(group, group.join_deadlines, member)

    def await_sync(self, group: ConsumerGroup, member_id: str) -> None:
        """End the time to join, and start that to send SyncGroup; for a member that has joined."""
        _stop(group.join_deadlines, member_id)
        _stop(group.sync_deadlines, member_id)
        if member_id in group.members:
            self._start(group, group.sync_deadlines, group.members[member_id])

    def synced(self, group: ConsumerGroup, member_id: str) -> None:
        """End the time to send SyncGroup."""
        _stop(group.sync_deadlines, member_id)

    def _start(self, group: ConsumerGroup, deadlines: dict[str, LazyTimer], member: ConsumerGroupMember) -> None:
        member_id = member.member_id

        def is_late() -> bool:  # it may join, or be replaced, before its removal has its turn
            return deadlines.get(member_id) is deadline

        deadline = LazyTimer(self._timers, lambda: self._manager.remove_late(group, member_id, is_late))
        deadlines[member_id] = deadline
        deadline.set(self._clock.monotonic_ms() + max(member.rebalance_timeout_ms, 0))


def _stop(deadlines: dict[str, LazyTimer], member_id: str) -> None:
    deadline = deadlines.pop(member_id, None)
    if deadline is not None:
        deadline.clear()
