"""One classic group: its members, their common protocol, and its state. Data only: no clock, no
log.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import NamedTuple

from kqueue.base.errors import FencedInstanceId, MalformedMessage, UnknownMember
from kqueue.base.promise import Promise
from kqueue.groups.classic.member import ClassicGroupMember, JoinRequest, JoinResult, JoinResultMember
from kqueue.groups.classic.state import ClassicGroupState, GroupEvent, after
from kqueue.groups.group import Group, GroupType, RetentionStart
from kqueue.groups.lazy_timer import LazyTimer
from kqueue.groups.limits import GroupLimits, member_bytes
from kqueue.groups.log.changes import Changes
from kqueue.groups.log.records import group_key
from kqueue.groups.log.schemas import CONSUMER_PROTOCOL, GroupMetadataValue, MemberMetadata, subscribed_topics


class MemberDescription(NamedTuple):
    """A member. `metadata` is empty while the group is not stable; `assignment` is the last one."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class GroupDescription(NamedTuple):
    """A group. `protocol_name` is empty while the group is not stable."""

    state: ClassicGroupState
    protocol_type: str
    protocol_name: str
    members: list[MemberDescription]


class ClassicGroup:
    """The members of a group and their generation. Source: Kafka ClassicGroup.

    Attributes:
        state_since_ms: when the state began (wall clock); None if unknown.
        subscribed: topics that the members read; None if unknown.
        former: the empty group in whose place it comes, until its first record is committed.
    """

    type = GroupType.CLASSIC
    keeps_offsets = True
    __slots__ = (
        "_limits",
        "_members_per_protocol",
        "former",
        "generation",
        "group_id",
        "join_deadline",
        "leader_id",
        "member_bytes",
        "members",
        "new_member_added",
        "pending",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "remaining_initial_delay_ms",
        "state",
        "state_since_ms",
        "static_ids",
        "subscribed",
        "sync_deadline",
        "unsynced",
        "waiting_to_join_count",
    )

    def __init__(self, group_id: str, join_deadline: LazyTimer, sync_deadline: LazyTimer, limits: GroupLimits) -> None:
        self.group_id = group_id
        self.former: Group | None = None
        self.state = ClassicGroupState.EMPTY
        self.previous_state = ClassicGroupState.DEAD
        self.state_since_ms: int | None = None
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, ClassicGroupMember] = {}
        self.static_ids: dict[str, str] = {}
        """Instance id -> member id."""
        self.pending: dict[str, LazyTimer] = {}
        """Member ids that were assigned but not joined with yet, and their deadlines."""
        self.unsynced: set[str] = set()
        """Members of this generation without a SyncGroup yet."""
        self.subscribed: frozenset[str] | None = None
        self.new_member_added = False
        """A member was added during the initial rebalance delay, which is then extended."""
        self.remaining_initial_delay_ms = 0
        """By how much the initial rebalance delay may still be extended."""
        self.waiting_to_join_count = 0
        """The number of members that wait for the end of the join phase."""
        self.join_deadline = join_deadline
        self.sync_deadline = sync_deadline
        self.member_bytes = 0
        """Size of the members in bytes, see `limits`."""
        self._limits = limits
        self._members_per_protocol: dict[str, int] = {}

    # --- state

    def transition(self, event: GroupEvent, now_ms: int) -> None:
        """Go to the next state; `now_ms` is the wall clock."""
        self.previous_state, self.state = self.state, after(self.state, event)
        self.state_since_ms = now_ms

    def restore(self, value: GroupMetadataValue) -> None:
        """Restore the group from its record, without the members. Raises: MalformedMessage."""
        if value.members and not (value.protocol and value.protocol_type):
            raise MalformedMessage(f"group {self.group_id!r} has {len(value.members)} members and no protocol")
        self.state = ClassicGroupState.STABLE if value.members else ClassicGroupState.EMPTY
        self.state_since_ms = None if value.current_state_timestamp == -1 else value.current_state_timestamp
        self.generation = value.generation
        self.protocol_type = value.protocol_type or None
        self.protocol_name = value.protocol
        self.leader_id = value.leader

    def record(self, assignments: Mapping[str, bytes]) -> GroupMetadataValue:
        """Return the record of this generation with these assignments (member id -> assignment)."""
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol_name,
            leader=self.leader_id,
            current_state_timestamp=-1 if self.state_since_ms is None else self.state_since_ms,
            members=[
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(self.protocol_name),
                    assignment=assignments.get(member.member_id, b""),
                )
                for member in self.members.values()
            ],
        )

    def describe(self) -> GroupDescription:
        """Return state and members, as clients see them."""
        stable = self.state is ClassicGroupState.STABLE
        members = [
            MemberDescription(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.metadata(self.protocol_name) if stable else b"",
                member.assignment,
            )
            for member in self.members.values()
        ]
        return GroupDescription(
            self.state, self.protocol_type or "", (self.protocol_name or "") if stable else "", members
        )

    @property
    def member_count(self) -> int:
        """The number of its members."""
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        """Whether it has no members. One that rebalances may get some."""
        return self.state is ClassicGroupState.EMPTY

    @property
    def can_expire(self) -> bool:
        """Whether it is removed when it has no offsets any more. A member id that was assigned will
        join.
        """
        return self.is_empty and not self.pending

    def put_back(self, groups: MutableMapping[str, Group]) -> None:
        """Take its place again, after the group in its place could not be written. If its own first
        record has failed meanwhile, the group before it does.
        """
        group = self.former if self.is_dead else self
        if group is None:
            del groups[self.group_id]
        else:
            groups[self.group_id] = group

    @property
    def is_dead(self) -> bool:
        """Whether it is being deleted."""
        return self.state is ClassicGroupState.DEAD

    def retention_start(self) -> RetentionStart | None:
        """Return when the retention of offsets starts (wall clock, ms); None: it is paused.

        Without group management it starts with the commit. After the last member left it starts at
        that time. With members it starts with the commit, for topics that they do not subscribe to.

        Source: KIP-211, Kafka ClassicGroup.offsetExpirationCondition.
        """
        if self.is_dead:
            return None
        if self.protocol_type is None:
            return lambda committed: committed.committed_ms
        if self.is_empty:
            empty_since_ms = self.state_since_ms
            return lambda committed: committed.committed_ms if empty_since_ms is None else empty_since_ms
        if self.state is ClassicGroupState.STABLE and self.subscribed is not None:
            return lambda committed: committed.committed_ms
        return None

    @property
    def is_consumer(self) -> bool:
        """Whether the members use the consumer protocol."""
        return self.protocol_type == CONSUMER_PROTOCOL

    @property
    def all_members_joined(self) -> bool:
        """Whether all members, and all pending ones, have joined."""
        return self.waiting_to_join_count == len(self.members) and not self.pending

    @property
    def in_initial_delay(self) -> bool:
        """Whether the group is in its first join phase, which lasts its full time."""
        return self.state is ClassicGroupState.PREPARING_REBALANCE and self.previous_state is ClassicGroupState.EMPTY

    def rebalance_timeout_ms(self) -> int:
        """Return the longest rebalance timeout of the members; 0 without members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # --- members

    def check_member(self, member_id: str, instance_id: str | None) -> ClassicGroupMember:
        """Return a member. Raises: UnknownMember. FencedInstanceId: another member has its instance
        id.
        """
        if instance_id is not None:
            holder = self.static_ids.get(instance_id)
            if holder is None:
                raise UnknownMember(f"group {self.group_id!r} has no member with the instance id {instance_id!r}")
            if holder != member_id:
                raise FencedInstanceId(
                    f"{instance_id!r} of group {self.group_id!r} belongs to member {holder!r}, not to {member_id!r}"
                )
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMember(f"group {self.group_id!r} has no member {member_id!r}")
        return member

    def add(self, member: ClassicGroupMember, protocol_type: str) -> None:
        """Add a member that supports the group's protocols; the first one is the leader."""
        assert member.member_id not in self.members
        if not self.members:
            self.protocol_type = protocol_type
        if member.instance_id is not None:
            assert member.instance_id not in self.static_ids
            self.static_ids[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count(member, 1)

    def remove(self, member: ClassicGroupMember) -> None:
        """Remove a member without pending promises. The longest member succeeds a leader."""
        assert member.join_promise is None
        assert member.sync_promise is None
        del self.members[member.member_id]
        self._count(member, -1)
        if member.instance_id is not None:
            del self.static_ids[member.instance_id]
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.members), None)
        self.unsynced.discard(member.member_id)

    def remove_records(self, changes: Changes) -> None:
        """Remove the record of the group, whose members stay in memory."""
        changes.add(group_key(self.group_id), None, lambda: None)

    def release(self) -> None:
        """Subtract the members of a removed group from the limits."""
        self._limits.member_bytes -= self.member_bytes
        self.member_bytes = 0

    def rename(self, member: ClassicGroupMember, member_id: str) -> None:
        """Give a static member a new id; it keeps its assignment and its leadership."""
        assert member.instance_id is not None
        former = member.member_id
        del self.members[former]
        member.member_id = member_id
        self.members[member_id] = member
        self.static_ids[member.instance_id] = member_id
        if self.leader_id == former:
            self.leader_id = member_id
        if former in self.unsynced:
            self.unsynced.remove(former)
            self.unsynced.add(member_id)

    def update(
        self,
        member: ClassicGroupMember,
        protocols: Mapping[str, bytes],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        """Replace protocols and timeouts of a member that joins again."""
        self._count(member, -1)
        member.protocols = dict(protocols)
        self._count(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def _count(self, member: ClassicGroupMember, step: int) -> None:
        size = step * member_bytes(member)
        self.member_bytes += size
        self._limits.member_bytes += size
        for name in member.protocols:
            count = self._members_per_protocol.get(name, 0) + step
            if count:
                self._members_per_protocol[name] = count
            else:
                del self._members_per_protocol[name]

    # --- members that wait for the end of the join phase

    def put_join_promise(self, member: ClassicGroupMember, promise: Promise[JoinResult]) -> None:
        """Let the member wait with `promise`; it must not wait already."""
        assert member.join_promise is None
        member.join_promise = promise
        self.waiting_to_join_count += 1

    def take_join_promise(self, member: ClassicGroupMember) -> Promise[JoinResult] | None:
        """Return the promise of a waiting member, for the caller to settle; None if it doesn't
        wait.
        """
        promise, member.join_promise = member.join_promise, None
        if promise is not None:
            self.waiting_to_join_count -= 1
        return promise

    # --- what the members share

    def accepts(self, joining: JoinRequest) -> bool:
        """Return whether a joining member has the group's protocol type and a protocol of all
        members.
        """
        if self.state is ClassicGroupState.EMPTY:
            return bool(joining.protocol_type) and bool(joining.protocols)
        member_count = len(self.members)
        return self.protocol_type == joining.protocol_type and any(
            self._members_per_protocol.get(name, 0) == member_count for name in joining.protocols
        )

    def select_protocol(self) -> str:
        """Return the protocol with most votes among those that all support; in a tie, the first
        vote's.
        """
        member_count = len(self.members)
        candidates = {name for name, count in self._members_per_protocol.items() if count == member_count}
        votes: dict[str, int] = {}
        for member in self.members.values():
            favourite = member.vote(candidates)
            votes[favourite] = votes.get(favourite, 0) + 1
        return max(votes, key=votes.__getitem__)

    def elect_leader(self) -> bool:
        """Choose another leader if the leader has not joined. Returns: False if no member has
        joined.
        """
        leader = self.members.get(self.leader_id) if self.leader_id is not None else None
        if leader is not None and leader.join_promise is not None:
            return True
        joined = next((member for member in self.members.values() if member.join_promise is not None), None)
        if joined is not None:
            self.leader_id = joined.member_id
        return joined is not None

    def next_generation(self, now_ms: int) -> None:
        """Begin a generation with the current members."""
        self.generation += 1
        self.unsynced.clear()
        self.protocol_name = self.select_protocol() if self.members else None
        self.update_subscribed_topics()
        self.transition(GroupEvent.ALL_JOINED if self.members else GroupEvent.NOBODY_JOINED, now_ms)

    def update_subscribed_topics(self) -> None:
        """Update `subscribed` from the members' metadata."""
        if not self.is_consumer or (self.members and self.protocol_name is None):
            self.subscribed = None
        else:
            self.subscribed = subscribed_topics(member.metadata(self.protocol_name) for member in self.members.values())

    def reads_topic(self, topic: str) -> bool:
        """Return whether the members may read this topic, so that its offsets must stay."""
        return topic in self.subscribed if self.subscribed is not None else self.is_consumer

    def join_result_members(self) -> list[JoinResultMember]:
        """Return all members as in the leader's JoinGroup response."""
        name = self.protocol_name
        return [
            JoinResultMember(member.member_id, member.instance_id, member.metadata(name))
            for member in self.members.values()
        ]
