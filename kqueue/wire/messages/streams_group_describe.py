"""StreamsGroupDescribe (key 89): ask for the topology, members and tasks of streams groups
(KIP-1071).
"""

from __future__ import annotations

from kqueue.schema import array, boolean, field, int16, int32, message, shortened, string, struct
from kqueue.wire.messages.streams_group_heartbeat import Endpoint, KeyValue, TaskIds, TaskOffset, TopicInfo

OPERATIONS_NOT_REQUESTED = -2147483648


@message(api_key=89, versions="0", flexible="0+")
class StreamsGroupDescribeRequest:
    group_ids: list[str] = field(array(string))
    include_authorized_operations: bool = field(boolean)


@struct
class DescribedSubtopology:
    subtopology_id: str = field(string)
    source_topics: list[str] = field(array(string))
    repartition_sink_topics: list[str] = field(array(string))
    state_changelog_topics: list[TopicInfo] = field(array(TopicInfo))
    repartition_source_topics: list[TopicInfo] = field(array(TopicInfo))


@struct
class DescribedTopology:
    epoch: int = field(int32)
    subtopologies: list[DescribedSubtopology] | None = field(array(DescribedSubtopology), nullable="0+", default=None)


@struct
class Assignment:
    active_tasks: list[TaskIds] = field(array(TaskIds))
    standby_tasks: list[TaskIds] = field(array(TaskIds))
    warmup_tasks: list[TaskIds] = field(array(TaskIds))


@struct
class Member:
    member_id: str = field(string)
    member_epoch: int = field(int32)
    instance_id: str | None = field(string, nullable="0+", default=None)
    rack_id: str | None = field(string, nullable="0+", default=None)
    client_id: str = field(string)
    client_host: str = field(string)
    topology_epoch: int = field(int32)
    process_id: str = field(string)
    user_endpoint: Endpoint | None = field(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] = field(array(KeyValue))
    task_offsets: list[TaskOffset] = field(array(TaskOffset))
    task_end_offsets: list[TaskOffset] = field(array(TaskOffset))
    assignment: Assignment = field(Assignment)
    target_assignment: Assignment = field(Assignment)
    is_classic: bool = field(boolean)


@struct
class DescribedGroup:
    error_code: int = field(int16)
    error_message: str | None = shortened(field(string, nullable="0+", default=None))
    group_id: str = field(string)
    group_state: str = field(string)
    group_epoch: int = field(int32)
    assignment_epoch: int = field(int32)
    topology: DescribedTopology | None = field(DescribedTopology, nullable="0+", default=None)
    members: list[Member] = field(array(Member))
    authorized_operations: int = field(int32, default=OPERATIONS_NOT_REQUESTED)


@message(api_key=89, versions="0", flexible="0+")
class StreamsGroupDescribeResponse:
    throttle_time_ms: int = field(int32)
    groups: list[DescribedGroup] = field(array(DescribedGroup))
