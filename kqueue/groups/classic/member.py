"""A member of a classic group, and the requests and results of the group protocol."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from kqueue.base.promise import Promise
from kqueue.groups.lazy_timer import LazyTimer


class JoinRequest(NamedTuple):
    """A JoinGroup request.

    Attributes:
        member_id: empty for a new member.
        instance_id: None for a dynamic member.
        protocols: name -> metadata, the preferred one first; the metadata is opaque.
    """

    group_id: str
    member_id: str
    instance_id: str | None
    protocol_type: str
    protocols: Mapping[str, bytes]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    client_id: str
    client_host: str


class JoinResultMember(NamedTuple):
    """A member as in the leader's JoinGroup response."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    """Result of a join.

    Attributes:
        members: all members for the leader, empty for the others.
        skip_assignment: the leader gets the members, but the current assignment stays (KIP-814).
    """

    generation: int
    protocol_type: str | None
    protocol_name: str | None
    leader: str
    member_id: str
    members: list[JoinResultMember]
    skip_assignment: bool = False


class SyncResult(NamedTuple):
    """Result of a sync: the leader's assignment; empty if the leader gave none."""

    protocol_type: str | None
    protocol_name: str | None
    assignment: bytes


class LeavingMember(NamedTuple):
    """A member in a LeaveGroup request; an empty `member_id` means the owner of `instance_id`."""

    member_id: str
    instance_id: str | None = None


class ClassicGroupMember:
    """One member. Only its `ClassicGroup` changes `protocols` and `join_promise` (counted)."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "join_promise",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session",
        "session_timeout_ms",
        "sync_promise",
    )

    def __init__(self, member_id: str, joining: JoinRequest, session: LazyTimer) -> None:
        self.member_id = member_id
        self.instance_id = joining.instance_id
        self.client_id = joining.client_id
        self.client_host = joining.client_host
        self.protocols = dict(joining.protocols)
        self.rebalance_timeout_ms = joining.rebalance_timeout_ms
        self.session_timeout_ms = joining.session_timeout_ms
        self.session = session
        self.assignment = b""
        self.is_new = False
        self.join_promise: Promise[JoinResult] | None = None
        self.sync_promise: Promise[SyncResult] | None = None

    @property
    def is_static(self) -> bool:
        """Whether it is a static member: it has an instance id."""
        return self.instance_id is not None

    @property
    def is_excused(self) -> bool:
        """Whether its session can't expire: it waits for a response, so it sends no heartbeats.

        Not for a new member, which does not know its id yet and must join again in time.
        """
        return not self.is_new and (self.join_promise is not None or self.sync_promise is not None)

    def supports(self, protocols: Mapping[str, bytes]) -> bool:
        """Return whether the member has these protocols: same names, order and metadata."""
        return list(self.protocols.items()) == list(protocols.items())

    def vote(self, candidates: Collection[str]) -> str:
        """Return the member's preferred protocol of `candidates`, all of which it supports."""
        return next(name for name in self.protocols if name in candidates)

    def metadata(self, protocol: str | None) -> bytes:
        """Return the member's metadata for this protocol; empty if the group has none."""
        return self.protocols[protocol] if protocol is not None else b""
