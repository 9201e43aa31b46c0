"""The checks of a ConsumerGroupHeartbeat before the group is looked at.

Messages are worded as Kafka's, which clients print. Source: KIP-848, Kafka GroupCoordinatorService.
"""

from __future__ import annotations

from collections.abc import Sequence

from kqueue.base.errors import InvalidRequest
from kqueue.groups.consumer.member import HeartbeatRequest
from kqueue.groups.errors import UnsupportedAssignor
from kqueue.groups.limits import MEMBER_ID_LENGTH_MAX
from kqueue.groups.modern.member import EPOCH_JOIN, EPOCH_LEAVE, EPOCH_LEAVE_STATIC


def check_heartbeat(request: HeartbeatRequest, assignors: Sequence[str]) -> None:
    """Check a request. Raises: InvalidRequest, UnsupportedAssignor."""
    epoch = request.member_epoch
    if not request.member_id and (request.id_required or epoch != EPOCH_JOIN):
        raise InvalidRequest("MemberId can't be empty.")
    if len(request.member_id) > MEMBER_ID_LENGTH_MAX:
        raise InvalidRequest(f"MemberId has at most {MEMBER_ID_LENGTH_MAX} characters, found {len(request.member_id)}.")
    if not request.group_id:
        raise InvalidRequest("GroupId can't be empty.")
    for name, value in (("InstanceId", request.instance_id), ("RackId", request.rack_id)):
        if value == "":
            raise InvalidRequest(f"{name} can't be empty.")
    if epoch < EPOCH_LEAVE_STATIC:
        raise InvalidRequest("MemberEpoch is invalid.")
    if epoch == EPOCH_LEAVE_STATIC and request.instance_id is None:
        raise InvalidRequest("InstanceId can't be null.")
    if epoch == EPOCH_JOIN:
        _check_join(request)
    if request.assignor is not None and request.assignor not in assignors:
        raise UnsupportedAssignor(
            f"ServerAssignor {request.assignor} is not supported. Supported assignors: {', '.join(assignors)}."
        )


def _check_join(request: HeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise InvalidRequest("RebalanceTimeoutMs must be provided in first request.")
    if request.owned is None or any(request.owned.values()):
        raise InvalidRequest("TopicPartitions must be empty when (re-)joining.")
    if request.topics is None and request.regex is None:
        raise InvalidRequest("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")


def is_leave(request: HeartbeatRequest) -> bool:
    """Return whether the member leaves."""
    return request.member_epoch in (EPOCH_LEAVE, EPOCH_LEAVE_STATIC)


def is_full(request: HeartbeatRequest) -> bool:
    """Return whether the member sent all fields, as after a lost answer; it gets all in return."""
    return (
        request.rebalance_timeout_ms != -1
        and (request.topics is not None or request.regex is not None)
        and request.owned is not None
    )
