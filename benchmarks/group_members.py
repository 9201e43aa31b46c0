"""Members of classic groups through raw sockets."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import NamedTuple

from benchmarks.frames import Connection, frame
from benchmarks.served import Served
from kqueue.schema import decode
from kqueue.wire.messages import heartbeat as heartbeats
from kqueue.wire.messages import join_group, leave_group, offset_commit, sync_group

JOIN, SYNC, HEARTBEAT, LEAVE, COMMIT = 11, 14, 12, 13, 8
VERSIONS = {JOIN: 2, SYNC: 1, HEARTBEAT: 1, LEAVE: 1, COMMIT: 3}
"""Versions before members have to ask for an id first."""
SESSION_MS = 600_000
REBALANCE_IN_PROGRESS = 27
SUBSCRIPTION = bytes(60)
ASSIGNMENT = bytes(40)


class Member(NamedTuple):
    """A member of a generation of a group."""

    group: str
    member_id: str
    generation: int
    others: tuple[str, ...] = ()
    """The ids of all members, if this one leads."""


def _frame(api_key: int, request: object) -> bytes:
    return frame(api_key, VERSIONS[api_key], request)


def _join(group: str, member_id: str = "") -> bytes:
    protocols = [join_group.JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)]
    return _frame(
        JOIN,
        join_group.JoinGroupRequest(
            group_id=group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id=member_id,
            protocol_type="consumer",
            protocols=protocols,
        ),
    )


def _joined(connection: Connection, group: str) -> Member:
    answer = decode(join_group.JoinGroupResponse, VERSIONS[JOIN], memoryview(connection.read_reply())[4:])
    if answer.error_code:
        raise RuntimeError(f"JoinGroup was answered with error {answer.error_code}")
    return Member(group, answer.member_id, answer.generation_id, tuple(one.member_id for one in answer.members))


def _sync(member: Member) -> bytes:
    assignments = [
        sync_group.SyncGroupRequestAssignment(member_id=each, assignment=ASSIGNMENT) for each in member.others
    ]
    request = sync_group.SyncGroupRequest(
        group_id=member.group, generation_id=member.generation, member_id=member.member_id, assignments=assignments
    )
    return _frame(SYNC, request)


def _synced(connection: Connection) -> None:
    answer = decode(sync_group.SyncGroupResponse, VERSIONS[SYNC], memoryview(connection.read_reply())[4:])
    if answer.error_code or answer.assignment != ASSIGNMENT:
        raise RuntimeError(f"SyncGroup was answered with error {answer.error_code}")


def join_alone(connection: Connection, group: str) -> Member:
    """Become the one member of a group."""
    connection.socket.sendall(_join(group))
    member = _joined(connection, group)
    connection.socket.sendall(_sync(member))
    _synced(connection)
    return member


def heartbeat(member: Member) -> bytes:
    """Return the request."""
    return _frame(
        HEARTBEAT,
        heartbeats.HeartbeatRequest(group_id=member.group, generation_id=member.generation, member_id=member.member_id),
    )


def commit(member: Member, topic: str) -> bytes:
    """Return the request that commits an offset of partition 0."""
    partition = offset_commit.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=0, committed_metadata=None
    )
    return _frame(
        COMMIT,
        offset_commit.OffsetCommitRequest(
            group_id=member.group,
            generation_id_or_member_epoch=member.generation,
            member_id=member.member_id,
            topics=[offset_commit.OffsetCommitRequestTopic(name=topic, partitions=[partition])],
        ),
    )


def rebalance(served: Served, size: int) -> tuple[float, float, float]:
    """Let a group of this size join, and rebalance when a member leaves.

    Returns: the seconds of both, from the first request until all have their assignments; and the
    CPU seconds of the broker.
    """
    group = "large"
    cpu_s = served.cpu_s()
    with ExitStack() as opened:
        connections = [opened.enter_context(Connection(served.bootstrap)) for _ in range(size)]
        began = time.perf_counter()
        members = _round(connections, [_join(group)] * size)
        joined_s = time.perf_counter() - began
        leaving = next(index for index, member in enumerate(members) if not member.others)
        request = leave_group.LeaveGroupRequest(group_id=group, member_id=members[leaving].member_id)
        began = time.perf_counter()
        connections[leaving].socket.sendall(_frame(LEAVE, request))
        connections[leaving].read_reply()
        del connections[leaving], members[leaving]
        for connection, member in zip(connections, members, strict=True):
            connection.socket.sendall(heartbeat(member))
        for connection in connections:
            answer = decode(heartbeats.HeartbeatResponse, VERSIONS[HEARTBEAT], memoryview(connection.read_reply())[4:])
            if answer.error_code != REBALANCE_IN_PROGRESS:
                raise RuntimeError(f"Heartbeat was answered with error {answer.error_code}")
        _round(connections, [_join(group, member.member_id) for member in members])
        return joined_s, time.perf_counter() - began, served.cpu_s() - cpu_s


def _round(connections: list[Connection], joins: list[bytes]) -> list[Member]:
    """Send the JoinGroup of all members, then their SyncGroup; return the members."""
    for connection, request in zip(connections, joins, strict=True):
        connection.socket.sendall(request)
    members = [_joined(connection, "large") for connection in connections]
    for connection, member in zip(connections, members, strict=True):
        connection.socket.sendall(_sync(member))
    for connection in connections:
        _synced(connection)
    return members
