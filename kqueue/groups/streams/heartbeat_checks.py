"""The checks of a StreamsGroupHeartbeat, before and after the group is looked at.

Messages are worded as Kafka's, which clients print.
Source: KIP-1071, Kafka GroupCoordinatorService.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kqueue.base.errors import InvalidRequest, InvalidTopic
from kqueue.base.names import INTERNAL_TOPICS, check_topic
from kqueue.groups.limits import MEMBER_ID_LENGTH_MAX
from kqueue.groups.modern.member import EPOCH_JOIN, EPOCH_LEAVE, EPOCH_LEAVE_STATIC
from kqueue.groups.streams.errors import StreamsInvalidTopology
from kqueue.groups.streams.member import StreamsHeartbeat, TaskAssignment
from kqueue.groups.streams.topology import Subtopology, Topology


def check_topology(topology: Topology) -> None:
    """Check the names, numbers and references in a topology. Raises: StreamsInvalidTopology."""
    ids = {one.id for one in topology.subtopologies}
    if len(ids) != len(topology.subtopologies):
        raise StreamsInvalidTopology("Two subtopologies have the same id.")
    for one in topology.subtopologies:
        _check_subtopology(one)


def _check_subtopology(one: Subtopology) -> None:
    for topic in one.changelog_topics:
        if topic.partition_count:
            raise StreamsInvalidTopology(
                f"Changelog topic {topic.name} must have an undefined partition count, "
                f"but it is set to {topic.partition_count}."
            )
    for topic in one.repartition_topics:
        if topic.partition_count < 0:
            raise StreamsInvalidTopology(
                f"Repartition topic {topic.name} has a negative number of partitions: {topic.partition_count}."
            )
    for name in _names(one):
        if name in INTERNAL_TOPICS:
            raise StreamsInvalidTopology(
                f"Use of Kafka internal topics {name} in a Kafka Streams topology is prohibited."
            )
        try:
            check_topic(name)
        except InvalidTopic as error:
            raise StreamsInvalidTopology(f"Topic names {name} are not valid topic names: {error}") from None
    if next(one.topics(), None) is None:
        raise StreamsInvalidTopology(f"Subtopology {one.id} does not contain any source topics.")
    for group in one.copartition_groups:
        for indexes, count in (
            (group.source_topics, len(one.source_topics)),
            (group.repartition_topics, len(one.repartition_topics)),
        ):
            if any(not 0 <= index < count for index in indexes):
                raise StreamsInvalidTopology(f"A copartition group of subtopology {one.id} names a topic it has not.")


def _names(one: Subtopology) -> Iterator[str]:
    yield from one.topics()
    yield from one.sink_topics
    for topic in one.changelog_topics:
        yield topic.name


def check_heartbeat(request: StreamsHeartbeat) -> None:
    """Check a request. Raises: InvalidRequest, StreamsInvalidTopology."""
    _check_unsupported(request)
    if not request.member_id:
        raise InvalidRequest("MemberId can't be empty.")
    if len(request.member_id) > MEMBER_ID_LENGTH_MAX:
        raise InvalidRequest(f"MemberId has at most {MEMBER_ID_LENGTH_MAX} characters, found {len(request.member_id)}.")
    if not request.group_id:
        raise InvalidRequest("GroupId can't be empty.")
    if request.rack_id == "":
        raise InvalidRequest("RackId can't be empty.")
    epoch = request.member_epoch
    if epoch == EPOCH_JOIN:
        _check_join(request)
    elif epoch == EPOCH_LEAVE_STATIC:
        raise InvalidRequest("InstanceId can't be null.")
    elif epoch < EPOCH_LEAVE_STATIC:
        raise InvalidRequest(f"MemberEpoch is {epoch}, but must be greater than or equal to -2.")
    sent = [tasks is not None for tasks in (request.active, request.standby, request.warmup)]
    if any(sent) and not all(sent):
        raise InvalidRequest("If one task-type is non-null, all must be non-null.")
    if epoch != EPOCH_JOIN and request.topology is not None:
        raise InvalidRequest("Topology can only be provided when (re-)joining.")


def _check_unsupported(request: StreamsHeartbeat) -> None:
    """Refuse what Kafka 4.3 refuses too."""
    if request.instance_id is not None:
        raise InvalidRequest("Static membership is not yet supported.")
    for what, is_sent in (("TaskOffsets", request.has_offsets), ("TaskEndOffsets", request.has_end_offsets)):
        if is_sent:
            raise InvalidRequest(f"{what} are not supported yet.")
    if request.warmup:
        raise InvalidRequest("WarmupTasks are not supported yet.")
    if request.has_patterns:
        raise InvalidRequest("Regular expressions for source topics are not supported yet.")


def _check_join(request: StreamsHeartbeat) -> None:
    if request.rebalance_timeout_ms == -1:
        raise InvalidRequest("RebalanceTimeoutMs must be provided in first request.")
    for what, tasks in (("Active", request.active), ("Standby", request.standby), ("Warmup", request.warmup)):
        if tasks is None or tasks:
            raise InvalidRequest(f"{what}Tasks must be empty when (re-)joining.")
    if request.topology is None:
        raise InvalidRequest("Topology must be non-null when (re-)joining.")
    check_topology(request.topology)


def is_leave(request: StreamsHeartbeat) -> bool:
    """Return whether the member leaves."""
    return request.member_epoch == EPOCH_LEAVE


def check_tasks(owned: TaskAssignment | None, task_counts: Mapping[str, int]) -> None:
    """Check that the tasks that a member says it owns exist. Raises: InvalidRequest."""
    for key, tasks in (owned or {}).items():
        count = task_counts.get(key.subtopology)
        if count is None:
            raise InvalidRequest(f"Subtopology {key.subtopology} does not exist in the topology.")
        for task in tasks:
            if not 0 <= task < count:
                raise InvalidRequest(
                    f"Task {task} for subtopology {key.subtopology} is invalid. Number of tasks for this "
                    f"subtopology: {count}"
                )
