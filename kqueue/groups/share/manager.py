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
import random
from collections.abc import Callable, Mapping
from typing import Protocol

from kqueue.base.errors import (
    CoordinatorNotAvailable,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidRequest,
    KqueueError,
)
from kqueue.base.promise import Promise
from kqueue.groups.errors import FencedMemberEpoch, NonEmptyGroup, check_named
from kqueue.groups.lazy_timer import LazyTimer
from kqueue.groups.log.share_records import StatePartitions, StateTopic
from kqueue.groups.modern.changes import Changes
from kqueue.groups.modern.environment import Environment
from kqueue.groups.modern.topics import metadata_hash
from kqueue.groups.share.group import ShareGroup, member_bytes, merged, readable, without
from kqueue.groups.share.member import (
    EPOCH_JOIN,
    EPOCH_LEAVE,
    Assignment,
    ShareGroupDescription,
    ShareHeartbeat,
    ShareHeartbeatResult,
    ShareMember,
    ShareSubscription,
)
from kqueue.groups.share.simple_assignor import assign

logger = logging.getLogger("kqueue.groups")
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


class ShareGroupManager:
    """The share groups of one coordinator, whose table of all groups it shares. On the owner
    thread.

    Attributes:
        states: set by the layer above before the first request.
    """

    def __init__(self, environment: Environment, rng: random.Random) -> None:
        self.states: ShareStates
        self.topics = environment.topics
        self._config = environment.config
        self._clock = environment.clock
        self._limits = environment.limits
        self._groups = environment.groups
        self._queue = environment.queue
        self._settings = environment.settings
        self._timers = environment.timers
        self._rng = rng

    def find(self, group_id: str) -> ShareGroup | None:
        """Return a share group; None: there is none of this id."""
        group = self._groups.get(group_id)
        return group if isinstance(group, ShareGroup) else None

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
        return self._queue.submit(group_id, lambda changes: self._describe(group_id))

    def resume(self, group: ShareGroup) -> None:
        """Start the timers of a group that was read from the log."""
        for member_id in group.members:
            self._extend_session(group, member_id)

    def initialize_states(self, group: ShareGroup) -> None:
        """Go on with the states of a group that was read from the log and is served now."""
        if self.find(group.group_id) is group:
            self._initialize(group)

    # --- heartbeats

    def _heartbeat(self, changes: Changes, request: ShareHeartbeat) -> ShareHeartbeatResult:
        is_join = request.member_epoch == EPOCH_JOIN
        group = self._group_of(changes, request, is_join=is_join)
        member = self._member_of(group, request, is_join=is_join)
        former, member_id = member.assigned, member.member_id
        changed = self._subscribe(changes, group, member, request)
        self._refresh(changes, group, changed=changed)
        self._assign(changes, group)
        member = self._reconcile(changes, group, member_id)
        changes.on_committed.append(lambda: self._extend_session(group, member_id))
        sent = is_join or request.topics is not None or member.assigned != former
        interval_ms = self._config.share.heartbeat_interval.of(self._settings(group.group_id))
        return ShareHeartbeatResult(member_id, member.epoch, interval_ms, member.assigned if sent else None)

    def _group_of(self, changes: Changes, request: ShareHeartbeat, *, is_join: bool) -> ShareGroup:
        group_id = request.group_id
        group = self._groups.get(group_id)
        if group is not None and group.is_dead:
            raise CoordinatorNotAvailable(f"group {group_id!r} is being removed")
        if isinstance(group, ShareGroup):
            return group
        if group is not None:
            raise GroupIdNotFound(f"Group {group_id} is not a share group.")
        if not is_join:
            raise GroupIdNotFound(f"Share group {group_id} not found.")
        return self._create(changes, group_id)

    def _create(self, changes: Changes, group_id: str) -> ShareGroup:
        self._limits.check_new_group(group_id, len(self._groups))
        created = self._groups[group_id] = ShareGroup(group_id, self._limits)

        def undo() -> None:
            del self._groups[group_id]

        changes.add_unlogged(undo)
        return created

    def _member_of(self, group: ShareGroup, request: ShareHeartbeat, *, is_join: bool) -> ShareMember:
        """Return the member; one that joins may not be in the group yet. Raises:
        FencedMemberEpoch.
        """
        if is_join:
            existing = group.members.get(request.member_id)
            if existing is not None:
                return existing
            if len(group.members) >= self._config.share.members_max:
                raise GroupMaxSizeReached(
                    f"The share group has reached its maximum capacity of {self._config.share.members_max} members."
                )
            return ShareMember(request.member_id)
        member = group.check_member(request.member_id)
        if request.member_epoch not in (member.epoch, member.previous_epoch):
            size = "greater" if request.member_epoch > member.epoch else "smaller"
            raise FencedMemberEpoch(
                f"The share group member has a {size} member epoch ({request.member_epoch}) than the one known by the "
                f"group coordinator ({member.epoch}). The member must abandon all its partitions and rejoin."
            )
        return member

    def _subscribe(self, changes: Changes, group: ShareGroup, member: ShareMember, request: ShareHeartbeat) -> bool:
        """Set a member's subscription. Returns: whether the members or their topics changed."""
        former = member.subscription
        is_new = member.member_id not in group.members
        subscription = ShareSubscription(
            former.rack_id if request.rack_id is None else request.rack_id,
            request.client_id,
            request.client_host,
            former.topics if request.topics is None else tuple(sorted(set(request.topics))),
        )
        if subscription == former and not is_new:
            return False
        after = member_bytes(member._replace(subscription=subscription))
        self._limits.check_member(group.group_id, group.member_bytes, 0 if is_new else member_bytes(member), after)
        group.put_subscription(changes, member.member_id, subscription)
        return is_new or subscription.topics != former.topics

    def _refresh(self, changes: Changes, group: ShareGroup, *, changed: bool) -> None:
        """Raise the epoch where members, subscriptions or topics changed; note partitions that need
        a state.
        """
        if not changed and group.topics_version == self.topics.version:
            return
        version = self.topics.version
        changes.on_committed.append(lambda: setattr(group, "topics_version", version))
        subscribed = group.subscribed_topics()
        hash = metadata_hash(subscribed, self.topics)
        if changed or hash != group.metadata_hash:
            group.set_epoch(changes, group.epoch + 1, hash)
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
            kept = StatePartitions(
                {id: topic for id, topic in merged(state.initializing, missing).items() if id not in gone},
                {id: topic for id, topic in state.initialized.items() if id not in gone},
            )
            group.put_state(changes, kept)
        changes.on_committed.append(lambda: self._initialize(group))

    def _assign(self, changes: Changes, group: ShareGroup) -> None:
        """Compute the target assignment of the group's epoch, not more often than the setting
        allows.
        """
        now_ms = self._clock.wall_ms()
        interval_ms = self._config.share.assignment_interval.of(self._settings(group.group_id))
        if group.epoch <= group.target_epoch or 0 <= now_ms - group.target_ms < interval_ms:
            return
        partitions = {id: sorted(topic.partitions) for id, topic in group.state_partitions.initialized.items()}
        members = {member_id: self._topic_ids(member) for member_id, member in group.members.items()}
        for member_id, target in assign(members, partitions, group.targets).items():
            if target != group.targets.get(member_id):
                group.put_target(changes, member_id, target)
        group.set_target_epoch(changes, group.epoch, now_ms)

    def _topic_ids(self, member: ShareMember) -> frozenset[bytes]:
        found = (self.topics.find(name) for name in member.subscription.topics)
        return frozenset(topic.id for topic in found if topic is not None)

    def _reconcile(self, changes: Changes, group: ShareGroup, member_id: str) -> ShareMember:
        """Give a member its target assignment; nothing must be revoked first."""
        member = group.members[member_id]
        assigned: Assignment = readable(group.targets.get(member_id), self._topic_ids(member))
        if member.epoch != group.target_epoch or member.assigned != assigned:
            group.put_current(changes, member_id, group.target_epoch, member.epoch, assigned)
        return group.members[member_id]

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
                logger.warning("share partitions of group %.100r have no state yet: %s", group.group_id, error)
                self._retry(group)
            else:
                self._queue.submit_late(group.group_id, lambda changes: self._initialized(changes, group, pending))

        self.states.initialize(group.group_id, pending, group.epoch, done)

    def _retry(self, group: ShareGroup) -> None:
        if group.retry is None:
            group.retry = LazyTimer(self._timers, lambda: self._initialize(group))
        group.retry.set(self._clock.monotonic_ms() + RETRY_MS)

    def _initialized(self, changes: Changes, group: ShareGroup, partitions: Partitions) -> None:
        if self.find(group.group_id) is not group or group.is_dead:
            return
        state = group.state_partitions
        done = {id: topic for id, topic in partitions.items() if id in state.initializing}
        group.put_state(
            changes, StatePartitions(without(state.initializing, done), merged(state.initialized, done), state.deleting)
        )
        group.set_epoch(changes, group.epoch + 1, group.metadata_hash)
        changes.on_committed.append(lambda: self._initialize(group))

    def forget_states(self, group_id: str, topic_id: bytes) -> Promise[None]:
        """Note that the share partitions of a topic have no state any more."""

        def step(changes: Changes) -> None:
            group = self.check_empty(group_id)
            state = group.state_partitions
            if topic_id in state.initialized or topic_id in state.initializing:
                group.put_state(
                    changes,
                    StatePartitions(
                        {id: topic for id, topic in state.initializing.items() if id != topic_id},
                        {id: topic for id, topic in state.initialized.items() if id != topic_id},
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
                group.set_epoch(changes, group.epoch, group.metadata_hash)
                group.set_target_epoch(changes, group.epoch, self._clock.wall_ms())

        return self._queue.submit(group_id, step)

    def add_states(self, group_id: str, partitions: Partitions) -> Promise[None]:
        """Note that share partitions have a state."""

        def step(changes: Changes) -> None:
            group = self.check_empty(group_id)
            state = group.state_partitions
            added = merged(state.initialized, partitions)
            group.put_state(changes, StatePartitions(without(state.initializing, partitions), added))

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

    def delete(self, group: ShareGroup) -> Promise[None]:
        """Delete an empty group and its states. The promise fails with NonEmptyGroup."""

        def step(changes: Changes) -> None:
            self.check_empty(group.group_id)
            group.is_dead = True
            changes.add_unlogged(lambda: setattr(group, "is_dead", False))
            group.remove(changes)
            state = group.state_partitions

            def removed() -> None:
                group.release()
                del self._groups[group.group_id]
                self.states.delete_group(group.group_id, merged(state.initialized, state.initializing))

            changes.on_committed.append(removed)

        return self._queue.submit(group.group_id, step)

    # --- leaving, and time

    def _leave(self, changes: Changes, request: ShareHeartbeat) -> ShareHeartbeatResult:
        group = self.find(request.group_id)
        if group is None:
            raise GroupIdNotFound(f"Group {request.group_id} not found.")
        group.check_member(request.member_id)
        self._remove(changes, group, request.member_id)
        return ShareHeartbeatResult(request.member_id, EPOCH_LEAVE, 0)

    def _remove(self, changes: Changes, group: ShareGroup, member_id: str) -> None:
        group.remove_member(changes, member_id)
        group.set_epoch(changes, group.epoch + 1, group.metadata_hash)

        def forget() -> None:
            session = group.sessions.pop(member_id, None)
            if session is not None and member_id not in group.members:
                session.clear()

        changes.on_committed.append(forget)

    def _extend_session(self, group: ShareGroup, member_id: str) -> None:
        if member_id not in group.members:
            return
        session = group.sessions.get(member_id)
        if session is None:
            session = group.sessions[member_id] = LazyTimer(self._timers, lambda: self._expire(group, member_id))
        timeout_ms = self._config.share.session_timeout.of(self._settings(group.group_id))
        session.set(self._clock.monotonic_ms() + timeout_ms)

    def _expire(self, group: ShareGroup, member_id: str) -> None:
        """Remove a member that was silent too long; what it holds is released by its locks."""
        group.sessions.pop(member_id, None)

        def step(changes: Changes) -> None:
            if self.find(group.group_id) is group and member_id in group.members and member_id not in group.sessions:
                changes.add_unlogged(lambda: self._extend_session(group, member_id))
                self._remove(changes, group, member_id)

        self._queue.submit_late(group.group_id, step)

    # --- tools

    def _describe(self, group_id: str) -> ShareGroupDescription:
        check_named(group_id)
        group = self.find(group_id)
        if group is None:
            known = self._groups.get(group_id) is not None
            raise GroupIdNotFound(f"Group {group_id} {'is not a share group' if known else 'not found'}.")
        return ShareGroupDescription(group.state.value, group.epoch, group.target_epoch, list(group.members.values()))


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
