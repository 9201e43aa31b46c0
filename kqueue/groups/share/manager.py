"""Heartbeats of share groups: joins, leaves, assignment, and the states of share partitions.

Each heartbeat is one step of the group's `WriteQueue`: what it changes is in the log before the
member is answered. A partition is assigned once its share partition has a state:

    1. a heartbeat finds partitions without a state, and notes them as initializing
    2. the share coordinator writes their states
    3. a step notes them as initialized, and raises the group epoch: the next heartbeats assign them

A crash between 1 and 3 repeats 2. Source: KIP-932, Kafka's GroupMetadataManager.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from kqueue.base import events
from kqueue.base.errors import (
    GroupIdNotFound,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidRequest,
    KqueueError,
)
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.groups.classic.member import JoinRequest, JoinResult
from kqueue.groups.errors import NonEmptyGroup, check_named
from kqueue.groups.group import Committer
from kqueue.groups.lazy_timer import LazyTimer
from kqueue.groups.log.changes import Changes
from kqueue.groups.modern.assignment import CurrentAssignment, same_owned
from kqueue.groups.modern.environment import Environment
from kqueue.groups.modern.manager import ModernGroupManager
from kqueue.groups.modern.member import EPOCH_JOIN, EPOCH_LEAVE, check_epoch
from kqueue.groups.modern.target_assignment import TargetAssignment, TargetAssignments, changed_targets
from kqueue.groups.modern.topics import metadata_hash
from kqueue.groups.share.group import ShareGroup, merged, readable, without
from kqueue.groups.share.member import (
    ShareGroupDescription,
    ShareHeartbeat,
    ShareHeartbeatResult,
    ShareMember,
    ShareSubscription,
    current_of,
)
from kqueue.groups.share.records import StateTopic
from kqueue.groups.share.simple_assignor import assign

logger = logging.getLogger("kqueue.groups")
RETRY = "retry of states"
"""A timer of a group."""
RETRY_MS = 1000
"""After this time the share coordinator is asked again for states that it could not write."""
Partitions = Mapping[bytes, StateTopic]


class ShareStates(Protocol):
    """The persisted states of share partitions, as the layer above has them."""

    def initialize(
        self, group_id: str, partitions: Partitions, state_epoch: int, done: Callable[[KqueueError | None], None]
    ) -> None:
        """Give share partitions a state where they have none."""
        ...

    def delete_group(self, group_id: str, partitions: Partitions) -> None:
        """Delete the states of a group. `partitions`: those that have a state, or may have one."""
        ...


class ShareGroupManager(ModernGroupManager[ShareGroup]):
    """The share groups of one coordinator. On the owner thread.

    Attributes:
        states: set by the layer above before the first request.
    """

    group_class = ShareGroup

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment, environment.config.share)
        self.states: ShareStates
        self._base_timers = environment.timers
        # As in Kafka, the assignor runs within the heartbeat whatever the size of the group.
        self._assignments: TargetAssignments[ShareGroup] = TargetAssignments(
            environment, self._timings.assignment_interval, self._compute, lambda group: 0, inline_ms=math.inf
        )

    # --- requests

    def heartbeat(self, request: ShareHeartbeat) -> Promise[ShareHeartbeatResult]:
        """Join a group, stay in it, or leave it.

        Returns: a promise that is resolved when what changed is in the log. It fails with
            GroupIdNotFound, UnknownMember, FencedMemberEpoch, GroupMaxSizeReached,
            CoordinatorNotAvailable, or with what `coordinator_error` makes of a failed write.
        Raises: InvalidRequest.
        """
        _check(request)
        if request.member_epoch == EPOCH_LEAVE:
            return self._queue.submit(request.group_id, lambda changes: self._leave(changes, request))
        return self._queue.submit(request.group_id, lambda changes: self._heartbeat(changes, request))

    def describe(self, group_id: str) -> Promise[ShareGroupDescription]:
        """Return a promise of what is in the log of a group. It fails with InvalidGroupId,
        GroupIdNotFound.
        """
        return self._submit_description(
            group_id,
            lambda group: ShareGroupDescription(
                group.state.value, group.epoch, group.target_epoch, list(group.members.values())
            ),
        )

    def activate(self, group: ShareGroup) -> None:
        """Go on with the states of a group that was read from the log and is served now."""
        if self.find(group.group_id) is group:
            self._initialize(group)

    def join(
        self, group: ShareGroup, request: JoinRequest, *, id_required: bool, can_skip: bool
    ) -> Promise[JoinResult] | None:
        """Refuse a JoinGroup: a share group stays one, with members or without."""
        raise InconsistentGroupProtocol(f"group {group.group_id!r} is a share group")

    def check_commit(self, group: ShareGroup, committer: Committer, partitions: Iterable[tuple[str, int]]) -> None:
        """Refuse a commit: share groups have no offsets."""
        error = IllegalGeneration if committer.in_transaction else GroupIdNotFound
        raise error(f"there is no group {group.group_id!r}")

    def deleted(self, group: ShareGroup) -> None:
        """Delete the states of a group that was deleted from the log."""
        state = group.state_partitions
        self.states.delete_group(group.group_id, merged(state.initialized, state.initializing))

    # --- heartbeats

    def _heartbeat(self, changes: Changes, request: ShareHeartbeat) -> ShareHeartbeatResult:
        is_join = request.member_epoch == EPOCH_JOIN
        group = self._of_heartbeat(changes, request.group_id, is_join=is_join)
        member = self._member_of(group, request, is_join=is_join)
        former, member_id = member.current.assigned, member.member_id
        changed = self._subscribe(changes, group, member, request)
        self._refresh(changes, group, changed=changed)
        self._assignments.assign_if_due(changes, group)
        current = self._reconcile(changes, group, member_id)
        self.extend_session(group, member_id)
        sent = is_join or request.topics is not None or not same_owned(current.assigned, former)
        interval_ms = self.heartbeat_interval_ms(group)
        return ShareHeartbeatResult(member_id, current.epoch, interval_ms, current.assigned if sent else None)

    def _member_of(self, group: ShareGroup, request: ShareHeartbeat, *, is_join: bool) -> ShareMember:
        """Return the member; one that joins may not be in the group yet. Raises:
        FencedMemberEpoch.
        """
        if is_join:
            self.check_room(group, request.member_id)
            return group.member_or_new(request.member_id)
        member = group.check_member(request.member_id)
        check_epoch(group.type, member.current, request.member_epoch, is_repeat=True)
        return member

    def _subscribe(self, changes: Changes, group: ShareGroup, member: ShareMember, request: ShareHeartbeat) -> bool:
        """Set a member's subscription. Returns: whether the members or their topics changed."""
        former = member.metadata
        is_new = member.member_id not in group.members
        subscription = ShareSubscription(
            former.rack_id if request.rack_id is None else request.rack_id,
            request.client_id,
            request.client_host,
            former.topics if request.topics is None else tuple(sorted(set(request.topics))),
        )
        if subscription == former and not is_new:
            return False
        before = 0 if is_new else group.size_of(member)
        after = group.size_of(member._replace(metadata=subscription))
        self._limits.check_member(group.group_id, group.member_bytes, before, after)
        group.put_metadata(changes, member.member_id, subscription)
        return is_new or subscription.topics != former.topics

    def _refresh(self, changes: Changes, group: ShareGroup, *, changed: bool) -> None:
        """Raise the epoch where members, subscriptions or topics changed; note partitions that need
        a state.
        """
        if not changed and group.topics_version == self.topics.version:
            return
        self._see_topics(changes, group)
        subscribed = group.subscribed_topics()
        hash = metadata_hash(subscribed, self.topics)
        if changed or hash != group.metadata_hash:
            group.raise_epoch(changes, hash)
        state = group.state_partitions
        existing = {
            topic.id: StateTopic(topic.name, frozenset(range(topic.partition_count)))
            for name in subscribed
            if (topic := self.topics.find(name)) is not None
        }
        known = merged(state.initialized, state.initializing)
        missing = without(existing, known)
        gone = {id for id in known if self.topics.name_of(id) is None}
        if missing or gone:
            kept = state._replace(
                initializing={id: topic for id, topic in merged(state.initializing, missing).items() if id not in gone},
                initialized={id: topic for id, topic in state.initialized.items() if id not in gone},
            )
            group.put_state(changes, kept)
        # Not before the note is in the log: a crash would leave states at the share coordinator
        # that no group knows of, and a deletion of the group would not delete them.
        changes.on_committed.append(lambda: self._initialize(group))

    def _compute(self, group: ShareGroup) -> SlicedWork[TargetAssignment[bytes]]:
        """Assign the partitions whose states are there."""
        epoch, targets = group.epoch, dict(group.targets)
        partitions = {id: sorted(topic.partitions) for id, topic in group.state_partitions.initialized.items()}
        members = {member_id: self._topic_ids(member) for member_id, member in group.members.items()}
        return (yield from changed_targets(group, epoch, targets, assign(members, partitions, targets)))

    def _topic_ids(self, member: ShareMember) -> frozenset[bytes]:
        known_topics = (self.topics.find(name) for name in member.metadata.topics)
        return frozenset(topic.id for topic in known_topics if topic is not None)

    def _reconcile(self, changes: Changes, group: ShareGroup, member_id: str) -> CurrentAssignment[bytes]:
        """Give a member its target assignment; nothing must be revoked first."""
        member = group.members[member_id]
        assigned = readable(group.targets.get(member_id), self._topic_ids(member))
        next = current_of(group.target_epoch, member.current.epoch, assigned)
        if member.current.epoch != next.epoch or not same_owned(member.current.assigned, next.assigned):
            group.put_current(changes, member_id, next)
        return group.members[member_id].current

    # --- states of share partitions

    def _initialize(self, group: ShareGroup) -> None:
        """Have the initializing share partitions get their states."""
        pending = group.state_partitions.initializing
        if not pending or group.is_initializing or group.is_dead:
            return
        group.is_initializing = True

        def done(error: KqueueError | None) -> None:
            group.is_initializing = False
            if self.find(group.group_id) is not group:
                return
            if error is not None:
                events.SHARE_STATE_NOT_CREATED.log(
                    logger, "share partitions of group %.100r have no state yet: %s", group=group.group_id, error=error
                )
                self._retry(group)
            else:
                self._queue.submit_late(group.group_id, lambda changes: self._initialized(changes, group, pending))

        self.states.initialize(group.group_id, pending, group.epoch, done)

    def _retry(self, group: ShareGroup) -> None:
        timer = group.timers.get(RETRY)
        if timer is None:
            timer = group.timers[RETRY] = LazyTimer(self._base_timers, lambda: self._initialize(group))
        timer.set(self._clock.monotonic_ms() + RETRY_MS)

    def _initialized(self, changes: Changes, group: ShareGroup, partitions: Partitions) -> None:
        if self.find(group.group_id) is not group or group.is_dead:
            return
        state = group.state_partitions
        # Only what is still noted: a topic that was deleted meanwhile must not come back.
        done = {id: topic for id, topic in partitions.items() if id in state.initializing}
        group.put_state(
            changes,
            state._replace(initializing=without(state.initializing, done), initialized=merged(state.initialized, done)),
        )
        group.raise_epoch(changes)
        changes.on_committed.append(lambda: self._initialize(group))

    def forget_states(self, group_id: str, topic_id: bytes) -> Promise[None]:
        """Note that the share partitions of a topic have no state any more."""

        def step(changes: Changes) -> None:
            group = self.check_empty(group_id)
            state = group.state_partitions
            if topic_id in state.initialized or topic_id in state.initializing:
                group.put_state(
                    changes,
                    state._replace(
                        initializing={id: topic for id, topic in state.initializing.items() if id != topic_id},
                        initialized={id: topic for id, topic in state.initialized.items() if id != topic_id},
                    ),
                )

        return self._queue.submit(group_id, step)

    def ensure_empty(self, group_id: str) -> Promise[None]:
        """Create a group without members unless there is one. The promise fails with
        InvalidGroupId, GroupIdNotFound (it is of another type), NonEmptyGroup,
        CoordinatorNotAvailable.
        """

        def step(changes: Changes) -> None:
            self.check_alterable(group_id)
            if self._groups.get(group_id) is None:
                group = self._create(changes, group_id)
                group.set_epoch(changes, group.group_epoch)
                group.set_target_epoch(changes, group.epoch, self._clock.wall_ms())

        return self._queue.submit(group_id, step)

    def add_states(self, group_id: str, partitions: Partitions) -> Promise[None]:
        """Note that share partitions have a state."""

        def step(changes: Changes) -> None:
            group = self.check_empty(group_id)
            state = group.state_partitions
            group.put_state(
                changes,
                state._replace(
                    initializing=without(state.initializing, partitions),
                    initialized=merged(state.initialized, partitions),
                ),
            )

        return self._queue.submit(group_id, step)

    def check_alterable(self, group_id: str) -> None:
        """Check that this is a share group without members, or can become one.

        Raises: InvalidGroupId. GroupIdNotFound: it is of another type, or is being removed.
            NonEmptyGroup.
        """
        check_named(group_id)
        if self._groups.get(group_id) is not None:
            self.check_empty(group_id)

    def check_empty(self, group_id: str) -> ShareGroup:
        """Return a share group without members. Raises: InvalidGroupId, GroupIdNotFound,
        NonEmptyGroup.
        """
        check_named(group_id)
        group = self.find(group_id)
        if group is None or group.is_dead:
            raise GroupIdNotFound(f"Group {group_id} not found.")
        if not group.is_empty:
            raise NonEmptyGroup(f"The group {group_id} is not empty.")
        return group

    # --- leaving

    def _leave(self, changes: Changes, request: ShareHeartbeat) -> ShareHeartbeatResult:
        group = self.find(request.group_id)
        if group is None:
            raise GroupIdNotFound(f"Group {request.group_id} not found.")
        group.check_member(request.member_id)
        self._fence(changes, group, [request.member_id])
        return ShareHeartbeatResult(request.member_id, EPOCH_LEAVE, 0)


def _check(request: ShareHeartbeat) -> None:
    """Check a request before the group is looked at. Raises: InvalidRequest."""
    if not request.member_id:
        raise InvalidRequest("MemberId can't be empty.")
    if not request.group_id:
        raise InvalidRequest("GroupId can't be empty.")
    if request.rack_id == "":
        raise InvalidRequest("RackId can't be empty.")
    if request.member_epoch < EPOCH_LEAVE:
        raise InvalidRequest("MemberEpoch is invalid.")
    if request.member_epoch == EPOCH_JOIN and not request.topics:
        raise InvalidRequest("SubscribedTopicNames must be set in first request.")
