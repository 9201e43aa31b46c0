"""The classic groups of one coordinator, as it sees the groups of each type.

`membership_manager` has the rules of members, `rebalancer` those of generations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kqueue.base.clock import Clock
from kqueue.base.errors import NotCoordinator, RebalanceInProgress, RequestRefused, UnknownMember
from kqueue.base.promise import Promise
from kqueue.groups.classic.group import ClassicGroup
from kqueue.groups.classic.member import JoinRequest, JoinResult, LeavingMember
from kqueue.groups.classic.membership_manager import MembershipManager
from kqueue.groups.classic.rebalancer import Rebalancer, committing_member
from kqueue.groups.classic.state import ClassicGroupState, GroupEvent
from kqueue.groups.group import Committer, Group


class ClassicGroupManager:
    """Starts, stops and asks classic groups. On the owner thread."""

    def __init__(
        self, groups: Mapping[str, Group], membership: MembershipManager, rebalancer: Rebalancer, clock: Clock
    ) -> None:
        """Take the parts. `groups`: the coordinator's table of groups of all types."""
        self._groups = groups
        self._membership = membership
        self._rebalancer = rebalancer
        self._clock = clock

    def find(self, group_id: str) -> ClassicGroup | None:
        """Return a classic group; None: there is none of this id."""
        group = self._groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def resume(self, group: ClassicGroup) -> None:
        """Start the timers of a group that was read from the log."""
        self._membership.resume(group)

    def activate(self, group: ClassicGroup) -> None:
        """Go on with a resumed group whose partition is active now."""

    def stop(self, group: ClassicGroup) -> None:
        """Answer the members that wait, stop all timers, and release what the limits count."""
        self._rebalancer.retire(group, NotCoordinator(f"group {group.group_id!r} has another coordinator now"))
        group.release()
        if not group.is_dead:
            group.transition(GroupEvent.REMOVED, self._clock.wall_ms())

    def deleted(self, group: ClassicGroup) -> None:
        """End what outlasts a group that was deleted from the log."""

    def join(
        self, group: ClassicGroup, request: JoinRequest, *, id_required: bool, can_skip: bool
    ) -> Promise[JoinResult]:
        """Add a member to the next generation; see `GroupCoordinator.join`."""
        return self._membership.join(group, request, id_required=id_required, can_skip=can_skip)

    def leave(self, group: ClassicGroup, leaving: Sequence[LeavingMember]) -> Promise[list[RequestRefused | None]]:
        """Remove members. Returns, for each, None, or why it can't be removed."""
        promise: Promise[list[RequestRefused | None]] = Promise()
        promise.resolve(self._membership.leave(group, leaving))
        return promise

    def check_commit(self, group: ClassicGroup, committer: Committer, partitions: Iterable[tuple[str, int]]) -> None:
        """Check that a member may commit; its session is extended.

        The producer of a transaction speaks for its consumer: it may commit while the group
        rebalances, and extends no session. Source: Kafka ClassicGroup.validateOffsetCommit.
        """
        state = group.state
        is_empty = state in (ClassicGroupState.EMPTY, ClassicGroupState.DEAD)
        if committer.is_anonymous and not committer.in_transaction and not is_empty:
            raise UnknownMember(f"group {group.group_id!r} has members: only they may commit")
        member = committing_member(group, committer.epoch, committer.member_id, committer.instance_id)
        if member is None or committer.in_transaction:
            return
        if state is ClassicGroupState.COMPLETING_REBALANCE:
            raise RebalanceInProgress(f"group {group.group_id!r} is rebalancing")
        self._rebalancer.extend_session(member)
