"""One share group: the share partitions that have a state, beside what all modern groups have.

Source: KIP-932, Kafka's ShareGroup.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kqueue.groups.group import GroupType, RetentionStart
from kqueue.groups.limits import MEMBER_BYTES, GroupLimits
from kqueue.groups.log.changes import Changes
from kqueue.groups.modern.group import ModernGroup
from kqueue.groups.modern.records import RecordType
from kqueue.groups.modern.state import ModernGroupState
from kqueue.groups.share import records
from kqueue.groups.share.member import Assignment, ShareMember, ShareSubscription
from kqueue.groups.share.records import StatePartitions, StateTopic


class ShareGroup(ModernGroup[ShareSubscription, bytes]):
    """A group and its members.

    Attributes:
        state_partitions: the share partitions that have a state, or get one.
        is_initializing: whether states are being written.
    """

    type = GroupType.SHARE
    protocol_type = "share"
    records = records.RECORDS
    no_metadata = ShareSubscription()
    is_consumer = False
    keeps_offsets = False
    can_expire = False

    def __init__(self, group_id: str, limits: GroupLimits) -> None:
        super().__init__(group_id, limits)
        self.state_partitions = StatePartitions()
        self.is_initializing = False

    def _state_of_members(self) -> ModernGroupState:
        return ModernGroupState.STABLE  # no member waits for another one's partitions

    def reads_topic(self, topic: str) -> bool:
        """Return whether a member subscribes to this topic."""
        return any(topic in member.metadata.topics for member in self.members.values())

    def retention_start(self) -> RetentionStart | None:
        """Return None: share groups have no committed offsets."""
        return None

    def subscribed_topics(self) -> set[str]:
        """Return the names of all topics that members subscribe to, existing or not."""
        return {name for member in self.members.values() for name in member.metadata.topics}

    def put_state(self, changes: Changes, state: StatePartitions) -> None:
        """Set which share partitions have a state."""
        former = self.state_partitions
        self.state_partitions = state
        self._log(changes, records.STATE, state, lambda: setattr(self, "state_partitions", former))

    def _remove_others(self, changes: Changes) -> None:
        self._add_tombstone(changes, records.STATE.number)

    def setters(self) -> list[tuple[RecordType[Any], Callable[[str, Any], None]]]:
        """Return what sets what each record says."""
        return [*super().setters(), (records.STATE, lambda _, state: setattr(self, "state_partitions", state))]

    def size_of(self, member: ShareMember) -> int:
        """Return the size of a member, in bytes."""
        subscription = member.metadata
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
    return {id: indexes for id, indexes in (assignment or {}).items() if id in subscribed}
