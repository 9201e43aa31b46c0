"""Members of groups, as clients of any version are."""

from __future__ import annotations

from typing import Any

from kqueue.tests.api.harness import PendingRequest, SimulatedClient
from kqueue.wire.messages.heartbeat import HeartbeatRequest
from kqueue.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kqueue.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kqueue.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kqueue.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

RANGE = b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff"


def world(**settings: Any) -> SimulatedClient:
    """A broker with topic ``t`` of two partitions, whose groups don't wait for more members.

    Its coordinators' topics have few partitions: to make fifty costs more than most tests.
    """
    few = dict.fromkeys(("offsets.topic.num.partitions", "transaction.state.log.num.partitions"), 2)
    given = {key.replace("_", "."): value for key, value in settings.items()}
    client = SimulatedClient({"group.initial.rebalance.delay.ms": 0, **few, **given})
    client.sim.topic("t", 2)
    return client


def join_request(version: int, member_id: str = "", **fields: Any) -> JoinGroupRequest:
    given = {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 20_000 if version >= 1 else -1,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol(name="range", metadata=RANGE)],
    }
    return JoinGroupRequest(member_id=member_id, **{**given, **fields})


def join(client: SimulatedClient, version: int = 9, member_id: str = "", **fields: Any) -> JoinGroupResponse:
    """Join as a client does: again with the id, if one was given."""
    started = start_join(client, version, member_id, **fields)
    client.sim.advance(0)
    response: JoinGroupResponse = started.response
    return response


def start_join(client: SimulatedClient, version: int = 9, member_id: str = "", **fields: Any) -> PendingRequest:
    started = client.start(join_request(version, member_id, **fields), version)
    client.sim.settle()
    if started.response is not None and started.response.error_code == 79:
        started = client.start(join_request(version, started.response.member_id, **fields), version)
        client.sim.settle()
    return started


def sync_request(
    version: int, joined: Any, assignments: dict[str, bytes] | None = None, **fields: Any
) -> SyncGroupRequest:
    given = {
        "group_id": "g",
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
        "protocol_type": "consumer" if version >= 5 else None,
        "protocol_name": "range" if version >= 5 else None,
        "assignments": [
            SyncGroupRequestAssignment(member_id=name, assignment=data) for name, data in (assignments or {}).items()
        ],
    }
    return SyncGroupRequest(**{**given, **fields})


def sync(
    client: SimulatedClient, joined: Any, assignments: dict[str, bytes] | None = None, version: int = 5, **fields: Any
) -> SyncGroupResponse:
    response: SyncGroupResponse = client.ask(sync_request(version, joined, assignments, **fields), version)
    return response


def stable(client: SimulatedClient, **fields: Any) -> JoinGroupResponse:
    """A group of one member, whose assignment is ``mine``."""
    joined = join(client, **fields)
    sync(client, joined, {joined.member_id: b"mine"}, group_id=fields.get("group_id", "g"))
    return joined


def heartbeat(client: SimulatedClient, joined: Any, version: int = 4, **fields: Any) -> int:
    given = {"group_id": "g", "generation_id": joined.generation_id, "member_id": joined.member_id}
    code: int = client.ask(HeartbeatRequest(**{**given, **fields}), version).error_code
    return code


def leave(client: SimulatedClient, *members: MemberIdentity, version: int = 5, group_id: str = "g") -> Any:
    return client.ask(LeaveGroupRequest(group_id=group_id, members=list(members)), version)


def commit_request(
    client: SimulatedClient, version: int, offsets: dict[tuple[str, int], int], metadata: str | None = "", **fields: Any
) -> OffsetCommitRequest:
    """Topics that are not there have an id of their own from version 10 on."""
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (name, partition), offset in offsets.items():
        if name not in topics:
            stored = client.sim.broker.topics.find(name)
            named = {"topic_id": stored.id if stored else b"\x07" * 16} if version >= 10 else {"name": name}
            topics[name] = OffsetCommitRequestTopic(**named)
        topics[name].partitions.append(
            OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=offset, committed_metadata=metadata
            )
        )
    return OffsetCommitRequest(**{"group_id": "g", "topics": list(topics.values()), **fields})


def commit(
    client: SimulatedClient, offsets: dict[tuple[str, int], int], version: int = 9, **fields: Any
) -> dict[tuple[int, int], int]:
    """Position of the topic in the request and partition -> error code."""
    response = client.ask(commit_request(client, version, offsets, **fields), version)
    return codes(response)


def codes(response: Any) -> dict[tuple[int, int], int]:
    return {
        (number, partition.partition_index): partition.error_code
        for number, topic in enumerate(response.topics)
        for partition in topic.partitions
    }


def committed(client: SimulatedClient, group_id: str = "g") -> dict[tuple[str, int], int]:
    stored = client.sim.broker.coordinators.groups.offsets(group_id)
    return {
        (topic, partition): one.offset for topic, partitions in stored.items() for partition, one in partitions.items()
    }
