"""The rebalance protocol: a join phase, a new generation, then the leader's assignments.

A join phase (`prepare_rebalance`) ends (`_complete_join`) when all members have joined or their
time is up; the leader among them then gives everybody's assignment in its SyncGroup, which is in
the log before anybody sees it. Source: Kafka GroupMetadataManager (classicGroup…), KIP-134.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kqueue.base.clock import Clock
from kqueue.base.coordinators import coordinator_error
from kqueue.base.errors import (
    CoordinatorNotAvailable,
    IllegalGeneration,
    InconsistentGroupProtocol,
    KqueueError,
    RebalanceInProgress,
    UnknownMember,
)
from kqueue.base.promise import Promise
from kqueue.base.timers import Timers
from kqueue.groups.classic.group import ClassicGroup
from kqueue.groups.classic.member import ClassicGroupMember, JoinRequest, JoinResult, SyncResult
from kqueue.groups.classic.state import CAN_REBALANCE, ClassicGroupState, GroupEvent
from kqueue.groups.config import GroupConfig
from kqueue.groups.lazy_timer import LazyTimer
from kqueue.groups.limits import GroupLimits
from kqueue.groups.log.group_log import Done, Wake

SaveGroup = Callable[[ClassicGroup, Mapping[str, bytes], Done], None]
"""Appends a group's generation with these assignments (member id -> assignment)."""


class Rebalancer:
    """Runs join phases and assignments, and settles the members' promises. On the owner thread."""

    def __init__(
        self, config: GroupConfig, clock: Clock, timers: Timers, limits: GroupLimits, save: SaveGroup, wake: Wake
    ) -> None:
        self._config = config
        self._clock = clock
        self._timers = timers
        self._limits = limits
        self._save = save
        self._wake = wake

    def new_group(self, group_id: str) -> ClassicGroup:
        """Return an empty group."""

        def expire_join() -> None:
            self._expire_join(group)

        def expire_sync() -> None:
            self._expire_sync(group)

        group = ClassicGroup(
            group_id, LazyTimer(self._timers, expire_join), LazyTimer(self._timers, expire_sync), self._limits
        )
        group.state_since_ms = self._clock.wall_ms()
        return group

    def new_member(self, group: ClassicGroup, member_id: str, joining: JoinRequest) -> ClassicGroupMember:
        """Return a member that is not yet in the group, without a running session."""

        def expire() -> None:
            if not member.is_excused:
                self.remove_member(group, member)
                self.after_removal(group)

        member = ClassicGroupMember(member_id, joining, LazyTimer(self._timers, expire))
        return member

    # --- the join phase

    def prepare_or_complete(self, group: ClassicGroup) -> None:
        """Begin a join phase, or end the current one if all members have joined."""
        if group.state in CAN_REBALANCE:
            self.prepare_rebalance(group)
        else:
            self.maybe_complete_join(group)

    def prepare_rebalance(self, group: ClassicGroup) -> None:
        """Begin a join phase: all members must join within the longest rebalance timeout."""
        if group.state is ClassicGroupState.COMPLETING_REBALANCE:
            self._reset_assignments(group, RebalanceInProgress(f"group {group.group_id!r} is rebalancing"))
        # They join again; who does not is removed by the join phase, not for the SyncGroup that it
        # did not send.
        group.unsynced.clear()
        group.sync_deadline.clear()
        is_initial = group.state is ClassicGroupState.EMPTY
        group.transition(GroupEvent.REBALANCE, self._clock.wall_ms())
        if is_initial:
            # KIP-134: the first members of a starting service wait for the others. Each one that
            # comes extends the delay, up to the rebalance timeout, so that ten consumers are
            # assigned once and not ten times.
            group.new_member_added = False
            delay_ms = self._config.initial_rebalance_delay_ms
            group.remaining_initial_delay_ms = max(group.rebalance_timeout_ms() - delay_ms, 0)
            group.join_deadline.set(self._clock.monotonic_ms() + delay_ms)
        elif group.all_members_joined:
            self._complete_join(group)
        else:
            group.join_deadline.set(self._clock.monotonic_ms() + group.rebalance_timeout_ms())

    def wait_for_join(self, group: ClassicGroup, member: ClassicGroupMember) -> Promise[JoinResult]:
        """Return the promise of a member that has joined; the end of the join phase resolves it."""
        # A second request means that the client has given up on the first one.
        self.fail_join(group, member, RebalanceInProgress(f"member {member.member_id!r} has joined again"))
        promise: Promise[JoinResult] = Promise()
        group.put_join_promise(member, promise)
        return promise

    def maybe_complete_join(self, group: ClassicGroup) -> None:
        """End the join phase if all members have joined, except during the initial delay."""
        if (
            group.state is ClassicGroupState.PREPARING_REBALANCE
            and not group.in_initial_delay
            and group.all_members_joined
        ):
            self._complete_join(group)

    def _expire_join(self, group: ClassicGroup) -> None:
        """End the join phase at its deadline; extend the initial delay if members were added."""
        if group.in_initial_delay and group.new_member_added and group.remaining_initial_delay_ms > 0:
            group.new_member_added = False
            delay_ms = min(self._config.initial_rebalance_delay_ms, group.remaining_initial_delay_ms)
            group.remaining_initial_delay_ms -= delay_ms
            group.join_deadline.set(self._clock.monotonic_ms() + delay_ms)
        else:
            self._complete_join(group)

    def _complete_join(self, group: ClassicGroup) -> None:
        """End the join phase: remove dynamic members that have not joined, begin a generation.

        Static members that have not joined stay until their session expires.
        """
        group.join_deadline.clear()
        for member in list(group.members.values()):
            if member.join_promise is None and not member.is_static:
                self.remove_member(group, member)
        # Only static members are left, and none has joined: who would lead? All get the time once
        # more, or end with their sessions.
        if group.members and not group.elect_leader():
            group.join_deadline.set(self._clock.monotonic_ms() + group.rebalance_timeout_ms())
            return
        group.next_generation(self._clock.wall_ms())
        if group.state is ClassicGroupState.EMPTY:
            self._save(
                group, {}, lambda error: None
            )  # if the write fails, a restart restores the last members, whose sessions then expire
            return
        for member in group.members.values():
            promise = group.take_join_promise(member)
            if promise is not None:
                self.resolve(promise, self.joined(group, member))
            member.is_new = False
            self.extend_session(member)
        group.unsynced.update(group.members)
        # A leader that has joined and never assigns would hold all others: heartbeats keep its
        # session alive.
        group.sync_deadline.set(self._clock.monotonic_ms() + group.rebalance_timeout_ms())

    def joined(self, group: ClassicGroup, member: ClassicGroupMember, *, skip_assignment: bool = False) -> JoinResult:
        """Return a member's join result in the current generation."""
        is_leader = member.member_id == group.leader_id
        members = group.join_result_members() if is_leader else []
        leader = group.leader_id or ""
        return JoinResult(
            group.generation,
            group.protocol_type,
            group.protocol_name,
            leader,
            member.member_id,
            members,
            skip_assignment,
        )

    # --- the assignment

    def sync(
        self, group: ClassicGroup, member: ClassicGroupMember, assignments: Mapping[str, bytes]
    ) -> Promise[SyncResult]:
        """Return a promise of a member's assignment; the leader's request carries all assignments.

        Raises: RebalanceInProgress.
        """
        if group.state is ClassicGroupState.PREPARING_REBALANCE:
            raise RebalanceInProgress(f"group {group.group_id!r} is rebalancing")
        self._sync_received(group, member)
        promise: Promise[SyncResult] = Promise()
        if group.state is ClassicGroupState.STABLE:
            # A member whose response was lost asks again, or one that was slower than the leader.
            self.resolve(promise, self._synced(group, member))
            return promise
        self.fail_sync(member, RebalanceInProgress(f"member {member.member_id!r} has asked again"))
        member.sync_promise = promise
        if member.member_id == group.leader_id:
            # Members that the leader left out get an empty assignment, and names that are no
            # members are dropped, as in Kafka.
            self._assign(group, {member_id: assignments.get(member_id, b"") for member_id in group.members})
        return promise

    def check_sync(
        self, group: ClassicGroup, generation: int, protocol_type: str | None, protocol_name: str | None
    ) -> None:
        """Check a sync request. Raises: IllegalGeneration, InconsistentGroupProtocol."""
        check_generation(group, generation)
        for theirs, ours in ((protocol_type, group.protocol_type), (protocol_name, group.protocol_name)):
            if theirs is not None and ours is not None and theirs != ours:
                raise InconsistentGroupProtocol(f"group {group.group_id!r} has chosen {ours!r}, not {theirs!r}")

    def _sync_received(self, group: ClassicGroup, member: ClassicGroupMember) -> None:
        group.unsynced.discard(member.member_id)
        if not group.unsynced:
            group.sync_deadline.clear()

    def _assign(self, group: ClassicGroup, assignments: Mapping[str, bytes]) -> None:
        generation = group.generation

        def done(error: KqueueError | None) -> None:
            if group.state is not ClassicGroupState.COMPLETING_REBALANCE or group.generation != generation:
                return  # another rebalance has begun and has answered all members
            if error is not None:
                # Not in the log: after a failover the members would have to be asked again, so none
                # may act on it. All join again.
                self._reset_assignments(group, coordinator_error(error))
                self.prepare_rebalance(group)
                return
            for member in group.members.values():
                member.assignment = assignments.get(member.member_id, b"")
            group.transition(GroupEvent.ASSIGNED, self._clock.wall_ms())
            for member in group.members.values():
                self._answer_sync(group, member)

        self._save(group, assignments, done)

    def _answer_sync(self, group: ClassicGroup, member: ClassicGroupMember) -> None:
        promise, member.sync_promise = member.sync_promise, None
        if promise is not None:
            self.resolve(promise, self._synced(group, member))
            self.extend_session(member)

    def _synced(self, group: ClassicGroup, member: ClassicGroupMember) -> SyncResult:
        return SyncResult(group.protocol_type, group.protocol_name, member.assignment)

    def _reset_assignments(self, group: ClassicGroup, error: KqueueError) -> None:
        for member in group.members.values():
            member.assignment = b""
            if self.fail_sync(member, error):
                self.extend_session(member)

    def _expire_sync(self, group: ClassicGroup) -> None:
        """Remove members that sent no SyncGroup in time. Source: Kafka expirePendingSync."""
        for member_id in list(group.unsynced):
            self.remove_member(group, group.members[member_id])
        self.prepare_rebalance(group)

    # --- removal of members

    def remove_member(self, group: ClassicGroup, member: ClassicGroupMember) -> None:
        """Remove a member and fail its promises. The caller then calls `after_removal`."""
        error = UnknownMember(f"member {member.member_id!r} is not in group {group.group_id!r} any more")
        self.fail_join(group, member, error)
        self.fail_sync(member, error)
        member.session.clear()
        group.remove(member)

    def after_removal(self, group: ClassicGroup) -> None:
        """Rebalance, or end the join phase, after members were removed."""
        if group.state in (ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE):
            self.prepare_rebalance(group)
        else:
            self.maybe_complete_join(group)

    def retire(self, group: ClassicGroup, error: KqueueError) -> None:
        """Fail all promises with `error` and stop all timers of a group that is removed."""
        for member in group.members.values():
            self.fail_join(group, member, error)
            self.fail_sync(member, error)
            member.session.clear()
        for deadline in (*group.pending.values(), group.join_deadline, group.sync_deadline):
            deadline.clear()
        for member_id in group.pending:
            self._limits.remove_pending_member(member_id)
        group.pending.clear()

    # --- waiting members

    def extend_session(self, member: ClassicGroupMember) -> None:
        """Restart the member's session timeout."""
        member.session.set(self._clock.monotonic_ms() + member.session_timeout_ms)

    def fail_join(self, group: ClassicGroup, member: ClassicGroupMember, error: KqueueError) -> None:
        """Fail the join promise of a member; no effect if it doesn't wait."""
        promise = group.take_join_promise(member)
        if promise is not None:
            promise.fail(error)
            self._wake(promise)

    def fail_sync(self, member: ClassicGroupMember, error: KqueueError) -> bool:
        """Fail the sync promise of a member. Returns: False if it doesn't wait."""
        promise, member.sync_promise = member.sync_promise, None
        if promise is not None:
            promise.fail(error)
            self._wake(promise)
        return promise is not None

    def resolve(self, promise: Promise[Any], value: JoinResult | SyncResult) -> None:
        """Resolve a promise and wake its waiter."""
        promise.resolve(value)
        self._wake(promise)


def check_generation(group: ClassicGroup, generation: int) -> None:
    """Check the generation of a request. Raises: IllegalGeneration."""
    if generation != group.generation:
        raise IllegalGeneration(f"group {group.group_id!r} is at generation {group.generation}, not {generation}")


def committing_member(
    group: ClassicGroup, generation: int, member_id: str, instance_id: str | None
) -> ClassicGroupMember | None:
    """Return the member that commits offsets; None: the commit names none, or the group is empty.

    Raises: CoordinatorNotAvailable, UnknownMember, FencedInstanceId, IllegalGeneration. Source:
        Kafka ClassicGroup.validateOffsetCommit.
    """
    if group.state is ClassicGroupState.DEAD:
        raise CoordinatorNotAvailable(f"group {group.group_id!r} is being removed")
    if generation < 0 and (group.state is ClassicGroupState.EMPTY or (not member_id and instance_id is None)):
        return None
    member = group.check_member(member_id, instance_id)
    check_generation(group, generation)
    return member
