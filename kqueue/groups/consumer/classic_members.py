"""Members of the classic protocol in a consumer group: JoinGroup, SyncGroup and Heartbeat, answered
by the target assignment.

A join is a heartbeat that says all; its answer has the member's epoch as generation. A member that
shall have other partitions is told to rejoin (REBALANCE_IN_PROGRESS), and gets them in SyncGroup.
Source: KIP-848, Kafka GroupMetadataManager (classicGroup…ToConsumerGroup).
"""

from __future__ import annotations

import random
import uuid

from kqueue.base.errors import (
    IllegalGeneration,
    InconsistentGroupProtocol,
    MalformedMessage,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMember,
)
from kqueue.base.promise import Promise
from kqueue.groups.classic.member import JoinRequest, JoinResult, SyncResult
from kqueue.groups.classic.membership_manager import MEMBER_NAME_LENGTH_MAX
from kqueue.groups.consumer.embedded_protocol import EmbeddedSubscription, assignment_bytes, by_id, read_subscription
from kqueue.groups.consumer.group import ConsumerGroup
from kqueue.groups.consumer.manager import ConsumerGroupManager
from kqueue.groups.consumer.member import Assignment, ClassicProtocols, ConsumerGroupMember, Subscription
from kqueue.groups.lazy_timer import LazyTimer
from kqueue.groups.log.changes import Changes
from kqueue.groups.log.schemas import CONSUMER_PROTOCOL
from kqueue.groups.modern.assignment import ModernMemberState
from kqueue.groups.modern.environment import Environment


class ClassicTimeouts:
    """The deadlines of classic members within consumer groups, which keep them: to join again after
    a rebalance has begun, and to send SyncGroup after JoinGroup. Both last the rebalance timeout.

    They are in memory only: after a restart a member stays until its session ends. On the owner
    thread. Source: Kafka GroupMetadataManager.
    """

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
        deadline.set(self._clock.monotonic_ms() + max(member.metadata.rebalance_timeout_ms, 0))


def _stop(deadlines: dict[str, LazyTimer], member_id: str) -> None:
    deadline = deadlines.pop(member_id, None)
    if deadline is not None:
        deadline.clear()


class ClassicMembers:
    """The classic members of all consumer groups. On the owner thread."""

    def __init__(self, environment: Environment, manager: ConsumerGroupManager, rng: random.Random) -> None:
        self._queue = environment.queue
        self._topics = environment.topics
        self._manager = manager
        self._rng = rng
        self._timeouts = ClassicTimeouts(environment, manager)

    def join(self, request: JoinRequest, *, id_required: bool) -> Promise[JoinResult]:
        """Add or update a member; see `GroupCoordinator.join`. Raises: MemberIdRequired."""
        if not request.member_id and request.instance_id is None and id_required:
            raise MemberIdRequired(self._new_id(request))
        return self._queue.submit(request.group_id, lambda changes: self._join(changes, request))

    def sync(self, group_id: str, generation: int, member_id: str, instance_id: str | None) -> Promise[SyncResult]:
        """Return a promise of what a member owns; see `GroupCoordinator.sync`."""
        return self._queue.submit(group_id, lambda changes: self._sync(group_id, generation, member_id, instance_id))

    def heartbeat(self, group_id: str, generation: int, member_id: str, instance_id: str | None) -> None:
        """Extend a member's session.

        Raises: UnknownMember, FencedInstanceId, IllegalGeneration. RebalanceInProgress: the session
            is extended, and the member must join again.
        """
        group, member = self._member(group_id, generation, member_id, instance_id)
        self._manager.extend_session(group, member.member_id)
        if self._must_rejoin(group, member):
            self._timeouts.await_join(group, member)
            raise RebalanceInProgress(f"group {group_id!r} is rebalancing")

    # --- steps

    def _join(self, changes: Changes, request: JoinRequest) -> JoinResult:
        group = self._group(request.group_id)
        name, read = self._chosen(request)
        self._check_protocols(group, request)
        holder = group.members.get(group.static_ids.get(request.instance_id or "", ""))
        takes_over = holder is not None and holder.metadata.classic is None
        member = self._joining(changes, group, request)
        subscription = Subscription(
            request.instance_id,
            read.rack_id,
            request.client_id,
            request.client_host,
            read.topics,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            classic=ClassicProtocols(request.session_timeout_ms, tuple(request.protocols.items())),
        )
        is_current = read.generation == member.current.epoch
        owned: Assignment = by_id(read.owned, self._topics) if is_current else {}
        member = self._manager.update(changes, group, member, subscription, owned)
        member_id = member.member_id
        if takes_over:
            self._manager.downgrade_if_due(changes, group)
        if self._manager.find(group.group_id) is group:
            changes.on_committed.append(lambda: self._timeouts.await_sync(group, member_id))
        return JoinResult(member.current.epoch, CONSUMER_PROTOCOL, name, "", member_id, [])

    def _joining(self, changes: Changes, group: ConsumerGroup, request: JoinRequest) -> ConsumerGroupMember:
        """Return the member that joins; a new one may not be in the group yet."""
        member_id, instance_id = request.member_id, request.instance_id
        if member_id and instance_id is not None and instance_id in group.static_ids:
            return group.check_static_member(member_id, instance_id)
        if member_id and member_id in group.members:
            return group.members[member_id]
        member_id = member_id or self._new_id(request)
        holder = group.static_ids.get(instance_id) if instance_id is not None else None
        if holder is not None:
            return self._manager.replace_static(changes, group, group.members[holder], member_id)
        self._manager.check_room(group, member_id)
        return group.member_or_new(member_id)

    def _sync(self, group_id: str, generation: int, member_id: str, instance_id: str | None) -> SyncResult:
        group, member = self._member(group_id, generation, member_id, instance_id)
        # One that must revoke learns so from its assignment, and joins again when it has.
        must_revoke = member.current.state is ModernMemberState.UNREVOKED_PARTITIONS
        if group.epoch > member.current.epoch and not must_revoke:
            self._timeouts.await_join(group, member)
            raise RebalanceInProgress(f"group {group_id!r} is rebalancing")
        self._timeouts.synced(group, member_id)
        self._manager.extend_session(group, member.member_id)
        assert member.metadata.classic is not None
        name, metadata = member.metadata.classic.protocols[0]
        version = read_subscription(metadata).version
        return SyncResult(CONSUMER_PROTOCOL, name, assignment_bytes(version, member.current.assigned, self._topics))

    def _must_rejoin(self, group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
        """Return whether a rejoin would change what the member owns."""
        current = member.current
        if current.epoch < group.epoch or current.state is ModernMemberState.UNREVOKED_PARTITIONS:
            return True
        if current.state is not ModernMemberState.UNRELEASED_PARTITIONS:
            return False
        return not any(
            group.is_owned(topic, index)
            for topic, indexes in group.target_of(member.member_id).items()
            for index in indexes
            if index not in current.assigned.get(topic, {})
        )

    # --- checks

    def _group(self, group_id: str) -> ConsumerGroup:
        group = self._manager.find(group_id)
        if group is None:
            raise UnknownMember(f"group {group_id!r} is no consumer group any more: join again")
        return group

    def _member(
        self, group_id: str, generation: int, member_id: str, instance_id: str | None
    ) -> tuple[ConsumerGroup, ConsumerGroupMember]:
        group = self._group(group_id)
        if instance_id is None:
            member = group.check_member(member_id)
        else:
            member = group.check_static_member(member_id, instance_id)
        if member.metadata.classic is None:
            raise UnknownMember(f"member {member_id!r} of group {group_id!r} uses the consumer protocol")
        if generation != member.current.epoch:
            raise IllegalGeneration(f"member {member_id!r} is at epoch {member.current.epoch}, not {generation}")
        return group, member

    def _chosen(self, request: JoinRequest) -> tuple[str, EmbeddedSubscription]:
        """Return the preferred protocol and its subscription. Raises: InconsistentGroupProtocol."""
        for name, metadata in request.protocols.items():
            if request.protocol_type == CONSUMER_PROTOCOL:
                try:
                    return name, read_subscription(metadata)
                except MalformedMessage:
                    break
        raise InconsistentGroupProtocol(f"group {request.group_id!r} is of consumers, and the member is none")

    def _check_protocols(self, group: ConsumerGroup, request: JoinRequest) -> None:
        """Check that the classic members have a protocol in common, for the way back."""
        common = set(request.protocols)
        for member_id, member in group.members.items():
            if member.metadata.classic is not None and member_id != request.member_id:
                common &= {name for name, _ in member.metadata.classic.protocols}
        if not common:
            raise InconsistentGroupProtocol(f"group {group.group_id!r}: no protocol is supported by all members")

    def _new_id(self, request: JoinRequest) -> str:
        name = request.client_id if request.instance_id is None else request.instance_id
        return f"{name[:MEMBER_NAME_LENGTH_MAX]}-{uuid.UUID(bytes=self._rng.randbytes(16), version=4)}"
