"""Joins, heartbeats and leaves of dynamic and static members.

A new dynamic member first gets an id and joins again with it, so that an abandoned join leaves no
member behind. A static member is known by its instance id: the last one to join with it replaces
the former holder. Source: Kafka GroupMetadataManager (classicGroup…), KIP-62, KIP-345, KIP-394,
KIP-814.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from typing import NamedTuple

from kqueue.base.clock import Clock
from kqueue.base.coordinators import coordinator_error
from kqueue.base.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    KqueueError,
    MalformedMessage,
    MemberIdRequired,
    RebalanceInProgress,
    RequestRefused,
    RequestTimedOut,
)
from kqueue.base.promise import Promise
from kqueue.base.timers import Timers
from kqueue.groups.classic.group import ClassicGroup
from kqueue.groups.classic.member import ClassicGroupMember, JoinRequest, JoinResult, LeavingMember
from kqueue.groups.classic.rebalancer import Rebalancer, SaveGroup, check_generation
from kqueue.groups.classic.state import ClassicGroupState
from kqueue.groups.config import GroupConfig
from kqueue.groups.errors import InvalidSessionTimeout
from kqueue.groups.lazy_timer import LazyTimer
from kqueue.groups.limits import GroupLimits, member_bytes
from kqueue.groups.log.schemas import GroupMetadataValue

NEW_MEMBER_TIMEOUT_MS = 300_000
"""Session timeout of a new member's first join: it can't send heartbeats before it knows its id.
Source: Kafka.
"""


MEMBER_NAME_LENGTH_MAX = 255
"""Characters of a client id or instance id in a member id, which must fit into a string of the
protocol.
"""


class StaticMemberState(NamedTuple):
    """State of a replaced static member, restored if the replacement can't be written."""

    member_id: str
    protocols: dict[str, bytes]
    rebalance_timeout_ms: int
    session_timeout_ms: int


class MembershipManager:
    """The rules of membership; the coordinator owns the groups. Runs on the owner thread."""

    def __init__(
        self,
        config: GroupConfig,
        clock: Clock,
        timers: Timers,
        rng: random.Random,
        limits: GroupLimits,
        rebalancer: Rebalancer,
        save: SaveGroup,
    ) -> None:
        self._config = config
        self._clock = clock
        self._timers = timers
        self._rng = rng
        self._limits = limits
        self._rebalancer = rebalancer
        self._save = save

    def check_session_timeout(self, session_timeout_ms: int) -> None:
        """Check a session timeout. Raises: InvalidSessionTimeout."""
        low, high = self._config.session_timeout_min_ms, self._config.session_timeout_max_ms
        if not low <= session_timeout_ms <= high:
            raise InvalidSessionTimeout(f"the session timeout is from {low} to {high} ms, not {session_timeout_ms}")

    # --- joins

    def join(
        self, group: ClassicGroup, joining: JoinRequest, *, id_required: bool, can_skip: bool
    ) -> Promise[JoinResult]:
        """Add a member to the next generation; see `GroupCoordinator.join`."""
        _check_alive(group)
        self._check_room(group, joining.member_id)
        if not group.accepts(joining):
            raise InconsistentGroupProtocol(
                f"group {group.group_id!r}: no protocol of this member is supported by all members"
            )
        self._check_bytes(group, joining)
        if not joining.member_id:
            return self._join_new(group, joining, id_required=id_required, can_skip=can_skip)
        if joining.member_id in group.pending and joining.instance_id is None:
            return self._add(group, joining.member_id, joining)
        return self._join_again(group, group.check_member(joining.member_id, joining.instance_id), joining)

    def _check_room(self, group: ClassicGroup, member_id: str) -> None:
        """Check `group.max.size`; in a join phase the last members to join exceed it.

        Raises: GroupMaxSizeReached.
        """
        member = group.members.get(member_id)
        if group.state is ClassicGroupState.EMPTY:
            return
        if group.state is ClassicGroupState.PREPARING_REBALANCE:
            has_room = (
                member is not None and member.join_promise is not None
            ) or group.waiting_to_join_count < self._config.members_max
        else:
            has_room = member is not None or len(group.members) < self._config.members_max
        if has_room:
            return
        self._remove_pending_member(group, member_id)
        if member is not None:
            self._rebalancer.remove_member(group, member)
        self._rebalancer.maybe_complete_join(group)
        raise GroupMaxSizeReached(f"group {group.group_id!r} has its {self._config.members_max} members")

    def _check_bytes(self, group: ClassicGroup, joining: JoinRequest) -> None:
        """Check the size of a member. Raises: GroupMaxSizeReached: the group or all groups are too
        large.
        """
        former_id = joining.member_id or group.static_ids.get(joining.instance_id or "", "")
        former = group.members.get(former_id)
        before = 0 if former is None else member_bytes(former)
        self._limits.check_member(group.group_id, group.member_bytes, before, member_bytes(joining))

    def _join_new(
        self, group: ClassicGroup, joining: JoinRequest, *, id_required: bool, can_skip: bool
    ) -> Promise[JoinResult]:
        name = joining.client_id if joining.instance_id is None else joining.instance_id
        member_id = f"{name[:MEMBER_NAME_LENGTH_MAX]}-{uuid.UUID(bytes=self._rng.randbytes(16), version=4)}"
        if joining.instance_id is None:
            if not id_required:
                return self._add(group, member_id, joining)
            # KIP-394: without this step each join whose response is lost would leave a member
            # without a client behind, and the rebalance would wait for it.
            self._add_pending_member(group, member_id, joining.session_timeout_ms)
            raise MemberIdRequired(member_id)
        holder = group.static_ids.get(joining.instance_id)
        if holder is None:
            return self._add(group, member_id, joining)
        return self._replace_static_member(group, group.members[holder], member_id, joining, can_skip=can_skip)

    def _join_again(self, group: ClassicGroup, member: ClassicGroupMember, joining: JoinRequest) -> Promise[JoinResult]:
        unchanged = member.supports(joining.protocols)
        is_leader = member.member_id == group.leader_id
        # A lost response is sent again. A leader that joins a stable group again requests a new
        # assignment, also without changes of its own: topics may have more partitions.
        if unchanged and (
            group.state is ClassicGroupState.COMPLETING_REBALANCE
            or (group.state is ClassicGroupState.STABLE and not is_leader)
        ):
            promise: Promise[JoinResult] = Promise()
            self._rebalancer.resolve(promise, self._rebalancer.joined(group, member))
            return promise
        group.update(member, joining.protocols, joining.rebalance_timeout_ms, joining.session_timeout_ms)
        promise = self._rebalancer.wait_for_join(group, member)
        self._rebalancer.prepare_or_complete(group)
        return promise

    def _add_pending_member(self, group: ClassicGroup, member_id: str, session_timeout_ms: int) -> None:
        """Track an assigned member id, which must join within its session timeout."""

        def expire() -> None:
            self._remove_pending_member(group, member_id)
            self._rebalancer.maybe_complete_join(group)

        self._limits.add_pending_member(member_id, expire)
        deadline = LazyTimer(self._timers, expire)
        deadline.set(self._clock.monotonic_ms() + session_timeout_ms)
        group.pending[member_id] = deadline

    def _remove_pending_member(self, group: ClassicGroup, member_id: str) -> bool:
        deadline = group.pending.pop(member_id, None)
        if deadline is not None:
            deadline.clear()
            self._limits.remove_pending_member(member_id)
        return deadline is not None

    def _add(self, group: ClassicGroup, member_id: str, joining: JoinRequest) -> Promise[JoinResult]:
        self._remove_pending_member(group, member_id)
        member = self._rebalancer.new_member(group, member_id, joining)
        member.is_new = True
        if group.in_initial_delay:
            group.new_member_added = True
        group.add(member, joining.protocol_type)
        promise = self._rebalancer.wait_for_join(group, member)
        member.session.set(self._clock.monotonic_ms() + NEW_MEMBER_TIMEOUT_MS)
        self._rebalancer.prepare_or_complete(group)
        return promise

    # --- static members that join again

    def _replace_static_member(
        self, group: ClassicGroup, member: ClassicGroupMember, member_id: str, joining: JoinRequest, *, can_skip: bool
    ) -> Promise[JoinResult]:
        """Replace a static member by a new holder of its instance id, and fence the former one.

        A stable group keeps its generation if its protocol stays the same.
        """
        former = StaticMemberState(
            member.member_id, member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms
        )
        fenced = FencedInstanceId(
            f"instance id {joining.instance_id!r} of group {group.group_id!r} has joined again as {member_id!r}"
        )
        is_settled = (
            group.state is ClassicGroupState.STABLE and member.join_promise is None
        )  # else an earlier replacement is still being written
        # The former holder learns that it is fenced before the instance id has a new member id:
        # after that its requests name an unknown member.
        self._rebalancer.fail_join(group, member, fenced)
        self._rebalancer.fail_sync(member, fenced)
        group.rename(member, member_id)
        group.update(member, joining.protocols, joining.rebalance_timeout_ms, joining.session_timeout_ms)
        promise = self._rebalancer.wait_for_join(group, member)
        if is_settled and group.select_protocol() == group.protocol_name:
            self._persist_static_member(group, member, former, promise, can_skip=can_skip)
        else:
            # The leader may be computing the assignment, and knows the old id only: rebalance.
            self._rebalancer.prepare_or_complete(group)
        return promise

    def _persist_static_member(
        self,
        group: ClassicGroup,
        member: ClassicGroupMember,
        former: StaticMemberState,
        promise: Promise[JoinResult],
        *,
        can_skip: bool,
    ) -> None:
        leader_before = former.member_id if group.leader_id == member.member_id else group.leader_id or ""

        def done(error: KqueueError | None) -> None:
            if member.join_promise is not promise or group.state is not ClassicGroupState.STABLE:
                return  # it left, or a rebalance answers it and writes the group again
            self._rebalancer.extend_session(member)
            if error is not None:
                self._rebalancer.fail_join(group, member, coordinator_error(error))
                if isinstance(error, RequestTimedOut):
                    return  # the record is in the log, and most likely committed later: a restart finds the new id
                group.rename(member, former.member_id)
                group.update(member, former.protocols, former.rebalance_timeout_ms, former.session_timeout_ms)
                return
            group.take_join_promise(member)
            if can_skip:
                joined = self._rebalancer.joined(group, member, skip_assignment=group.leader_id == member.member_id)
            else:
                # A client without KIP-814 would compute an assignment if it were the leader, and
                # the other members would not get it.
                joined = self._rebalancer.joined(group, member)._replace(leader=leader_before, members=[])
            self._rebalancer.resolve(promise, joined)

        self._save(group, {other.member_id: other.assignment for other in group.members.values()}, done)

    # --- sessions

    def heartbeat(self, group: ClassicGroup, member: ClassicGroupMember, generation: int) -> None:
        """Extend a member's session.

        Raises: IllegalGeneration. RebalanceInProgress: the member must join again.
        """
        check_generation(group, generation)
        self._rebalancer.extend_session(member)
        if group.state is ClassicGroupState.PREPARING_REBALANCE:
            raise RebalanceInProgress(f"group {group.group_id!r} is rebalancing")

    def restore(self, group_id: str, value: GroupMetadataValue) -> ClassicGroup:
        """Return a group from its record; `resume` starts its sessions.

        Raises: MalformedMessage: a member is there twice.
        """
        group = self._rebalancer.new_group(group_id)
        group.restore(value)
        for saved in value.members:
            rebalance_timeout_ms = saved.session_timeout if saved.rebalance_timeout == -1 else saved.rebalance_timeout
            joining = JoinRequest(
                group_id,
                saved.member_id,
                saved.group_instance_id,
                value.protocol_type,
                {value.protocol or "": saved.subscription},
                saved.session_timeout,
                rebalance_timeout_ms,
                saved.client_id,
                saved.client_host,
            )
            if saved.member_id in group.members or saved.group_instance_id in group.static_ids:
                raise MalformedMessage(f"group {group_id!r} has member {saved.member_id!r} twice")
            member = self._rebalancer.new_member(group, saved.member_id, joining)
            member.assignment = saved.assignment
            group.add(member, value.protocol_type)
        group.update_subscribed_topics()
        return group

    def resume(self, group: ClassicGroup) -> None:
        """Start the sessions of a restored group; a group above `group.max.size` rebalances."""
        for member in group.members.values():
            self._rebalancer.extend_session(member)
        if len(group.members) > self._config.members_max:
            # The setting was lowered since. Those that join first stay (`_check_room`).
            self._rebalancer.prepare_rebalance(group)

    # --- leaves

    def leave(self, group: ClassicGroup, leaving: Sequence[LeavingMember]) -> list[RequestRefused | None]:
        """Remove members. Returns an outcome for each. Raises: CoordinatorNotAvailable."""
        _check_alive(group)
        count = len(group.members)
        answers = [self._leave(group, one) for one in leaving]
        if len(group.members) < count:
            self._rebalancer.after_removal(group)
        else:
            self._rebalancer.maybe_complete_join(group)  # the removed one may have been the last pending member
        return answers

    def _leave(self, group: ClassicGroup, leaving: LeavingMember) -> RequestRefused | None:
        member_id = leaving.member_id
        if self._remove_pending_member(group, member_id):
            return None
        if not member_id and leaving.instance_id is not None:
            # An administrator removes the holder of the instance id.
            member_id = group.static_ids.get(leaving.instance_id, "")
        try:
            self._rebalancer.remove_member(group, group.check_member(member_id, leaving.instance_id))
        except RequestRefused as error:
            return error
        return None


def _check_alive(group: ClassicGroup) -> None:
    if group.state is ClassicGroupState.DEAD:
        raise CoordinatorNotAvailable(f"group {group.group_id!r} is being removed")
