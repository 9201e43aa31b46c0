"""One share group: what its records say. Data only: no clock, no log.

Each change is made in memory and added to `Changes` with its record and its reverse. Source:
KIP-932, Kafka's ShareGroup.

    Empty     there are no members
    Stable    there are
    Dead      it is being deleted
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from kqueue.base.errors import UnknownMember
from kqueue.groups.group import GroupType, RetentionStart
from kqueue.groups.lazy_timer import LazyTimer
from kqueue.groups.limits import MEMBER_BYTES, GroupLimits
from kqueue.groups.log import share_records as records
from kqueue.groups.log.share_records import StatePartitions, StateTopic
from kqueue.groups.modern.changes import Changes
from kqueue.groups.share.member import NOTHING, Assignment, ShareMember, ShareSubscription

FIRST_EPOCH = 1


class ShareGroupState(enum.Enum):
    """State of a group; the value is its name in the protocol."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


class ShareGroup:
    """A group and its members.

    Attributes:
        epoch: grows with each change of the members, their subscriptions or their topics.
        metadata_hash: of the subscribed topics, see `modern.topics`.
        target_epoch: the group epoch of which `targets` are the assignment.
        target_ms: when they were computed (wall clock).
        state_partitions: the share partitions that have a state, or get one.
        sessions: deadlines by member id; not in the log.
    """

    type = GroupType.SHARE
    is_consumer = False
    protocol_type = "share"

    def __init__(self, group_id: str, limits: GroupLimits) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.target_epoch = FIRST_EPOCH
        self.target_ms = 0
        self.members: dict[str, ShareMember] = {}
        self.targets: dict[str, Assignment] = {}
        self.state_partitions = StatePartitions()
        self.sessions: dict[str, LazyTimer] = {}
        self.retry: LazyTimer | None = None
        """When the states of `state_partitions.initializing` are asked for again."""
        self.topics_version = -1
        self.member_bytes = 0
        self.is_dead = False
        self.is_initializing = False
        self._limits = limits

    @property
    def state(self) -> ShareGroupState:
        """The state of the group."""
        if self.is_dead:
            return ShareGroupState.DEAD
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.members

    def reads_topic(self, topic: str) -> bool:
        """Return whether a member subscribes to this topic."""
        return any(topic in member.subscription.topics for member in self.members.values())

    def retention_start(self) -> RetentionStart | None:
        """Return None: share groups have no committed offsets."""
        return None

    def subscribed_topics(self) -> set[str]:
        """Return the names of all topics that members subscribe to, existing or not."""
        return {name for member in self.members.values() for name in member.subscription.topics}

    def check_member(self, member_id: str) -> ShareMember:
        """Return a member. Raises: UnknownMember."""
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMember(f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    # --- changes

    def set_epoch(self, changes: Changes, epoch: int, metadata_hash: int) -> None:
        """Set the group epoch."""
        former = self.epoch, self.metadata_hash

        def undo() -> None:
            self.epoch, self.metadata_hash = former

        self.epoch, self.metadata_hash = epoch, metadata_hash
        changes.add(self._key(records.GROUP_EPOCH), records.epoch_value(epoch, metadata_hash), undo)

    def set_target_epoch(self, changes: Changes, epoch: int, now_ms: int) -> None:
        """Record that `targets` are the assignment of this epoch."""
        former = self.target_epoch, self.target_ms

        def undo() -> None:
            self.target_epoch, self.target_ms = former

        self.target_epoch, self.target_ms = epoch, now_ms
        changes.add(self._key(records.TARGET_EPOCH), records.target_epoch_value(epoch, now_ms), undo)

    def put_subscription(self, changes: Changes, member_id: str, subscription: ShareSubscription) -> None:
        """Set what a member subscribes to; adds the member if it is new."""
        former = self.members.get(member_id)
        member = (former or ShareMember(member_id))._replace(subscription=subscription)
        self._replace(member_id, former, member)
        key, value = self._key(records.MEMBER_SUBSCRIPTION, member_id), records.subscription_value(subscription)
        changes.add(key, value, lambda: self._replace(member_id, self.members.get(member_id), former))

    def put_current(self, changes: Changes, member_id: str, epoch: int, previous: int, assigned: Assignment) -> None:
        """Set what a member reads, and its epochs; adds the member if it is new."""
        former = self.members.get(member_id)
        member = (former or ShareMember(member_id))._replace(epoch=epoch, previous_epoch=previous, assigned=assigned)
        self._replace(member_id, former, member)
        key, value = self._key(records.MEMBER_CURRENT, member_id), records.current_value(member)
        changes.add(key, value, lambda: self._replace(member_id, self.members.get(member_id), former))

    def put_target(self, changes: Changes, member_id: str, assignment: Assignment) -> None:
        """Set the target assignment of a member."""
        former = self.targets.get(member_id)
        self.targets[member_id] = assignment
        key, value = self._key(records.MEMBER_TARGET, member_id), records.target_value(assignment)
        changes.add(key, value, lambda: self._restore_target(member_id, former))

    def put_state(self, changes: Changes, state: StatePartitions) -> None:
        """Set which share partitions have a state."""
        former = self.state_partitions

        def undo() -> None:
            self.state_partitions = former

        self.state_partitions = state
        changes.add(self._key(records.STATE_PARTITIONS), records.state_value(state), undo)

    def remove_member(self, changes: Changes, member_id: str) -> None:
        """Remove a member."""
        former, target = self.members[member_id], self.targets.pop(member_id, None)
        changes.add(self._key(records.MEMBER_CURRENT, member_id), None, lambda: None)
        changes.add(self._key(records.MEMBER_TARGET, member_id), None, lambda: self._restore_target(member_id, target))
        self._replace(member_id, former, None)
        key = self._key(records.MEMBER_SUBSCRIPTION, member_id)
        changes.add(key, None, lambda: self._replace(member_id, None, former))

    def remove(self, changes: Changes) -> None:
        """Remove all records of an empty group."""
        for type in (records.TARGET_EPOCH, records.STATE_PARTITIONS, records.GROUP_EPOCH):
            changes.add(self._key(type), None, lambda: None)

    def release(self) -> None:
        """Subtract a removed group from the limits."""
        self._limits.member_bytes -= self.member_bytes
        self.member_bytes = 0

    def stop_timers(self) -> None:
        """Stop all timers, of a group that is removed from memory."""
        for session in self.sessions.values():
            session.clear()
        self.sessions.clear()
        if self.retry is not None:
            self.retry.clear()

    def _key(self, type: int, member_id: str = "") -> bytes:
        return records.key(type, self.group_id, member_id)

    def _restore_target(self, member_id: str, former: Assignment | None) -> None:
        if former is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = former

    def _replace(self, member_id: str, former: ShareMember | None, member: ShareMember | None) -> None:
        grown = (member_bytes(member) if member else 0) - (member_bytes(former) if former else 0)
        self.member_bytes += grown
        self._limits.member_bytes += grown
        if member is None:
            self.members.pop(member_id, None)
        else:
            self.members[member_id] = member


def member_bytes(member: ShareMember) -> int:
    """Return the size of a member, in bytes."""
    subscription = member.subscription
    names = sum(map(len, subscription.topics)) + 50 * len(subscription.topics)
    return MEMBER_BYTES + names + len(subscription.client_id) + len(subscription.rack_id or "")


def merged(old: Mapping[bytes, StateTopic], new: Mapping[bytes, StateTopic]) -> dict[bytes, StateTopic]:
    """Return the partitions of both."""
    result = dict(old)
    for id, topic in new.items():
        known = result.get(id)
        result[id] = topic if known is None else StateTopic(topic.name, known.partitions | topic.partitions)
    return result


def without(old: Mapping[bytes, StateTopic], gone: Mapping[bytes, StateTopic]) -> dict[bytes, StateTopic]:
    """Return the partitions of `old` that are not in `gone`."""
    result = {}
    for id, topic in old.items():
        left = topic.partitions - (gone[id].partitions if id in gone else frozenset())
        if left:
            result[id] = StateTopic(topic.name, left)
    return result


def readable(assignment: Assignment | None, subscribed: frozenset[bytes]) -> Assignment:
    """Return an assignment without the topics to which its member no longer subscribes."""
    return {id: indexes for id, indexes in (assignment or NOTHING).items() if id in subscribed}
