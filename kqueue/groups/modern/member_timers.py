"""Deadlines of the members of modern groups: their sessions, and what they must revoke in time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from kqueue.base.clock import Clock
from kqueue.base.timers import Timers
from kqueue.groups.lazy_timer import LazyTimer
from kqueue.groups.modern.assignment import ModernMemberState
from kqueue.groups.modern.group import ModernGroup

G = TypeVar("G", bound=ModernGroup[Any, Any])


class MemberTimers(Generic[G]):
    """Timers of the groups of one type. They live in memory: after a restart every member has its
    whole time again.
    """

    def __init__(
        self,
        timers: Timers,
        clock: Clock,
        expire_session: Callable[[G, str], None],
        expire_revocation: Callable[[G, str, int], None],
    ) -> None:
        """Take what is called when time is up: with group and member, then with its epoch."""
        self._timers = timers
        self._clock = clock
        self._expire_session = expire_session
        self._expire_revocation = expire_revocation

    def extend_session(self, group: G, member_id: str, timeout_ms: int) -> None:
        """Restart the session of a member."""
        session = group.sessions.get(member_id)
        if session is None:

            def expire() -> None:
                group.sessions.pop(member_id, None)
                self._expire_session(group, member_id)

            session = group.sessions[member_id] = LazyTimer(self._timers, expire)
        session.set(self._clock.monotonic_ms() + timeout_ms)

    def watch_revocation(self, group: G, member_id: str) -> None:
        """Start the rebalance timeout of a member that must revoke, and stop that of others."""
        member = group.members.get(member_id)
        former = group.revocations.pop(member_id, None)
        if former is not None:
            former.clear()
        if member is None or member.current.state is not ModernMemberState.UNREVOKED_PARTITIONS:
            return
        epoch = member.current.epoch

        def expire() -> None:
            group.revocations.pop(member_id, None)
            self._expire_revocation(group, member_id, epoch)

        deadline = group.revocations[member_id] = LazyTimer(self._timers, expire)
        deadline.set(self._clock.monotonic_ms() + max(member.metadata.rebalance_timeout_ms, 0))

    def forget(self, group: G, member_id: str) -> None:
        """Stop the timers of a member that was removed."""
        if member_id in group.members:
            return  # it has joined again since
        for timers in group.deadlines:
            timer = timers.pop(member_id, None)
            if timer is not None:
                timer.clear()
