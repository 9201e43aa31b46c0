"""Heartbeats of streams groups: joins, topologies, leaves, fencing.

Each heartbeat is one step of the group's `WriteQueue`: what it changes is in the log before the
member is answered. Source: KIP-1071, Kafka GroupMetadataManager.
"""

from __future__ import annotations

from collections.abc import Callable

from kqueue.base.errors import (
    CoordinatorNotAvailable,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidRequest,
    UnsupportedVersion,
)
from kqueue.base.promise import Promise
from kqueue.groups.classic.group import ClassicGroup
from kqueue.groups.errors import check_named
from kqueue.groups.group import Group, GroupType
from kqueue.groups.modern.assignment import must_revoke, same_owned
from kqueue.groups.modern.changes import Changes
from kqueue.groups.modern.environment import Environment
from kqueue.groups.modern.member_timers import MemberTimers
from kqueue.groups.modern.offset_checks import check_fetch
from kqueue.groups.modern.reconciliation import Target, reconcile
from kqueue.groups.streams.assignments import StreamsAssignments
from kqueue.groups.streams.endpoints import endpoints_of
from kqueue.groups.streams.group import NO_TASKS, StreamsGroup, member_bytes
from kqueue.groups.streams.heartbeat_checks import check_epoch, check_heartbeat, check_tasks, is_leave
from kqueue.groups.streams.member import (
    EPOCH_JOIN,
    EPOCH_LEAVE,
    Status,
    StatusCode,
    StreamsGroupDescription,
    StreamsGroupMember,
    StreamsHeartbeat,
    StreamsHeartbeatResult,
    StreamsMemberDescription,
    StreamsMemberMetadata,
    SubtopologyRole,
    TaskAssignment,
    with_epochs_of_active,
)
from kqueue.groups.streams.topology import Topology, item_count, topology_bytes


class StreamsGroupManager:
    """The streams groups of one coordinator, whose table of all groups it shares. On the owner
    thread.
    """

    def __init__(self, environment: Environment, replace_empty: Callable[[Changes, Group], None]) -> None:
        """Take the parts. `replace_empty`: removes an empty group of another type, in a step."""
        self._topics = environment.topics
        self._config = environment.config.streams
        self._limits = environment.limits
        self._groups = environment.groups
        self._queue = environment.queue
        self._settings = environment.settings
        self._replace_empty = replace_empty
        self._timers: MemberTimers[StreamsGroup] = MemberTimers(
            environment.timers, environment.clock, self._expire_session, self._expire_revocation
        )
        self._assignments = StreamsAssignments(environment)

    def find(self, group_id: str) -> StreamsGroup | None:
        """Return a streams group; None: there is none of this id."""
        group = self._groups.get(group_id)
        return group if isinstance(group, StreamsGroup) else None

    def check_old_commit(self, group_id: str, member_id: str) -> None:
        """Check that an OffsetCommit before version 9 is not of a member of a streams group.

        Raises: UnsupportedVersion. Source: Kafka StreamsGroup.validateOffsetCommit.
        """
        group = self.find(group_id)
        if group is not None and member_id in group.members:
            raise UnsupportedVersion("members of the streams protocol commit with OffsetCommit version 9 or later")

    # --- requests

    def heartbeat(self, request: StreamsHeartbeat) -> Promise[StreamsHeartbeatResult]:
        """Join a group, stay in it, or leave it.

        Returns: a promise that is resolved when what changed is in the log. It fails with
            GroupIdNotFound, UnknownMember, FencedMemberEpoch, GroupMaxSizeReached,
            StreamsInvalidTopology, InvalidRequest, CoordinatorNotAvailable, or with what
            `coordinator_error` makes of a failed write.
        Raises: InvalidRequest, StreamsInvalidTopology, GroupMaxSizeReached.
        """
        self._check_items(request)
        check_heartbeat(request)
        if is_leave(request):
            return self._queue.submit(request.group_id, lambda changes: self._leave(changes, request))
        return self._queue.submit(request.group_id, lambda changes: self._heartbeat(changes, request))

    def check_offset_fetch(self, group_id: str, member_id: str | None, epoch: int) -> None:
        """Check that a member may fetch offsets; of groups of other types anybody may.

        Args: member_id, epoch: None and -1: not a member (OffsetFetch before version 9).
        Raises: UnknownMember, StaleMemberEpoch.
        """
        group = self.find(group_id)
        if group is not None:
            check_fetch(group, member_id, epoch)

    def describe(self, group_id: str) -> Promise[StreamsGroupDescription]:
        """Return a promise of what is in the log of a group. It fails with GroupIdNotFound."""
        return self._queue.submit(group_id, lambda changes: self._describe(group_id))

    def resume(self, group: StreamsGroup) -> None:
        """Start the timers of a group that was read from the log."""
        for member_id in group.members:
            self._watch(group, member_id)

    def _check_items(self, request: StreamsHeartbeat) -> None:
        """Bound a topology before it is looked at."""
        count = 0 if request.topology is None else item_count(request.topology)
        if count > self._config.tasks_max:
            what = f"group {request.group_id!r}: a topology names {count} topics and settings"
            raise GroupMaxSizeReached(self._limits.refused("kqueue.max.group.tasks", what))

    # --- heartbeats

    def _heartbeat(self, changes: Changes, request: StreamsHeartbeat) -> StreamsHeartbeatResult:
        is_join = request.member_epoch == EPOCH_JOIN
        is_new = self.find(request.group_id) is None
        group = self._group_of(changes, request, is_join=is_join)
        member = self._member_of(group, request, is_join=is_join)
        member_id, former = member.member_id, member.current
        was_empty = group.is_empty
        changed = self._update_metadata(changes, group, member, _merged(member.metadata, request))
        self._update_topology(changes, group, request.topology)
        statuses = []
        if group.topology is not None and group.members[member_id].metadata.topology_epoch < group.topology.epoch:
            statuses.append(_stale(group.members[member_id].metadata.topology_epoch, group.topology.epoch))
        configured = self._assignments.refresh(changes, group, changed=changed)
        if configured is not None and configured.is_ready:
            check_tasks(request.owned(), configured.task_counts)
        if was_empty:
            self._assignments.delay_first(changes, group)
        delayed = self._assignments.assign_if_due(changes, group)
        target = NO_TASKS if group.is_delayed else group.target_of(member_id)
        member = self._reconcile(changes, group, member_id, target, request)
        self._extend_session(group, member_id)
        if request.shutdown and group.shutdown_by is None:
            group.shutdown_by = member_id
        is_sent = is_join or not same_owned(member.current.assigned, former.assigned)
        has_moved = is_sent and member.metadata.endpoint is not None
        knows_endpoints = request.endpoint_epoch == group.endpoint_epoch + has_moved
        if is_new:
            changes.on_committed.append(group.forget_configured)
        else:
            group.endpoint_epoch += has_moved
        statuses += [] if delayed is None else [delayed]
        if configured is not None and configured.status is not None:
            statuses.append(configured.status)
        if group.shutdown_by is not None:
            statuses.append(_shutdown(group.shutdown_by))
        told = None if knows_endpoints else endpoints_of(group, self._topics)
        return StreamsHeartbeatResult(
            member_id,
            member.current.epoch,
            self._config.heartbeat_interval.of(self._settings(group.group_id)),
            tuple(statuses),
            member.current.assigned if is_sent else None,
            group.endpoint_epoch if knows_endpoints or told is not None else request.endpoint_epoch,
            told,
            () if configured is None else configured.missing,
        )

    def _group_of(self, changes: Changes, request: StreamsHeartbeat, *, is_join: bool) -> StreamsGroup:
        """Return the group, a new one if the member joins. Raises: GroupIdNotFound."""
        group_id = request.group_id
        group = self._groups.get(group_id)
        if group is not None and group.is_dead:
            raise CoordinatorNotAvailable(f"group {group_id!r} is being removed")
        if isinstance(group, StreamsGroup):
            return group
        if group is not None and not (is_join and group.is_empty and group.type is GroupType.CLASSIC):
            raise GroupIdNotFound(f"Group {group_id} is not a streams group.")
        if not is_join:
            raise GroupIdNotFound(f"Streams group {group_id} not found.")
        if group is None:
            self._limits.check_new_group(group_id, len(self._groups))
        else:
            self._replace_empty(changes, group)
        created = StreamsGroup(group_id, self._limits)
        self._groups[group_id] = created

        def undo() -> None:
            created.stop_timers()
            if group is None:
                del self._groups[group_id]
            else:
                assert isinstance(group, ClassicGroup)
                group.put_back(self._groups)

        changes.add_unlogged(undo)
        return created

    def _member_of(self, group: StreamsGroup, request: StreamsHeartbeat, *, is_join: bool) -> StreamsGroupMember:
        """Return the member; one that joins may not be in the group yet."""
        if not is_join:
            member = group.check_member(request.member_id)
            check_epoch(member.current, request.member_epoch, request.owned())
            return member
        existing = group.members.get(request.member_id)
        if existing is not None:
            return existing
        if len(group.members) >= self._config.members_max:
            raise GroupMaxSizeReached(
                f"The streams group has reached its maximum capacity of {self._config.members_max} members."
            )
        return StreamsGroupMember(request.member_id)

    def _update_metadata(
        self, changes: Changes, group: StreamsGroup, member: StreamsGroupMember, metadata: StreamsMemberMetadata
    ) -> bool:
        """Set what a member sent of itself. Returns: whether it is new or has changed."""
        is_new = member.member_id not in group.members
        if metadata == member.metadata and not is_new:
            return False
        before = 0 if is_new else member_bytes(member.member_id, member.metadata)
        after = member_bytes(member.member_id, metadata)
        self._limits.check_member(group.group_id, group.member_bytes, before, after)
        group.put_metadata(changes, member.member_id, metadata)
        return True

    def _update_topology(self, changes: Changes, group: StreamsGroup, topology: Topology | None) -> None:
        """Set the topology of a new group.

        Raises: InvalidRequest: it is newer than the group's, or another of the same epoch.
        """
        if topology is None:
            return
        if group.topology is None:
            self._limits.check_member(group.group_id, group.member_bytes, 0, topology_bytes(topology))
            group.set_topology(changes, topology)
        elif topology.epoch >= group.topology.epoch and topology != group.topology:
            raise InvalidRequest("Topology updates are not supported yet.")

    def _reconcile(
        self, changes: Changes, group: StreamsGroup, member_id: str, target: TaskAssignment, request: StreamsHeartbeat
    ) -> StreamsGroupMember:
        """Bring a member nearer to its target assignment."""
        member = group.members[member_id]
        if member.current.is_reconciled(group.target_epoch):
            return member
        process_id = member.metadata.process_id

        def is_unreleased(key: SubtopologyRole, task: int) -> bool:
            return group.is_unreleased(process_id, key, task)

        wanted = Target(group.target_epoch, target, is_unreleased, request.owned())
        current = with_epochs_of_active(reconcile(member.current, wanted))
        if current == member.current:
            return member
        group.put_current(changes, member_id, current)
        changes.on_committed.append(lambda: self._timers.watch_revocation(group, member_id))
        return group.members[member_id]

    # --- leaving

    def _leave(self, changes: Changes, request: StreamsHeartbeat) -> StreamsHeartbeatResult:
        group = self._groups.get(request.group_id)
        if group is None:
            raise GroupIdNotFound(f"Group {request.group_id} not found.")
        if not isinstance(group, StreamsGroup):
            raise GroupIdNotFound(f"Group {request.group_id} is not a streams group.")
        member = group.check_member(request.member_id)
        if request.shutdown and group.shutdown_by is None:
            group.shutdown_by = member.member_id
        self._fence(changes, group, member.member_id)
        return StreamsHeartbeatResult(member.member_id, EPOCH_LEAVE, 0)

    def _fence(self, changes: Changes, group: StreamsGroup, member_id: str) -> None:
        """Remove a member; the others share its tasks from the next assignment on."""
        changes.add_unlogged(lambda: self._watch(group, member_id))  # its timer may have run meanwhile
        group.remove_member(changes, member_id)
        changes.on_committed.append(lambda: self._timers.forget(group, member_id))
        self._assignments.bump_epoch(changes, group)

    # --- time

    def _watch(self, group: StreamsGroup, member_id: str) -> None:
        """Start the timers of a member that has all its time."""
        self._extend_session(group, member_id)
        self._timers.watch_revocation(group, member_id)

    def _extend_session(self, group: StreamsGroup, member_id: str) -> None:
        timeout_ms = self._config.session_timeout.of(self._settings(group.group_id))
        self._timers.extend_session(group, member_id, timeout_ms)

    def _expire_session(self, group: StreamsGroup, member_id: str) -> None:
        """Remove a member that was silent too long."""
        if self.find(group.group_id) is group and member_id in group.members:
            self._queue.submit_late(group.group_id, lambda changes: self._fence_silent(changes, group, member_id))

    def _fence_silent(self, changes: Changes, group: StreamsGroup, member_id: str) -> None:
        is_silent = member_id in group.members and member_id not in group.sessions
        if self.find(group.group_id) is group and is_silent:
            self._fence(changes, group, member_id)

    def _expire_revocation(self, group: StreamsGroup, member_id: str, epoch: int) -> None:
        """Remove a member that did not revoke in time."""
        member = group.members.get(member_id)
        if member is not None and must_revoke(member.current, epoch):
            self._queue.submit_late(group.group_id, lambda changes: self._fence_slow(changes, group, member_id, epoch))

    def _fence_slow(self, changes: Changes, group: StreamsGroup, member_id: str, epoch: int) -> None:
        member = group.members.get(member_id)
        if self.find(group.group_id) is group and member is not None and must_revoke(member.current, epoch):
            self._fence(changes, group, member_id)

    # --- tools

    def _describe(self, group_id: str) -> StreamsGroupDescription:
        check_named(group_id)
        group = self._groups.get(group_id)
        if group is None:
            raise GroupIdNotFound(f"Group {group_id} not found.")
        if not isinstance(group, StreamsGroup):
            raise GroupIdNotFound(f"Group {group_id} is not a streams group.")
        members = [
            StreamsMemberDescription(member, group.target_of(member_id)) for member_id, member in group.members.items()
        ]
        configured = group.configured
        counts = configured.topic_counts if configured is not None and configured.is_ready else {}
        state, topology = group.state.value, group.topology
        return StreamsGroupDescription(state, group.epoch, group.target_epoch, topology, counts, members)


def _merged(former: StreamsMemberMetadata, request: StreamsHeartbeat) -> StreamsMemberMetadata:
    """Return what a member sent of itself so far; a heartbeat names only what changed."""
    return StreamsMemberMetadata(
        former.instance_id,
        former.rack_id if request.rack_id is None else request.rack_id,
        request.client_id,
        request.client_host,
        former.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
        former.topology_epoch if request.topology is None else request.topology.epoch,
        former.process_id if request.process_id is None else request.process_id,
        former.endpoint if request.endpoint is None else request.endpoint,
        former.tags if request.tags is None else request.tags,
    )


def _stale(epoch: int, group_epoch: int) -> Status:
    detail = f"The member's topology epoch {epoch} is behind the group's topology epoch {group_epoch}."
    return Status(StatusCode.STALE_TOPOLOGY, detail)


def _shutdown(member_id: str) -> Status:
    return Status(
        StatusCode.SHUTDOWN_APPLICATION,
        f"Streams group member {member_id} encountered a fatal error and requested a shutdown for the entire "
        "application.",
    )
