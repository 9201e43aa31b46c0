"""Heartbeats of consumer groups: joins, leaves, static members, fencing.

Each heartbeat is one step of the group's `WriteQueue`: what it changes is in the log before the
member is answered. Source: KIP-848, Kafka GroupMetadataManager.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Protocol

from kqueue.base.errors import IllegalGeneration, RequestRefused, StaleMemberEpoch, UnknownMember
from kqueue.base.names import random_uuid, uuid_text
from kqueue.base.promise import Promise
from kqueue.groups.classic.member import JoinRequest, JoinResult, LeavingMember
from kqueue.groups.consumer.group import ConsumerGroup, growth, is_away
from kqueue.groups.consumer.group_conversion import GroupConversion
from kqueue.groups.consumer.heartbeat_checks import check_heartbeat, is_full, is_leave
from kqueue.groups.consumer.member import (
    NO_PARTITIONS,
    Assignment,
    ConsumerGroupDescription,
    ConsumerGroupMember,
    HeartbeatRequest,
    HeartbeatResult,
    Subscription,
)
from kqueue.groups.consumer.subscriptions import Subscriptions
from kqueue.groups.errors import UnreleasedInstanceId
from kqueue.groups.group import Committer, Group
from kqueue.groups.log.changes import Changes
from kqueue.groups.modern.assignment import same_owned
from kqueue.groups.modern.environment import Environment
from kqueue.groups.modern.manager import ModernGroupManager
from kqueue.groups.modern.member import (
    EPOCH_JOIN,
    EPOCH_LEAVE_STATIC,
    ModernMemberDescription,
    check_epoch,
    is_repeat,
)
from kqueue.groups.modern.reconciliation import Target, reconcile


class ClassicRequests(Protocol):
    """The requests that members of the classic protocol make of consumer groups: `classic_members`,
    which is built on the manager.
    """

    def join(self, request: JoinRequest, *, id_required: bool) -> Promise[JoinResult]:
        """Add or update a member."""
        ...


class ConsumerGroupManager(ModernGroupManager[ConsumerGroup]):
    """The consumer groups of one coordinator. On the owner thread.

    Attributes:
        classic_members: set by the coordinator before the first request.
    """

    group_class = ConsumerGroup

    def __init__(self, environment: Environment, rng: random.Random, conversion: GroupConversion) -> None:
        super().__init__(environment, environment.config.consumer)
        self._config = environment.config
        self._rng = rng
        self._conversion = conversion
        self._subscriptions = Subscriptions(environment, self._see_topics)
        self.classic_members: ClassicRequests

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

    def describe(self, group_id: str) -> Promise[ConsumerGroupDescription]:
        """Return a promise of what is in the log of a group. It fails with GroupIdNotFound."""
        return self._submit_description(group_id, self._describe)

    def resume(self, group: ConsumerGroup) -> None:
        """Start the timers of a group that was read from the log."""
        group.has_new_patterns = any(pattern not in group.regexes for pattern in group.patterns)
        super().resume(group)

    def join(
        self, group: ConsumerGroup, request: JoinRequest, *, id_required: bool, can_skip: bool
    ) -> Promise[JoinResult] | None:
        """Answer a JoinGroup: a classic member is in the group beside the others."""
        if group.is_empty:
            return super().join(group, request, id_required=id_required, can_skip=can_skip)
        return self.classic_members.join(request, id_required=id_required)

    def leave(self, group: ConsumerGroup, leaving: Sequence[LeavingMember]) -> Promise[list[RequestRefused | None]]:
        """Remove members, as an administrator does. The promise has an outcome for each."""
        group_id = group.group_id
        return self._queue.submit(group_id, lambda changes: self._remove_members(changes, group_id, leaving))

    def bump_epoch(self, changes: Changes, group: ConsumerGroup) -> None:
        """Begin a new epoch: members have gone, and what only they subscribed to."""
        self._subscriptions.bump_epoch(changes, group)

    def check_commit(self, group: ConsumerGroup, committer: Committer, partitions: Iterable[tuple[str, int]]) -> None:
        """Check the member epoch of a commit; an empty group accepts one without a member.

        An older epoch is accepted if the member has had all of the partitions since then: its
        heartbeat and its commit have overtaken each other (KIP-1251).

        Raises: UnknownMember, StaleMemberEpoch; IllegalGeneration: the member is a classic one.
            Source: Kafka ConsumerGroup.
        """
        epoch, member_id = committer.epoch, committer.member_id
        if committer.is_producer or (epoch < 0 and group.is_empty):
            return
        member = group.check_member(member_id)
        current = member.current
        if epoch == current.epoch:
            return
        if member.metadata.classic is not None:
            raise IllegalGeneration(f"member {member_id!r} is at epoch {current.epoch}, not {epoch}")
        if not 0 <= epoch < current.epoch or not all(
            (topic := self.topics.find(name)) is not None and current.is_owned_since(topic.id, index, epoch)
            for name, index in partitions
        ):
            raise StaleMemberEpoch(
                f"member {member_id!r} of group {group.group_id!r} has epoch {current.epoch}, the commit has {epoch}"
            )

    def _heartbeat(self, changes: Changes, request: HeartbeatRequest) -> HeartbeatResult:
        is_join = request.member_epoch == EPOCH_JOIN
        group = self._of_heartbeat(changes, request.group_id, is_join=is_join)
        self.check_room(group, request.member_id)
        member = self._member_of(changes, group, request, is_join=is_join)
        former, member_id = member.current, member.member_id
        subscription = _merged(member.metadata, request)
        if subscription.regex:
            group.topic_filters[subscription.regex] = request.visible
        current = self.update(changes, group, member, subscription, request.owned).current
        # None says that nothing has changed: most heartbeats of a large group carry no partitions.
        sent = is_join or is_full(request) or not same_owned(current.assigned, former.assigned)
        interval_ms = self.heartbeat_interval_ms(group)
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
        # In this order: the subscriptions decide on the group epoch, this on the target assignment,
        # and that on what the member gets.
        changed = self._subscribe(changes, group, member, subscription)
        self._subscriptions.refresh(changes, group, changed=changed)
        member = self._reconcile(changes, group, member.member_id, owned, changed=changed)
        self.extend_session(group, member.member_id)
        return member

    def _convert(self, changes: Changes, group: Group) -> ConsumerGroup:
        """Replace a classic group by a consumer group with its members. Raises: GroupIdNotFound."""
        converted = self._conversion.to_consumer(changes, group)
        self.resume(converted)
        return converted

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
            epoch = request.member_epoch
            may_repeat = is_repeat(member.current, epoch, request.owned)
            check_epoch(group.type, member.current, epoch, is_repeat=may_repeat)
            return member
        holder = group.static_ids.get(instance_id) if instance_id is not None else None
        if holder is not None:
            if not is_away(group.members[holder]):
                raise UnreleasedInstanceId(
                    f"Static member {member_id} with instance id {instance_id} cannot join the group because the "
                    f"instance id is owned by {holder} member."
                )
            return self.replace_static(changes, group, group.members[holder], member_id)
        return group.member_or_new(member_id)

    def replace_static(
        self, changes: Changes, group: ConsumerGroup, holder: ConsumerGroupMember, member_id: str
    ) -> ConsumerGroupMember:
        """Give what a static member has to the one that comes with its instance id."""
        target = group.target_of(holder.member_id)
        # Removed first: removing it later would take the partitions from their new owner in the
        # index.
        self._remove(changes, group, holder.member_id)
        group.put_metadata(changes, member_id, holder.metadata)
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
        former = member.metadata
        is_new = member.member_id not in group.members
        if subscription == former and not is_new:
            return False
        self._limits.check_member(group.group_id, group.member_bytes, 0, growth(group, member, subscription))
        self._subscriptions.check_pattern(group, former.regex, subscription.regex)
        group.put_metadata(changes, member.member_id, subscription)
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
        names = group.topics_of(member.metadata)
        wanted = {
            topic: indexes
            for topic, indexes in group.target_of(member_id).items()
            if self.topics.name_of(topic) in names
        }
        target = Target(group.target_epoch, wanted, group.is_owned, owned)
        current = reconcile(member.current, target, changed=changed)
        if current == member.current:
            return member
        self._put_current(changes, group, member_id, current)
        return group.members[member_id]

    # --- leaving

    def _leave(self, changes: Changes, request: HeartbeatRequest) -> HeartbeatResult:
        if self.find(request.group_id) is None and request.group_id in self._groups:
            raise UnknownMember(f"Group {request.group_id} is not a consumer group.")  # as Kafka: not GroupIdNotFound
        group = self.get(request.group_id)
        if request.instance_id is None:
            member = group.check_member(request.member_id)
        else:
            member = group.check_static_member(request.member_id, request.instance_id)
        if request.member_epoch == EPOCH_LEAVE_STATIC:
            # As Kafka, which writes no epochs of assignment for one that is away.
            assigned = {topic: dict.fromkeys(indexes, 0) for topic, indexes in member.current.assigned.items()}
            away = member.current._replace(epoch=EPOCH_LEAVE_STATIC, assigned=assigned, revoking=NO_PARTITIONS)
            self._put_current(changes, group, member.member_id, away)
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
            pattern = group.members[member_id].metadata.regex
            self._remove(changes, group, member_id)
            if pattern and not group.count_pattern(pattern):
                group.remove_regex(changes, pattern)
        if not self._conversion.to_classic_if_due(changes, group):
            self._subscriptions.bump_epoch(changes, group)

    # --- tools

    def _describe(self, group: ConsumerGroup) -> ConsumerGroupDescription:
        members = [
            ModernMemberDescription(member, group.target_of(member_id)) for member_id, member in group.members.items()
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
