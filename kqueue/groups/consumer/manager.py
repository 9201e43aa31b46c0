"""Heartbeats of consumer groups: joins, leaves, static members, fencing.

Each heartbeat is one step of the group's `WriteQueue`: what it changes is in the log before the
member is answered. Source: KIP-848, Kafka GroupMetadataManager.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from kqueue.base.errors import (
    CoordinatorNotAvailable,
    GroupIdNotFound,
    GroupMaxSizeReached,
    RequestRefused,
    UnknownMember,
    UnsupportedVersion,
)
from kqueue.base.names import random_uuid, uuid_text
from kqueue.base.promise import Promise
from kqueue.groups.classic.member import LeavingMember
from kqueue.groups.consumer.group import ConsumerGroup, growth, is_away
from kqueue.groups.consumer.heartbeat_checks import check_epoch, check_heartbeat, is_full, is_leave
from kqueue.groups.consumer.member import (
    EPOCH_JOIN,
    EPOCH_LEAVE_STATIC,
    NO_PARTITIONS,
    Assignment,
    ConsumerGroupDescription,
    ConsumerGroupMember,
    ConsumerMemberDescription,
    HeartbeatRequest,
    HeartbeatResult,
    Subscription,
)
from kqueue.groups.consumer.subscriptions import Subscriptions
from kqueue.groups.errors import UnreleasedInstanceId, check_named
from kqueue.groups.group import GroupType
from kqueue.groups.group_conversion import GroupConversion
from kqueue.groups.modern.assignment import must_revoke, same_owned
from kqueue.groups.modern.changes import Changes
from kqueue.groups.modern.environment import Environment
from kqueue.groups.modern.member_timers import MemberTimers
from kqueue.groups.modern.offset_checks import check_fetch
from kqueue.groups.modern.reconciliation import Target, reconcile


class ConsumerGroupManager:
    """The consumer groups of one coordinator, whose table of all groups it shares. On the owner
    thread.
    """

    def __init__(self, environment: Environment, rng: random.Random, conversion: GroupConversion) -> None:
        self.topics = environment.topics
        self._config = environment.config
        self._limits = environment.limits
        self._groups = environment.groups
        self._queue = environment.queue
        self._settings = environment.settings
        self._rng = rng
        self._conversion = conversion
        self._timers: MemberTimers[ConsumerGroup] = MemberTimers(
            environment.timers, environment.clock, self._expire_session, self._expire_revocation
        )
        self._subscriptions = Subscriptions(environment)

    def find(self, group_id: str) -> ConsumerGroup | None:
        """Return a consumer group; None: there is none of this id."""
        group = self._groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    # --- requests

    def heartbeat(self, request: HeartbeatRequest) -> Promise[HeartbeatResult]:
        """Join a group, stay in it, or leave it.

        Returns: a promise that is resolved when what changed is in the log. It fails with
            GroupIdNotFound, UnknownMember, FencedMemberEpoch, FencedInstanceId,
            UnreleasedInstanceId, GroupMaxSizeReached, InvalidRegularExpression,
            CoordinatorNotAvailable, or with what `coordinator_error` makes of a failed write.
        Raises: InvalidRequest, UnsupportedAssignor.
        """
        check_heartbeat(request, self._config.assignors)
        if is_leave(request):
            return self._queue.submit(request.group_id, lambda changes: self._leave(changes, request))
        if not request.member_id:
            request = request._replace(member_id=uuid_text(random_uuid(self._rng)))
        return self._queue.submit(request.group_id, lambda changes: self._heartbeat(changes, request))

    def check_old_commit(self, group_id: str, member_id: str) -> None:
        """Check that an OffsetCommit before version 9 is not of a member of the new protocol.

        Raises: UnsupportedVersion. Source: Kafka ConsumerGroup.validateOffsetCommit.
        """
        group = self.find(group_id)
        member = None if group is None else group.members.get(member_id)
        if member is not None and member.subscription.classic is None:
            raise UnsupportedVersion("members of the consumer protocol commit with OffsetCommit version 9 or later")

    def check_offset_fetch(self, group_id: str, member_id: str | None, epoch: int) -> None:
        """Check that a member may fetch offsets; of groups of other types anybody may.

        Args: member_id, epoch: None and -1: not a member (OffsetFetch before version 9).
        Raises: UnknownMember, StaleMemberEpoch.
        """
        group = self.find(group_id)
        if group is not None:
            check_fetch(group, member_id, epoch)

    def describe(self, group_id: str) -> Promise[ConsumerGroupDescription]:
        """Return a promise of what is in the log of a group. It fails with GroupIdNotFound."""
        return self._queue.submit(group_id, lambda changes: self._describe(group_id))

    def remove_members(self, group_id: str, leaving: Sequence[LeavingMember]) -> Promise[list[RequestRefused | None]]:
        """Remove members, as an administrator does. The promise has an outcome for each."""
        return self._queue.submit(group_id, lambda changes: self._remove_members(changes, group_id, leaving))

    def resume(self, group: ConsumerGroup) -> None:
        """Start the timers of a group that was read from the log."""
        for member_id in group.members:
            self._watch(group, member_id)

    # --- heartbeats

    def _heartbeat(self, changes: Changes, request: HeartbeatRequest) -> HeartbeatResult:
        is_join = request.member_epoch == EPOCH_JOIN
        group = self._group_of(changes, request, is_join=is_join)
        self.check_room(group, request.member_id)
        member = self._member_of(changes, group, request, is_join=is_join)
        former, member_id = member.current, member.member_id
        subscription = _merged(member.subscription, request)
        if subscription.regex:
            group.topic_filters[subscription.regex] = request.visible
        current = self.update(changes, group, member, subscription, request.owned).current
        sent = is_join or is_full(request) or not same_owned(current.assigned, former.assigned)
        interval_ms = self._config.consumer.heartbeat_interval.of(self._settings(group.group_id))
        return HeartbeatResult(member_id, current.epoch, interval_ms, current.assigned if sent else None)

    def update(
        self,
        changes: Changes,
        group: ConsumerGroup,
        member: ConsumerGroupMember,
        subscription: Subscription,
        owned: Assignment | None,
    ) -> ConsumerGroupMember:
        """Apply what a member says: its subscription, and what it owns (None: it did not say)."""
        changed = self._subscribe(changes, group, member, subscription)
        self._subscriptions.refresh(changes, group, changed=changed)
        member = self._reconcile(changes, group, member.member_id, owned, changed=changed)
        self.extend_session(group, member)
        return member

    def _group_of(self, changes: Changes, request: HeartbeatRequest, *, is_join: bool) -> ConsumerGroup:
        """Return the group, a new one if the member joins. Raises: GroupIdNotFound."""
        group_id = request.group_id
        group = self._groups.get(group_id)
        if group is not None and group.is_dead:
            raise CoordinatorNotAvailable(f"group {group_id!r} is being removed")
        if isinstance(group, ConsumerGroup):
            return group
        if group is not None:
            if not is_join or group.type is not GroupType.CLASSIC:
                raise GroupIdNotFound(f"Group {group_id} is not a consumer group.")
            converted = self._conversion.to_consumer(changes, group)
            for member_id in converted.members:
                self._watch(converted, member_id)
            return converted
        if not is_join:
            raise GroupIdNotFound(f"Consumer group {group_id} not found.")
        self._limits.check_new_group(group_id, len(self._groups))
        created = self._groups[group_id] = ConsumerGroup(group_id, self._limits)

        def undo() -> None:
            created.stop_timers()
            del self._groups[group_id]

        changes.add_unlogged(undo)
        return created

    def _member_of(
        self, changes: Changes, group: ConsumerGroup, request: HeartbeatRequest, *, is_join: bool
    ) -> ConsumerGroupMember:
        """Return the member; one that joins may not be in the group yet."""
        member_id, instance_id = request.member_id, request.instance_id
        if not is_join:
            if instance_id is None:
                member = group.check_member(member_id)
            else:
                member = group.check_static_member(member_id, instance_id)
            check_epoch(member.current, request.member_epoch, request.owned)
            return member
        holder = group.static_ids.get(instance_id) if instance_id is not None else None
        if holder is not None:
            if not is_away(group.members[holder]):
                raise UnreleasedInstanceId(
                    f"Static member {member_id} with instance id {instance_id} cannot join the group because the "
                    f"instance id is owned by {holder} member."
                )
            return self.replace_static(changes, group, group.members[holder], member_id)
        existing = group.members.get(member_id)
        if existing is not None:
            return existing
        return ConsumerGroupMember(member_id)

    def check_room(self, group: ConsumerGroup, member_id: str) -> None:
        """Check the number of members. Raises: GroupMaxSizeReached."""
        size_max = self._config.consumer.members_max
        if len(group.members) >= size_max and member_id not in group.members:
            raise GroupMaxSizeReached(f"The consumer group has reached its maximum capacity of {size_max} members.")

    def replace_static(
        self, changes: Changes, group: ConsumerGroup, holder: ConsumerGroupMember, member_id: str
    ) -> ConsumerGroupMember:
        """Give what a static member has to the one that comes with its instance id."""
        target = group.target_of(holder.member_id)
        self._remove(changes, group, holder.member_id)
        group.put_subscription(changes, member_id, holder.subscription)
        group.put_target(changes, member_id, target)
        group.put_current(changes, member_id, holder.current._replace(epoch=0, previous_epoch=0))
        return group.members[member_id]

    def downgrade_if_due(self, changes: Changes, group: ConsumerGroup) -> None:
        """Make the group a classic one if a classic member has replaced the last other one."""
        self._conversion.to_classic_if_due(changes, group, was_taken_over=True)

    def _subscribe(
        self, changes: Changes, group: ConsumerGroup, member: ConsumerGroupMember, subscription: Subscription
    ) -> bool:
        """Set a member's subscription. Returns: whether other topics than before follow from it."""
        former = member.subscription
        is_new = member.member_id not in group.members
        if subscription == former and not is_new:
            return False
        self._limits.check_member(group.group_id, group.member_bytes, 0, growth(group, member, subscription))
        self._subscriptions.check_pattern(group, former.regex, subscription.regex)
        group.put_subscription(changes, member.member_id, subscription)
        changed = self._subscriptions.change_pattern(changes, group, former.regex, subscription.regex)
        return changed or subscription.topics != former.topics

    def _reconcile(
        self,
        changes: Changes,
        group: ConsumerGroup,
        member_id: str,
        owned: Assignment | None,
        *,
        changed: bool,
    ) -> ConsumerGroupMember:
        """Bring a member nearer to its target assignment."""
        member = group.members[member_id]
        if member.current.is_reconciled(group.target_epoch) and not changed:
            return member
        names = group.topics_of(member.subscription)
        wanted = {
            topic: indexes
            for topic, indexes in group.target_of(member_id).items()
            if self.topics.name_of(topic) in names
        }
        target = Target(group.target_epoch, wanted, group.is_owned, owned)
        current = reconcile(member.current, target, changed=changed)
        if current == member.current:
            return member
        group.put_current(changes, member_id, current)
        changes.on_committed.append(lambda: self._timers.watch_revocation(group, member_id))
        return group.members[member_id]

    # --- leaving

    def _leave(self, changes: Changes, request: HeartbeatRequest) -> HeartbeatResult:
        group = self._groups.get(request.group_id)
        if group is None:
            raise GroupIdNotFound(f"Group {request.group_id} not found.")
        if not isinstance(group, ConsumerGroup):
            raise UnknownMember(f"Group {request.group_id} is not a consumer group.")
        if request.instance_id is None:
            member = group.check_member(request.member_id)
        else:
            member = group.check_static_member(request.member_id, request.instance_id)
        if request.member_epoch == EPOCH_LEAVE_STATIC:
            # As Kafka, which writes no epochs of assignment for one that is away.
            assigned = {topic: dict.fromkeys(indexes, 0) for topic, indexes in member.current.assigned.items()}
            away = member.current._replace(epoch=EPOCH_LEAVE_STATIC, assigned=assigned, revoking=NO_PARTITIONS)
            group.put_current(changes, member.member_id, away)
            changes.on_committed.append(lambda: self._timers.watch_revocation(group, member.member_id))
        else:
            self._fence(changes, group, [member.member_id])
        return HeartbeatResult(member.member_id, request.member_epoch, 0)

    def _remove_members(
        self, changes: Changes, group_id: str, leaving: Sequence[LeavingMember]
    ) -> list[RequestRefused | None]:
        group = self.find(group_id)
        outcomes: list[RequestRefused | None] = []
        removed: list[str] = []
        for one in leaving:
            member_id = one.member_id
            try:
                if group is None:
                    raise UnknownMember(f"there is no group {group_id!r}")
                if one.instance_id is not None:
                    member_id = member_id or group.static_ids.get(one.instance_id, "")
                    group.check_static_member(member_id, one.instance_id)
                else:
                    group.check_member(member_id)
                if member_id in removed:
                    raise UnknownMember(f"member {member_id!r} is named twice")
            except RequestRefused as error:
                outcomes.append(error)
            else:
                removed.append(member_id)
                outcomes.append(None)
        if group is not None and removed:
            self._fence(changes, group, removed)
        return outcomes

    def _fence(self, changes: Changes, group: ConsumerGroup, member_ids: Sequence[str]) -> None:
        """Remove members; the others share their partitions from the next assignment on."""
        for member_id in member_ids:
            pattern = group.members[member_id].subscription.regex
            self._remove(changes, group, member_id)
            if pattern and not group.count_pattern(pattern):
                group.remove_regex(changes, pattern)
        if not self._conversion.to_classic_if_due(changes, group):
            self._subscriptions.bump_epoch(changes, group)

    def _remove(self, changes: Changes, group: ConsumerGroup, member_id: str) -> None:
        changes.add_unlogged(lambda: self._watch(group, member_id))  # its timer may have run meanwhile
        group.remove_member(changes, member_id)
        changes.on_committed.append(lambda: self._timers.forget(group, member_id))

    # --- time

    def _watch(self, group: ConsumerGroup, member_id: str) -> None:
        """Start the timers of a member that has all its time."""
        self.extend_session(group, group.members[member_id])
        self._timers.watch_revocation(group, member_id)

    def extend_session(self, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
        """Restart the session of a member; a classic one has chosen its length."""
        classic = member.subscription.classic
        own = self._settings(group.group_id)
        timeout_ms = self._config.consumer.session_timeout.of(own) if classic is None else classic.session_timeout_ms
        self._timers.extend_session(group, member.member_id, timeout_ms)

    def remove_late(self, group: ConsumerGroup, member_id: str, is_late: Callable[[], bool]) -> None:
        """Remove a member if it is still late when its turn comes."""

        def remove(changes: Changes) -> None:
            if self.find(group.group_id) is group and member_id in group.members and is_late():
                self._fence(changes, group, [member_id])

        self._queue.submit_late(group.group_id, remove)

    def _expire_session(self, group: ConsumerGroup, member_id: str) -> None:
        """Remove a member that was silent too long."""
        if self.find(group.group_id) is group and member_id in group.members:
            self.remove_late(group, member_id, lambda: member_id not in group.sessions)

    def _expire_revocation(self, group: ConsumerGroup, member_id: str, epoch: int) -> None:
        """Remove a member that did not revoke in time."""
        member = group.members.get(member_id)
        if member is not None and must_revoke(member.current, epoch):
            self.remove_late(group, member_id, lambda: must_revoke(group.members[member_id].current, epoch))

    # --- tools

    def _describe(self, group_id: str) -> ConsumerGroupDescription:
        check_named(group_id)
        group = self._groups.get(group_id)
        if group is None:
            raise GroupIdNotFound(f"Group {group_id} not found.")
        if not isinstance(group, ConsumerGroup):
            raise GroupIdNotFound(f"Group {group_id} is not a consumer group.")
        members = [
            ConsumerMemberDescription(member, group.target_of(member_id)) for member_id, member in group.members.items()
        ]
        assignor = group.preferred_assignor(self._config.assignors)
        return ConsumerGroupDescription(group.state.value, group.epoch, group.target_epoch, assignor, members)


def _merged(former: Subscription, request: HeartbeatRequest) -> Subscription:
    """Return the subscription of a member after a heartbeat, which names only what changed."""
    return Subscription(
        former.instance_id if request.instance_id is None else request.instance_id,
        former.rack_id if request.rack_id is None else request.rack_id,
        request.client_id,
        request.client_host,
        former.topics if request.topics is None else tuple(sorted(set(request.topics))),
        former.regex if request.regex is None else request.regex,
        former.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
        former.assignor if request.assignor is None else request.assignor,
    )
