"""The calls of `Client` by which a program is a member of a classic group of any protocol type."""

from __future__ import annotations

from collections.abc import Mapping

from kqueue.client.calls.classic_membership import (
    GroupProtocol,
    Heartbeat,
    JoinedGroup,
    JoinGroup,
    LeaveGroup,
    SyncGroup,
)
from kqueue.client.routing import Router

JOIN_MARGIN_MS = 5_000
"""A coordinator may answer a join this much later than the rebalance timeout, as Kafka's clients
allow.
"""


class MembershipCalls:
    """`Client.membership`: the requests of a member. The member keeps its id and generation, sends
    heartbeats, and decides what an error means.
    """

    def __init__(self, router: Router) -> None:
        self._router = router

    def join(self, protocol: GroupProtocol, member_id: str = "") -> JoinedGroup:
        """Join a group, or join again, and wait until its other members have. It may take the
        rebalance timeout, and `JOIN_MARGIN_MS` more.

        Args:
            member_id: "": not a member yet. The coordinator gives an id, with which the caller
                joins again if `generation` is NO_GENERATION.
        Raises: BrokerRefused: UNKNOWN_MEMBER_ID: join without an id;
            INCONSISTENT_GROUP_PROTOCOL: a group of this name has another type. ClientError.
        """
        timeout_ms = protocol.rebalance_timeout_ms + JOIN_MARGIN_MS
        call = JoinGroup(protocol, member_id)
        with self._router.call(timeout_ms) as deadline:
            return self._router.send_to_coordinator(protocol.group, call, deadline, request_timeout_ms=timeout_ms)

    def sync(
        self, protocol: GroupProtocol, joined: JoinedGroup, assignments: Mapping[str, bytes] | None = None
    ) -> bytes:
        """Return the member's assignment, once the group's leader has made it.

        Args:
            assignments: of all members, by member id; None: this member is not the leader.
        Raises: BrokerRefused: REBALANCE_IN_PROGRESS: join again. ClientError.
        """
        timeout_ms = protocol.rebalance_timeout_ms + JOIN_MARGIN_MS
        call = SyncGroup(protocol, joined.member_id, joined.generation, assignments or {})
        with self._router.call(timeout_ms) as deadline:
            return self._router.send_to_coordinator(protocol.group, call, deadline, request_timeout_ms=timeout_ms)

    def heartbeat(self, group: str, member_id: str, generation: int, *, timeout_ms: int | None = None) -> None:
        """Stay a member. Raises: BrokerRefused: REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION,
        UNKNOWN_MEMBER_ID: join again. ClientError.
        """
        with self._router.call(timeout_ms) as deadline:
            self._router.send_to_coordinator(group, Heartbeat(group, member_id, generation), deadline)

    def leave(self, group: str, member_id: str, *, timeout_ms: int | None = None) -> None:
        """Stop being a member, so that the others need not wait for the end of its session."""
        with self._router.call(timeout_ms) as deadline:
            self._router.send_to_coordinator(group, LeaveGroup(group, member_id), deadline)
