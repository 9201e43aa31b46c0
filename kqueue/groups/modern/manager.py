"""The groups of one modern type in memory: makes and finds them, removes members, runs timers.

A type of groups derives its manager: it adds heartbeats, what happens as members go
(`bump_epoch`), and who may commit offsets.

Each request is one step of the group's `WriteQueue`: what it changes is in the log before the
member is answered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from kqueue.base.errors import (
    CoordinatorNotAvailable,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    RequestRefused,
    StaleMemberEpoch,
    UnknownMember,
    UnsupportedVersion,
)
from kqueue.base.promise import Promise
from kqueue.groups.classic.member import JoinRequest, JoinResult, LeavingMember
from kqueue.groups.config import ModernConfig
from kqueue.groups.errors import check_named
from kqueue.groups.group import Committer, Group, GroupType
from kqueue.groups.log.changes import Changes
from kqueue.groups.modern.assignment import CurrentAssignment, must_revoke
from kqueue.groups.modern.environment import Environment
from kqueue.groups.modern.group import ModernGroup
from kqueue.groups.modern.member_timers import MemberTimers

G = TypeVar("G", bound=ModernGroup[Any, Any])
T = TypeVar("T")


class ModernGroupManager(ABC, Generic[G]):
    """The groups of one type of one coordinator, whose table of all groups it shares. On the owner
    thread.
    """

    group_class: ClassVar[type[Any]]

    def __init__(self, environment: Environment, config: ModernConfig) -> None:
        self.topics = environment.topics
        self._timings = config
        self._clock = environment.clock
        self._limits = environment.limits
        self._groups = environment.groups
        self._queue = environment.queue
        self._settings = environment.settings
        self._timers: MemberTimers[G] = MemberTimers(
            environment.timers, environment.clock, self._expire_session, self._expire_revocation
        )
        self._name = self.group_class.type.value

    # --- groups

    def find(self, group_id: str) -> G | None:
        """Return a group of this type; None: there is none of this id."""
        group = self._groups.get(group_id)
        return group if isinstance(group, self.group_class) else None  # where the type checker learns the class

    def get(self, group_id: str) -> G:
        """Return a group of this type. Raises: GroupIdNotFound, worded as Kafka's."""
        group = self.find(group_id)
        if group is None:
            is_other = self._groups.get(group_id) is not None
            raise GroupIdNotFound(f"Group {group_id} {f'is not a {self._name} group' if is_other else 'not found'}.")
        return group

    def _submit_description(self, group_id: str, describe: Callable[[G], T]) -> Promise[T]:
        """Return a promise of what is in the log of a group."""

        def step(changes: Changes) -> T:
            check_named(group_id)
            return describe(self.get(group_id))

        return self._queue.submit(group_id, step)

    def _of_heartbeat(self, changes: Changes, group_id: str, *, is_join: bool) -> G:
        """Return the group of a heartbeat, a new one if the member joins. Raises: GroupIdNotFound,
        CoordinatorNotAvailable.
        """
        group = self._groups.get(group_id)
        if group is None:
            if not is_join:
                raise GroupIdNotFound(f"{self._name.capitalize()} group {group_id} not found.")
            return self._create(changes, group_id)
        if group.is_dead:
            raise CoordinatorNotAvailable(f"group {group_id!r} is being removed")
        if group.type is not self.group_class.type:
            converted = self._convert(changes, group) if is_join and group.type is GroupType.CLASSIC else None
            if converted is not None:
                return converted
        return self.get(group_id)

    def _convert(self, changes: Changes, group: Group) -> G | None:
        """Replace a classic group that a member of this type joins. None: it stays."""
        return None

    def _create(self, changes: Changes, group_id: str, former: Group | None = None) -> G:
        """Add a group, in the place of `former`. Raises: GroupMaxSizeReached, InvalidGroupId."""
        if former is None:
            self._limits.check_new_group(group_id, len(self._groups))
        created: G = self.group_class(group_id, self._limits)
        self._groups[group_id] = created

        def undo() -> None:
            created.stop_timers()
            if former is None:
                del self._groups[group_id]
            else:
                former.put_back(self._groups)

        changes.add_unlogged(undo)
        return created

    def resume(self, group: G) -> None:
        """Start the timers of a group that was read from the log."""
        for member_id in group.members:
            self._watch(group, member_id)

    def activate(self, group: G) -> None:
        """Go on with the work of a resumed group whose partition is active now."""

    def stop(self, group: G) -> None:
        """Stop all timers of a group whose partition has left, and release what limits count."""
        group.is_dead = True
        group.release()

    def deleted(self, group: G) -> None:
        """End what outlasts a group that was deleted from the log."""

    # --- members of the classic protocol

    def join(self, group: G, request: JoinRequest, *, id_required: bool, can_skip: bool) -> Promise[JoinResult] | None:
        """Answer a JoinGroup. Returns None: a classic group may come in the place of this one.

        Raises: InconsistentGroupProtocol: it has members. CoordinatorNotAvailable: it is being
            changed.
        """
        if not group.is_empty:
            raise InconsistentGroupProtocol(f"group {group.group_id!r} has members of another protocol")
        if not self._queue.is_idle(group.group_id):
            raise CoordinatorNotAvailable(f"group {group.group_id!r} is being changed")
        return None

    def leave(self, group: G, leaving: Sequence[LeavingMember]) -> Promise[list[RequestRefused | None]]:
        """Answer a LeaveGroup: the group has no member of the classic protocol."""
        promise: Promise[list[RequestRefused | None]] = Promise()
        promise.resolve([UnknownMember(f"there is no group {group.group_id!r}") for _ in leaving])
        return promise

    # --- offsets

    @abstractmethod
    def check_commit(self, group: G, committer: Committer, partitions: Iterable[tuple[str, int]]) -> None:
        """Check that a member may commit. A producer may leave its member away (before KIP-447)."""

    def check_old_commit(self, group_id: str, member_id: str) -> None:
        """Check that an OffsetCommit before version 9 is not of a member of the new protocol.

        Raises: UnsupportedVersion. Source: Kafka ConsumerGroup, StreamsGroup.validateOffsetCommit.
        """
        group = self.find(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is not None and member is not None and group.own_session_timeout_ms(member) is None:
            raise UnsupportedVersion(
                f"members of the {self._name} protocol commit with OffsetCommit version 9 or later"
            )

    def check_offset_fetch(self, group_id: str, member_id: str | None, epoch: int) -> None:
        """Check that a member may fetch offsets; of groups of other types anybody may.

        Args: member_id, epoch: None and -1: not a member (OffsetFetch before version 9).
        Raises: UnknownMember, StaleMemberEpoch. Source: Kafka ConsumerGroup, StreamsGroup.
        """
        group = self.find(group_id)
        if group is None or (member_id is None and epoch < 0):
            return
        current = group.check_member(member_id or "").current
        if epoch != current.epoch:
            raise StaleMemberEpoch(
                f"member {member_id!r} of group {group_id!r} has epoch {current.epoch}, the request has {epoch}"
            )

    # --- members

    def check_room(self, group: G, member_id: str) -> None:
        """Check the number of members. Raises: GroupMaxSizeReached."""
        size_max = self._timings.members_max
        if len(group.members) >= size_max and member_id not in group.members:
            raise GroupMaxSizeReached(f"The {self._name} group has reached its maximum capacity of {size_max} members.")

    def heartbeat_interval_ms(self, group: G) -> int:
        """Return the interval of heartbeats in a group."""
        return self._timings.heartbeat_interval.of(self._settings(group.group_id))

    def _see_topics(self, changes: Changes, group: G) -> None:
        """Note that the group has the hash of the topics as they are now."""
        version = group.topics_version
        group.topics_version = self.topics.version
        changes.add_unlogged(lambda: setattr(group, "topics_version", version))

    def _put_current(self, changes: Changes, group: G, member_id: str, current: CurrentAssignment[Any]) -> None:
        """Set what a member owns, and watch that it revokes in time."""
        group.put_current(changes, member_id, current)
        changes.on_committed.append(lambda: self._timers.watch_revocation(group, member_id))

    def _remove(self, changes: Changes, group: G, member_id: str) -> None:
        changes.add_unlogged(lambda: self._watch(group, member_id))  # its timer may have run meanwhile
        group.remove_member(changes, member_id)
        changes.on_committed.append(lambda: self._timers.forget(group, member_id))

    def _fence(self, changes: Changes, group: G, member_ids: Sequence[str]) -> None:
        """Remove members; the others share what they had from the next assignment on."""
        for member_id in member_ids:
            self._remove(changes, group, member_id)
        self.bump_epoch(changes, group)

    def bump_epoch(self, changes: Changes, group: G) -> None:
        """Begin a new epoch: members have gone."""
        group.raise_epoch(changes)

    # --- time

    def _watch(self, group: G, member_id: str) -> None:
        """Start the timers of a member that has all its time."""
        self.extend_session(group, member_id)
        self._timers.watch_revocation(group, member_id)

    def extend_session(self, group: G, member_id: str) -> None:
        """Restart the session of a member."""
        timeout_ms = group.own_session_timeout_ms(group.members[member_id])
        if timeout_ms is None:
            timeout_ms = self._timings.session_timeout.of(self._settings(group.group_id))
        self._timers.extend_session(group, member_id, timeout_ms)

    def remove_late(self, group: G, member_id: str, is_late: Callable[[], bool]) -> None:
        """Remove a member if it is still late when its turn comes."""

        def remove(changes: Changes) -> None:
            if self.find(group.group_id) is group and member_id in group.members and is_late():
                self._fence(changes, group, [member_id])

        self._queue.submit_late(group.group_id, remove)

    def _expire_session(self, group: G, member_id: str) -> None:
        """Remove a member that was silent too long."""
        if self.find(group.group_id) is group and member_id in group.members:
            self.remove_late(group, member_id, lambda: member_id not in group.sessions)

    def _expire_revocation(self, group: G, member_id: str, epoch: int) -> None:
        """Remove a member that did not revoke in time."""
        member = group.members.get(member_id)
        if member is not None and must_revoke(member.current, epoch):
            self.remove_late(group, member_id, lambda: must_revoke(group.members[member_id].current, epoch))
