"""How members come, stay and go: dynamic members, and static ones that keep their place when they
come back.

A dynamic newcomer is given an id to come back with, so that a join that was given up leaves no
ghost; a static member is known by its instance id, and whoever joins with that last holds its
place. Source: Kafka GroupMetadataManager (classicGroup…), KIP-62, KIP-345, KIP-394, KIP-814.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from typing import NamedTuple

from kqueue.base.clock import Clock
from kqueue.base.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    InvalidSessionTimeout,
    KqueueError,
    MalformedMessage,
    MemberIdRequired,
    RebalanceInProgress,
    RequestRefused,
)
from kqueue.base.promise import Promise
from kqueue.base.timers import Timers
from kqueue.groups.classic_group import ClassicGroup
from kqueue.groups.classic_member import ClassicGroupMember, JoinRequest, JoinResult, LeavingMember
from kqueue.groups.classic_state import ClassicGroupState
from kqueue.groups.config import GroupConfig
from kqueue.groups.group_log import coordinator_error
from kqueue.groups.lazy_timer import LazyTimer
from kqueue.groups.limits import GroupLimits, member_bytes
from kqueue.groups.rebalancer import Rebalancer, SaveGroup, check_generation
from kqueue.groups.schemas import GroupMetadataValue

NEW_MEMBER_TIMEOUT_MS = 300_000
"""How long a newcomer's first join may take; it can't send heartbeats before it knows its id.
Source: Kafka.
"""


MEMBER_NAME_LENGTH_MAX = 255
"""How much of a client id or instance id goes into a member id, which has to fit into a string of
the protocol whatever it is made of.
"""


class StaticMemberState(NamedTuple):
    """What a static member was before it was replaced, should the replacement not reach the log."""

    member_id: str
    protocols: dict[str, bytes]
    rebalance_timeout_ms: int
    session_timeout_ms: int


class MembershipManager:
    """The rules of membership, over groups that the caller keeps. Runs on the owner thread."""

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
        """Raises InvalidSessionTimeout."""
        low, high = self._config.session_timeout_min_ms, self._config.session_timeout_max_ms
        if not low <= session_timeout_ms <= high:
            raise InvalidSessionTimeout(f"the session timeout is from {low} to {high} ms, not {session_timeout_ms}")

    # --- coming

    def join(
        self, group: ClassicGroup, joining: JoinRequest, *, id_required: bool, can_skip: bool
    ) -> Promise[JoinResult]:
        """Take a member into the next generation; see `GroupCoordinator.join`."""
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
        """Raises GroupMaxSizeReached. While the members gather, those who come last lose their
        place in a group that is too big.
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
        """Raises GroupMaxSizeReached: what the member says is more than the group, or all groups,
        may keep.
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
            self._add_pending_member(group, member_id, joining.session_timeout_ms)
            raise MemberIdRequired(member_id)
        holder = group.static_ids.get(joining.instance_id)
        if holder is None:
            return self._add(group, member_id, joining)
        return self._replace_static_member(group, group.members[holder], member_id, joining, can_skip=can_skip)

    def _join_again(self, group: ClassicGroup, member: ClassicGroupMember, joining: JoinRequest) -> Promise[JoinResult]:
        unchanged = member.supports(joining.protocols)
        is_leader = member.member_id == group.leader_id
        # An answer that got lost is given once more. A leader that joins a stable group wants a new
        # assignment though nothing of its own changed: topics may have grown.
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
        """Hand out an id; who holds it has to join with it before its session would end."""

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

    # --- static members that come back

    def _replace_static_member(
        self, group: ClassicGroup, member: ClassicGroupMember, member_id: str, joining: JoinRequest, *, can_skip: bool
    ) -> Promise[JoinResult]:
        """A static member came back under a new id: fence the old one. A stable group goes on as it
        is if its protocol stays.
        """
        former = StaticMemberState(
            member.member_id, member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms
        )
        fenced = FencedInstanceId(
            f"instance id {joining.instance_id!r} of group {group.group_id!r} has joined anew as {member_id!r}"
        )
        is_settled = (
            group.state is ClassicGroupState.STABLE and member.join_promise is None
        )  # else an earlier return is still being written
        self._rebalancer.fail_join(group, member, fenced)
        self._rebalancer.fail_sync(member, fenced)
        group.rename(member, member_id)
        group.update(member, joining.protocols, joining.rebalance_timeout_ms, joining.session_timeout_ms)
        promise = self._rebalancer.wait_for_join(group, member)
        if is_settled and group.select_protocol() == group.protocol_name:
            self._persist_static_member(group, member, former, promise, can_skip=can_skip)
        else:
            # While the leader makes the assignment, it knows the old id only: everybody has to join
            # again.
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
                return  # it left, or a rebalance is under way, which answers it and writes the group anew
            self._rebalancer.extend_session(member)
            if error is not None:
                self._rebalancer.fail_join(group, member, coordinator_error(error))
                group.rename(member, former.member_id)
                group.update(member, former.protocols, former.rebalance_timeout_ms, former.session_timeout_ms)
                return
            group.take_join_promise(member)
            if can_skip:
                joined = self._rebalancer.joined(group, member, skip_assignment=group.leader_id == member.member_id)
            else:
                # An old leader would assign anew if it found itself leading, and its members would
                # never hear of it.
                joined = self._rebalancer.joined(group, member)._replace(leader=leader_before, members=[])
            self._rebalancer.resolve(promise, joined)

        self._save(group, {other.member_id: other.assignment for other in group.members.values()}, done)

    # --- staying

    def heartbeat(self, group: ClassicGroup, member: ClassicGroupMember, generation: int) -> None:
        """Keep the member's session. Raises IllegalGeneration; RebalanceInProgress: the member has
        to join again.
        """
        check_generation(group, generation)
        self._rebalancer.extend_session(member)
        if group.state is ClassicGroupState.PREPARING_REBALANCE:
            raise RebalanceInProgress(f"group {group.group_id!r} is rebalancing")

    def restore(self, group_id: str, value: GroupMetadataValue) -> ClassicGroup:
        """A group as the log has it; `resume` starts it. Raises MalformedMessage: members that
        can't be together.
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
        """Start the sessions of a group read from the log; one that is bigger than it may be has to
        gather anew.
        """
        for member in group.members.values():
            self._rebalancer.extend_session(member)
        if len(group.members) > self._config.members_max:
            self._rebalancer.prepare_rebalance(group)

    # --- going

    def leave(self, group: ClassicGroup, leaving: Sequence[LeavingMember]) -> list[RequestRefused | None]:
        """Let members go, one answer for each. Raises CoordinatorNotAvailable."""
        _check_alive(group)
        count = len(group.members)
        answers = [self._leave(group, one) for one in leaving]
        if len(group.members) < count:
            self._rebalancer.after_removal(group)
        else:
            self._rebalancer.maybe_complete_join(group)  # somebody may have been waited for that never joined
        return answers

    def _leave(self, group: ClassicGroup, leaving: LeavingMember) -> RequestRefused | None:
        member_id = leaving.member_id
        if self._remove_pending_member(group, member_id):
            return None
        if not member_id and leaving.instance_id is not None:
            # An administrator removes whoever holds the instance id.
            member_id = group.static_ids.get(leaving.instance_id, "")
        try:
            self._rebalancer.remove_member(group, group.check_member(member_id, leaving.instance_id))
        except RequestRefused as error:
            return error
        return None


def _check_alive(group: ClassicGroup) -> None:
    if group.state is ClassicGroupState.DEAD:
        raise CoordinatorNotAvailable(f"group {group.group_id!r} is being removed")
