"""Heartbeats of streams groups: joins, topologies, leaves, fencing.

Each heartbeat is one step of the group's `WriteQueue`: what it changes is in the log before the
member is answered. Source: KIP-1071, Kafka GroupMetadataManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kqueue.base.errors import GroupMaxSizeReached, InvalidRequest, StaleMemberEpoch
from kqueue.base.promise import Promise
from kqueue.groups.group import Committer, Group
from kqueue.groups.log.changes import Changes
from kqueue.groups.modern.assignment import same_owned
from kqueue.groups.modern.environment import Environment
from kqueue.groups.modern.manager import ModernGroupManager
from kqueue.groups.modern.member import EPOCH_JOIN, EPOCH_LEAVE, ModernMemberDescription, check_epoch, is_repeat
from kqueue.groups.modern.reconciliation import Target, reconcile
from kqueue.groups.streams.assignments import StreamsAssignments
from kqueue.groups.streams.endpoints import endpoints_of
from kqueue.groups.streams.group import NO_TASKS, StreamsGroup
from kqueue.groups.streams.heartbeat_checks import check_heartbeat, check_tasks, is_leave
from kqueue.groups.streams.member import (
    Status,
    StatusCode,
    StreamsGroupDescription,
    StreamsGroupMember,
    StreamsHeartbeat,
    StreamsHeartbeatResult,
    StreamsMemberMetadata,
    SubtopologyRole,
    TaskAssignment,
    TaskRole,
    with_epochs_of_active,
)
from kqueue.groups.streams.topology import Topology, item_count, topology_bytes


class StreamsGroupManager(ModernGroupManager[StreamsGroup]):
    """The streams groups of one coordinator. On the owner thread."""

    group_class = StreamsGroup

    def __init__(self, environment: Environment, remove_classic: Callable[[Changes, Group], object]) -> None:
        """Take the parts. `remove_classic`: removes an empty classic group from the log."""
        super().__init__(environment, environment.config.streams)
        self._config = environment.config.streams
        self._remove_classic = remove_classic
        self._assignments = StreamsAssignments(environment, self._see_topics)

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

    def describe(self, group_id: str) -> Promise[StreamsGroupDescription]:
        """Return a promise of what is in the log of a group. It fails with GroupIdNotFound."""
        return self._submit_description(group_id, self._describe)

    def check_commit(self, group: StreamsGroup, committer: Committer, partitions: Iterable[tuple[str, int]]) -> None:
        """Check the member epoch of a commit; an empty group accepts one without a member.

        An older epoch is accepted if the member has had the active tasks of all partitions since
        then: its heartbeat and its commit have overtaken each other.

        Raises: UnknownMember, StaleMemberEpoch. Source: Kafka StreamsGroup.
        """
        epoch, member_id = committer.epoch, committer.member_id
        if committer.is_producer or (epoch < 0 and group.is_empty):
            return
        current = group.check_member(member_id).current
        if epoch == current.epoch:
            return
        if epoch > current.epoch:
            raise StaleMemberEpoch(f"Received member epoch {epoch} is newer than current member epoch {current.epoch}.")
        if epoch < 0 or not all(
            (subtopology := group.subtopology_of(topic)) is not None
            and current.is_owned_since(SubtopologyRole(TaskRole.ACTIVE, subtopology), task, epoch)
            for topic, task in partitions
        ):
            raise StaleMemberEpoch(
                f"member {member_id!r} of group {group.group_id!r} has epoch {current.epoch}, the commit has {epoch}"
            )

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
        group = self._of_heartbeat(changes, request.group_id, is_join=is_join)
        member = self._member_of(group, request, is_join=is_join)
        member_id, former = member.member_id, member.current
        was_empty = group.is_empty
        # The order is fixed, as each step reads what the one before set: the topology's epoch is
        # compared with the member's, the tasks follow from the topology and the topics, the target
        # from the tasks, and the member is brought nearer to its target.
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
        self.extend_session(group, member_id)
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
        changed_endpoints = None if knows_endpoints else endpoints_of(group, self.topics)
        return StreamsHeartbeatResult(
            member_id,
            member.current.epoch,
            self.heartbeat_interval_ms(group),
            tuple(statuses),
            member.current.assigned if is_sent else None,
            group.endpoint_epoch if knows_endpoints or changed_endpoints is not None else request.endpoint_epoch,
            changed_endpoints,
            () if configured is None else configured.missing,
        )

    def _convert(self, changes: Changes, group: Group) -> StreamsGroup | None:
        """Replace an empty classic group. None: it has members of another protocol."""
        if not group.is_empty:
            return None
        self._remove_classic(changes, group)
        return self._create(changes, group.group_id, group)

    def _member_of(self, group: StreamsGroup, request: StreamsHeartbeat, *, is_join: bool) -> StreamsGroupMember:
        """Return the member; one that joins may not be in the group yet."""
        if not is_join:
            member = group.check_member(request.member_id)
            epoch = request.member_epoch
            may_repeat = is_repeat(member.current, epoch, request.owned())
            check_epoch(group.type, member.current, epoch, is_repeat=may_repeat)
            return member
        self.check_room(group, request.member_id)
        return group.member_or_new(request.member_id)

    def _update_metadata(
        self, changes: Changes, group: StreamsGroup, member: StreamsGroupMember, metadata: StreamsMemberMetadata
    ) -> bool:
        """Set what a member sent of itself. Returns: whether it is new or has changed."""
        is_new = member.member_id not in group.members
        if metadata == member.metadata and not is_new:
            return False
        before = 0 if is_new else group.size_of(member)
        after = group.size_of(member._replace(metadata=metadata))
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
        self._put_current(changes, group, member_id, current)
        return group.members[member_id]

    # --- leaving

    def _leave(self, changes: Changes, request: StreamsHeartbeat) -> StreamsHeartbeatResult:
        group = self.get(request.group_id)
        member = group.check_member(request.member_id)
        if request.shutdown and group.shutdown_by is None:
            group.shutdown_by = member.member_id
        self._fence(changes, group, [member.member_id])
        return StreamsHeartbeatResult(member.member_id, EPOCH_LEAVE, 0)

    # --- tools

    def _describe(self, group: StreamsGroup) -> StreamsGroupDescription:
        members = [
            ModernMemberDescription(member, group.target_of(member_id)) for member_id, member in group.members.items()
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
